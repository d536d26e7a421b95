// SPDX-License-Identifier: Apache-2.0
// From a file to sequences: which kind of file it is, its lines or rows, and the choice among them.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <span>
#include <string_view>
#include <utility>

#include "arenite/tokenizer.h"
#include "convert/calibrate/calibration_set.h"
#include "convert/check/model_input.h"
#include "convert/files/error.h"
#include "convert/files/input_limits.h"
#include "convert/files/memory.h"
#include "convert/files/npy.h"
#include "convert/tokenizers/expected_form.h"

namespace arenite::convert {
namespace {

using Sequences = std::vector<CalibrationSequence>;

constexpr std::string_view kNpyMagic = "\x93NUMPY";
constexpr const char* kOption = "--calibrate";
constexpr size_t kHeldOutEvery = 5;

uint32_t longest_sequence(const Model& model) {
  const uint32_t context = model.positions_max();
  return context == 0 ? kSequenceTokensMax : std::min(context, kSequenceTokensMax);
}

// Tokens [begin, begin + count) of a sequence.
CalibrationSequence part_of(const CalibrationSequence& sequence, uint32_t begin, uint32_t count) {
  CalibrationSequence part;
  part.tokens = count;
  if (!sequence.ids.empty()) {
    const auto first = sequence.ids.begin() + begin;
    part.ids.assign(first, first + count);
    return part;
  }
  const size_t width = sequence.features.size() / sequence.tokens;
  const auto first = sequence.features.begin() + static_cast<ptrdiff_t>(begin * width);
  part.features.assign(first, first + static_cast<ptrdiff_t>(count * width));
  return part;
}

// One token of a decoder says nothing of the next one.
void append(Sequences& sequences, CalibrationSequence sequence, const Model& model) {
  const uint32_t longest = longest_sequence(model);
  const uint32_t shortest = can_write_text(model) ? 2 : 1;
  if (sequence.tokens < shortest) return;
  if (sequence.tokens <= longest) {
    sequences.push_back(std::move(sequence));
    return;
  }
  for (uint32_t begin = 0; begin < sequence.tokens; begin += longest) {
    const uint32_t count = std::min(longest, sequence.tokens - begin);
    if (count >= shortest) sequences.push_back(part_of(sequence, begin, count));
  }
}

class LineEncoder {
 public:
  LineEncoder(const Model& model, const std::string& quoted) : model_(model) {
    const Result<Tokenizer> tokenizer = Tokenizer::of(model);
    if (!tokenizer.ok()) {
      throw InputError(
          "{}: {} is text, and the model comes without a tokenizer: pass --tokenizer, or token ids "
          "in an .npy file",
          kOption, quoted);
    }
    tokenizer_ = *tokenizer;
  }

  CalibrationSequence encode(std::string_view line, const std::string& name) const {
    EncodeOptions options;
    options.read_specials = true;
    const std::string text = in_expected_form(model_, line, options.read_specials, name);
    CalibrationSequence sequence;
    sequence.ids.resize(encode_tokens_max(text.size()));
    Diagnostic why;
    const Result<size_t> count = tokenizer_.encode(text, options, sequence.ids, &why);
    if (!count.ok()) {
      char reason[256];
      describe(count.status(), why, reason);
      throw InputError("{}: {}", name, reason);
    }
    sequence.ids.resize(*count);
    sequence.ids.shrink_to_fit();
    sequence.tokens = static_cast<uint32_t>(*count);
    return sequence;
  }

