// SPDX-License-Identifier: Apache-2.0
// Mutates JSON by tokens, so that it usually stays valid, and safetensors files by their header.
#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "fuzz/mutators.h"
#include "support/safetensors_builder.h"

namespace arenite::fuzz {
namespace {

using nlohmann::ordered_json;

using Tokens = std::vector<std::string>;

constexpr std::string_view kMarks = "{}[],:";
constexpr std::string_view kSpace = " \t\r\n";
constexpr size_t kTokensMax = 1 << 16;

constexpr const char* kScalars[] = {"0",
                                    "1",
                                    "-1",
                                    "2",
                                    "3",
                                    "8",
                                    "-0.0",
                                    "0.5",
                                    "1e-5",
                                    "1e308",
                                    "1e-320",
                                    "2147483647",
                                    "4294967295",
                                    "4294967296",
                                    "9223372036854775807",
                                    "18446744073709551615",
                                    "1e400",
                                    "null",
                                    "true",
                                    "false",
                                    "\"\"",
                                    "[]",
                                    "{}",
                                    "\"a\"",
                                    "[0]",
                                    "[[]]",
                                    "\"\\u0000\"",
                                    "\"\\ud800\""};

Tokens tokens_of(const std::string& text) {
  Tokens tokens;
  for (size_t at = 0; at < text.size() && tokens.size() < kTokensMax;) {
    if (kSpace.find(text[at]) != std::string_view::npos) {
      ++at;
      continue;
    }
    size_t end = at + 1;
    if (text[at] == '"') {
      while (end < text.size() && text[end] != '"') end += text[end] == '\\' ? 2 : 1;
      end = std::min(end + 1, text.size());
    } else if (kMarks.find(text[at]) == std::string_view::npos) {
      end = std::min(text.find_first_of("{}[],:\" \t\r\n", at), text.size());
    }
    tokens.push_back(text.substr(at, end - at));
    at = end;
  }
  return tokens;
}

bool is_mark(const std::string& token) {
  return token.size() == 1 && kMarks.find(token[0]) != std::string_view::npos;
}

// One past the end of the value that begins at `at`.
size_t value_end(const Tokens& tokens, size_t at) {
  int depth = 0;
  for (; at < tokens.size(); ++at) {
    const char first = tokens[at][0];
    if (is_mark(tokens[at]) && (first == '{' || first == '[')) ++depth;
    if (is_mark(tokens[at]) && (first == '}' || first == ']')) --depth;
    if (depth <= 0) return at + 1;
  }
  return at;
}

// A random place where a value or a key begins.
size_t pick_value(const Tokens& tokens, Random& random) {
  for (int tries = 0; tries < 64; ++tries) {
    const size_t at = random.below(static_cast<uint32_t>(tokens.size()));
    if (!is_mark(tokens[at]) || tokens[at] == "{" || tokens[at] == "[") return at;
  }
  return 0;
}

size_t pick_scalar(const Tokens& tokens, Random& random) {
  for (int tries = 0; tries < 64; ++tries) {
    const size_t at = random.below(static_cast<uint32_t>(tokens.size()));
    if (!is_mark(tokens[at])) return at;
  }
  return 0;
}

using Difference = std::ptrdiff_t;

void erase(Tokens& tokens, size_t begin, size_t end) {
  tokens.erase(tokens.begin() + static_cast<Difference>(begin),
               tokens.begin() + static_cast<Difference>(end));
}

void insert(Tokens& tokens, size_t at, const Tokens& added) {
  tokens.insert(tokens.begin() + static_cast<Difference>(at), added.begin(), added.end());
}

Tokens part(const Tokens& tokens, size_t begin, size_t end) {
  return {tokens.begin() + static_cast<Difference>(begin),
          tokens.begin() + static_cast<Difference>(end)};
}

// A member of an object, with its key, or an element: from `at`, where it begins, to its end.
size_t member_end(const Tokens& tokens, size_t at) {
  size_t end = value_end(tokens, at);
  if (end < tokens.size() && tokens[end] == ":") end = value_end(tokens, end + 1);
  return end;
}

void leave_out(Tokens& tokens, Random& random) {
  const size_t at = pick_value(tokens, random);
  size_t end = member_end(tokens, at);
  if (end < tokens.size() && tokens[end] == ",") ++end;
  erase(tokens, at, end);
}

void repeat(Tokens& tokens, Random& random) {
  const size_t at = pick_value(tokens, random);
  Tokens member = part(tokens, at, member_end(tokens, at));
  member.push_back(",");
  const uint32_t times = random.below(8) == 0 ? 1 + random.below(64) : 1;
  for (uint32_t i = 0; i < times && tokens.size() < kTokensMax; ++i) insert(tokens, at, member);
}

void copy_over(Tokens& tokens, Random& random) {
  const size_t from = pick_value(tokens, random);
  const Tokens value = part(tokens, from, value_end(tokens, from));
  const size_t to = pick_value(tokens, random);
  erase(tokens, to, value_end(tokens, to));
  insert(tokens, to, value);
}

void change_scalar(Tokens& tokens, Random& random) {
  std::string& token = tokens[pick_scalar(tokens, random)];
  const bool is_count = token.find_first_not_of("0123456789") == std::string::npos;
  if (is_count && token.size() < 19 && random.below(2) == 0) {
    token = std::to_string(interesting_number(std::stoull("0" + token), random));
  } else if (token[0] == '"' && random.below(4) != 0) {
    token = "\"" +
            mutate_bytes(token.substr(1, token.size() - std::min<size_t>(token.size(), 2)),
                         token.size() + 16, random) +
            "\"";
  } else {
    token = kScalars[random.below(std::size(kScalars))];
  }
}

void change(Tokens& tokens, Random& random) {
  switch (random.below(8)) {
    case 0:
      return leave_out(tokens, random);
    case 1:
      return repeat(tokens, random);
    case 2:
      return copy_over(tokens, random);
    case 3:
      return std::swap(tokens[pick_scalar(tokens, random)], tokens[pick_scalar(tokens, random)]);
    default:
      return change_scalar(tokens, random);
  }
}

uint64_t bytes_of_type(const std::string& name) {
  if (name == "F64" || name == "I64" || name == "U64") return 8;
  if (name == "F32" || name == "I32" || name == "U32") return 4;
  if (name == "F16" || name == "BF16" || name == "I16" || name == "U16") return 2;
  return 1;
}

// Puts the tensors of a header one after the other. False where they are too large.
bool place_tensors(ordered_json& header, size_t bytes_max, uint64_t& data_bytes) {
  data_bytes = 0;
  for (auto& [name, tensor] : header.items()) {
    if (name == "__metadata__" || !tensor.is_object()) continue;
    const auto type = tensor.find("dtype");
    const auto shape = tensor.find("shape");
    if (type == tensor.end() || !type->is_string()) continue;
    if (shape == tensor.end() || !shape->is_array()) continue;
    uint64_t bytes = bytes_of_type(type->get<std::string>());
    for (const ordered_json& extent : *shape) {
      if (!extent.is_number_unsigned()) return false;
      if (__builtin_mul_overflow(bytes, extent.get<uint64_t>(), &bytes)) return false;
    }
    if (bytes > bytes_max - data_bytes) return false;
    tensor["data_offsets"] = {data_bytes, data_bytes + bytes};
    data_bytes += bytes;
  }
  return true;
}

}  // namespace

std::string mutate_json(std::string input, size_t bytes_max, Random& random) {
  Tokens tokens = tokens_of(input);
  if (tokens.empty()) return mutate_bytes(std::move(input), bytes_max, random);
  for (uint32_t edits = 1 + random.below(3); edits > 0 && !tokens.empty(); --edits) {
    change(tokens, random);
  }
  std::string text;
  for (const std::string& token : tokens) text += token;
  text.resize(std::min(text.size(), bytes_max));
  return text;
}

std::string mutate_safetensors(std::string input, size_t bytes_max, Random& random) {
  uint64_t header_bytes = 0;
  if (input.size() < sizeof(header_bytes)) return mutate_bytes(std::move(input), bytes_max, random);
  std::memcpy(&header_bytes, input.data(), sizeof(header_bytes));
  const std::string_view rest = std::string_view(input).substr(sizeof(header_bytes));
  if (header_bytes > rest.size()) return mutate_bytes(std::move(input), bytes_max, random);
  const auto length = static_cast<size_t>(header_bytes);
  std::string header(rest.substr(0, length));
  std::string data(rest.substr(length));
  if (random.below(8) == 0) {
    data = mutate_bytes(std::move(data), std::max<size_t>(data.size(), 1), random);
    return testing::safetensors_file(header, data);
  }
  header = mutate_json(std::move(header), bytes_max, random);
  if (random.below(4) != 0) {
    ordered_json parsed = ordered_json::parse(header, nullptr, false);
    uint64_t data_bytes = 0;
    if (parsed.is_object() && place_tensors(parsed, bytes_max, data_bytes)) {
      header = parsed.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
      data.resize(static_cast<size_t>(data_bytes), '\0');
    }
  }
  return testing::safetensors_file(header, data);
}

}  // namespace arenite::fuzz
