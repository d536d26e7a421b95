// SPDX-License-Identifier: Apache-2.0
// C interface: arena plans and sessions.
#include <bit>
#include <type_traits>

#include "arenite/session.h"
#include "c/interop.h"

namespace arenite::c {
namespace {

static_assert(same(ARENITE_OUTPUTS_LAST, Outputs::kLast) &&
              same(ARENITE_OUTPUTS_ALL, Outputs::kAll));
static_assert(same(ARENITE_KV_OF_MODEL, KvType::kOfModel) && same(ARENITE_KV_F32, KvType::kF32) &&
              same(ARENITE_KV_INT8, KvType::kInt8));

// Converts an enumerator of C. Invalid values become UINT8_MAX, which the runtime refuses. Reads
// the value as an integer, since a C++ enum object must not hold a value outside its range.
template <typename Cpp, typename C>
Cpp enumerator(const C& c) {
  const uint32_t number = std::bit_cast<std::underlying_type_t<C>>(c);
  return static_cast<Cpp>(number <= UINT8_MAX ? number : UINT8_MAX);
}

SessionOptions options_from(const arenite_session_options* options) {
  if (options == nullptr) return {};
  SessionOptions cpp;
  cpp.positions_max = options->positions_max;
  cpp.tokens_max = options->tokens_max;
  cpp.sequences_max = options->sequences_max;
  cpp.outputs = enumerator<Outputs>(options->outputs);
  cpp.kv_cache = enumerator<KvType>(options->kv_cache);
  const arenite_parallel_for& parallel = options->parallel;
  cpp.parallel = {parallel.threads, parallel.run, parallel.pool};
  const arenite_profile_hook& profile = options->profile;
  cpp.profile = {profile.op_begins, profile.op_ends, profile.context};
  cpp.hidden_states = {options->hidden_states.state, options->hidden_states.context};
  for (uint32_t i = 0; i + 1 < kInputsMax; ++i) {
    cpp.others[i] = {options->others[i].positions_max, options->others[i].tokens_max};
  }
  return cpp;
}

// Returns an empty span if `data` is null.
template <typename T>
std::span<const T> optional_span(const T* data, size_t size) {
  return {data, data != nullptr ? size : 0};
}

// Returns `pairs` with the size that the sequences need: the sum of length^2 if they are back to
// back (then `lengths` is given), else of tokens^2.
std::span<const uint8_t> pairs_of(const uint8_t* pairs, uint32_t sequences, uint32_t tokens,
                                  const uint32_t* lengths) {
  size_t cells = 0;
  for (uint32_t i = 0; i < sequences && pairs != nullptr; ++i) {
    const size_t side = lengths != nullptr ? lengths[i] : tokens;
    cells += side * side;
  }
  return {pairs, cells};
}

size_t tokens_in(const arenite_batch& batch) {
  if (!batch.back_to_back || batch.lengths == nullptr) {
    return size_t{batch.sequences} * batch.tokens;
  }
  size_t count = 0;
  for (uint32_t i = 0; i < batch.sequences; ++i) count += batch.lengths[i];
  return count;
}

Batch batch_from(const arenite_batch& batch) {
  return {{batch.features, batch.size},
          batch.sequences,
          batch.tokens,
          optional_span(batch.lengths, batch.sequences),
          optional_span(batch.visible, size_t{batch.sequences} * batch.tokens),
          batch.back_to_back,
          pairs_of(batch.pairs, batch.sequences, batch.tokens,
                   batch.back_to_back ? batch.lengths : nullptr),
          optional_span(batch.outputs, tokens_in(batch))};
}

TokenBatch batch_from(const arenite_token_batch& batch) {
  return {{batch.ids, batch.size},
          batch.sequences,
          batch.tokens,
          optional_span(batch.lengths, batch.sequences),
          optional_span(batch.visible, size_t{batch.sequences} * batch.tokens),
          batch.back_to_back,
          optional_span(batch.types, batch.size),
          pairs_of(batch.pairs, batch.sequences, batch.tokens,
                   batch.back_to_back ? batch.lengths : nullptr),
          optional_span(batch.outputs, batch.size)};
}

// The inputs of a function call. More than kInputsMax are counted as kInputsMax + 1 and refused
// later.
class Inputs {
 public:
  Inputs(const arenite_input* inputs, uint32_t count)
      : count_(count <= kInputsMax ? count : kInputsMax + 1) {
    for (uint32_t i = 0; i < count_ && i < kInputsMax; ++i) {
      if (inputs[i].batch != nullptr) {
        inputs_[i] = batch_from(*inputs[i].batch);
      } else if (inputs[i].tokens != nullptr) {
        inputs_[i] = batch_from(*inputs[i].tokens);
      }
    }
  }
  std::span<const Input> all() const { return {inputs_, count_}; }

