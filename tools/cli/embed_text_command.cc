// SPDX-License-Identifier: Apache-2.0
// arenite embed-text: computes vectors of texts and their similarities.

#include <charconv>
#include <cmath>

#include "cli/arguments.h"
#include "cli/kernel_check.h"
#include "cli/process.h"
#include "cli/texts.h"
#include "convert/files/npy.h"

namespace arenite::tool {
namespace {

// Most texts to compare: more columns do not fit a terminal.
constexpr size_t kComparedMax = 10;
constexpr size_t kShownValues = 6;

struct EmbedTextArguments {
  std::filesystem::path model;
  TextOptions texts;
  std::filesystem::path output;
  std::string kernels;
  uint32_t threads = 1;
  bool json = false;
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

struct EmbeddedText {
  std::string text;
  uint64_t tokens = 0;
};

struct EmbedTextFacts : TextNotes {
  std::vector<EmbeddedText> texts{};
  uint64_t width = 0;
  std::optional<std::vector<std::span<const float>>> vectors{};
  std::optional<std::vector<std::vector<double>>> similarities{};
  std::optional<std::filesystem::path> output{};
  const char* kernel_set = "";
  uint32_t threads = 1;
  uint64_t arena_bytes = 0;
};

// Returns the cosine of each text with each text.
std::vector<std::vector<double>> similarities(const std::vector<std::span<const float>>& rows) {
  std::vector<std::vector<double>> cosines;
  for (const auto& a : rows) {
    cosines.emplace_back();
    for (const auto& b : rows) cosines.back().push_back(cosine(a, b));
  }
  return cosines;
}

void print_similarities(const EmbedTextFacts& facts) {
  print_output("similarity (cosine)\n  ");
  for (size_t i = 0; i < facts.texts.size(); ++i) print_output(" {:>6}", i + 1);
  print_output("\n");
  for (size_t i = 0; i < facts.texts.size(); ++i) {
    print_output("{:>2}", i + 1);
    for (const double cosine : (*facts.similarities)[i]) print_output(" {:>6.3f}", cosine);
    print_output("  {}\n", shorten(facts.texts[i].text));
  }
}

void print_vector(std::span<const float> row) {
  print_output("{} numbers:", row.size());
  for (size_t i = 0; i < row.size() && i < kShownValues; ++i) print_output(" {:.4f}", row[i]);
  print_output("{}\n", row.size() > kShownValues ? " ... (-o writes all of them)" : "");
}

// Returns each element in the fewest digits that give it back.
Json short_numbers(std::span<const float> row) {
  Json list = Json::array();
  for (const float element : row) {
    const std::string text = fmt::format("{}", element);
    double& number = list.emplace_back(0.0).get_ref<double&>();
    std::from_chars(text.data(), text.data() + text.size(), number);
  }
  return list;
}

// Answers each line by {"id", "vector"}.
void embed_lines(const EmbedTextArguments& arguments, const ModelFile& file, TextRunner& runner) {
  require_right_kernels(file, KvType::kOfModel, arguments.threads);
  answer_json_lines(file, arguments.texts, runner,
                    [](Json& answer, std::span<const TokenId>, const TextRows& rows) {
                      answer["vector"] = short_numbers(rows[0]);
                    });
}

void run_embed_text(const EmbedTextArguments& arguments) {
  const convert::OutputGuard guard({{"--output", arguments.output}});
  const ModelFile file(arguments.model, arguments.kernels);
  require_one_input(file, "embed-text");
  const Model& model = file.model();
  if (model.vocab_size() == 0) {
    throw convert::InputError("{}: the model reads features, not text: see 'arenite run'",
                              convert::quote(file.name()));
  }
  TextRunner runner(file, arguments.threads);
  if (!runner.gives_one_row()) {
    throw convert::InputError(
        "{}: the model gives a vector for each token, not for each text: convert an encoder with "
        "--pooling mean, first or pooler, or export a program that pools",
        convert::quote(file.name()));
  }
  if (arguments.texts.json_lines) return embed_lines(arguments, file, runner);
  const TextBatch batch = encode_texts(file, arguments.texts);
  if (!arguments.json) print_notes(batch);
  const size_t count = batch.texts.size();
  if (arguments.output.empty() && !arguments.json && count > kComparedMax) {
    throw convert::InputError(
        "found {} texts; at most {} can be compared: -o FILE.npy writes their vectors", count,
        kComparedMax);
  }
  require_right_kernels(file, KvType::kOfModel, arguments.threads);
  std::vector<float> numbers;
  const ArenaPlan plan = runner.run(batch, [&](size_t, const TextRows& of_text) {
    numbers.insert(numbers.end(), of_text[0].begin(), of_text[0].end());
  });
  const size_t width = model.output_features();
  std::vector<std::span<const float>> rows;
  EmbedTextFacts facts = {{batch.warnings, batch.skipped}};
  for (size_t i = 0; i < count; ++i) {
    facts.texts.push_back({batch.texts[i], batch.ids[i].size()});
    rows.push_back(std::span(numbers).subspan(i * width, width));
  }
  facts.width = width;
  if (count > 1 && count <= kComparedMax) facts.similarities = similarities(rows);
  facts.kernel_set = kernel_set_name(model.target());
  facts.threads = arguments.threads;
  facts.arena_bytes = plan.total_bytes;
  if (arguments.output.empty()) {
    facts.vectors = rows;
  } else {
    const uint64_t shape[] = {count, width};
    convert::write_npy(arguments.output, shape, std::span<const float>(numbers));
    facts.output = arguments.output;
  }
  if (arguments.json) return print_json(facts);
  if (facts.output) {
    print_output("{}: [{}, {}] float32, in an arena of {} bytes\n", arguments.output.string(),
                 count, width, plan.total_bytes);
  } else if (count == 1) {
    print_vector(rows[0]);
  } else {
    print_similarities(facts);
  }
}

}  // namespace

template <>
constexpr auto kFacts<EmbeddedText> = std::tuple(Fact("text", &EmbeddedText::text),
                                                 Fact("tokens", &EmbeddedText::tokens));

template <>
constexpr auto kFacts<EmbedTextFacts> = std::tuple_cat(
    std::tuple(Fact("texts", &EmbedTextFacts::texts),
               Fact("width", "Elements of a vector", &EmbedTextFacts::width),
               Fact("vectors", "One for each text; null: in the file of --output",
                    &EmbedTextFacts::vectors),
               Fact("similarities",
                    "Cosine of each pair of texts; null for one text or more than ten",
                    &EmbedTextFacts::similarities),
               Fact("output", "The file that was written", &EmbedTextFacts::output),
               Fact("kernel_set", &EmbedTextFacts::kernel_set),
               Fact("threads", &EmbedTextFacts::threads),
               Fact("arena_bytes", &EmbedTextFacts::arena_bytes)),
    kTextNotes);

Json embed_text_facts() { return schema_of<EmbedTextFacts>(); }

void add_embed_text(CLI::App& app) {
  const auto [command, arguments] = add_command(
      app, run_embed_text, "embed-text", "Turn texts into vectors, and compare them",
      "\nOf one text it prints the vector's first numbers, of two to ten how alike they are; with "
      "-o it writes the vectors, float32 [texts, width]; a line that was skipped has no row. "
      "--json-lines answers each line of JSON by one with its \"id\" and a \"vector\", and needs "
      "no "
      "more memory for more lines.\n"
      "\nExamples:\n"
      "  arenite embed-text sentences.arn --text 'the pump is loud' \\\n"
      "    --text 'a noisy pump'\n"
      "  arenite embed-text sentences.arn --file lines.txt -o vectors.npy --threads 2\n"
      "  arenite embed-text sentences.arn --json-lines <corpus.jsonl >vectors.jsonl\n");
  add_model(command, arguments.model, "A model file of an encoder that pools");
  add_text_options(command, arguments.texts);
  add_file(command, "-o,--output", arguments.output, "Where to write the vectors, .npy")
      ->excludes("--json-lines");
  add_machine_options(command, arguments.kernels, arguments.threads);
  add_json_option(command, arguments.json)->excludes("--json-lines");
}

}  // namespace arenite::tool
