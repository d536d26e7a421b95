// SPDX-License-Identifier: Apache-2.0
// Several texts are written side by side, since a step for all of them takes little longer than for
// one. Where one ends, the next one begins in its place.
#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "arenite/image.h"
#include "arenite/sampler.h"
#include "arenite/tokenizer.h"
#include "convert/calibrate/calibration_set.h"
#include "convert/check/call_rows.h"
#include "convert/check/check_session.h"
#include "convert/check/converted_session.h"
#include "convert/files/error.h"
#include "convert/files/progress.h"

namespace arenite::convert {
namespace {

constexpr uint32_t kSideBySide = 16;
constexpr uint32_t kTextTokensMax = 256;
constexpr uint64_t kTokens = 10240;
constexpr uint64_t kStepsMax = 2 * kTokens;  // where texts end as soon as they begin
constexpr uint32_t kStarts = 64;  // tokens that texts begin with, of a model that knows none
constexpr uint32_t kHeldOutTextEvery = 5;
constexpr uint32_t kMadeUpSequences = 8;
constexpr uint32_t kMadeUpTokens = 64;

// What texts begin with, one after the other. A token that begins texts and ends them, too, may be
// there only because configs ask for one, or may stand between texts, as GPT-2's: then every second
// text begins with it.
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

SessionOptions several_texts(uint32_t positions) {
  SessionOptions options;
  options.positions_max = positions;
  options.sequences_max = kSideBySide;
  options.tokens_max = kSideBySide;
  return options;
}

class Writer {
 public:
  explicit Writer(const AlignedBytes& file)
      : model_(load_best(file)),
        limit_(model_.positions_max() == 0 ? kTextTokensMax
                                           : std::min(kTextTokensMax, model_.positions_max())),
        starts_(starts_of(model_)),
        candidates_(model_.output_features()),
        session_(model_, several_texts(limit_)) {
    if (const Result<Tokenizer> tokenizer = Tokenizer::of(model_); tokenizer.ok()) {
      tokenizer_ = *tokenizer;
      has_tokenizer_ = true;
    }
  }

  std::vector<CalibrationSequence> write() {
    texts_.resize(kSideBySide);
    samplers_.resize(kSideBySide);
    for (uint32_t i = 0; i < kSideBySide; ++i) begin_text(i);
    uint64_t tokens = 0;
    for (uint64_t steps = 0; tokens < kTokens && steps < kStepsMax; ++steps) {
      report_progress("writing a text to round the weights for",
                      static_cast<double>(tokens) / static_cast<double>(kTokens));
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

  // The token that ends a text is its last one.
  bool ended(const std::vector<TokenId>& ids) const {
    return ids.size() == limit_ ||
           (ids.size() > 1 && has_tokenizer_ && tokenizer_.is_end(ids.back()));
  }

  void finish(uint32_t index) {
    CalibrationSequence& text = texts_[index];
    text.tokens = static_cast<uint32_t>(text.ids.size());
    if (text.tokens > 1) done_.push_back(std::move(text));
    text = {};
  }

  void step() {
    std::vector<TokenId> last;
    for (const CalibrationSequence& text : texts_) last.push_back(text.ids.back());
    Diagnostic why;
    const Result<Output> output = session_->step(TokenBatch{last, kSideBySide, 1}, &why);
    if (!output.ok()) throw std::logic_error("a step of several texts fails");
    CallRows logits(*output, model_, kSideBySide);
    for (uint32_t i = 0; i < kSideBySide; ++i) {
      const Result<TokenId> id = samplers_[i].sample(logits[i], {}, candidates_);
      if (!id.ok()) {
        throw InputError(
            "the model gives logits that are not finite, so it cannot write text to calibrate "
            "with: pass --calibrate FILE");
      }
      texts_[i].ids.push_back(*id);
    }
  }

  Model model_;
  uint32_t limit_;  // tokens of a text
  std::vector<TokenId> starts_;
  std::vector<Candidate> candidates_;
  ConvertedSession session_;
  Tokenizer tokenizer_;
  bool has_tokenizer_ = false;
  uint64_t begun_ = 0;
  std::vector<CalibrationSequence> texts_;  // that are being written
  std::vector<Sampler> samplers_;           // of each
  std::vector<CalibrationSequence> done_;
};

}  // namespace

bool can_write_text(const Model& model) {
  return model.vocab_size() != 0 && model.causal() && model.labels() == 0 &&
         model.output_features() == model.vocab_size();
}

CalibrationSet write_own_text(const AlignedBytes& file) {
  CalibrationSet set;
  uint64_t number = 0;
  for (CalibrationSequence& text : Writer(file).write()) {
    const bool held_out = ++number % kHeldOutTextEvery == 0;
    (held_out ? set.held_out : set.fitted).push_back(std::move(text));
  }
  const uint64_t held_out = CalibrationSet::tokens_of(set.held_out);
  set.source = fmt::format("text that the model wrote: {} tokens in {} sequences, {} held out",
                           CalibrationSet::tokens_of(set.fitted) + held_out, number, held_out);
  return set;
}

CalibrationSet made_up_input(const Model& model) {
  uint32_t tokens = std::max(kMadeUpTokens, model.self_test_tokens());
  if (model.positions_max() != 0) tokens = std::min(tokens, model.positions_max());
  tokens = std::max(tokens, model.tokens_min());
  CalibrationSet set;
  set.source = fmt::format("made up: {} sequences of {} tokens", kMadeUpSequences, tokens);
  const std::vector<TokenId> ids =
      model.vocab_size() == 0 ? std::vector<TokenId>()
                              : spread_tokens(kMadeUpSequences * tokens, model.vocab_size());
  const ImageShape image = image_shape(model);
  if (image.channels != 0) tokens = image.patches;
  const size_t numbers =
      image.channels != 0 ? image.pixels() : size_t{tokens} * model.input_features();
  const std::vector<float> features = features_to_check(kMadeUpSequences * numbers);
  for (size_t i = 0; i < kMadeUpSequences; ++i) {
    CalibrationSequence sequence;
    sequence.tokens = tokens;
    if (!ids.empty()) {
      const auto first = ids.begin() + static_cast<ptrdiff_t>(i * tokens);
      sequence.ids.assign(first, first + tokens);
    }
    const auto first = features.begin() + static_cast<ptrdiff_t>(i * numbers);
    sequence.features.assign(first, first + static_cast<ptrdiff_t>(numbers));
    set.held_out.push_back(std::move(sequence));
  }
  return set;
}

}  // namespace arenite::convert