 private:
  Input inputs_[kInputsMax + 1];
  uint32_t count_;
};

Session& session_of(arenite_session* session) { return *reinterpret_cast<Session*>(session); }
const Session& session_of(const arenite_session* session) {
  return *reinterpret_cast<const Session*>(session);
}

arenite_output output_from(const Output& output) {
  return {output.data, output.rows, output.features};
}

arenite_status hand_over(const Result<Output>& result, const Diagnostic& from,
                         arenite_output* output, arenite_diagnostic* why) {
  return finish(result, from, why, [&](const Output& value) { *output = output_from(value); });
}

template <typename AnyBatch>
arenite_status feed(arenite_session* session, const AnyBatch* batch, bool from_start,
                    arenite_output* output, arenite_diagnostic* why) {
  Diagnostic from;
  Session& to = session_of(session);
  const auto tokens = batch_from(*batch);
  return hand_over(from_start ? to.run(tokens, &from) : to.step(tokens, &from), from, output, why);
}

template <typename AnyBatch>
arenite_status begin(arenite_session* session, const AnyBatch* batch, bool from_start,
                     arenite_diagnostic* why) {
  Diagnostic from;
  Session& to = session_of(session);
  const auto tokens = batch_from(*batch);
  return report(from_start ? to.begin_run(tokens, &from) : to.begin_step(tokens, &from), from, why);
}

}  // namespace
}  // namespace arenite::c

using arenite::Diagnostic;
using arenite::Model;
using arenite::Output;
using arenite::Session;
using arenite::c::begin;
using arenite::c::feed;
using arenite::c::hand_over;
using arenite::c::Inputs;
using arenite::c::object_in;
using arenite::c::report;
using arenite::c::session_of;

arenite_status arenite_plan_arena(arenite_arena_plan* plan, const arenite_model* model,
                                  const arenite_session_options* options, arenite_diagnostic* why) {
  Diagnostic from;
  const auto planned =
      arenite::plan_arena(object_in<const Model>(model), arenite::c::options_from(options), &from);
  return arenite::c::finish(planned, from, why, [&](const arenite::ArenaPlan& value) {
    *plan = {value.session_bytes, value.kv_cache_bytes, value.activation_bytes, value.scratch_bytes,
             value.total_bytes};
  });
}

arenite_status arenite_session_create(arenite_session** session, const arenite_model* model,
                                      const arenite_session_options* options, void* arena,
                                      size_t arena_bytes, arenite_diagnostic* why) {
  Diagnostic from;
  const auto created =
      Session::create(object_in<const Model>(model), arenite::c::options_from(options),
                      {static_cast<std::byte*>(arena), arena_bytes}, &from);
  return arenite::c::finish(created, from, why, [&](Session* value) {
    *session = reinterpret_cast<arenite_session*>(value);
  });
}

arenite_status arenite_session_run(arenite_session* session, const arenite_batch* batch,
                                   arenite_output* output, arenite_diagnostic* why) {
  return feed(session, batch, true, output, why);
}

arenite_status arenite_session_run_tokens(arenite_session* session,
                                          const arenite_token_batch* batch, arenite_output* output,
                                          arenite_diagnostic* why) {
  return feed(session, batch, true, output, why);
}

arenite_status arenite_session_step(arenite_session* session, const arenite_batch* batch,
                                    arenite_output* output, arenite_diagnostic* why) {
  return feed(session, batch, false, output, why);
}

arenite_status arenite_session_step_tokens(arenite_session* session,
                                           const arenite_token_batch* batch, arenite_output* output,
                                           arenite_diagnostic* why) {
  return feed(session, batch, false, output, why);
}

arenite_status arenite_session_step_features(arenite_session* session, const float* features,
                                             size_t size, arenite_output* output,
                                             arenite_diagnostic* why) {
  Diagnostic from;
  return hand_over(session_of(session).step(std::span(features, size), &from), from, output, why);
}

arenite_status arenite_session_step_ids(arenite_session* session, const uint32_t* ids, size_t count,
                                        arenite_output* output, arenite_diagnostic* why) {
  Diagnostic from;
  return hand_over(session_of(session).step(std::span(ids, count), &from), from, output, why);
}

arenite_status arenite_session_begin_run(arenite_session* session, const arenite_batch* batch,
                                         arenite_diagnostic* why) {
  return begin(session, batch, true, why);
}

arenite_status arenite_session_begin_run_tokens(arenite_session* session,
                                                const arenite_token_batch* batch,
                                                arenite_diagnostic* why) {
  return begin(session, batch, true, why);
}

