// SPDX-License-Identifier: Apache-2.0
// Writes each field like the program that defines the format.
#include "convert/tokenizers/tokenizer_builders.h"

#include <fmt/format.h>

#include <algorithm>

#include "convert/tokenizers/subwords.h"
#include "core/utf8.h"

namespace arenite::testing {

using convert::PieceType;
using convert::SentencePiece;
using nlohmann::json;

std::string proto_varint(uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7) bytes += static_cast<char>(0x80 | (value & 0x7F));
  return bytes + static_cast<char>(value);
}

std::string proto_field(uint32_t number, uint64_t value) {
  return proto_varint(uint64_t{number} << 3) + proto_varint(value);
}

std::string proto_field(uint32_t number, float value) {
  return proto_varint(uint64_t{number} << 3 | 5) + bytes_of(value);
}

std::string proto_field(uint32_t number, const std::string& bytes) {
  return proto_varint(uint64_t{number} << 3 | 2) + proto_varint(bytes.size()) + bytes;
}

std::string SentencePieceFile::bytes() const {
  std::string file;
  for (const SentencePiece& piece : pieces) {
    std::string message = proto_field(1, piece.text) + proto_field(2, piece.score);
    if (piece.type != PieceType::kNormal) {
      message += proto_field(3, static_cast<uint64_t>(piece.type));
    }
    file += proto_field(1, message);
  }
  return file + proto_field(2, trainer) + proto_field(3, normalizer);
}

std::vector<SentencePiece> llama_pieces(const std::vector<std::string>& pieces) {
  std::vector<SentencePiece> all = {{"<unk>", 0.0f, PieceType::kUnknown},
                                    {"<s>", 0.0f, PieceType::kControl},
                                    {"</s>", 0.0f, PieceType::kControl}};
  for (int byte = 0; byte < 256; ++byte) {
    all.push_back({fmt::format("<0x{:02X}>", byte), 0.0f, PieceType::kByte});
  }
  float score = 0.0f;
  for (const std::string& piece : pieces) all.push_back({piece, score -= 1.0f, PieceType::kNormal});
  return all;
}

std::string llama2c_file(const std::vector<SentencePiece>& pieces) {
  size_t longest = 0;
  std::string tokens;
  for (const SentencePiece& piece : pieces) {
    const std::string text = convert::piece_bytes(piece.text);
    longest = std::max(longest, text.size());
    tokens += bytes_of(piece.score) + bytes_of(static_cast<uint32_t>(text.size())) + text;
  }
  return bytes_of(static_cast<uint32_t>(longest)) + tokens;
}

json byte_level_json(const std::vector<std::pair<std::string, std::string>>& merges) {
  json vocab = json::object();
  for (int byte = 0; byte < 256; ++byte) {
    char form[kUtf8BytesMax];
    const uint32_t length = encode_utf8(convert::byte_character(static_cast<uint8_t>(byte)), form);
    vocab[std::string(form, length)] = byte;
  }
  json lines = json::array();
  for (const auto& [left, right] : merges) {
    vocab[left + right] = vocab.size();
    lines.push_back(left + " " + right);
  }
  const json byte_level = {{"type", "ByteLevel"},
                           {"add_prefix_space", false},
                           {"trim_offsets", true},
                           {"use_regex", true}};
  return {{"version", "1.0"},
          {"truncation", nullptr},
          {"padding", nullptr},
          {"added_tokens",
           {{{"id", vocab.size()},
             {"content", "<|end|>"},
             {"single_word", false},
             {"lstrip", false},
             {"rstrip", false},
             {"normalized", false},
             {"special", true}}}},
          {"normalizer", nullptr},
          {"pre_tokenizer", byte_level},
          {"post_processor", byte_level},
          {"decoder", byte_level},
          {"model",
           {{"type", "BPE"},
            {"dropout", nullptr},
            {"unk_token", nullptr},
            {"continuing_subword_prefix", ""},
            {"end_of_word_suffix", ""},
            {"fuse_unk", false},
            {"byte_fallback", false},
            {"ignore_merges", false},
            {"vocab", vocab},
            {"merges", lines}}}};
}

json low_line_json(const std::vector<std::string>& characters,
                   const std::vector<std::pair<std::string, std::string>>& merges) {
  json root = byte_level_json({});
  json vocab = {{"<unk>", 0}, {"<s>", 1}, {"</s>", 2}};
  for (int byte = 0; byte < 256; ++byte) vocab[fmt::format("<0x{:02X}>", byte)] = 3 + byte;
  for (const std::string& character : characters) vocab[character] = vocab.size();
  json pairs = json::array();
  for (const auto& [left, right] : merges) {
    if (!vocab.contains(left + right)) vocab[left + right] = vocab.size();
    pairs.push_back({left, right});
  }
  const json low_line = convert::kSpaceMark;
  root["model"]["vocab"] = vocab;
  root["model"]["merges"] = pairs;
  root["model"]["byte_fallback"] = true;
  root["model"]["fuse_unk"] = true;
  root["model"]["unk_token"] = "<unk>";
  root["added_tokens"] = json::array();
  for (const char* name : {"<unk>", "<s>", "</s>"}) {
    root["added_tokens"].push_back({{"id", vocab[name]}, {"content", name}, {"special", true}});
  }
  root["normalizer"] = {
      {"type", "Sequence"},
      {"normalizers",
       {{{"type", "Prepend"}, {"prepend", low_line}},
        {{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", low_line}}}}};
  root["pre_tokenizer"] = nullptr;
  root["post_processor"] = {
      {"type", "TemplateProcessing"},
      {"single",
       {{{"SpecialToken", {{"id", "<s>"}, {"type_id", 0}}}},
        {{"Sequence", {{"id", "A"}, {"type_id", 0}}}}}},
      {"pair", json::array()},
      {"special_tokens", {{"<s>", {{"id", "<s>"}, {"ids", {1}}, {"tokens", {"<s>"}}}}}}};
  root["decoder"] = {{"type", "Sequence"},
                     {"decoders",
                      {{{"type", "Replace"}, {"pattern", {{"String", low_line}}}, {"content", " "}},
                       {{"type", "ByteFallback"}},
                       {{"type", "Fuse"}},
                       {{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}}}}};
  return root;
}

}  // namespace arenite::testing