 private:
  const Model& model_;
  Tokenizer tokenizer_;
};

Sequences read_lines(std::string_view text, const std::string& quoted, const Model& model) {
  if (model.vocab_size() == 0) {
    throw InputError(
        "{}: {} is no .npy file, and the model reads features: expected an array [tokens, {}] or "
        "[batch, tokens, {}] of floats",
        kOption, quoted, model.input_features(), model.input_features());
  }
  if (text.size() > kTextFileBytesMax) {
    throw InputError("{}: {} has {} bytes: at most {} of text are accepted", kOption, quoted,
                     text.size(), kTextFileBytesMax);
  }
  if (text.find('\0') != std::string_view::npos) {
    throw InputError("{}: {} is neither text nor an .npy file: expected lines of text", kOption,
                     quoted);
  }
  const LineEncoder encoder(model, quoted);
  Sequences sequences;
  size_t number = 0;
  for (std::string_view line; take_line(text, line);) {
    ++number;
    if (line.find_first_not_of(" \t") == std::string_view::npos) continue;
    const std::string name = fmt::format("{}: {}, line {}", kOption, quoted, number);
    if (line.size() > kPromptBytesMax) {
      throw InputError("{} has {} bytes: at most {} are accepted", name, line.size(),
                       kPromptBytesMax);
    }
    append(sequences, encoder.encode(line, name), model);
  }
  return sequences;
}

Sequences read_array(const std::filesystem::path& path, const Model& model) {
  const ModelInput input = read_model_input(NpyArray::read(path), model, kOption);
  Sequences sequences;
  const size_t numbers = input.features.size() / input.sequences;
  for (size_t i = 0; i < input.sequences; ++i) {
    CalibrationSequence sequence;
    sequence.tokens = input.tokens;
    const size_t begin = i * input.tokens;
    if (!input.ids.empty()) {
      const auto ids = std::span(input.ids).subspan(begin, input.tokens);
      sequence.ids.assign(ids.begin(), ids.end());
    } else {
      const auto rows = std::span(input.features).subspan(i * numbers, numbers);
      sequence.features.assign(rows.begin(), rows.end());
    }
    append(sequences, std::move(sequence), model);
  }
  return sequences;
}

// Takes one of so many that no more than the most are left.
void thin_out(Sequences& sequences) {
  const size_t every = static_cast<size_t>(
      (CalibrationSet::tokens_of(sequences) + kCalibrationTokensMax - 1) / kCalibrationTokensMax);
  if (every <= 1) return;
  Sequences kept;
  for (size_t i = 0; i < sequences.size(); i += every) kept.push_back(std::move(sequences[i]));
  sequences = std::move(kept);
}

void hold_out(Sequences sequences, CalibrationSet& set) {
  if (sequences.size() == 1) {
    const CalibrationSequence& only = sequences.front();
    const uint32_t held_out = only.tokens / kHeldOutEvery;
    set.fitted.push_back(part_of(only, 0, only.tokens - held_out));
    set.held_out.push_back(part_of(only, only.tokens - held_out, held_out));
    return;
  }
  const bool is_last_only = sequences.size() < kHeldOutEvery;
  for (size_t i = 0; i < sequences.size(); ++i) {
    const bool held_out =
        is_last_only ? i + 1 == sequences.size() : i % kHeldOutEvery == kHeldOutEvery - 1;
    (held_out ? set.held_out : set.fitted).push_back(std::move(sequences[i]));
  }
}

}  // namespace

uint64_t CalibrationSet::tokens_of(const std::vector<CalibrationSequence>& sequences) {
  uint64_t tokens = 0;
  for (const CalibrationSequence& sequence : sequences) tokens += sequence.tokens;
  return tokens;
}

CalibrationSet read_calibration(const std::filesystem::path& path, const Model& model) {
  const std::string quoted = quote(path.string());
  Sequences sequences;
  {
    const FileMap map(path);
    if (map.text().empty()) {
      throw InputError("{}: {} is empty: expected lines of text, or an .npy file", kOption, quoted);
    }
    sequences = map.text().starts_with(kNpyMagic) ? read_array(path, model)
                                                  : read_lines(map.text(), quoted, model);
  }
  const uint64_t found = CalibrationSet::tokens_of(sequences);
  if (found < kCalibrationTokensMin) {
    throw InputError("{}: {} is too short: found {} tokens that can be used, expected at least {}",
                     kOption, quoted, found, kCalibrationTokensMin);
  }
  thin_out(sequences);
  const size_t count = sequences.size();
  CalibrationSet set;
  hold_out(std::move(sequences), set);
  const uint64_t used = CalibrationSet::tokens_of(set.fitted);
  const uint64_t held_out = CalibrationSet::tokens_of(set.held_out);
  set.source = fmt::format("{}: {} tokens in {} sequences, {} of the tokens held out", quoted,
                           used + held_out, count, held_out);
  if (used + held_out < found) set.source += fmt::format("; {} tokens in all", found);
  return set;
}

}  // namespace arenite::convert
