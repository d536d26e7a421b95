// SPDX-License-Identifier: Apache-2.0
// Each combination is recognised, made a graph and computed in double precision, as any model is.
#include "convert/answer_search.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <utility>
#include <variant>

#include "convert/check/model_input.h"
#include "convert/convert.h"
#include "convert/families/state_dicts.h"
#include "convert/files/error.h"
#include "convert/files/npy.h"
#include "convert/graph/interpreter.h"

namespace arenite::convert {
namespace {

constexpr const char* kOption = "--expect";
constexpr double kInfinity = std::numeric_limits<double>::infinity();
// A rival whose error is less than so many times that of the best, or than this, is as good.
constexpr double kClearlyWorse = 4.0;
constexpr double kNoise = 1e-6;
constexpr size_t kCombinationsMax = 1u << 16;
// Multiplications of all combinations together: some minutes; and those after which an answer that
// fits is not improved on.
constexpr double kWorkMax = 1e11;
constexpr double kImprovingWorkMax = 1e10;
constexpr size_t kTokensMax = 1u << 12;

using Answers = std::vector<const Question::Answer*>;

struct Candidate {
  Answers required;
  Answers others;  // than are assumed
  double error = kInfinity;
};

// The first sequence of the author's files.
struct FirstSequence {
  std::vector<uint32_t> tokens;
  std::vector<float> features;
  std::vector<double> expected;
  double largest = 0.0;
};

class AnswerSearch {
 public:
  AnswerSearch(const Opened& model, const AuthorFiles& files, const ModelOptions& options)
      : model_(model),
        options_(options),
        input_(NpyArray::read(files.input)),
        outputs_(NpyArray::read(files.outputs)) {}

  std::vector<std::string> run(ModelOptions& options) {
    read_questions();
    if (questions_.empty() && open_.empty()) return {};
    for (const Question& question : questions_) {
      if (!question.answers.empty()) continue;
      throw InputError("{}: {} finds out much, but not this: pass {}, {}", model_.where(), kOption,
                       question.option, question.meaning);
    }
    std::vector<Candidate> candidates = combinations();
    for (Candidate& candidate : candidates) candidate.error = error_of(candidate);
    std::ranges::stable_sort(candidates, {}, &Candidate::error);
    if (candidates[0].error > kNoise) try_others(candidates);
    const Candidate& best = candidates[0];
    if (!is_recognised_) throw InputError("{}", refusal_);
    if (best.error > kAuthorDifferenceMax) {
      if (questions_.empty()) return {};  // as the check of the whole model says
      throw InputError(
          "{}: no answer to what the state dict does not say gives {}: the best of {} tried is off "
          "by {:.2e} of the largest value, with {}. What was said may be wrong, or this is "
          "another model.\n{}",
          model_.where(), quote(outputs_.name()), tried_, best.error, describe(best),
          kExportAdvice);
    }
    refuse_rivals(candidates);
    std::vector<std::string> found;
    for (const Answers* answers : {&best.required, &best.others}) {
      for (const Question::Answer* answer : *answers) {
        answer->choose(options);
        found.push_back(answer->option);
      }
    }
    return found;
  }

 private:
  // What has to be answered, and what is assumed.
  void read_questions() {
    try {
      open_ = recognise(model_, options_).account().open;
    } catch (const MissingAnswers& missing) {
      questions_ = missing.questions();
    }
  }

  std::vector<Candidate> combinations() const {
    std::vector<Candidate> all = {{}};
    for (const Question& question : questions_) {
      std::vector<Candidate> longer;
      for (const Candidate& candidate : all) {
        for (const Question::Answer& answer : question.answers) {
          longer.push_back(candidate);
          longer.back().required.push_back(&answer);
        }
      }
      all = std::move(longer);
      if (all.size() > kCombinationsMax) refuse_many();
    }
    return all;
  }

