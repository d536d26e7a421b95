// SPDX-License-Identifier: Apache-2.0
// Runs each target of the file that this machine supports.
#include "support/hostile_file.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "arenite/session.h"
#include "format/reader.h"
#include "model_generated.h"
#include "support/guarded_buffer.h"
#include "support/hostile_tokenizer.h"
#include "support/random.h"

namespace arenite::test {
namespace {

constexpr uint32_t kSequences = 2;
constexpr uint32_t kImagePositions = 256;  // pixels of a test's image at most

void fill(std::span<float> features, uint32_t) { Random(1).fill(features, 1.0f); }

void fill(std::span<TokenId> ids, uint32_t vocab_size) {
  Random random(1);
  for (TokenId& id : ids) id = random.below(vocab_size);
}

// Reads all that it is shown, as an application might.
void read_state(void* context, uint32_t, const float* data, uint32_t rows, uint32_t features) {
  volatile float& sink = *static_cast<float*>(context);
  for (size_t i = 0; i < size_t{rows} * features; ++i) sink = data[i];
}

std::span<const uint8_t> every_other(const GuardedBuffer& mask) {
  const std::span<uint8_t> bytes(reinterpret_cast<uint8_t*>(mask.data()), mask.size());
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = i % 2;
  return bytes;
}

void feed_types(Session&, const Model&, const Batch&) {}

// Feeds the batch with every token of the model's last type.
void feed_types(Session& session, const Model& model, TokenBatch batch) {
  if (model.token_types() == 0) return;
  const GuardedBuffer types(batch.ids.size(), 1);
  const uint32_t last = std::min(model.token_types() - 1, 255u);
  std::memset(types.data(), static_cast<int>(last), types.size());
  batch.types = {reinterpret_cast<const uint8_t*>(types.data()), types.size()};
  Diagnostic why;
  const Result<Output> output = session.run(batch, &why);
  require(output.ok() || why.reason != nullptr);
}

// Returns exactly the pairs of the batch, at the end of the memory.
template <typename AnyBatch>
std::span<const uint8_t> pairs_of(const AnyBatch& batch, const GuardedBuffer& memory) {
  size_t cells = size_t{batch.sequences} * batch.tokens * batch.tokens;
  for (const uint32_t length : batch.lengths) {
    if (batch.back_to_back) cells += size_t{length} * length;
  }
  const std::span<const std::byte> all = memory.span();
  return {reinterpret_cast<const uint8_t*>(all.data()) + all.size() - cells, cells};
}

// Feeds features or ids, `width` of them for each token, from memory that ends at a guard page.
template <typename AnyBatch, typename Value>
void feed(Session& session, const Model& model, uint32_t tokens, size_t width) {
  const GuardedBuffer memory(kSequences * tokens * width * sizeof(Value), sizeof(Value));
  const std::span<Value> values(reinterpret_cast<Value*>(memory.data()),
                                memory.size() / sizeof(Value));
  fill(values, model.vocab_size());
  const std::span<const Value> all = values;
  // A batch may be refused, for a mask that hides a row of it; then nothing has happened.
  Diagnostic why;
  const uint32_t lengths[kSequences] = {tokens, tokens / 2};
  AnyBatch masked{all, kSequences, tokens, {}};
  const GuardedBuffer mask(kSequences * tokens, 1);
  masked.visible = every_other(mask);
  AnyBatch dense{all.first((tokens + tokens / 2) * width), kSequences, 0, lengths};
  dense.back_to_back = true;
  const GuardedBuffer pairs(kSequences * tokens * tokens, 1);
  std::ranges::fill(pairs.span(), std::byte{1});
  for (AnyBatch batch :
       {AnyBatch{all, kSequences, tokens, {}}, AnyBatch{all, kSequences, tokens, lengths},
        AnyBatch{all.first(width), 1, 1, {}}, masked, dense}) {
    if (model.input(0).takes_pairs) batch.pairs = pairs_of(batch, pairs);
    const Result<Output> output = session.run(batch, &why);
    require(output.ok() ? output->features == model.output_features() : why.reason != nullptr);
    float sink = 0.0f;
    if (output.ok()) read_state(&sink, 0, output->data, output->rows, output->features);
    feed_types(session, model, batch);
  }
  session.reset();
  for (uint32_t i = 0; i < std::min(tokens, 3u); ++i) {
    const Result<Output> output = session.step(all.subspan(i * width, width), &why);
    require(output.ok() || why.reason != nullptr);
  }
  require(session.rewind(0, 0) == Status::kOk);
}

// Token by token and in chunks until the context is full, so that rings of pages come round.
template <typename Value>
void feed_to_the_end(Session& session, const Model& model, const SessionOptions& options,
                     size_t width) {
  const uint32_t chunk = options.tokens_max;
  const GuardedBuffer memory(chunk * width * sizeof(Value), sizeof(Value));
  const std::span<Value> values(reinterpret_cast<Value*>(memory.data()), chunk * width);
  fill(values, model.vocab_size());
  const std::span<const Value> all = values;
  Diagnostic why;
  for (size_t turn = 0; turn <= options.positions_max; ++turn) {
    const size_t tokens = turn % 9 == 0 ? 1 : chunk;
    if (!session.step(all.first(tokens * width), &why).ok()) break;
    // How far a ring goes back is the file's choice.
    const uint32_t held = session.positions();
    if (turn % 7 == 0) (void)session.rewind(0, held - std::min(held, chunk));
  }
  require(session.rewind(0, 0) == Status::kOk);
}

// The values of one input, `tokens` for each sequence, in memory that ends at a guard page.
class InputMemory {
 public:
  InputMemory(const InputInfo& info, uint32_t tokens)
      : is_tokens_(info.vocab_size != 0),
        tokens_(tokens),
        width_(is_tokens_ ? 1 : info.features),
        lengths_{tokens, tokens / 2},
        memory_(kSequences * tokens * width_ * sizeof(float), sizeof(float)),
        mask_(kSequences * tokens, 1) {
    const size_t count = kSequences * tokens * width_;
    if (is_tokens_) {
      fill(std::span(reinterpret_cast<TokenId*>(memory_.data()), count), info.vocab_size);
    } else {
      fill(std::span(reinterpret_cast<float*>(memory_.data()), count), 0);
    }
  }

