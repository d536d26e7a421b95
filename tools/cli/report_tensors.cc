// SPDX-License-Identifier: Apache-2.0
// Tensors on a page: which kernel multiplies each, what each takes, and how its weights are
// distributed.
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <numeric>

#include "cli/html.h"
#include "cli/report_plots.h"
#include "cli/report_sections.h"
#include "cli/target_columns.h"
#include "cli/text_table.h"

namespace arenite::tool {
namespace {

constexpr size_t kTensorsListed = 256;

std::string kernel_table(const ReportFacts& facts) {
  HtmlTable table("Kernels: set, family and tile (rows x columns at once)",
                  {"target", "type", "layout", "=kernel", ">tensors", ">bytes"});
  for (const KernelUse& use : facts.kernels) {
    table.add_row({name(facts.model.targets[use.target].target), name(use.type),
                   layout_name(use.layout), use.kernel, grouped(use.tensors), grouped(use.bytes)});
  }
  return table.html();
}

uint64_t most_bytes(const TensorFacts& tensor) {
  return tensor.packed_bytes.empty() ? 0 : std::ranges::max(tensor.packed_bytes);
}

// The largest, in the order of the file.
std::vector<uint32_t> listed_tensors(const ModelFacts& model) {
  std::vector<uint32_t> listed(model.tensors.size());
  std::iota(listed.begin(), listed.end(), 0u);
  if (listed.size() <= kTensorsListed) return listed;
  std::ranges::stable_sort(listed, std::greater(),
                           [&](uint32_t i) { return most_bytes(model.tensors[i]); });
  listed.resize(kTensorsListed);
  std::ranges::sort(listed);
  return listed;
}

// The first op that reads it; others are counted.
std::string readers(const ReportFacts& facts, const TensorPlace& place) {
  if (place.ops.empty()) return "";
  const std::string first = escaped(facts.model.ops[place.ops[0]].name, 32);
  return place.ops.size() == 1 ? first : fmt::format("{} and {} more", first, place.ops.size() - 1);
}

std::string tensor_table(const ReportFacts& facts) {
  const ModelFacts& model = facts.model;
  const auto shown = static_cast<size_t>(&model.shown_target() - model.targets.data());
  std::vector<std::string> titles = {"tensor", ">outputs", ">inputs", "type",
                                     "layout", "read by",  "=kernel"};
  const TargetColumns columns(model, model.tensors.size(), [&](size_t i, size_t target) {
    return model.tensors[i].packed_bytes[target];
  });
  columns.add_titles(titles);
  HtmlTable table(fmt::format("Tensors: kernels for {}, and bytes for each target",
                              name(model.shown_target().target)),
                  titles);
  const std::vector<uint32_t> listed = listed_tensors(model);
  for (const uint32_t i : listed) {
    const TensorFacts& tensor = model.tensors[i];
    std::vector<std::string> row = {escaped_name(tensor.name),
                                    grouped(tensor.shape.outputs),
                                    grouped(tensor.shape.inputs),
                                    name(tensor.shape.type),
                                    layout_name(tensor.shape.layout),
                                    readers(facts, facts.places[i]),
                                    facts.kernels[facts.places[i].kernels[shown]].kernel};
    columns.add_cells(row, [&](size_t target) { return tensor.packed_bytes[target]; });
    table.add_row(row);
  }
  std::string notes = columns.notes();
  for (size_t end; (end = notes.find('\n')) != std::string::npos;) notes.replace(end, 1, "<br>");
  if (!notes.empty()) table.add_note(notes);
  if (listed.size() < model.tensors.size()) {
    table.add_note(fmt::format("and {} smaller ones; --report with a .json file lists all",
                               grouped(model.tensors.size() - listed.size())));
  }
  return table.html();
}

std::string sampled_words(const Distribution& distribution) {
  std::string words = fmt::format("{}", counted(distribution.numbers, "number"));
  if (distribution.sampled < distribution.numbers) {
    words += fmt::format(", {} sampled", grouped(distribution.sampled));
  }
  if (distribution.not_finite != 0) {
    words += fmt::format(", {} not finite", grouped(distribution.not_finite));
  }
  return words;
}

std::string distribution_figure(const ReportFacts& facts, size_t index) {
  const Distribution& distribution = facts.distributions[index];
  const TensorFacts& tensor = facts.model.tensors[facts.distributed[index]];
  const std::string title = escaped_name(tensor.name);
  const std::string spread =
      fmt::format("&#963; {:.3g}, from {:.3g} to {:.3g}", distribution.deviation,
                  distribution.least, distribution.most);
  std::string outside;
  if (distribution.beyond != 0) {
    outside =
        fmt::format("{} beyond the picture", percent(static_cast<double>(distribution.beyond),
                                                     static_cast<double>(distribution.sampled)));
  }
  const std::string words = fmt::format("{} {}; mean {:.3g}, {}{}{}", sampled_words(distribution),
                                        name(tensor.shape.type), distribution.mean, spread,
                                        outside.empty() ? "" : "; ", outside);
  const std::string caption = element("b", title) +
                              fmt::format(" {}<br>{}", name(tensor.shape.type), spread) +
                              (outside.empty() ? "" : "<br>" + outside);
  return element("figure", histogram(distribution, {"Weights of " + title, words}) +
                               element("figcaption", caption)) +
         "\n";
}

}  // namespace

std::string tensors_section(const ReportFacts& facts) {
  if (facts.model.tensors.empty()) return "";
  return section("tensors", "Tensors and kernels", kernel_table(facts) + tensor_table(facts));
}

std::string distributions_section(const ReportFacts& facts) {
  if (facts.distributions.empty()) return "";
  const bool is_sampled = std::ranges::any_of(
      facts.distributions, [](const Distribution& one) { return one.sampled < one.numbers; });
  std::string what =
      "Weights as the kernels multiply them, biases left out. Each picture has a scale of its own.";
  if (is_sampled) {
    what += fmt::format(" Of large tensors about {} numbers are sampled, in whole rows.",
                        grouped(kSampledNumbers));
  }
  if (facts.distributions.size() < facts.distributed_of) {
    what += fmt::format(" Of {} tensors {} are shown, evenly spaced over the file.",
                        grouped(facts.distributed_of), grouped(facts.distributions.size()));
  }
  std::string figures;
  for (size_t i = 0; i < facts.distributions.size(); ++i) figures += distribution_figure(facts, i);
  return section("weights", "Distribution of the weights",
                 element("p", what) + element("div", figures, "class=\"multiples\""));
}

}  // namespace arenite::tool
