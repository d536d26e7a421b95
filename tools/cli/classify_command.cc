// SPDX-License-Identifier: Apache-2.0
// arenite classify: texts, or windows of sensor frames, to classes.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "arenite/tokenizer.h"
#include "cli/arguments.h"
#include "cli/commands.h"
#include "cli/texts.h"
#include "cli/thread_pool.h"
#include "convert/files/error.h"
#include "convert/files/npy.h"
#include "convert/files/output_files.h"

namespace arenite::tool {
namespace {

struct Arguments {
  std::filesystem::path model;
  TextOptions texts;
  std::filesystem::path input;
  uint32_t top = 1;
  std::string kernels;
  uint32_t threads = 1;
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

// One line for each of the `top` likeliest classes; what was classified stands on the first.
void print_classes(const Model& model, std::span<const float> logits, uint32_t top,
                   const std::string& what) {
  const std::vector<double> shares = softmax(logits);
  std::vector<size_t> order(shares.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, [&](size_t a, size_t b) { return shares[a] > shares[b]; });
  for (size_t i = 0; i < std::min<size_t>(top, order.size()); ++i) {
    fmt::print("{:<{}} {:6.2f} %{}{}\n", class_name(model, order[i]), longest_name(model),
               100.0 * shares[order[i]], i == 0 ? "  " : "", i == 0 ? what : "");
  }
}

void classify_texts(const Arguments& arguments, const ModelFile& file) {
  if (!arguments.input.empty()) {
    throw convert::InputError("{}: the model reads text: expected --text or --file, not --input",
                              convert::quote(file.name()));
  }
  const Model& model = file.model();
  const TextBatch batch = encode_texts(file, arguments.texts);
  const Tokenizer tokenizer = *Tokenizer::of(model);
  run_texts(file, batch, arguments.threads,
            [&](size_t first, std::span<const uint32_t> lengths, const Output& output) {
              uint32_t row = 0;
              for (size_t i = 0; i < lengths.size(); ++i) {
                const std::string& text = batch.texts[first + i];
                if (model.pooled()) {
                  print_classes(model, output.row(row++), arguments.top, text);
                  continue;
                }
                fmt::print("{}\n", text);
                for (const TokenId id : batch.ids[first + i]) {
                  print_classes(model, output.row(row++), arguments.top,
                                std::string(tokenizer.token_bytes(id)));
                }
              }
            });
}

void check_windows(const convert::NpyArray& input, const Model& model) {
  const std::vector<uint64_t>& shape = input.shape();
  const bool sound = (shape.size() == 2 || shape.size() == 3) && input.elements() != 0 &&
                     shape.back() == model.input_features();
  if (!sound) {
    throw convert::InputError(
        "{}: shape is [{}]: expected [tokens, {}] or [windows, tokens, {}], the features that the "
        "model reads",
        convert::quote(input.name()), fmt::join(shape, ", "), model.input_features(),
        model.input_features());
  }
}

void classify_windows(const Arguments& arguments, const ModelFile& file) {
  if (arguments.input.empty()) {
    throw convert::InputError("{}: the model reads features, not text: expected --input FILE.npy",
                              convert::quote(file.name()));
  }
  const Model& model = file.model();
  const convert::NpyArray input = convert::NpyArray::read(arguments.input);
  check_windows(input, model);
  const std::vector<float> features = input.to_f32();
  const size_t window = size_t{input.shape()[input.shape().size() - 2]} * model.input_features();
  ThreadPool pool(arguments.threads);
  SessionOptions options;
  options.positions_max = static_cast<uint32_t>(window / model.input_features());
  options.parallel = pool.parallel_for();
  ModelSession session(file, options);
  for (size_t i = 0; i * window < features.size(); ++i) {
    Diagnostic why;
    const Result<Output> output = session.session().run(
        Batch{std::span(features).subspan(i * window, window), 1, options.positions_max}, &why);
    if (!output.ok()) throw_status(arguments.input.string(), output.status(), why);
    require_finite(arguments.input.string(), *output);
    for (uint32_t row = 0; row < output->rows; ++row) {
      print_classes(model, output->row(row), arguments.top,
                    model.pooled() ? fmt::format("window {}", i)
                                   : fmt::format("window {}, token {}", i, row));
    }
  }
}

void run_classify(const Arguments& arguments) {
  const convert::OutputGuard guard({});
  const ModelFile file(arguments.model, arguments.kernels);
  if (file.model().causal()) {
    throw convert::InputError(
        "{}: the model goes on with texts, it does not classify them: arenite generate runs it",
        convert::quote(file.name()));
  }
  (file.model().vocab_size() != 0 ? classify_texts : classify_windows)(arguments, file);
}

}  // namespace

void add_classify(CLI::App& app) {
  const auto [command, arguments] = add_command(
      app, run_classify, "classify", "Tell the classes of texts or sensor windows",
      "\nPrints the likeliest class of each text or window and its share after a softmax; for a\n"
      "model that labels tokens, those of each token.\n"
      "\nExamples:\n"
      "  arenite classify sentiment.arn --text 'a gorgeous, witty film' --top 2\n"
      "  arenite classify vibration.arn --input windows.npy\n");
  command.add_option("model", arguments.model, "A model file of a classifier")->required();
  add_text_options(command, arguments.texts);
  command.add_option("--input", arguments.input,
                     "Of a model of features: [tokens, features] or [windows, tokens, features], "
                     ".npy");
  add_number(command, "--top", arguments.top, "Classes to print of each text")
      ->capture_default_str();
  add_machine_options(command, arguments.kernels, arguments.threads);
}

}  // namespace arenite::tool