  static constexpr uint32_t kForms = 5;
  Input in_form(uint32_t form) const {
    return is_tokens_ ? Input(batch<TokenBatch, TokenId>(form)) : Input(batch<Batch, float>(form));
  }

 private:
  // Forms: the longest sequences; two lengths; one token; some tokens hidden; back to back.
  template <typename AnyBatch, typename Value>
  AnyBatch batch(uint32_t form) const {
    const std::span<const Value> all(reinterpret_cast<const Value*>(memory_.data()),
                                     kSequences * tokens_ * width_);
    if (form == 1) return {all, kSequences, tokens_, lengths_};
    if (form == 2) return {all.first(width_), 1, 1};
    if (form == 3) return {all, kSequences, tokens_, {}, every_other(mask_)};
    if (form != 4) return {all, kSequences, tokens_};
    AnyBatch dense{all.first((tokens_ + tokens_ / 2) * width_), kSequences, 0, lengths_};
    dense.back_to_back = true;
    return dense;
  }

  bool is_tokens_;
  uint32_t tokens_;
  size_t width_;
  uint32_t lengths_[kSequences];
  GuardedBuffer memory_;
  GuardedBuffer mask_;
};

// Calls the functions by their numbers, those that see what others keep after and before these.
void feed_functions(Session& session, const Model& model, const SessionOptions& options) {
  std::vector<InputMemory> fed;
  for (uint32_t i = 0; i < model.inputs(); ++i) {
    const InputSizes* const other = i == 0 ? nullptr : &options.others[i - 1];
    fed.emplace_back(model.input(i), other ? other->positions_max : options.positions_max);
  }
  Diagnostic why;
  const auto call = [&](uint32_t function, uint32_t form, bool is_run) {
    const FunctionInfo info = model.function(function);
    std::vector<Input> inputs;
    for (uint32_t i = 0; i < model.inputs(); ++i) {
      if ((info.inputs >> i & 1) != 0) inputs.push_back(fed[i].in_form(form));
    }
    const Result<Output> output =
        is_run ? session.run(function, inputs, &why) : session.step(function, inputs, &why);
    require(output.ok() ? output->features == info.output_features : why.reason != nullptr);
    float sink = 0.0f;
    if (output.ok()) read_state(&sink, 0, output->data, output->rows, output->features);
  };
  for (uint32_t form = 0; form < InputMemory::kForms; ++form) {
    for (uint32_t i = 0; i < model.functions(); ++i) call(i, form, i == 0);
    call(model.functions() - 1, 2, false);
    if (form == 0) require(session.copy_sequence(0, 1, &why) == Status::kOk);
  }
  session.reset();
  for (uint32_t i = model.functions(); i-- > 0;) call(i, 2, false);
  for (uint32_t i = 0; i < model.inputs(); ++i) {
    require(session.rewind_input(i, 0, 0) == Status::kOk);
  }
}

Fate run(const Model& model, SessionOptions options, size_t arena_bytes_max, bool to_the_end) {
  float sink = 0.0f;
  options.hidden_states = {read_state, &sink};
  Diagnostic why;
  const Result<ArenaPlan> plan = plan_arena(model, options, &why);
  if (!plan.ok()) {
    require(why.reason != nullptr);
    return Fate::kTooLarge;
  }
  if (plan->total_bytes > arena_bytes_max) return Fate::kTooLarge;
  const GuardedBuffer arena(plan->total_bytes, kArenaAlignment);
  const Result<Session*> session = Session::create(model, options, arena.span(), &why);
  require(session.ok());
  const bool reads_ids = model.vocab_size() != 0;
  const size_t width = reads_ids ? 1 : model.input_features();
  if (model.inputs() > 1 || model.functions() > 1) {
    feed_functions(**session, model, options);
  } else if (to_the_end) {
    reads_ids ? feed_to_the_end<TokenId>(**session, model, options, width)
              : feed_to_the_end<float>(**session, model, options, width);
  } else {
    reads_ids ? feed<TokenBatch, TokenId>(**session, model, options.positions_max, width)
              : feed<Batch, float>(**session, model, options.positions_max, width);
  }
  require(arena.surroundings_intact());
  return Fate::kRan;
}

// No fewer than a small image has, and no more than there can be.
uint32_t positions_of(const InputInfo& input, uint32_t most) {
  if (input.tokens_min <= kImagePositions) most = std::max(most, input.tokens_min);
  return input.positions_max == 0 ? most : std::min(input.positions_max, most);
}

bool has_ring(const Model& model) {
  const format::ModelReader reader(model.file());
  for (uint32_t i = 0; i < reader.caches(); ++i) {
    if (reader.cache(i).lookback != kUnlimited) return true;
  }
  return false;
}

using Reader = format::ModelReader;

template <typename Record>
bool same_records(const Reader& one, const Reader& other, uint32_t (Reader::*count)() const,
                  const Record& (Reader::*record)(uint32_t) const) {
  const uint32_t records = (one.*count)();
  return records == (other.*count)() &&
         (records == 0 ||
          std::memcmp(&(one.*record)(0), &(other.*record)(0), records * sizeof(Record)) == 0);
}

// Whether the records, which are all that a step reads besides weights, are equal.
bool same_program(const Reader& one, const Reader& other) {
  if (!same_records(one, other, &Reader::slots, &Reader::slot) ||
      !same_records(one, other, &Reader::ops, &Reader::op) ||
      !same_records(one, other, &Reader::tensors, &Reader::tensor) ||
      !same_records(one, other, &Reader::caches, &Reader::cache) ||
      !same_records(one, other, &Reader::masks, &Reader::mask_record) ||
      !same_records(one, other, &Reader::hidden_states, &Reader::hidden_state) ||
      !same_records(one, other, &Reader::packed_count, &Reader::packed)) {
    return false;
  }
  for (uint32_t i = 0; i < one.packed_count() * one.tensors(); ++i) {
    const uint32_t target = i / one.tensors();
    const uint32_t tensor = i % one.tensors();
    if (one.tensor_offset(target, tensor) != other.tensor_offset(target, tensor)) return false;
  }
  return one.mask_words() == 0 && other.mask_words() == 0 &&
         same_records(one, other, &Reader::inputs, &Reader::input) &&
         same_records(one, other, &Reader::functions, &Reader::function) &&
         one.kv_cache() == other.kv_cache();
}

// Whether the tokenizers of two files are equal, or both files have none.
bool same_tokenizer(std::span<const std::byte> file, std::span<const std::byte> other_file) {
  const format::Tokenizer* const one = format::GetModel(file.data())->tokenizer();
  const format::Tokenizer* const other = format::GetModel(other_file.data())->tokenizer();
  if (one == nullptr || other == nullptr) return one == other;
  const auto same = [](const auto* list, const auto* other_list) {
    return std::ranges::equal(std::span(list->data(), list->size()),
                              std::span(other_list->data(), other_list->size()));
  };
  if (one->lists()->size() != other->lists()->size()) return false;
  for (uint32_t i = 0; i < one->lists()->size(); ++i) {
    if (!same(one->lists()->Get(i)->values(), other->lists()->Get(i)->values())) return false;
  }
  return std::memcmp(one->choices(), other->choices(), sizeof(format::TokenizerChoices)) == 0 &&
         same(one->token_bytes(), other->token_bytes()) &&
         same(one->special_flags(), other->special_flags());
}

Fate run(const Model& model, const Effort& effort) {
  for (uint32_t i = 0; i < model.labels(); ++i) require(std::strlen(model.label(i)) < SIZE_MAX);
  SessionOptions options;
  options.positions_max = positions_of(model.input(0), effort.positions);
  options.sequences_max = kSequences;
  for (uint32_t i = 1; i < model.inputs(); ++i) {
    options.others[i - 1].positions_max = positions_of(model.input(i), effort.positions);
  }
  const Fate fate = run(model, options, effort.arena_bytes_max, false);
  if (!effort.sound.empty() && same_program(Reader(model.file()), Reader(effort.sound))) {
    return fate;
  }
  if (model.vocab_size() != 0 || model.functions() > 1) {
    options.outputs = Outputs::kAll;
    (void)run(model, options, effort.arena_bytes_max, false);
  }
  if (has_ring(model)) {
    options.positions_max = positions_of(model.input(0), effort.ring_positions);
    options.tokens_max = std::min(options.positions_max, effort.ring_chunk);
    (void)run(model, options, effort.arena_bytes_max, true);
  }
  return fate;
}

}  // namespace

Fate load_and_run(std::span<const std::byte> file, size_t arena_bytes_max) {
  return load_and_run(file, Effort{.arena_bytes_max = arena_bytes_max});
}

Fate load_and_run(std::span<const std::byte> file, const Effort& effort) {
  Diagnostic why;
  const Result<Model> best = Model::load(file, &why);
  if (!best.ok()) {
    require(why.reason != nullptr);
    return Fate::kRefused;
  }
  if (effort.sound.empty() || !same_tokenizer(file, effort.sound)) {
    (void)use_tokenizer(*best);
  }
  Fate fate = Fate::kTooLarge;
  for (uint32_t i = 0; i < kTargets; ++i) {
    if ((best->file_targets() >> i & 1) == 0) continue;
    const Result<Model> model =
        Model::load(file, nullptr, {.force_target = true, .target = static_cast<Target>(i)});
    if (model.ok()) fate = run(*model, effort);
  }
  return fate;
}

}  // namespace arenite::test
