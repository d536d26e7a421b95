// SPDX-License-Identifier: Apache-2.0
// arenite classify: assigns classes to texts or to windows of sensor frames.

#include <cmath>
#include <numeric>

#include "arenite/tokenizer.h"
#include "cli/arguments.h"
#include "cli/kernel_check.h"
#include "cli/process.h"
#include "cli/sound_file.h"
#include "cli/texts.h"
#include "convert/check/model_input.h"
#include "convert/files/npy.h"
#include "convert/files/thread_pool.h"
#include "session/session_state.h"

namespace arenite::tool {
namespace {

struct ClassifyArguments {
  std::filesystem::path model;
  TextOptions texts;
  std::filesystem::path input;
  uint32_t top = 1;
  std::string kernels;
  uint32_t threads = 1;
  bool json = false;
};

std::string class_name(const Model& model, size_t index) {
  return model.labels() != 0 ? model.label(static_cast<uint32_t>(index)) : std::to_string(index);
}

size_t longest_name(const Model& model) {
  size_t longest = 1;
  for (uint32_t i = 0; i < model.labels(); ++i) {
    longest = std::max(longest, class_name(model, i).size());
  }
  return longest;
}

std::vector<double> softmax(std::span<const float> logits) {
  const double max = *std::ranges::max_element(logits);
  std::vector<double> shares;
  double sum = 0.0;
  for (const float logit : logits) sum += shares.emplace_back(std::exp(logit - max));
  for (double& share : shares) share /= sum;
  return shares;
}

struct ClassFacts {
  std::string label;
  uint64_t index = 0;
  Fraction share;  // softmax
};

}  // namespace

template <>
constexpr auto kFacts<ClassFacts> = std::tuple(Fact("label", &ClassFacts::label),
                                               Fact("index", &ClassFacts::index),
                                               Fact("share", "After a softmax, 0 to 1",
                                                    &ClassFacts::share));

namespace {

// The item that was classified: a text or a window or, for a model that labels tokens, a token: its
// text, or its index in the window.
struct ResultFacts {
  std::optional<std::string> text{};
  std::optional<size_t> window{};
  std::optional<std::variant<uint32_t, std::string>> token{};
  std::vector<ClassFacts> classes{};

  std::string name() const {
    if (text) return token ? std::get<std::string>(*token) : *text;
    return token ? fmt::format("window {}, token {}", *window, std::get<uint32_t>(*token))
                 : fmt::format("window {}", *window);
  }
};

struct ClassifyFacts : TextNotes {
  std::vector<ResultFacts> results{};
  const char* kernel_set = "";
  uint32_t threads = 1;
};

// Prints the likeliest classes as they arrive, or keeps them for JSON.
class Classes {
 public:
  Classes(const ClassifyArguments& arguments, const Model& model)
      : arguments_(arguments), model_(model) {}

  // Prints or keeps the warnings and the skipped lines.
  void add_notes(const TextBatch& batch) {
    if (!arguments_.json) return print_notes(batch);
    facts_.warnings.insert(facts_.warnings.end(), batch.warnings.begin(), batch.warnings.end());
    facts_.skipped.insert(facts_.skipped.end(), batch.skipped.begin(), batch.skipped.end());
  }

