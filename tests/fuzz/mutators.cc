// SPDX-License-Identifier: Apache-2.0
// Parts that all mutators share, and the mutators of plain bytes, lines and whole folders.
#include "fuzz/mutators.h"

#include <algorithm>
#include <cstring>
#include <string_view>
#include <utility>
#include <vector>

#include "fuzz/bundle.h"

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

namespace arenite::fuzz {
namespace {

size_t pick(size_t count, Random& random) { return random.below(static_cast<uint32_t>(count)); }

void change_word(std::string& line, Random& random) {
  std::vector<std::pair<size_t, size_t>> words;  // begin and length
  for (size_t begin = 0; begin < line.size();) {
    const size_t end = std::min(line.find(' ', begin), line.size());
    words.emplace_back(begin, end - begin);
    begin = end + 1;
  }
  if (words.empty()) return;
  const auto [begin, length] = words[pick(words.size(), random)];
  const std::string word = line.substr(begin, length);
  const bool is_number = word.find_first_not_of("0123456789") == std::string::npos;
  if (is_number && word.size() < 10) {
    const uint64_t number = interesting_number(std::stoull("0" + word), random);
    line.replace(begin, length, std::to_string(number % 4096));
  } else if (random.below(2) == 0) {
    const auto [other, other_length] = words[pick(words.size(), random)];
    line.replace(begin, length, line.substr(other, other_length));
  } else {
    line.replace(begin, length, mutate_bytes(word, word.size() + 8, random));
  }
}

void change_lines(std::vector<std::string>& lines, Random& random) {
  const size_t at = pick(lines.size(), random);
  const size_t other = pick(lines.size(), random);
  switch (random.below(6)) {
    case 0:
      lines.erase(lines.begin() + static_cast<std::ptrdiff_t>(at));
      return;
    case 1:
      lines.insert(lines.begin() + static_cast<std::ptrdiff_t>(at), lines[other]);
      return;
    case 2:
      std::swap(lines[at], lines[other]);
      return;
    default:
      change_word(lines[at], random);
  }
}

std::string mutate_file(FileKind kind, std::string bytes, size_t bytes_max, Random& random) {
  switch (kind) {
    case FileKind::kJson:
      return mutate_json(std::move(bytes), bytes_max, random);
    case FileKind::kLines:
      return mutate_lines(std::move(bytes), bytes_max, random);
    case FileKind::kProto:
      return mutate_proto(std::move(bytes), bytes_max, random);
    case FileKind::kPickle:
      return mutate_pickle(std::move(bytes), bytes_max, random);
    case FileKind::kBytes:
      break;
  }
  return mutate_bytes(std::move(bytes), bytes_max, random);
}

}  // namespace

uint64_t interesting_number(uint64_t old, Random& random) {
  constexpr uint64_t kNumbers[] = {0,
                                   1,
                                   2,
                                   3,
                                   4,
                                   7,
                                   8,
                                   16,
                                   31,
                                   32,
                                   33,
                                   64,
                                   127,
                                   128,
                                   255,
                                   256,
                                   1024,
                                   0x7fff,
                                   0x8000,
                                   0xffff,
                                   1u << 16,
                                   1u << 24,
                                   0x7fffffff,
                                   0x80000000,
                                   0xffffffff,
                                   uint64_t{1} << 32,
                                   uint64_t{1} << 62,
                                   INT64_MAX,
                                   uint64_t{1} << 63,
                                   UINT64_MAX};
  switch (random.below(4)) {
    case 0:
      return old + random.below(17) - 8;
    case 1:
      return old ^ uint64_t { 1 } << random.below(64);
    case 2:
      return old * 2;
    default:
      return kNumbers[random.below(std::size(kNumbers))];
  }
}

std::string mutate_bytes(std::string input, size_t bytes_max, Random&) {
  const size_t size = std::min(input.size(), bytes_max);
  if (bytes_max == 0) return {};
  input.resize(bytes_max);
  input.resize(LLVMFuzzerMutate(reinterpret_cast<uint8_t*>(input.data()), size, bytes_max));
  return input;
}

std::string mutate_lines(std::string input, size_t bytes_max, Random& random) {
  std::vector<std::string> lines;
  for (size_t begin = 0; begin < input.size();) {
    const size_t end = std::min(input.find('\n', begin), input.size());
    lines.push_back(input.substr(begin, end - begin));
    begin = end + 1;
  }
  for (uint32_t edits = 1 + random.below(3); edits > 0 && !lines.empty(); --edits) {
    change_lines(lines, random);
  }
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  if (lines.empty()) return mutate_bytes(std::move(input), bytes_max, random);
  text.resize(std::min(text.size(), bytes_max));
  return text;
}

std::string mutate_bundle(std::string input, size_t bytes_max, Random& random) {
  std::vector<BundleFile> files =
      read_bundle({reinterpret_cast<const uint8_t*>(input.data()), input.size()});
  if (files.empty()) return mutate_bytes(std::move(input), bytes_max, random);
  const size_t at = pick(files.size(), random);
  BundleFile& file = files[at];
  const size_t others = input.size() - file.bytes.size();
  switch (random.below(24)) {
    case 0:
      files.erase(files.begin() + static_cast<std::ptrdiff_t>(at));
      break;
    case 1:
      file.name = static_cast<uint8_t>(random.below(static_cast<uint32_t>(bundle_names().size())));
      break;
    case 2:
      files.push_back(file);
      break;
    default:
      if (others >= bytes_max) break;
      file.bytes = mutate_file(bundle_names()[file.name].kind, std::move(file.bytes),
                               bytes_max - others, random);
  }
  std::string bytes = write_bundle(files);
  bytes.resize(std::min(bytes.size(), bytes_max));
  return bytes;
}

size_t mutate_in_place(Mutate mutate, uint8_t* data, size_t size, size_t size_max, unsigned seed) {
  Random random(seed);
  std::string input(reinterpret_cast<const char*>(data), size);
  const bool is_plain = random.below(16) == 0;
  std::string output = is_plain ? mutate_bytes(std::move(input), size_max, random)
                                : mutate(std::move(input), size_max, random);
  const size_t kept = std::min(output.size(), size_max);
  std::memcpy(data, output.data(), kept);
  return kept;
}

}  // namespace arenite::fuzz