  [[noreturn]] void refuse_many() const {
    std::vector<std::string> asked;
    for (const Question& question : questions_) asked.push_back(question.option);
    throw InputError(
        "{}: {}: there are too many combinations of answers to try for a model of this size: pass "
        "some of {}, or fewer tokens",
        model_.where(), kOption, fmt::join(asked, "; "));
  }

  ModelOptions options_of(const Candidate& candidate) const {
    ModelOptions options = options_;
    for (const Question::Answer* answer : candidate.required) answer->choose(options);
    for (const Question::Answer* answer : candidate.others) answer->choose(options);
    return options;
  }

  // Share of the largest output by which the candidate is off; infinite where it makes no model.
  double error_of(const Candidate& candidate) {
    ++tried_;
    std::optional<Recognised> read;
    try {
      read = recognise(model_, options_of(candidate));
    } catch (const InputError& error) {
      if (refusal_.empty()) refusal_ = error.what();
      return kInfinity;  // such as heads that do not divide the width
    }
    is_recognised_ = true;
    const std::vector<Question>& open = read->account().open;
    if (!tries_others_ && open.size() > open_.size()) open_ = open;
    const Graph graph = std::visit([](const auto& spec) { return build_graph(spec); }, read->spec);
    if (!sequence_) sequence_ = read_sequence(graph);
    count_work(graph);
    const Evaluation found = evaluate(
        graph, {.tokens = sequence_->tokens, .types = {}, .features = sequence_->features});
    const std::vector<double>& expected = sequence_->expected;
    if (found.values.size() < expected.size() || sequence_->largest == 0.0) return kInfinity;
    const auto rows = std::span(found.values).last(expected.size());
    double difference = 0.0;
    for (size_t i = 0; i < rows.size(); ++i) {
      const double off = std::fabs(rows[i] - expected[i]);
      if (!(off <= difference)) difference = off;
    }
    return std::isfinite(difference) ? difference / sequence_->largest : kInfinity;
  }

  FirstSequence read_sequence(const Graph& graph) const {
    const bool has_tokens = graph.vocab_size != 0;
    const std::vector<uint64_t>& shape = input_.shape();
    const size_t rank = has_tokens ? 1 : 2;
    const uint64_t sequences = shape.size() == rank + 1 ? shape[0] : 1;
    if ((shape.size() != rank && shape.size() != rank + 1) || input_.elements() == 0 ||
        is_float(input_) == has_tokens ||
        input_.elements() / sequences > kTokensMax * graph.width(0)) {
      refuse_shape(input_, kOption,
                   has_tokens ? "[tokens] or [batch, tokens] of token ids"
                              : "[tokens, width] or [batch, tokens, width] of features");
    }
    if (!is_float(outputs_) || outputs_.elements() % sequences != 0) {
      refuse_shape(outputs_, kOption, "the outputs, float32 or float64, of each sequence");
    }
    FirstSequence first;
    const auto size = static_cast<size_t>(input_.elements() / sequences);
    if (has_tokens) {
      const std::vector<int64_t> ids = input_.to_i64();
      for (const int64_t id : std::span(ids).first(size)) {
        if (id < 0 || id >= graph.vocab_size) {
          throw InputError("{}: {} has the id {}: expected ids from 0 to {}, the vocabulary's",
                           kOption, quote(input_.name()), id, graph.vocab_size - 1);
        }
        first.tokens.push_back(static_cast<uint32_t>(id));
      }
    } else {
      first.features = finite_values(input_, kOption);
      first.features.resize(size);
    }
    const std::vector<float> values = finite_values(outputs_, kOption);
    const auto count = static_cast<size_t>(outputs_.elements() / sequences);
    for (const float value : std::span(values).first(count)) {
      first.expected.push_back(value);
      first.largest = std::max(first.largest, std::fabs(static_cast<double>(value)));
    }
    return first;
  }