  // Returns the likeliest classes, as many as were asked for.
  std::vector<ClassFacts> likeliest(std::span<const float> logits) const {
    const std::vector<double> shares = softmax(logits);
    std::vector<size_t> order(shares.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::ranges::stable_sort(order, [&](size_t a, size_t b) { return shares[a] > shares[b]; });
    order.resize(std::min<size_t>(arguments_.top, order.size()));
    std::vector<ClassFacts> classes;
    for (const size_t index : order) {
      classes.push_back({class_name(model_, index), index, {shares[index]}});
    }
    return classes;
  }

  void add(std::span<const float> logits, ResultFacts result) {
    result.classes = likeliest(logits);
    if (!arguments_.json) return print(result);
    facts_.results.push_back(std::move(result));
  }

  void finish() {
    if (!arguments_.json) return;
    facts_.kernel_set = kernel_set_name(model_.target());
    facts_.threads = arguments_.threads;
    print_json(facts_);
  }

 private:
  // Prints a line per class, with the classified item on the first.
  void print(const ResultFacts& result) const {
    std::string what = "  " + result.name();
    for (const ClassFacts& one : result.classes) {
      print_output("{:<{}} {:6.2f} %{}\n", one.label, longest_name(model_), 100.0 * one.share.value,
                   std::exchange(what, ""));
    }
  }

  const ClassifyArguments& arguments_;
  const Model& model_;
  ClassifyFacts facts_;  // for JSON only
};

void classify_batch(const ClassifyArguments& arguments, const Result<Tokenizer>& tokenizer,
                    const TextBatch& batch, TextRunner& runner, Classes& classes) {
  runner.run(batch, [&](size_t index, const TextRows& rows) {
    ResultFacts subject = {.text = batch.texts[index]};
    if (runner.gives_one_row()) return classes.add(rows[0], subject);
    if (!arguments.json) print_output("{}\n", *subject.text);
    for (size_t token = 0; token < rows.size(); ++token) {
      subject.token = std::string(tokenizer->token_bytes(batch.ids[index][token]));
      classes.add(rows[token], subject);
    }
  });
}

// Answers each line by {"id", "classes"}, or {"id", "tokens": [{"token", "classes"}]}.
void classify_lines(const ClassifyArguments& arguments, const ModelFile& file,
                    const Result<Tokenizer>& tokenizer, TextRunner& runner,
                    const Classes& classes) {
  answer_json_lines(file, arguments.texts, runner,
                    [&](Json& answer, std::span<const TokenId> ids, const TextRows& rows) {
                      if (runner.gives_one_row()) {
                        answer["classes"] = json_of(classes.likeliest(rows[0]));
                        return;
                      }
                      Json& tokens = answer["tokens"] = Json::array();
                      for (size_t i = 0; i < rows.size(); ++i) {
                        tokens.push_back({{"token", tokenizer->token_bytes(ids[i])},
                                          {"classes", json_of(classes.likeliest(rows[i]))}});
                      }
                    });
}

void classify_texts(const ClassifyArguments& arguments, const ModelFile& file, Classes& classes) {
  if (!arguments.input.empty()) {
    throw convert::InputError("{}: the model reads text: expected --text or --file, not --input",
                              convert::quote(file.name()));
  }
  TextRunner runner(file, arguments.threads);
  const Result<Tokenizer> tokenizer = Tokenizer::of(file.model());
  if (arguments.texts.json_lines) {
    return classify_lines(arguments, file, tokenizer, runner, classes);
  }
  read_texts(file, arguments.texts, [&](const TextBatch& batch) {
    classes.add_notes(batch);
    if (!batch.texts.empty()) {
      classify_batch(arguments, tokenizer, batch, runner, classes);
    }
    flush_output();  // a reader may wait for it
  });
}

void classify_windows(const ClassifyArguments& arguments, const ModelFile& file, Classes& classes) {
  if (arguments.input.empty()) {
    throw convert::InputError("{}: the model reads features, not text: expected --input FILE.npy",
                              convert::quote(file.name()));
  }
  const Model& model = file.model();
  const convert::NpyArray array = read_features(arguments.input, model, 0);
  convert::require_context(array, convert::token_axes(array, model, "--input"), model, "--input");
  const convert::ModelInput input = convert::read_model_input(array, model, "--input");
  const size_t window = input.features.size() / input.sequences;
  convert::ThreadPool pool(arguments.threads);
  SessionOptions options;
  options.positions_max = input.tokens;
  options.outputs = convert::authors_outputs(model.file());
  options.parallel = pool.parallel_for();
  ModelSession session(file, options);
  const bool is_whole = convert::has_row_of_sequence(model.file(), options.outputs);
  const uint32_t rows = convert::rows_given(model, Outputs::kAll, input.tokens, true);
  const uint32_t first = is_whole || rows < input.tokens ? 0 : rows - input.tokens;
  for (uint32_t i = 0; i < input.sequences; ++i) {
    Diagnostic why;
    const Result<Output> output = session.session().run(
        Batch{std::span(input.features).subspan(i * window, window), 1, input.tokens}, &why);
    if (!output.ok()) throw_status(arguments.input.string(), output.status(), why);
    require_finite(arguments.input.string(), *output);
    convert::CallRows rows(*output, model,
                           convert::rows_given(model, options.outputs, input.tokens, true));
    for (uint32_t row = first; row < rows.size(); ++row) {
      ResultFacts subject = {.window = i};
      if (!is_whole) subject.token = row - first;
      classes.add(rows[row], subject);
    }
  }
}

void run_classify(const ClassifyArguments& arguments) {
  const convert::OutputGuard guard({});
  const ModelFile file(arguments.model, arguments.kernels);
  require_one_input(file, "classify");
  const Model& model = file.model();
  if (model.causal() && model.labels() == 0 && model.output_features() == model.vocab_size()) {
    throw convert::InputError(
        "{}: the model goes on with texts, it does not classify them: arenite generate runs it",
        convert::quote(file.name()));
  }
  require_right_kernels(file, KvType::kOfModel, arguments.threads);
  Classes classes(arguments, model);
  (model.vocab_size() != 0 ? classify_texts : classify_windows)(arguments, file, classes);
  classes.finish();
}

}  // namespace

template <>
constexpr auto kFacts<ResultFacts> = std::tuple(
    Fact("text", "null for a window", &ResultFacts::text),
    Fact("window", "Index of the window; null for a text", &ResultFacts::window),
    Fact("token", "If the model labels tokens: the token's text, or its index in the window",
         &ResultFacts::token),
    Fact("classes", &ResultFacts::classes));

template <>
constexpr auto kFacts<ClassifyFacts> =
    std::tuple_cat(std::tuple(Fact("results", &ClassifyFacts::results)), kTextNotes,
                   std::tuple(Fact("kernel_set", &ClassifyFacts::kernel_set),
                              Fact("threads", &ClassifyFacts::threads)));

Json classify_facts() { return schema_of<ClassifyFacts>(); }

void add_classify(CLI::App& app) {
  const auto [command, arguments] = add_command(
      app, run_classify, "classify", "Classify texts or sensor windows",
      "\nPrints the likeliest class of each text or window and its share after a softmax; for a "
      "model that labels tokens, those of each token. Lines of --file - are answered as they "
      "come, and lines of JSON (--json-lines) by lines with the same \"id\" and \"classes\" or "
      "\"tokens\". Without --json-lines it exits with 0 only if a line was not skipped.\n"
      "\nExamples:\n"
      "  arenite classify sentiment.arn --text 'a gorgeous, witty film' --top 2\n"
      "  arenite classify vibration.arn --input windows.npy\n");
  add_model(command, arguments.model, "A model file of a classifier");
  add_text_options(command, arguments.texts);
  add_file(
      command, "--input", arguments.input,
      "Features, if the model reads them: [tokens, features] or [windows, tokens, features], .npy");
  add_number(command, "--top", arguments.top, "Classes to print per text")->capture_default_str();
  add_machine_options(command, arguments.kernels, arguments.threads);
  add_json_option(command, arguments.json)->excludes("--json-lines");
}

}  // namespace arenite::tool
