// SPDX-License-Identifier: Apache-2.0
// Sequences for calibration that are read from a file.
#include "convert/calibrate/calibration_set.h"

#include <fmt/format.h>
#include <algorithm>
#include <cmath>
#include <span>
#include <stdexcept>
#include <string_view>
#include <type_traits>
#include <utility>

#include "arenite/tokenizer.h"
#include "convert/check/check_session.h"
#include "convert/check/model_input.h"
#include "convert/files/error.h"
#include "convert/files/input_limits.h"
#include "convert/files/memory.h"
#include "convert/files/npy.h"
#include "convert/tokenizers/unicode_library.h"

namespace arenite::convert {

// ---- calibration files: detecting the kind, reading lines or rows, choosing sequences ----

namespace {

using Sequences = std::vector<ModelInput>;

constexpr std::string_view kNpyMagic = "\x93NUMPY";
constexpr const char* kOption = "--calibrate";
constexpr size_t kHeldOutEvery = 5;

uint32_t longest_sequence(const Model& model) {
  const uint32_t context = model.positions_max();
  return context == 0 ? kSequenceTokensMax : std::min(context, kSequenceTokensMax);
}

// Returns tokens [begin, begin + count) of a sequence.
ModelInput part_of(const ModelInput& sequence, uint32_t begin, uint32_t count) {
  const auto slice = [&](const auto& list) {
    const size_t each = list.size() / sequence.tokens;
    const auto first = list.begin() + static_cast<ptrdiff_t>(begin * each);
    return std::remove_cvref_t<decltype(list)>(first, first + static_cast<ptrdiff_t>(count * each));
  };
  return {slice(sequence.ids), slice(sequence.features), count};
}

// A sequence of one token has no next token to predict.
void append(Sequences& sequences, ModelInput sequence, const Model& model) {
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
    refuse_if(
        !tokenizer.ok(),
        "{}: {} is text, and the model comes without a tokenizer: pass --tokenizer, or token ids "
        "in an .npy file",
        kOption, quoted);
    tokenizer_ = *tokenizer;
  }

