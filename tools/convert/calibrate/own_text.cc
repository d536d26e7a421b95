// SPDX-License-Identifier: Apache-2.0
// When a text ends, the next one takes its place in the batch.
#include "convert/calibrate/own_text.h"

#include <fmt/format.h>
#include <algorithm>
#include <optional>
#include <stdexcept>
#include <utility>
#include <vector>

#include "arenite/sampler.h"
#include "arenite/tokenizer.h"
#include "convert/check/check_session.h"
#include "convert/files/error.h"
#include "convert/files/progress.h"
#include "convert/files/thread_pool.h"

namespace arenite::convert {
namespace {

constexpr uint32_t kSideBySide = 32;    // texts: a step reads all weights, whatever their number
constexpr uint32_t kHeldOut = 6;        // of these, the last ones
constexpr uint32_t kTextsOfTask = 8;    // that are sampled together
constexpr uint64_t kStepsPerToken = 2;  // at most: texts may end as soon as they begin
constexpr uint64_t kExactArenaMax = uint64_t{128} << 20;  // bytes of a session
constexpr uint32_t kStarts = 64;  // tokens that texts begin with, of a model that knows none

// Returns the first token of each generated text. A bos token that is also an end token may exist
// only because configs require one, or may separate texts, as in GPT-2. In that case only every
// second text begins with it.
std::vector<TokenId> starts_of(const Model& model) {
  const Result<Tokenizer> tokenizer = Tokenizer::of(model);
  const TokenId bos = tokenizer.ok() ? tokenizer->bos() : kNoToken;
  if (bos != kNoToken && !tokenizer->is_end(bos)) return {bos};
  std::vector<TokenId> starts = spread_tokens(kStarts, model.vocab_size());
  for (size_t i = 0; i < starts.size() && bos != kNoToken; i += 2) starts[i] = bos;
  return starts;
}

Sampler sampler_of(uint64_t seed) {
  SamplerOptions options;
  options.temperature = 1.0f;
  options.seed = seed;
  return *Sampler::create(options);
}

// Keys and values of many texts may be large; as int8 they change which tokens are drawn, but not
// how plausible these are.
SessionOptions several_texts(const Model& model, uint32_t positions) {
  SessionOptions options;
  options.positions_max = positions;
  options.sequences_max = kSideBySide;
  options.tokens_max = kSideBySide;
  options.parallel = all_cores();
  const Result<ArenaPlan> plan = plan_arena(model, options);
  if (!plan.ok() || plan->total_bytes > kExactArenaMax) options.kv_cache = KvType::kInt8;
  return options;
}

// Returns the longest text: as long as all are when the last token is written.
uint32_t text_tokens_max(const Model& model, uint64_t tokens) {
  const auto longest = static_cast<uint32_t>(tokens / kSideBySide + 1);
  return model.positions_max() == 0 ? longest : std::min(longest, model.positions_max());
}

class Writer {
 public:
  Writer(const AlignedBytes& file, uint64_t tokens)
      : model_(load_best(file)),
        tokens_(tokens),
        limit_(text_tokens_max(model_, tokens)),
        starts_(starts_of(model_)),
        session_(model_, several_texts(model_, limit_)) {
    if (const Result<Tokenizer> tokenizer = Tokenizer::of(model_); tokenizer.ok()) {
      tokenizer_ = *tokenizer;
      has_tokenizer_ = true;
    }
  }

  CalibrationSet write(const UseInputs& use) {
    const auto use_fitted = [&](uint32_t tensor, const ConstMatrix& inputs) {
      const bool is_by_text = inputs.rows == kSideBySide;
      use(tensor, {inputs.data, is_by_text ? kSideBySide - kHeldOut : inputs.rows, inputs.columns,
                   inputs.stride});
    };
    std::optional<InputWatch> watch;
    if (use) watch.emplace(SessionState::of(&*session_), use_fitted);
    texts_.resize(kSideBySide);
    samplers_.resize(kSideBySide);
    for (uint32_t i = 0; i < kSideBySide; ++i) begin_text(i);
    uint64_t tokens = 0;
    for (uint64_t steps = 0; tokens < tokens_ && steps < kStepsPerToken * tokens_; ++steps) {
      report_progress("generating calibration text",
                      static_cast<double>(tokens) / static_cast<double>(tokens_));
      step();
      tokens += kSideBySide;
      for (uint32_t i = 0; i < kSideBySide; ++i) {
        if (!ended(texts_[i].ids)) continue;
        finish(i);
        begin_text(i);
      }
    }
    for (uint32_t i = 0; i < kSideBySide; ++i) finish(i);
    return std::move(done_);
  }

 private:
  void begin_text(uint32_t index) {
    (void)session_->rewind(index, 0);
    texts_[index].ids = {starts_[static_cast<size_t>(begun_ % starts_.size())]};
    samplers_[index] = sampler_of(++begun_);
  }

  // A text ends with its end token.
  bool ended(const std::vector<TokenId>& ids) const {
    return ids.size() == limit_ ||
           (ids.size() > 1 && has_tokenizer_ && tokenizer_.is_end(ids.back()));
  }

  void finish(uint32_t index) {
    ModelInput& text = texts_[index];
    text.tokens = static_cast<uint32_t>(text.ids.size());
    const bool held_out = index >= kSideBySide - kHeldOut;
    if (text.tokens > 1) (held_out ? done_.held_out : done_.fitted).push_back(std::move(text));
    text = {};
  }

  void step() {
    std::vector<TokenId> last;
    for (const ModelInput& text : texts_) last.push_back(text.ids.back());
    Diagnostic why;
    const Result<Output> output = session_->step(TokenBatch{last, kSideBySide, 1}, &why);
    if (!output.ok()) throw std::logic_error("a step of several texts fails");
    CallRows logits(*output, model_, kSideBySide);
    on_all_cores(kSideBySide / kTextsOfTask, [&](uint32_t task) {
      std::vector<Candidate> candidates(model_.output_features());
      for (uint32_t i = task * kTextsOfTask; i < (task + 1) * kTextsOfTask; ++i) {
        const Result<TokenId> id = samplers_[i].sample(logits[i], {}, candidates);
        refuse_if(!id.ok(),
                  "the model gives logits that are not finite, so it cannot generate calibration "
                  "text: pass --calibrate FILE");
        texts_[i].ids.push_back(*id);
      }
    });
  }

  Model model_;
  uint64_t tokens_;
  uint32_t limit_;  // tokens of a text
  std::vector<TokenId> starts_;
  ConvertedSession session_;
  Tokenizer tokenizer_;
  bool has_tokenizer_ = false;
  uint64_t begun_ = 0;
  std::vector<ModelInput> texts_;  // that are being written
  std::vector<Sampler> samplers_;  // of each
  CalibrationSet done_;
};

}  // namespace

CalibrationSet write_own_text(const AlignedBytes& file, uint64_t tokens, const UseInputs& use) {
  CalibrationSet set = Writer(file, tokens).write(use);
  const uint64_t held_out = CalibrationSet::tokens_of(set.held_out);
  set.source = fmt::format("text that the model wrote: {} tokens in {} sequences, {} held out",
                           CalibrationSet::tokens_of(set.fitted) + held_out,
                           set.fitted.size() + set.held_out.size(), held_out);
  return set;
}

}  // namespace arenite::convert