arenite_status arenite_session_begin_step(arenite_session* session, const arenite_batch* batch,
                                          arenite_diagnostic* why) {
  return begin(session, batch, false, why);
}

arenite_status arenite_session_begin_step_tokens(arenite_session* session,
                                                 const arenite_token_batch* batch,
                                                 arenite_diagnostic* why) {
  return begin(session, batch, false, why);
}

arenite_status arenite_session_run_function(arenite_session* session, uint32_t function,
                                            const arenite_input* inputs, uint32_t count,
                                            arenite_output* output, arenite_diagnostic* why) {
  Diagnostic from;
  const Inputs fed(inputs, count);
  return hand_over(session_of(session).run(function, fed.all(), &from), from, output, why);
}

arenite_status arenite_session_step_function(arenite_session* session, uint32_t function,
                                             const arenite_input* inputs, uint32_t count,
                                             arenite_output* output, arenite_diagnostic* why) {
  Diagnostic from;
  const Inputs fed(inputs, count);
  return hand_over(session_of(session).step(function, fed.all(), &from), from, output, why);
}

arenite_status arenite_session_begin_run_function(arenite_session* session, uint32_t function,
                                                  const arenite_input* inputs, uint32_t count,
                                                  arenite_diagnostic* why) {
  Diagnostic from;
  const Inputs fed(inputs, count);
  return report(session_of(session).begin_run(function, fed.all(), &from), from, why);
}

arenite_status arenite_session_begin_step_function(arenite_session* session, uint32_t function,
                                                   const arenite_input* inputs, uint32_t count,
                                                   arenite_diagnostic* why) {
  Diagnostic from;
  const Inputs fed(inputs, count);
  return report(session_of(session).begin_step(function, fed.all(), &from), from, why);
}

arenite_status arenite_session_rows_out(const arenite_session* session, uint32_t function,
                                        const arenite_input* inputs, uint32_t count, bool is_run,
                                        uint32_t* rows, arenite_diagnostic* why) {
  Diagnostic from;
  const Inputs fed(inputs, count);
  const auto result = session_of(session).rows_out(function, fed.all(), is_run, &from);
  return arenite::c::finish(result, from, why, [&](uint32_t value) { *rows = value; });
}

arenite_status arenite_session_advance(arenite_session* session, uint64_t budget,
                                       uint32_t* ops_left, arenite_diagnostic* why) {
  Diagnostic from;
  const auto advanced = session_of(session).advance(budget, &from);
  return arenite::c::finish(advanced, from, why, [&](uint32_t value) { *ops_left = value; });
}

bool arenite_output_finite(const arenite_output* output) {
  return Output{output->data, output->rows, output->features}.finite();
}

arenite_output arenite_session_output(const arenite_session* session) {
  return arenite::c::output_from(session_of(session).output());
}

arenite_output arenite_session_output_of(const arenite_session* session, uint32_t function) {
  return arenite::c::output_from(session_of(session).output(function));
}

void arenite_session_cancel(arenite_session* session) { session_of(session).cancel(); }

arenite_status arenite_session_rewind(arenite_session* session, uint32_t sequence,
                                      uint32_t positions, arenite_diagnostic* why) {
  Diagnostic from;
  return arenite::c::finish(session_of(session).rewind(sequence, positions, &from), from, why);
}

arenite_status arenite_session_rewind_input(arenite_session* session, uint32_t input,
                                            uint32_t sequence, uint32_t positions,
                                            arenite_diagnostic* why) {
  Diagnostic from;
  const auto status = session_of(session).rewind_input(input, sequence, positions, &from);
  return arenite::c::finish(status, from, why);
}

arenite_status arenite_session_copy_sequence(arenite_session* session, uint32_t from_sequence,
                                             uint32_t to, arenite_diagnostic* why) {
  Diagnostic from;
  return arenite::c::finish(session_of(session).copy_sequence(from_sequence, to, &from), from, why);
}

void arenite_session_reset(arenite_session* session) { session_of(session).reset(); }

uint32_t arenite_session_positions(const arenite_session* session, uint32_t sequence) {
  return session_of(session).positions(sequence);
}

uint32_t arenite_session_positions_of(const arenite_session* session, uint32_t sequence,
                                      uint32_t input) {
  return session_of(session).positions(sequence, input);
}

arenite_status arenite_session_self_test(arenite_session* session, arenite_self_test* test,
                                         arenite_diagnostic* why) {
  Diagnostic from;
  const auto result = session_of(session).self_test(&from);
  return arenite::c::finish(result, from, why, [&](const arenite::SelfTest& found) {
    *test = {found.passed, found.op_index,   found.op_name,
             found.token,  found.difference, found.tolerance};
  });
}
