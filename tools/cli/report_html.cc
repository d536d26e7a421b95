// SPDX-License-Identifier: Apache-2.0
// The page of a report: its head, what serves which CPU, the masks, and the sections in order.
#include <fmt/format.h>

#include <filesystem>

#include "arenite/version.h"
#include "cli/html.h"
#include "cli/report.h"
#include "cli/report_plots.h"
#include "cli/report_sections.h"
#include "cli/text_table.h"

namespace arenite::tool {
namespace {

constexpr size_t kMasksDrawn = 16;
constexpr size_t kClassesListed = 12;

std::string kinds_of_weights(const ReportFacts& facts) {
  std::string kinds;
  for (const TensorGroup& group : facts.types) kinds += (kinds.empty() ? "" : ", ") + group.name;
  return kinds;
}

std::string class_names(const std::vector<std::string>& labels) {
  std::string text;
  for (size_t i = 0; i < std::min(labels.size(), kClassesListed); ++i) {
    text += (i == 0 ? "" : ", ") + escaped(labels[i], 40);
  }
  if (labels.size() > kClassesListed) {
    text += fmt::format(" and {} more", grouped(labels.size() - kClassesListed));
  }
  return text;
}

std::string context(const format::ModelReader& reader) {
  return fmt::format(
      "{}, {}",
      reader.positions_max() == 0 ? "any length" : counted(reader.positions_max(), "position"),
      calls_text(reader));
}

// A list of terms; those without a value are left out.
class Terms {
 public:
  void add(std::string_view term, std::string_view html) {
    if (html.empty()) return;
    content_ += element("div", element("dt", term) + element("dd", html)) + "\n";
  }
  std::string html() const { return element("dl", "\n" + content_); }

 private:
  std::string content_;
};

std::string terms(const ReportFacts& facts) {
  const ModelFacts& model = facts.model;
  const format::ModelReader& reader = model.reader;
  Terms list;
  list.add("Architecture", escaped_name(reader.architecture()));
  list.add("Parameters", grouped(facts.parameters));
  list.add("Weights", kinds_of_weights(facts));
  list.add("File", fmt::format("{} bytes, format {}", grouped(model.footer.file_bytes),
                               model.footer.format_version));
  list.add("Input", reader.vocab_size() == 0 ? fmt::format("[tokens, {}]", model.input_features)
                                             : fmt::format("tokens of a vocabulary of {}",
                                                           grouped(reader.vocab_size())));
  if (!model.tokenizer_kind.empty()) {
    list.add("Tokenizer",
             fmt::format("{}, {}", model.tokenizer_kind, counted(model.tokenizer_tokens, "token")));
  }
  list.add("Output", fmt::format("[{}, {}]", model.output_rows(), model.output_features()));
  list.add("Classes", class_names(model.labels));
  list.add("Context", context(reader));
  list.add("Program", fmt::format("{}, {}", counted(model.ops.size(), "op"),
                                  counted(model.tensors.size(), "tensor")));
  list.add("Written by", escaped_name(reader.producer()));
  return list.html();
}

std::string head(const ReportFacts& facts) {
  const ModelFacts& model = facts.model;
  const std::string name = escaped_name(model.reader.name());
  const std::string file = escaped(std::filesystem::path(model.path).filename().string(), 80);
  const std::string summary =
      fmt::format("{}, {} with {} arena", file, short_bytes(model.footer.file_bytes),
                  short_bytes(model.shown_target().arena.plan.total_bytes));
  return element("header", element("p", "Model report", "class=\"kicker\"") +
                               element("h1", name.empty() ? file : name) +
                               element("p", summary, "class=\"summary\"") + terms(facts)) +
         "\n";
}

std::string targets_section(const ReportFacts& facts) {
  HtmlTable table("Targets that the file is packed for",
                  {"target", "~CPUs", "kernels", ">bytes", "on the CPU that wrote this"});
  for (const TargetFacts& target : facts.model.targets) {
    table.add_row({name(target.target), cpus_of(target.target), kernel_set_name(target.target),
                   grouped(target.packed.segment.bytes()),
                   target.chosen      ? "runs"
                   : target.runs_here ? "could run"
                                      : "cannot run"});
  }
  return section("targets", "CPUs", table.html());
}

std::string mask_figure(const ReportFacts& facts, size_t index) {
  const MaskFacts& mask = facts.model.masks[index];
  const MaskPicture& picture = facts.masks[index];
  const double pairs = static_cast<double>(picture.positions) * picture.positions;
  const std::string seen = fmt::format("{} of {} x {} pairs visible",
                                       percent(static_cast<double>(picture.visible), pairs),
                                       grouped(picture.positions), grouped(picture.positions));
  const std::string caption =
      element("b", fmt::format("mask {}: {}", index, escaped_name(mask.description))) +
      fmt::format("<br>{}<br>{} bytes, dense {}; {}", seen, grouped(mask.bytes),
                  grouped(mask.dense_bytes), counted(picture.ops, "op"));
  return element("figure", mask_drawing(picture, {fmt::format("Mask {}", index),
                                                  mask.description + "; " + seen}) +
                               element("figcaption", caption)) +
         "\n";
}

}  // namespace

std::string masks_section(const ReportFacts& facts) {
  if (facts.masks.empty()) return "";
  std::string figures;
  const size_t drawn = std::min(facts.masks.size(), kMasksDrawn);
  for (size_t i = 0; i < drawn; ++i) figures += mask_figure(facts, i);
  std::string content =
      element("p",
              "Queries from top to bottom, keys from left to right: filled cells are visible, "
              "paler ones in part.") +
      element("div", figures, "class=\"multiples\"");
  if (drawn < facts.masks.size()) {
    content += element("p", fmt::format("and {} more", grouped(facts.masks.size() - drawn)));
  }
  return section("masks", "Masks", content);
}

std::string report_as_html(const ReportFacts& facts) {
  const std::string sections =
      head(facts) + (facts.conversion ? conversion_sections(*facts.conversion) : "") +
      targets_section(facts) + arena_section(facts) + masks_section(facts) + bytes_section(facts) +
      tensors_section(facts) + distributions_section(facts);
  const std::string title = escaped_name(facts.model.reader.name());
  return "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
         "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
         "<meta name=\"color-scheme\" content=\"light dark\">\n" +
         element("title", title + " - model report") + "\n" +
         element("style", std::string("\n") + kReportStyle) + "\n</head>\n<body>\n" +
         element("main", "\n" + sections) + "\n" +
         element("footer", element("p", fmt::format("Written by arenite {}.", version()))) +
         "\n</body>\n</html>\n";
}

}  // namespace arenite::tool