  ModelInput encode(std::string_view line, const std::string& name) const {
    EncodeOptions options;
    options.read_specials = true;
    const std::string text = in_expected_form(model_, line, options.read_specials, name);
    ModelInput sequence;
    sequence.ids.resize(ids_for_text(model_, text.size()));
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
  refuse_if(
      model.vocab_size() == 0,
      "{}: {} is not an .npy file, and the model reads features: expected an array [tokens, {}] or "
      "[batch, tokens, {}] of floats",
      kOption, quoted, model.input_features(), model.input_features());
  refuse_if(text.size() > kTextFileBytesMax, "{}: {} has {} bytes: at most {} of text are accepted",
            kOption, quoted, text.size(), kTextFileBytesMax);
  refuse_if(text.find('\0') != std::string_view::npos,
            "{}: {} is neither text nor an .npy file: expected lines of text", kOption, quoted);
  const LineEncoder encoder(model, quoted);
  Sequences sequences;
  size_t number = 0;
  for (std::string_view line; take_line(text, line);) {
    ++number;
    if (line.find_first_not_of(" \t") == std::string_view::npos) continue;
    const std::string name = fmt::format("{}: {}, line {}", kOption, quoted, number);
    refuse_if(line.size() > kPromptBytesMax, "{} has {} bytes: at most {} are accepted", name,
              line.size(), kPromptBytesMax);
    append(sequences, encoder.encode(line, name), model);
  }
  return sequences;
}

Sequences read_array(const std::filesystem::path& path, const Model& model) {
  const ModelInput input = read_model_input(NpyArray::read(path), model, kOption);
  Sequences sequences;
  for (uint32_t i = 0; i < input.sequences; ++i) append(sequences, input.sequence(i), model);
  return sequences;
}

Sequences read_file(const std::filesystem::path& path, const Model& model) {
  const std::string quoted = quote(path.string());
  const FileMap map(path);
  refuse_if(map.text().empty(), "{}: {} is empty: expected lines of text, or an .npy file", kOption,
            quoted);
  return map.text().starts_with(kNpyMagic) ? read_array(path, model)
                                           : read_lines(map.text(), quoted, model);
}

// Reads one array for each input.
Sequences read_arrays(const std::vector<std::filesystem::path>& files, const Model& model) {
  std::vector<NpyArray> arrays;
  for (const std::filesystem::path& file : files) arrays.push_back(NpyArray::read(file));
  const ModelInput inputs = read_model_inputs(arrays, model, kOption);
  refuse_if(inputs.sequences < 2,
            "{}: {} has one sequence: expected two or more, as one is held out to compare models "
            "on",
            kOption, quote(arrays[0].name()));
  Sequences sequences;
  for (uint32_t i = 0; i < inputs.sequences; ++i) sequences.push_back(inputs.sequence(i));
  return sequences;
}

// Keeps every n-th sequence, so that the maximum is not exceeded.
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
    const ModelInput& only = sequences.front();
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

// Files of calibration data have no pair masks: all tokens see each other.
void show_all_pairs(Sequences& sequences, const Model& model) {
  for (ModelInput& sequence : sequences) {
    for (uint32_t i = 0; i < model.inputs(); ++i) {
      ModelInput& own = i == 0 ? sequence : sequence.others[i - 1];
      if (model.input(i).takes_pairs) own.pairs.assign(size_t{own.tokens} * own.tokens, 1);
    }
  }
}

}  // namespace

uint64_t CalibrationSet::tokens_of(const std::vector<ModelInput>& sequences) {
  uint64_t tokens = 0;
  for (const ModelInput& sequence : sequences) {
    tokens += sequence.tokens + tokens_of(sequence.others);
  }
  return tokens;
}

CalibrationSet read_calibration(const std::vector<std::string>& given, const Model& model) {
  const auto files = files_of_inputs(given, model, kOption);
  std::vector<std::string> names;
  for (const std::filesystem::path& file : files) names.push_back(quote(file.string()));
  const std::string quoted = fmt::format("{}", fmt::join(names, ", "));
  Sequences sequences = files.size() == 1 ? read_file(files[0], model) : read_arrays(files, model);
  const uint64_t found = CalibrationSet::tokens_of(sequences);
  refuse_if(found < kCalibrationTokensMin,
            "{}: {} is too short: found {} usable tokens, expected at least {}", kOption, quoted,
            found, kCalibrationTokensMin);
  thin_out(sequences);
  const size_t count = sequences.size();
  CalibrationSet set;
  hold_out(std::move(sequences), set);
  show_all_pairs(set.fitted, model);
  show_all_pairs(set.held_out, model);
  const uint64_t used = CalibrationSet::tokens_of(set.fitted);
  const uint64_t held_out = CalibrationSet::tokens_of(set.held_out);
  set.source = fmt::format("{}: {} tokens in {} sequences, {} of the tokens held out", quoted,
                           used + held_out, count, held_out);
  if (used + held_out < found) set.source += fmt::format("; {} tokens in all", found);
  return set;
}

// ---- models that generate text, and random inputs ----

bool predicts_tokens(const Model& model) {
  const uint32_t vocab_size = model.input(last_input(model)).vocab_size;
  return vocab_size != 0 && is_stepped(model) && model.labels() == 0 &&
         model.function(model.functions() - 1).output_features == vocab_size;
}

bool can_write_text(const Model& model) { return model.inputs() == 1 && predicts_tokens(model); }

namespace {

constexpr uint32_t kMadeUpSequences = 8;
constexpr uint32_t kMadeUpTokens = 64;

// Makes random data for one input: ids spread over the vocabulary, or features of zero mean and
// unit variance.
ModelInput random_input(const Model& model, uint32_t index) {
  const InputInfo info = model.input(index);
  const uint32_t tokens =
      format::allowed_length(info, std::max(kMadeUpTokens, model.self_test_tokens()));
  ModelInput input = input_to_check(kMadeUpSequences * tokens, info.vocab_size, 0,
                                    size_t{kMadeUpSequences} * tokens * info.features);
  input.tokens = tokens;
  input.sequences = kMadeUpSequences;
  for (uint32_t i = 0; info.takes_pairs && i < kMadeUpSequences; ++i) {
    const std::vector<uint8_t> pairs = pairs_to_check(tokens);
    input.pairs.insert(input.pairs.end(), pairs.begin(), pairs.end());
  }
  return input;
}

}  // namespace

CalibrationSet random_inputs(const Model& model) {
  ModelInput all = random_input(model, 0);
  for (uint32_t i = 1; i < model.inputs(); ++i) all.others.push_back(random_input(model, i));
  CalibrationSet set;
  set.source = fmt::format("random input: {} sequences of {} tokens", kMadeUpSequences, all.tokens);
  for (uint32_t i = 0; i < kMadeUpSequences; ++i) set.held_out.push_back(all.sequence(i));
  return set;
}

}  // namespace arenite::convert