  void count_work(const Graph& graph) {
    double weights = 0.0;
    for (const ValueId value : graph.order()) {
      if (const auto* linear = graph.as<LinearNode>(value)) {
        for (const LinearPart& part : linear->parts) {
          weights += static_cast<double>(part.linear.weight.rows) * part.linear.weight.columns;
        }
      }
    }
    const size_t tokens = sequence_->tokens.empty() ? sequence_->features.size() / graph.width(0)
                                                    : sequence_->tokens.size();
    work_ += weights * static_cast<double>(tokens + 1);
    if (work_ > kWorkMax && !has_fit_) refuse_many();
  }

  // Adds candidates that answer one or two of the assumed questions otherwise, of the best where
  // some fit, and of all where none does.
  void try_others(std::vector<Candidate>& candidates) {
    tries_others_ = true;
    std::vector<Candidate> starts = candidates;
    has_fit_ = starts[0].error <= kAuthorDifferenceMax;
    if (has_fit_) {
      std::erase_if(starts, [](const Candidate& one) { return one.error > kAuthorDifferenceMax; });
    }
    for (const Candidate& start : starts) {
      if (start.error == kInfinity) continue;
      for (size_t i = 0; i < open_.size(); ++i) {
        for (const Question::Answer& first : open_[i].answers) {
          try_answers(start, {&first}, candidates);
          for (size_t j = i + 1; j < open_.size(); ++j) {
            for (const Question::Answer& second : open_[j].answers) {
              try_answers(start, {&first, &second}, candidates);
            }
          }
        }
      }
    }
    std::ranges::stable_sort(candidates, {}, &Candidate::error);
  }

  void try_answers(const Candidate& start, Answers others, std::vector<Candidate>& candidates) {
    if (has_fit_ && work_ > kImprovingWorkMax) return;
    Candidate candidate = {start.required, std::move(others)};
    candidate.error = error_of(candidate);
    // Only what may fit is kept: there may be many.
    if (candidate.error < candidates.front().error * kClearlyWorse + kNoise ||
        candidate.error <= kAuthorDifferenceMax) {
      candidates.push_back(std::move(candidate));
    }
  }

  static std::string describe(const Candidate& candidate) {
    std::vector<std::string> texts;
    for (const Question::Answer* answer : candidate.required) texts.push_back(answer->option);
    for (const Question::Answer* answer : candidate.others) texts.push_back(answer->option);
    return texts.empty() ? "what is assumed" : fmt::format("{}", fmt::join(texts, " "));
  }

  // Those that differ in what has to be answered; assumptions that make no difference stay.
  void refuse_rivals(const std::vector<Candidate>& candidates) const {
    const Candidate& best = candidates[0];
    const double limit = kClearlyWorse * std::max(best.error, kNoise);
    for (const Candidate& rival : candidates) {
      if (rival.error > limit) break;
      if (rival.required == best.required) continue;
      throw InputError(
          "{}: {} does not tell {} (off by {:.2e} of the largest value) from {} ({:.2e}): pass one "
          "of them, or a longer input",
          model_.where(), quote(outputs_.name()), describe(best), best.error, describe(rival),
          rival.error);
    }
  }

  const Opened& model_;
  const ModelOptions options_;
  const NpyArray input_, outputs_;
  std::vector<Question> questions_;  // that have to be answered
  std::vector<Question> open_;       // whose answers are assumed
  std::optional<FirstSequence> sequence_;
  bool is_recognised_ = false;  // any of them
  bool tries_others_ = false;
  bool has_fit_ = false;  // so that what is left may stay untried
  std::string refusal_;   // of the first that is not
  size_t tried_ = 0;
  double work_ = 0.0;
};

}  // namespace

std::vector<std::string> answer_by_comparison(const Opened& model, const AuthorFiles& files,
                                              ModelOptions& options) {
  return AnswerSearch(model, files, options).run(options);
}

}  // namespace arenite::convert
