// SPDX-License-Identifier: Apache-2.0
// Compares the state of a session after each call with the state that the interface promises.
#include "fuzz/session_driver.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "fuzz/guarded_region.h"
#include "fuzz/require.h"
#include "support/smallest_slice.h"

namespace arenite::test {
namespace {

constexpr uint32_t kPositionsMax = 70;        // more than two tiles of a mask
constexpr uint32_t kRingPositionsMax = 1200;  // more than two pages of a cache
constexpr uint32_t kSequencesMax = 3;
constexpr uint32_t kThreadsMax = 3;

GuardedRegion& arena_region(bool second) {
  static GuardedRegion regions[] = {GuardedRegion(SessionDriver::kArenaBytesMax),
                                    GuardedRegion(SessionDriver::kArenaBytesMax)};
  return regions[second];
}

// Runs the tasks on one thread, the last one first, as if several threads took turns.
void run_backwards(void* threads, uint32_t tasks, ParallelFor::Task task, void* job) {
  const uint32_t count = *static_cast<const uint32_t*>(threads);
  for (uint32_t i = tasks; i-- > 0;) task(job, i, i % count);
}

constexpr uint32_t kThreadCounts[kThreadsMax + 1] = {0, 1, 2, 3};

}  // namespace

bool same_bits(std::span<const float> a, std::span<const float> b) {
  return std::ranges::equal(a, b, [](float x, float y) {
    return std::bit_cast<uint32_t>(x) == std::bit_cast<uint32_t>(y) ||
           (std::isnan(x) && std::isnan(y));
  });
}

void SessionDriver::keep(std::span<const float> values) {
  for (const float value : values) {
    given_.push_back(std::isnan(value) ? UINT32_MAX : std::bit_cast<uint32_t>(value));
  }
}

void SessionDriver::keep(Status status, const Diagnostic& why) {
  require(status == Status::kOk || why.reason != nullptr, "a refusal says why");
  given_.push_back(static_cast<uint32_t>(status));
}

void SessionDriver::keep_state(void* driver, uint32_t, const float* data, uint32_t rows,
                               uint32_t features) {
  static_cast<SessionDriver*>(driver)->keep({data, size_t{rows} * features});
}

void SessionDriver::choose_options() {
  const uint32_t most = choices_.one_in(8) ? kRingPositionsMax : kPositionsMax;
  const uint32_t limit =
      model_.positions_max() == 0 ? most : std::min(model_.positions_max(), most);
  options_.positions_max = choices_.one_in(4) ? 1 + choices_.below(limit) : limit;
  options_.sequences_max = 1 + choices_.below(kSequencesMax);
  if (choices_.one_in(2)) {
    options_.tokens_max = 1 + choices_.below(options_.positions_max * options_.sequences_max);
  }
  options_.outputs = choices_.below(2) == 0 ? Outputs::kLast : Outputs::kAll;
  for (uint32_t i = 1; i < model_.inputs(); ++i) {
    const uint32_t own = model_.input(i).positions_max;
    InputSizes& sizes = options_.others[i - 1];
    sizes.positions_max = own == 0 ? kPositionsMax : std::min(own, kPositionsMax);
    if (choices_.one_in(4)) sizes.positions_max = 1 + choices_.below(sizes.positions_max);
  }
  if (choices_.one_in(4)) options_.kv_cache = static_cast<KvType>(choices_.below(3));
  if (choices_.one_in(2)) options_.hidden_states = {keep_state, this};
  if (choices_.one_in(4)) {
    options_.parallel.threads = 1 + choices_.below(kThreadsMax);
    options_.parallel.run = run_backwards;
    options_.parallel.pool = const_cast<uint32_t*>(&kThreadCounts[options_.parallel.threads]);
  }
}

bool SessionDriver::create() {
  choose_options();
  Diagnostic why;
  const Result<ArenaPlan> plan = plan_arena(model_, options_, &why);
  keep(plan.status(), why);
  if (!plan.ok() || plan->total_bytes > kArenaBytesMax) return false;
  const std::span<std::byte> arena = arena_region(false).lend(plan->total_bytes, kArenaAlignment);
  const std::span<std::byte> less = arena.first(arena.size() - 1);
  require(Session::create(model_, options_, less, &why).status() == Status::kArenaTooSmall,
          "an arena of a byte less is refused");
  require(GuardedRegion::is_filled(arena), "a refusal leaves the arena alone");
  for (size_t i = 0; i + sizeof(fill_) <= arena.size(); i += sizeof(fill_)) {
    std::memcpy(&arena[i], &fill_, sizeof(fill_));
  }
  const Result<Session*> session = Session::create(model_, options_, arena, &why);
  require(session.ok(), "what is planned can be created");
  session_ = *session;
  arena_ = arena;
  return true;
}

std::vector<uint32_t> SessionDriver::held() const {
  std::vector<uint32_t> positions;
  for (uint32_t input = 0; input < model_.inputs(); ++input) {
    for (uint32_t i = 0; i < options_.sequences_max; ++i) {
      positions.push_back(session_->positions(i, input));
    }
  }
  return positions;
}

std::vector<uint32_t> SessionDriver::none_held() const {
  return std::vector<uint32_t>(size_t{options_.sequences_max} * model_.inputs());
}

void SessionDriver::expect_held(const std::vector<uint32_t>& expected) {
  require(held() == expected, "a session holds what the calls have fed it");
  given_.insert(given_.end(), expected.begin(), expected.end());
}

void SessionDriver::keep(const Output& output) {
  const std::span<const float> values(output.data, size_t{output.rows} * output.features);
  const bool is_known = has_functions() || output.features == model_.output_features();
  require(output.rows == 0 || is_known, "rows are as wide as the model says");
  keep(values);
}

void SessionDriver::append(const Output& output, std::vector<float>& all) {
  keep(output);
  all.insert(all.end(), output.data, output.data + size_t{output.rows} * output.features);
}

void SessionDriver::run_or_step(bool is_run) {
  const MadeBatch batch =
      any_batch({model_, options_}, 1 + choices_.below(options_.sequences_max), choices_);
  std::vector<uint32_t> expected = held();
  Diagnostic why;
  const Result<uint32_t> rows = session_->rows_out(batch.as_input(), is_run);
  const Result<Output> output = is_run ? batch.run(*session_, &why) : batch.step(*session_, &why);
  keep(output.status(), why);
  require(rows.status() == output.status(), "a call that is asked about ends as is said");
  if (!output.ok()) return expect_held(expected);
  require(*rows == output->rows, "a call gives as many rows as are said");
  keep(*output);
  (void)output->finite();
  if (!batch.visible.empty()) return;  // gaps count as well
  if (is_run) std::ranges::fill(expected, 0u);
  for (uint32_t i = 0; i < batch.sequences; ++i) expected[i] += batch.length(i);
  expect_held(expected);
}

void SessionDriver::slices() {
  const bool is_run = choices_.one_in(2);
  const MadeBatch batch =
      any_batch({model_, options_}, 1 + choices_.below(options_.sequences_max), choices_);
  const std::vector<uint32_t> before = is_run ? none_held() : held();
  Diagnostic why;
  const Status status = batch.begin(*session_, is_run, &why);
  keep(status, why);
  if (status != Status::kOk) {
    require(session_->advance(1).status() == Status::kInvalidArgument, "nothing was begun");
    return;
  }
  require(session_->rewind(0, 0) == Status::kInvalidArgument, "no rewind amid a step");
  for (uint32_t turns = choices_.below(8); turns > 0; --turns) {
    const Result<uint32_t> left = advance_least(*session_, 1 + choices_.below(4));
    require(left.ok(), "what was begun can go on");
    if (*left == 0) return keep(session_->output());
    require(session_->output().rows == 0, "no rows while ops are left");
  }
  if (choices_.one_in(2)) {
    require(session_->advance(UINT64_MAX).ok(), "what was begun can end");
    keep(session_->output());
    return;
  }
  session_->cancel();
  expect_held(before);
}

void SessionDriver::call_function() {
  const uint32_t function = choices_.below(model_.functions());
  const FunctionInfo info = model_.function(function);
  const uint32_t sequences = 1 + choices_.below(options_.sequences_max);
  const bool is_run = choices_.one_in(2);
  std::vector<MadeBatch> batches(model_.inputs());
  std::vector<Input> inputs;
  bool has_gaps = false;
  for (uint32_t i = 0; i < model_.inputs(); ++i) {
    if ((info.inputs >> i & 1) == 0) continue;
    batches[i] = any_batch({model_, options_, i}, sequences, choices_);
    has_gaps = has_gaps || !batches[i].visible.empty();
    inputs.push_back(batches[i].as_input());
  }
  if (choices_.one_in(16)) std::ranges::reverse(inputs);
  const std::vector<uint32_t> before = held();
  Diagnostic why;
  if (choices_.one_in(3)) {
    const Status status = is_run ? session_->begin_run(function, inputs, &why)
                                 : session_->begin_step(function, inputs, &why);
    keep(status, why);
    if (status != Status::kOk) return expect_held(before);
    require(advance_least(*session_, 1 + choices_.below(4)).ok(), "what was begun can go on");
    if (choices_.one_in(2)) {
      const Result<uint32_t> left = session_->advance(UINT64_MAX);
      require(left.ok(), "what was begun can end");
      keep(session_->output(function));
      return;
    }
    session_->cancel();
    return;
  }
  const Result<uint32_t> rows = session_->rows_out(function, inputs, is_run);
  const Result<Output> output =
      is_run ? session_->run(function, inputs, &why) : session_->step(function, inputs, &why);
  keep(output.status(), why);
  require(rows.status() == output.status(), "a call that is asked about ends as is said");
  if (!output.ok()) return expect_held(before);
  require(*rows == output->rows, "a call gives as many rows as are said");
  require(output->rows == 0 || output->features == info.output_features,
          "rows are as wide as the function says");
  keep(*output);
  if (has_gaps) return;  // they count as well
  std::vector<uint32_t> expected = is_run ? none_held() : before;
  for (uint32_t i = 0; i < model_.inputs(); ++i) {
    for (uint32_t k = 0; (info.inputs >> i & 1) != 0 && k < batches[i].sequences; ++k) {
      expected[i * options_.sequences_max + k] += batches[i].length(k);
    }
  }
  expect_held(expected);
}

void SessionDriver::run_functions(std::vector<float>& all) {
  for (uint32_t function = 0; function < model_.functions(); ++function) {
    std::vector<MadeBatch> batches(model_.inputs());
    std::vector<Input> inputs;
    for (uint32_t i = 0; i < model_.inputs(); ++i) {
      if ((model_.function(function).inputs >> i & 1) == 0) continue;
      batches[i] = sound_batch({model_, options_, i}, 1, 0, choices_);
      inputs.push_back(batches[i].as_input());
    }
    const Result<Output> output =
        function == 0 ? session_->run(function, inputs) : session_->step(function, inputs);
    if (output.ok()) append(*output, all);
  }
}

void SessionDriver::rewind() {
  const uint32_t input = choices_.below(model_.inputs() + 1);
  const uint32_t sequence = choices_.below(options_.sequences_max + 1);
  std::vector<uint32_t> expected = held();
  const bool is_there = input < model_.inputs() && sequence < options_.sequences_max;
  const auto place = [&](uint32_t of) { return of * options_.sequences_max + sequence; };
  const uint32_t most = is_there ? expected[place(input)] : 0;
  const uint32_t positions = choices_.below(most + 2);
  Diagnostic why;
  const Status status = input == 0 ? session_->rewind(sequence, positions, &why)
                                   : session_->rewind_input(input, sequence, positions, &why);
  keep(status, why);
  require(status != Status::kOk || (is_there && positions <= most),
          "no rewind to what was never there");
  if (status == Status::kOk) expected[place(input)] = positions;
  // Inputs that attend to forgotten keys and values start anew.
  for (uint32_t i = 0; i < model_.inputs() && status == Status::kOk; ++i) {
    if (i != input && session_->positions(sequence, i) == 0) expected[place(i)] = 0;
  }
  expect_held(expected);
}

void SessionDriver::copy() {
  const uint32_t from = choices_.below(options_.sequences_max + 1);
  const uint32_t to = choices_.below(options_.sequences_max + 1);
  std::vector<uint32_t> expected = held();
  Diagnostic why;
  const Status status = session_->copy_sequence(from, to, &why);
  keep(status, why);
  const bool is_there = std::max(from, to) < options_.sequences_max;
  require((status == Status::kOk) == is_there, "sequences that are there can be copied");
  for (uint32_t i = 0; i < model_.inputs() && is_there; ++i) {
    expected[i * options_.sequences_max + to] = expected[i * options_.sequences_max + from];
  }
  expect_held(expected);
}

void SessionDriver::self_test() {
  const std::vector<uint32_t> before = held();
  Diagnostic why;
  const Result<SelfTest> test = session_->self_test(&why);
  keep(test.status(), why);
  if (!test.ok()) return expect_held(before);
  require(test->op_index <= model_.ops(), "a self-test names an op of the model");
  keep({&test->difference, 1});
  expect_held(none_held());
}

// Moves the session to another address and overwrites its old memory.
void SessionDriver::move() {
  const std::vector<uint32_t> before = held();
  check_memory();
  is_moved_ = !is_moved_;
  const std::span<std::byte> place = arena_region(is_moved_).lend(arena_.size(), kArenaAlignment);
  std::memcpy(place.data(), arena_.data(), arena_.size());
  std::memset(arena_.data(), 0xFF, arena_.size());
  arena_ = place;
  session_ = reinterpret_cast<Session*>(arena_.data());
  expect_held(before);
}

void SessionDriver::call() {
  const uint32_t kind = choices_.below(8);
  if (has_functions() && kind < 6) return call_function();
  switch (kind) {
    case 0:
      return run_or_step(true);
    case 1:
    case 2:
    case 3:
      return run_or_step(false);
    case 4:
    case 5:
      return slices();
    case 6:
      return rewind();
    default:
      break;
  }
  if (choices_.one_in(2)) return copy();
  if (choices_.one_in(2)) return self_test();
  if (choices_.one_in(2)) return move();
  session_->reset();
  expect_held(none_held());
}

bool SessionDriver::in_slices(const MadeBatch& batch, std::vector<float>& all) {
  if (batch.begin(*session_, true, nullptr) != Status::kOk) return false;
  const uint32_t slices = 1 + choices_.below(4);
  while (*advance_least(*session_, slices) != 0) {
  }
  append(session_->output(), all);
  return true;
}

bool SessionDriver::alone(const MadeBatch& batch, std::vector<float>& all) {
  uint32_t begin = 0;
  for (uint32_t i = 0; i < batch.sequences; ++i) {
    const uint32_t end = begin + batch.length(i);
    const Result<Output> output = batch.part(begin, end).run(*session_, nullptr);
    if (!output.ok()) return false;
    append(*output, all);
    begin = end;
  }
  return true;
}

bool SessionDriver::in_pieces(const MadeBatch& batch, std::vector<float>& all) {
  session_->reset();
  const uint32_t tokens = batch.length(0);
  for (uint32_t begin = 0; begin < tokens;) {
    const uint32_t end = begin + 1 + choices_.below(tokens - begin);
    const Result<Output> output = batch.part(begin, end).step(*session_, nullptr);
    if (!output.ok()) return false;
    append(*output, all);
    begin = end;
  }
  return true;
}

void SessionDriver::compare_ways() {
  session_->reset();
  const MadeBatch batch =
      sound_batch({model_, options_}, 1 + choices_.below(options_.sequences_max), 8, choices_);
  const Result<Output> output = batch.run(*session_, nullptr);
  if (!output.ok()) return;
  std::vector<float> pass;
  append(*output, pass);
  std::vector<float> sliced;
  require(in_slices(batch, sliced) && same_bits(pass, sliced), "the same bits in slices");
  std::vector<float> single;
  if (alone(batch, single)) require(same_bits(pass, single), "the same bits for a text alone");
  if (!model_.causal() || batch.sequences > 1) return;
  std::vector<float> pieces;
  if (!in_pieces(batch, pieces)) return;
  // A call may return the last token alone; then each piece does.
  require(pieces.size() >= pass.size(), "as many results step by step");
  pieces.erase(pieces.begin(), pieces.end() - static_cast<ptrdiff_t>(pass.size()));
  require(same_bits(pass, pieces), "the same bits step by step");
}

std::vector<float> SessionDriver::run_ordinary() {
  std::vector<float> all;
  if (has_functions()) {
    run_functions(all);
    return all;
  }
  const uint32_t sequences = 1 + choices_.below(options_.sequences_max);
  const MadeBatch batch = sound_batch({model_, options_}, sequences, 0, choices_);
  const Result<Output> output = batch.run(*session_, nullptr);
  if (output.ok()) append(*output, all);
  return all;
}

void SessionDriver::check_memory() const { arena_region(is_moved_).check(); }

}  // namespace arenite::test
