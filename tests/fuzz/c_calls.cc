// SPDX-License-Identifier: Apache-2.0
// Results are not compared here: other targets test the C++ interface below.
#include "fuzz/c_calls.h"

#include <vector>

#include "arenite/arenite.h"
#include "arenite/session.h"
#include "fuzz/guarded_region.h"
#include "fuzz/require.h"

namespace arenite::test {
namespace {

constexpr size_t kArenaBytesMax = size_t{1} << 20;
constexpr size_t kValuesMax = 1 << 16;
constexpr uint32_t kCalls = 8;

void require_reason(arenite_status status, const arenite_diagnostic& why) {
  char line[64];
  const size_t length = arenite_describe(status, &why, line, sizeof(line));
  require(length < sizeof(line) && line[length] == '\0', "a description ends");
  require(status == ARENITE_OK || why.reason != nullptr, "a refusal says why");
}

arenite_session_options any_options(const arenite_model& model, Choices& choices) {
  arenite_session_options options = ARENITE_SESSION_OPTIONS_INIT;
  const uint32_t most = arenite_model_positions_max(&model);
  options.positions_max = most == 0 || choices.one_in(2) ? 1 + choices.below(40) : 0;
  options.tokens_max = choices.below(60);
  options.sequences_max = choices.below(4);
  options.outputs = static_cast<arenite_outputs>(choices.below(2));
  options.kv_cache = static_cast<arenite_kv_type>(choices.below(4));  // 3 is none of them
  return options;
}

class CCaller {
 public:
  CCaller(const arenite_model& model, arenite_session* session, uint32_t sequences,
          Choices& choices)
      : model_(model), session_(session), sequences_(sequences), choices_(choices) {}

  void call() {
    arenite_diagnostic why;
    switch (choices_.below(6)) {
      case 0:
        return arenite_session_reset(session_);
      case 1:
        return require_reason(
            arenite_session_rewind(session_, choices_.below(4), choices_.below(40), &why), why);
      case 2: {
        arenite_self_test test;
        return require_reason(arenite_session_self_test(session_, &test, &why), why);
      }
      case 3:
        return feed_slices();
      default:
        return feed();
    }
  }

 private:
  void make_values() {
    const uint32_t tokens = choices_.below(24);
    const uint32_t width = arenite_model_input_features(&model_);
    const size_t count = size_t{tokens} * (width == 0 ? 1 : width);
    features_.assign(count < kValuesMax ? count : 0, 0.5f);
    ids_.assign(tokens, choices_.below(64));
    batch_ = ARENITE_BATCH_INIT;
    batch_.features = features_.data();
    batch_.size = features_.size();
    batch_.tokens = tokens;
    token_batch_ = ARENITE_TOKEN_BATCH_INIT;
    token_batch_.ids = ids_.data();
    token_batch_.size = ids_.size();
    token_batch_.tokens = tokens;
    if (sequences_ > 0 && choices_.one_in(4)) {
      lengths_.assign(1, choices_.below(tokens + 2));
      batch_.lengths = token_batch_.lengths = lengths_.data();
      batch_.back_to_back = token_batch_.back_to_back = choices_.one_in(2);
    }
  }

  void feed() {
    make_values();
    arenite_output output;
    arenite_diagnostic why;
    arenite_status status = ARENITE_OK;
    switch (choices_.below(6)) {
      case 0:
        status = arenite_session_run(session_, &batch_, &output, &why);
        break;
      case 1:
        status = arenite_session_run_tokens(session_, &token_batch_, &output, &why);
        break;
      case 2:
        status = arenite_session_step(session_, &batch_, &output, &why);
        break;
      case 3:
        status = arenite_session_step_tokens(session_, &token_batch_, &output, &why);
        break;
      case 4:
        status =
            arenite_session_step_features(session_, batch_.features, batch_.size, &output, &why);
        break;
      default:
        status = arenite_session_step_ids(session_, ids_.data(), ids_.size(), &output, &why);
    }
    require_reason(status, why);
    if (status == ARENITE_OK) (void)arenite_output_finite(&output);
  }

  void feed_slices() {
    make_values();
    arenite_diagnostic why;
    const arenite_status status =
        arenite_model_vocab_size(&model_) == 0
            ? arenite_session_begin_step(session_, &batch_, &why)
            : arenite_session_begin_run_tokens(session_, &token_batch_, &why);
    require_reason(status, why);
    if (status != ARENITE_OK) return;
    uint32_t left = 1;
    for (uint32_t i = 0; i < 3 && left != 0; ++i) {
      require_reason(arenite_session_advance(session_, 1u << choices_.below(20), &left, &why), why);
    }
    const arenite_output output = arenite_session_output(session_);
    require(left == 0 || output.rows == 0, "no rows while ops are left");
    if (left != 0) arenite_session_cancel(session_);
  }

  const arenite_model& model_;
  arenite_session* session_;
  uint32_t sequences_;
  Choices& choices_;
  std::vector<float> features_;
  std::vector<uint32_t> ids_;
  std::vector<uint32_t> lengths_;
  arenite_batch batch_;
  arenite_token_batch token_batch_;
};

}  // namespace

void call_c_interface(std::span<const std::byte> file, Choices& choices) {
  static GuardedRegion region(kArenaBytesMax);
  arenite_load_options load = ARENITE_LOAD_OPTIONS_INIT;
  load.force_target = choices.one_in(4);
  load.target = choices.one_in(8) ? UINT32_MAX - choices.below(9) : choices.below(kTargets + 1);
  load.checksums = choices.one_in(2) ? ARENITE_CHECKSUMS_SKIP : ARENITE_CHECKSUMS_VERIFY;
  arenite_model model = ARENITE_MODEL_INIT;
  arenite_diagnostic why;
  const arenite_status loaded = arenite_model_load(&model, file.data(), file.size(), &load, &why);
  require_reason(loaded, why);
  if (loaded != ARENITE_OK) return;
  const arenite_session_options options = any_options(model, choices);
  arenite_arena_plan plan;
  const arenite_status planned = arenite_plan_arena(&plan, &model, &options, &why);
  require_reason(planned, why);
  if (planned != ARENITE_OK || plan.total_bytes > kArenaBytesMax) return;
  const std::span<std::byte> arena = region.lend(plan.total_bytes, kArenaAlignment);
  arenite_session* session = nullptr;
  require(arenite_session_create(&session, &model, &options, arena.data(), arena.size(), &why) ==
              ARENITE_OK,
          "what is planned can be created");
  CCaller caller(model, session, options.sequences_max, choices);
  for (uint32_t i = 0; i < kCalls; ++i) caller.call();
  region.check();
}

}  // namespace arenite::test
