// SPDX-License-Identifier: Apache-2.0
// arenite embed-text: texts to vectors, and how alike they are.
#include <fmt/format.h>

#include <cmath>

#include "cli/arguments.h"
#include "cli/commands.h"
#include "cli/texts.h"
#include "convert/files/error.h"
#include "convert/files/npy.h"
#include "convert/files/output_files.h"

namespace arenite::tool {
namespace {

// More columns do not fit a terminal.
constexpr size_t kComparedMax = 10;
constexpr size_t kShownValues = 6;

struct Arguments {
  std::filesystem::path model;
  TextOptions texts;
  std::filesystem::path output;
  std::string kernels;
  uint32_t threads = 1;
};

// dot(a, b) / (|a| |b|)
double cosine(std::span<const float> a, std::span<const float> b) {
  double dot = 0.0, squares_a = 0.0, squares_b = 0.0;
  for (size_t i = 0; i < a.size(); ++i) {
    dot += double{a[i]} * b[i];
    squares_a += double{a[i]} * a[i];
    squares_b += double{b[i]} * b[i];
  }
  return dot / std::sqrt(squares_a * squares_b);
}

void print_similarities(const TextBatch& batch, const std::vector<float>& rows, size_t width) {
  const size_t count = batch.texts.size();
  const auto row = [&](size_t i) { return std::span(rows).subspan(i * width, width); };
  fmt::print("similarity (cosine)\n  ");
  for (size_t i = 0; i < count; ++i) fmt::print(" {:>6}", i + 1);
  fmt::print("\n");
  for (size_t i = 0; i < count; ++i) {
    fmt::print("{:>2}", i + 1);
    for (size_t j = 0; j < count; ++j) fmt::print(" {:>6.3f}", cosine(row(i), row(j)));
    fmt::print("  {}\n", shorten(batch.texts[i]));
  }
}

void print_vector(const std::vector<float>& row) {
  fmt::print("{} numbers:", row.size());
  for (size_t i = 0; i < row.size() && i < kShownValues; ++i) fmt::print(" {:.4f}", row[i]);
  fmt::print("{}\n", row.size() > kShownValues ? " ... (-o writes all of them)" : "");
}

void run_embed_text(const Arguments& arguments) {
  const convert::OutputGuard guard({{"--output", arguments.output}});
  const ModelFile file(arguments.model, arguments.kernels);
  if (!file.model().pooled()) {
    throw convert::InputError(
        "{}: the model gives a vector for each token, not for each text: convert it with "
        "--pooling mean, first or pooler",
        convert::quote(file.name()));
  }
  const TextBatch batch = encode_texts(file, arguments.texts);
  const size_t count = batch.texts.size();
  if (arguments.output.empty() && count > kComparedMax) {
    throw convert::InputError(
        "found {} texts: expected at most {} to compare, or -o FILE.npy to write their vectors",
        count, kComparedMax);
  }
  std::vector<float> rows;
  const ArenaPlan plan = run_texts(file, batch, arguments.threads,
                                   [&](size_t, std::span<const uint32_t>, const Output& output) {
                                     const size_t size = size_t{output.rows} * output.features;
                                     rows.insert(rows.end(), output.data, output.data + size);
                                   });
  const size_t width = file.model().output_features();
  if (!arguments.output.empty()) {
    const uint64_t shape[] = {count, width};
    convert::write_npy(arguments.output, shape, std::span<const float>(rows));
    fmt::print("{}: [{}, {}] float32, in an arena of {} bytes\n", arguments.output.string(), count,
               width, plan.total_bytes);
  } else if (count == 1) {
    print_vector(rows);
  } else {
    print_similarities(batch, rows, width);
  }
}

}  // namespace

void add_embed_text(CLI::App& app) {
  const auto [command, arguments] = add_command(
      app, run_embed_text, "embed-text", "Turn texts into vectors, and compare them",
      "\nOf one text it prints the vector's first numbers, of two to ten how alike they are; with\n"
      "-o it writes the vectors, float32 [texts, width].\n"
      "\nExamples:\n"
      "  arenite embed-text sentences.arn --text 'the pump is loud' --text 'a noisy pump'\n"
      "  arenite embed-text sentences.arn --file lines.txt -o vectors.npy --threads 2\n");
  command.add_option("model", arguments.model, "A model file of an encoder that pools")->required();
  add_text_options(command, arguments.texts);
  command.add_option("-o,--output", arguments.output, "Where to write the vectors, .npy");
  add_machine_options(command, arguments.kernels, arguments.threads);
}

}  // namespace arenite::tool
