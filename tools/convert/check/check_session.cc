// SPDX-License-Identifier: Apache-2.0
// Runs the real runtime in an arena on the converter's heap.
#include "convert/check/check_session.h"

#include <fmt/format.h>
#include <algorithm>
#include <bit>
#include <charconv>
#include <cstring>
#include <stdexcept>

#include "arenite/image.h"
#include "convert/files/error.h"
#include "convert/program/program.h"
#include "format/schema.h"
#include "session/session_state.h"

namespace arenite::convert {
namespace {

constexpr uint32_t kNormalized = uint32_t{1} << 31;  // of Model.samples

uint64_t next(uint64_t state) { return state * 6364136223846793005u + 1442695040888963407u; }

// Returns options for `positions` tokens of the first input, and as many tokens of the others as a
// self-test has.
SessionOptions options_of(const Model& model, uint32_t positions, Outputs outputs,
                          KvType kv_cache) {
  SessionOptions options;
  options.positions_max = positions;
  for (uint32_t i = 1; i < model.inputs(); ++i) {
    options.others[i - 1].positions_max =
        format::self_test_tokens(format::ModelReader(model.file()), i, positions);
  }
  options.outputs = outputs;
  options.kv_cache = kv_cache;
  return options;
}

Model load(const AlignedBytes& file, const LoadOptions& options) {
  Diagnostic why;
  const Result<Model> model = Model::load(file.span(), &why, options);
  if (!model.ok()) fail_as_bug("load", model.status(), why);
  return *model;
}

}  // namespace

void fail_as_bug(const char* what, Status status, const Diagnostic& why) {
  char text[256];
  describe(status, why, text);
  throw std::logic_error(
      fmt::format("the converted model does not {}: {}; this is a bug", what, text));
}

Model load_converted(const AlignedBytes& file, Target target) {
  LoadOptions options;
  options.force_target = true;
  options.target = target;
  return load(file, options);
}

Model load_best(const AlignedBytes& file) { return load(file, {}); }

ConvertedSession::ConvertedSession(const Model& model, const SessionOptions& options) {
  Diagnostic why;
  const Result<ArenaPlan> plan = plan_arena(model, options, &why);
  if (!plan.ok()) fail_as_bug("plan", plan.status(), why);
  arena_ = AlignedBytes(plan->total_bytes);
  const Result<Session*> session = Session::create(model, options, arena_.span(), &why);
  if (!session.ok()) fail_as_bug("start", session.status(), why);
  session_ = *session;
}

bool leaves_rows_open(const format::ModelReader& reader) {
  for (uint32_t i = 0; i < reader.functions(); ++i) {
    if (reader.kind_of_slot(reader.output_slot(i)) == AxisKind::kAsked) return true;
  }
  return false;
}

uint32_t array_flags(std::span<const std::byte> file) {
  return format::GetModel(file.data())->array_flags();
}

std::vector<AuthorsArray> authors_arrays(std::span<const std::byte> file) {
  std::vector<AuthorsArray> arrays;
  const auto* texts = format::GetModel(file.data())->arrays();
  for (uint32_t i = 0; texts != nullptr && i < texts->size(); ++i) {
    const std::string text = texts->Get(i)->str();
    const size_t name = text.find('='), role = text.find(':', name);
    arrays.push_back({.name = text.substr(0, name)});
    if (name == std::string::npos || role == std::string::npos) continue;
    arrays.back().role = text.substr(name + 1, role - name - 1);
    std::from_chars(text.data() + role + 1, text.data() + text.size(), arrays.back().of);
  }
  return arrays;
}

std::string role_of_pairs(std::span<const std::byte> file, uint32_t input) {
  for (const AuthorsArray& array : authors_arrays(file)) {
    if (array.of == input && array.role.ends_with("_pairs")) return array.role;
  }
  return "pairs";
}

TokenId start_token(std::span<const std::byte> file) {
  constexpr uint32_t kBits = (1u << kUnreadInputShift) - 1;
  return ((array_flags(file) & kBits) >> kStartTokenShift) - 1;  // kNoToken: nothing is said
}

SuppressedTokens suppressed_tokens(std::span<const std::byte> file) {
  SuppressedTokens tokens;
  const auto* list = format::GetModel(file.data())->suppressed();
  for (uint32_t i = 1; list != nullptr && i < list->size(); ++i) {
    (i <= list->Get(0) ? tokens.always : tokens.first).push_back(list->Get(i));
  }
  return tokens;
}

SampleInput sample_input(std::span<const std::byte> file) {
  const uint32_t samples = format::GetModel(file.data())->samples();
  return {samples & ~kNormalized, (samples & kNormalized) != 0};
}

uint32_t encoded(const SampleInput& samples) {
  return samples.rate | (samples.is_normalized ? kNormalized : 0);
}

std::string describe(const SampleInput& samples) {
  return fmt::format("{} samples a second{}", samples.rate,
                     samples.is_normalized ? ", each sound normalized" : "");
}

Outputs authors_outputs(std::span<const std::byte> file) {
  return (array_flags(file) & kLastRows) != 0 ? Outputs::kLast : Outputs::kAll;
}

bool has_row_of_sequence(std::span<const std::byte> file, Outputs outputs, uint32_t function) {
  const format::ModelReader reader(file);
  const AxisKind kind = reader.kind_of_slot(reader.output_slot(function));
  return kind == AxisKind::kOne || (kind == AxisKind::kAsked && outputs == Outputs::kLast);
}

uint32_t rows_given(const Model& model, Outputs outputs, uint32_t tokens, bool begins,
                    uint32_t function) {
  if (tokens == 0) return 0;
  if (has_row_of_sequence(model.file(), outputs, function)) return 1;
  const format::ModelReader reader = ModelAccess::reader(model);
  const auto rows = [&](uint32_t held) {
    return reader.rows_of_axes(held, 1, true)[reader.slot(reader.output_slot(function)).axis];
  };
  return begins ? rows(tokens) : rows(tokens + 1) - rows(1);
}

CallRows::CallRows(const Output& output, const Model& model, uint32_t function, uint64_t rows)
    : features_(model.function(function).output_features) {
  if (output.rows != rows || output.features != features_) {
    throw std::logic_error(fmt::format("a call gave [{}, {}] where [{}, {}] was expected",
                                       output.rows, output.features, rows, features_));
  }
  values_.assign(output.data, output.data + output.rows * features_);
}

std::span<float> CallRows::rows(size_t first, size_t count) {
  if (first > size() || count > size() - first) {
    throw std::logic_error(
        fmt::format("row {} of {} was asked for: this is a bug", first + count, size()));
  }
  return std::span(values_).subspan(first * features_, count * features_);
}

CheckSession::CheckSession(const AlignedBytes& file, Target target, uint32_t positions,
                           Outputs outputs, KvType kv_cache)
    : model_(load_converted(file, target)),
      outputs_(outputs),
      session_(model_, options_of(model_, positions, outputs, kv_cache)) {}

std::vector<float> CheckSession::rows_of(const Result<Output>& output, const Diagnostic& why,
                                         const char* call, uint32_t tokens, bool begins) const {
  if (!output.ok()) fail_as_bug(call, output.status(), why);
  return CallRows(*output, model_, rows_given(model_, outputs_, tokens, begins)).values();
}

std::vector<float> CheckSession::run(const ModelInput& input, uint32_t index, uint32_t tokens) {
  session_->reset();
  Diagnostic why;
  const std::span<const uint8_t> pairs = input.pairs;  // of models that take whole sequences
  const auto call = [&] {
    if (input.ids.empty()) {
      const size_t each = input.features.size() / input.sequences;
      const size_t given = tokens == input.tokens ? each : each / input.tokens * tokens;
      const auto features = std::span(input.features).subspan(index * each, given);
      return session_->run(Batch{features, 1, tokens, {}, {}, false, pairs}, &why);
    }
    const size_t first = size_t{index} * input.tokens;
    TokenBatch batch{std::span(input.ids).subspan(first, tokens), 1, tokens};
    if (!input.types.empty()) batch.types = std::span(input.types).subspan(first, tokens);
    batch.pairs = pairs;
    return session_->run(batch, &why);
  };
  return rows_of(call(), why, "run", tokens, true);
}

void CheckSession::step(const ModelInput& input, uint32_t token, std::span<const float> expected) {
  const bool begins = session_->positions() == 0;
  const size_t width = input.features.size() / input.tokens;
  Diagnostic why;
  const Result<Output> output =
      input.ids.empty()
          ? session_->step(std::span(input.features).subspan(token * width, width), &why)
          : session_->step(std::span(input.ids).subspan(token, 1), &why);
  const std::vector<float> found = rows_of(output, why, "step", 1, begins);
  if (!std::ranges::equal(std::as_bytes(std::span(found)), std::as_bytes(expected))) {
    throw std::logic_error("stepping differs from one pass: this is a bug");
  }
}

InputTokens ModelInput::tokens_of_inputs() const {
  InputTokens all = tokens;
  for (uint32_t i = 0; i < others.size(); ++i) all.of[i + 1] = others[i].tokens;
  return all;
}

ModelInput ModelInput::sequence(uint32_t index) const {
  const auto part = [&](const auto& values) {
    const size_t each = values.size() / sequences;
    const auto from = values.begin() + static_cast<ptrdiff_t>(index * each);
    return std::decay_t<decltype(values)>(from, from + static_cast<ptrdiff_t>(each));
  };
  ModelInput one = {part(ids), part(features), tokens, 1, part(types), part(visible), part(pairs)};
  for (const ModelInput& other : others) one.others.push_back(other.sequence(index));
  return one;
}

ModelInput joined(std::vector<ModelInput> inputs) {
  ModelInput all = std::move(inputs[0]);
  all.others.assign(std::move_iterator(inputs.begin() + 1), std::move_iterator(inputs.end()));
  return all;
}

bool is_stepped(const Model& model) {
  const FunctionInfo last = model.function(model.functions() - 1);
  return last.causal && std::popcount(last.inputs) == 1;
}

uint32_t last_input(const Model& model) {
  return static_cast<uint32_t>(std::countr_zero(model.function(model.functions() - 1).inputs));
}

std::vector<Input> inputs_of_call(uint32_t inputs, const ModelInput& sequence, uint32_t begin,
                                  uint32_t count) {
  std::vector<Input> fed;
  for (; inputs != 0; inputs &= inputs - 1) {
    const ModelInput& input = sequence.of(static_cast<uint32_t>(std::countr_zero(inputs)));
    const uint32_t tokens = std::min(count, input.tokens - begin);
    const size_t width = input.features.size() / std::max(1u, input.tokens);
    const auto part = [&](std::span<const uint8_t> bytes) {
      return bytes.empty() ? bytes : bytes.subspan(begin, tokens);
    };
    if (input.ids.empty()) {
      fed.emplace_back(
          Batch{.features = std::span(input.features).subspan(begin * width, tokens * width),
                .tokens = tokens,
                .visible = part(input.visible),
                .pairs = input.pairs});
    } else {
      fed.emplace_back(TokenBatch{.ids = std::span(input.ids).subspan(begin, tokens),
                                  .tokens = tokens,
                                  .visible = part(input.visible),
                                  .types = part(input.types),
                                  .pairs = input.pairs});
    }
  }
  return fed;
}

SessionOptions options_for_functions(const Model& model, const InputTokens& tokens,
                                     uint32_t chunk) {
  SessionOptions options;
  for (uint32_t i = 0; i < model.inputs(); ++i) {
    const bool steps = is_stepped(model) && i == last_input(model);
    const InputSizes sizes = {tokens[i], steps ? std::min(tokens[i], chunk) : tokens[i]};
    if (i != 0) {
      options.others[i - 1] = sizes;
    } else {
      options.positions_max = sizes.positions_max;
      options.tokens_max = sizes.tokens_max;
    }
  }
  return options;
}

uint64_t rows_of_functions(const Model& model, const InputTokens& tokens) {
  const format::ModelReader reader = ModelAccess::reader(model);
  return reader.rows_of_axes(tokens, 1,
                             true)[reader.slot(reader.output_slot(model.functions() - 1)).axis];
}

std::vector<float> run_functions(Session& session, const Model& model, const ModelInput& sequence,
                                 uint32_t chunk, const std::string& source, Outputs outputs,
                                 const BeforeCall& before) {
  std::vector<float> rows;
  session.reset();
  for (uint32_t f = 0; f < model.functions(); ++f) {
    const uint32_t taken = model.function(f).inputs;
    const bool is_last = f + 1 == model.functions();
    const ModelInput& own = sequence.of(static_cast<uint32_t>(std::countr_zero(taken)));
    const bool steps = is_last && is_stepped(model) && own.visible.empty();
    const uint32_t most = steps ? std::min(chunk, own.tokens) : own.tokens;
    for (uint32_t begin = 0; begin < own.tokens; begin += most) {
      const uint32_t count = steps ? most : UINT32_MAX;
      InputTokens held, now;
      for (uint32_t i = 0; i < model.inputs(); ++i) {
        held.of[i] = session.positions(0, i);
        if ((taken >> i & 1) != 0) now.of[i] = std::min(count, sequence.of(i).tokens - begin);
      }
      if (before) before(held, now);
      Diagnostic why;
      const Result<Output> output =
          session.step(f, inputs_of_call(taken, sequence, begin, count), &why);
      if (!output.ok()) {
        char text[512];
        describe(output.status(), why, text);
        throw InputError("{}: {}", source, text);
      }
      if (!is_last || output->features == 0) continue;
      if (outputs == Outputs::kLast) rows.clear();
      rows.insert(rows.end(), output->data, output->data + size_t{output->rows} * output->features);
    }
  }
  return rows;
}

ModelInput input_to_check(uint32_t tokens, uint32_t vocab_size, uint32_t token_types,
                          size_t features) {
  ModelInput input = {.tokens = tokens};
  if (vocab_size == 0) {
    input.features = features_to_check(features);
  } else {
    input.ids = spread_tokens(tokens, vocab_size);
    input.types = types_to_check(tokens, token_types);
  }
  return input;
}

std::vector<uint8_t> pairs_to_check(uint32_t tokens) {
  std::vector<uint8_t> pairs;
  for (uint32_t i = 0; i < tokens * tokens; ++i) {
    pairs.push_back(is_made_up_pair(i / tokens, i % tokens) ? 1 : 0);
  }
  return pairs;
}

ModelInput sequence_to_check(const Model& model, uint32_t tokens) {
  ModelInput sequence;
  for (uint32_t i = 0; i < model.inputs(); ++i) {
    const InputInfo info = model.input(i);
    const uint32_t count = format::allowed_length(info, tokens);
    ModelInput input =
        input_to_check(count, info.vocab_size, info.token_types, size_t{count} * info.features);
    if (info.takes_pairs) input.pairs = pairs_to_check(count);
    if (i == 0) {
      sequence = std::move(input);
    } else {
      sequence.others.push_back(std::move(input));
    }
  }
  return sequence;
}

// Approximates normal variables by sums of uniform ones.
std::vector<float> features_to_check(size_t count) {
  std::vector<float> features(count);
  uint64_t state = 0x9E3779B97F4A7C15u;
  for (float& feature : features) {
    double sum = -6.0;
    for (int i = 0; i < 12; ++i) {
      state = next(state);
      sum += static_cast<double>(state >> 40) / static_cast<double>(1u << 24);
    }
    feature = static_cast<float>(sum);
  }
  return features;
}

uint32_t token_count_for(uint32_t wanted, const Program& program) {
  const ProgramInput& input = program.inputs[0];
  const uint32_t step = std::max(1u, input.tokens_step);
  uint32_t tokens = format::allowed_length(input, wanted);
  for (uint32_t before = 0; before != tokens;) {
    before = tokens;
    const AxisRows rows = rows_of_axes(program.axes, tokens, 1, true);
    for (uint32_t i = 0; i < program.ops.size(); ++i) {
      const format::OpView& op = program.ops[i].body;
      if (op.kind != format::OpKind::kAttention) continue;
      const uint32_t own = rows[program.axis_of_op(i)];
      const CompiledMask& mask = program.masks[op.numbers[format::AttentionOp::kMask]];
      const size_t masked = std::min<size_t>(own, mask.row_begin.size());
      for (size_t row = 0; row < masked; ++row) {
        const uint32_t needed = mask.row_begin[row] + 1;
        const uint32_t steps = needed > own ? (needed - own + step - 1) / step : 0;
        tokens = std::max(tokens, before + steps * step);
      }
    }
  }
  const uint32_t most = input.positions_max;
  refuse_if(most != 0 && tokens > most,
            "with {} tokens a row of its mask sees no key: expected --context {} or more", most,
            tokens);
  return tokens;
}

std::vector<uint8_t> types_to_check(uint32_t count, uint32_t token_types) {
  std::vector<uint8_t> types;
  for (uint32_t i = 0; i < count && token_types != 0; ++i) {
    types.push_back(token_types > 1 && i >= count / 2 ? 1 : 0);
  }
  return types;
}

std::vector<TokenId> spread_tokens(uint32_t count, uint32_t vocab_size) {
  std::vector<TokenId> tokens(count);
  uint64_t state = 1;
  for (TokenId& token : tokens) {
    state = next(state);
    token = static_cast<TokenId>((state >> 33) % vocab_size);
  }
  return tokens;
}

std::optional<ImageLayout> image_layout(const Model& model, uint32_t input) {
  const ImageShape image = image_shape(model, input);
  if (image.channels == 0) return std::nullopt;
  const uint32_t flags = array_flags(model.file());
  return ImageLayout{image.channels, image.height, image.width,
                     (flags & kTakesColumnsFirst) != 0 || image.channels == 1,
                     (flags & kTakesImagesTurned) != 0};
}

std::vector<float> pixels_of(const std::vector<float>& images, const ImageLayout& image) {
  std::vector<float> pixels(images.size());
  const size_t each = image.elements();
  for (size_t i = 0; i < images.size(); ++i) {
    pixels[i / each * each + image.place(i % each)] = images[i];
  }
  return pixels;
}

}  // namespace arenite::convert
