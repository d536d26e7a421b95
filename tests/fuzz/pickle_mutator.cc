// SPDX-License-Identifier: Apache-2.0
// Mutates pickles by opcode and argument, and zip archives by member.
#include <algorithm>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "fuzz/mutators.h"
#include "support/byte_string.h"
#include "support/pickle_builder.h"
#include "support/zip_builder.h"

namespace arenite::fuzz {
namespace {

namespace op = testing::op;
using testing::bytes_of;

struct Instruction {
  uint8_t code = 0;
  uint32_t length_bytes = 0;  // of the length that stands before the argument
  std::string argument;
};

// Bytes of the length before an argument of any length, or of the argument itself; -1: the
// argument ends with the second newline from here.
struct ArgumentForm {
  uint8_t code;
  uint32_t length_bytes;
  int bytes;
};
constexpr ArgumentForm kForms[] = {
    {op::kProto, 0, 1},      {op::kFrame, 0, 8},       {op::kBinInt, 0, 4},
    {op::kBinInt1, 0, 1},    {op::kBinInt2, 0, 2},     {op::kLong1, 1, 0},
    {op::kLong4, 4, 0},      {op::kBinFloat, 0, 8},    {op::kShortBinUnicode, 1, 0},
    {op::kBinUnicode, 4, 0}, {op::kBinUnicode8, 8, 0}, {op::kShortBinBytes, 1, 0},
    {op::kBinBytes, 4, 0},   {op::kBinBytes8, 8, 0},   {op::kBinPut, 0, 1},
    {op::kLongBinPut, 0, 4}, {op::kBinGet, 0, 1},      {op::kLongBinGet, 0, 4},
    {op::kGlobal, 0, -1},
};
constexpr uint8_t kBareOps[] = {
    op::kStop,     op::kNone,        op::kNewTrue,   op::kNewFalse,  op::kMemoize,    op::kMark,
    op::kPop,      op::kPopMark,     op::kEmptyDict, op::kEmptyList, op::kEmptyTuple, op::kTuple,
    op::kTuple1,   op::kTuple2,      op::kTuple3,    op::kAppend,    op::kAppends,    op::kSetItem,
    op::kSetItems, op::kStackGlobal, op::kReduce,    op::kBinPersId, op::kBuild};

bool take(std::string_view& rest, uint64_t count, std::string& bytes) {
  if (count > rest.size()) return false;
  bytes = rest.substr(0, static_cast<size_t>(count));
  rest.remove_prefix(static_cast<size_t>(count));
  return true;
}

bool take_argument(std::string_view& rest, Instruction& instruction) {
  for (const ArgumentForm& form : kForms) {
    if (form.code != instruction.code) continue;
    if (form.bytes < 0) {
      const size_t first = rest.find('\n');
      const size_t second = first == std::string_view::npos ? first : rest.find('\n', first + 1);
      return second != std::string_view::npos && take(rest, second + 1, instruction.argument);
    }
    instruction.length_bytes = form.length_bytes;
    uint64_t length = static_cast<uint64_t>(form.bytes);
    std::string prefix;
    if (!take(rest, form.length_bytes, prefix)) return false;
    if (form.length_bytes != 0) std::memcpy(&length, prefix.data(), prefix.size());
    return take(rest, length, instruction.argument);
  }
  return true;
}

std::vector<Instruction> instructions_of(std::string_view rest) {
  std::vector<Instruction> instructions;
  while (!rest.empty()) {
    Instruction instruction;
    instruction.code = static_cast<uint8_t>(rest[0]);
    rest.remove_prefix(1);
    if (!take_argument(rest, instruction)) break;
    instructions.push_back(std::move(instruction));
  }
  return instructions;
}

std::string join(const std::vector<Instruction>& instructions) {
  std::string bytes;
  for (const Instruction& instruction : instructions) {
    bytes += static_cast<char>(instruction.code);
    bytes += bytes_of(uint64_t{instruction.argument.size()}).substr(0, instruction.length_bytes);
    bytes += instruction.argument;
  }
  return bytes;
}

void change_argument(Instruction& instruction, Random& random) {
  std::string& argument = instruction.argument;
  if (argument.empty() && instruction.length_bytes == 0) {
    instruction.code = kBareOps[random.below(std::size(kBareOps))];
  } else if (instruction.length_bytes == 0 && argument.size() <= 8 && random.below(4) != 0) {
    uint64_t number = 0;
    std::memcpy(&number, argument.data(), argument.size());
    argument = bytes_of(interesting_number(number, random)).substr(0, argument.size());
  } else {
    const size_t size = argument.size();
    argument = mutate_bytes(std::move(argument), size + instruction.length_bytes * 4, random);
    if (instruction.length_bytes == 0) argument.resize(size);
  }
}

void change(std::vector<Instruction>& instructions, Random& random) {
  const size_t at = random.below(static_cast<uint32_t>(instructions.size()));
  const size_t other = random.below(static_cast<uint32_t>(instructions.size()));
  const auto place = instructions.begin() + static_cast<std::ptrdiff_t>(at);
  switch (random.below(8)) {
    case 0:
      instructions.erase(place);
      return;
    case 1: {
      const Instruction copy = instructions[other];
      instructions.insert(place, copy);
      return;
    }
    case 2:
      std::swap(instructions[at], instructions[other]);
      return;
    case 3: {  // a run of them, over and over
      const size_t end = std::min(instructions.size(), at + 1 + random.below(12));
      const std::vector<Instruction> run(place,
                                         instructions.begin() + static_cast<std::ptrdiff_t>(end));
      const uint32_t times = random.below(4) == 0 ? 1 + random.below(32) : 1;
      for (uint32_t i = 0; i < times; ++i) {
        instructions.insert(instructions.begin() + static_cast<std::ptrdiff_t>(at), run.begin(),
                            run.end());
      }
      return;
    }
    default:
      change_argument(instructions[at], random);
  }
}

struct Member {
  std::string name, bytes;
  testing::ZipClaim claim{};
};

template <typename Number>
Number number_at(std::string_view bytes, size_t at) {
  Number number = 0;
  if (at + sizeof number <= bytes.size()) std::memcpy(&number, bytes.data() + at, sizeof number);
  return number;
}

// The members of an archive, by its list of them. Those that are compressed stay so.
std::vector<Member> members_of(std::string_view file) {
  std::vector<Member> members;
  size_t at = file.find("PK\x01\x02");
  while (at != std::string_view::npos && at + 46 <= file.size() &&
         file.substr(at).starts_with("PK\x01\x02")) {
    Member member;
    const auto method = number_at<uint16_t>(file, at + 10);
    const auto stored = number_at<uint32_t>(file, at + 20);
    const size_t name_bytes = number_at<uint16_t>(file, at + 28);
    const size_t offset = number_at<uint32_t>(file, at + 42);
    if (method != 0) {
      member.claim = {0, method, number_at<uint32_t>(file, at + 24),
                      number_at<uint32_t>(file, at + 16)};
    }
    const size_t begin = offset + 30 + number_at<uint16_t>(file, offset + 26) +
                         number_at<uint16_t>(file, offset + 28);
    if (at + 46 + name_bytes > file.size() || begin > file.size()) break;
    member.name = file.substr(at + 46, name_bytes);
    member.bytes = file.substr(begin, std::min<size_t>(stored, file.size() - begin));
    members.push_back(std::move(member));
    at += 46 + name_bytes + number_at<uint16_t>(file, at + 30) + number_at<uint16_t>(file, at + 32);
  }
  return members;
}

void mutate_member(Member& member, size_t bytes_max, Random& random) {
  if (random.below(24) == 0) {
    member.name = mutate_bytes(std::move(member.name), 64, random);
    return;
  }
  if (random.below(32) == 0) {
    member.claim.bytes = static_cast<uint32_t>(interesting_number(member.bytes.size(), random));
    return;
  }
  Mutate* mutate = mutate_bytes;
  if (member.name.ends_with(".pkl")) mutate = mutate_pickle;
  if (member.name.ends_with(".json")) mutate = mutate_json;
  if (member.bytes.starts_with("PK\x03\x04")) mutate = mutate_zip;
  member.bytes = mutate(std::move(member.bytes), bytes_max, random);
}

// Prefers the members that determine most, the pickle and the graph.
size_t pick_member(const std::vector<Member>& members, Random& random) {
  for (int tries = 0; tries < 8; ++tries) {
    const size_t at = random.below(static_cast<uint32_t>(members.size()));
    const std::string& name = members[at].name;
    if (name.ends_with(".pkl") || name.ends_with(".json") || name.ends_with(".pt")) return at;
  }
  return random.below(static_cast<uint32_t>(members.size()));
}

}  // namespace

std::string mutate_pickle(std::string input, size_t bytes_max, Random& random) {
  std::vector<Instruction> instructions = instructions_of(input);
  if (instructions.size() < 2) return mutate_bytes(std::move(input), bytes_max, random);
  for (uint32_t edits = 1 + random.below(3); edits > 0 && !instructions.empty(); --edits) {
    change(instructions, random);
  }
  std::string bytes = join(instructions);
  bytes.resize(std::min(bytes.size(), bytes_max));
  return bytes;
}

std::string mutate_zip(std::string input, size_t bytes_max, Random& random) {
  std::vector<Member> members = members_of(input);
  if (members.empty()) return mutate_bytes(std::move(input), bytes_max, random);
  const size_t at = pick_member(members, random);
  switch (random.below(24)) {
    case 0:
      members.erase(members.begin() + static_cast<std::ptrdiff_t>(at));
      break;
    case 1:
      members.push_back(members[at]);
      break;
    case 2:
      std::swap(members[at].bytes,
                members[random.below(static_cast<uint32_t>(members.size()))].bytes);
      break;
    default:
      mutate_member(members[at], members[at].bytes.size() + 256, random);
  }
  testing::ZipBuilder archive;
  for (const Member& member : members) archive.add(member.name, member.bytes, member.claim);
  std::string bytes = archive.bytes();
  return bytes.size() <= bytes_max ? bytes : input;
}

}  // namespace arenite::fuzz
