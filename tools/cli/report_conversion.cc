// SPDX-License-Identifier: Apache-2.0
// What a conversion found, as sections of a page: limits first, then outputs, layers, tensors and
// notes. A conversion that measured nothing of a kind shows nothing of it.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "cli/html.h"
#include "cli/report_plots.h"
#include "cli/report_sections.h"
#include "cli/text_table.h"

namespace arenite::tool {
namespace {

constexpr size_t kRowsListed = 200;
constexpr size_t kOffendersListed = 8;

// The row of what a table has no room for.
void note_rest(HtmlTable& table, size_t rows) {
  if (rows > kRowsListed) table.add_note(fmt::format("and {} more", grouped(rows - kRowsListed)));
}

// Of a quantity that is counted, all digits.
std::string quantity(double value, const std::string& unit) {
  const bool is_whole = std::isfinite(value) && value >= 0.0 && value < 1e15 &&
                        value == std::floor(value) && unit == "bytes";
  const std::string text = is_whole ? grouped(static_cast<uint64_t>(value)) : number(value);
  return unit.empty() ? text : text + " " + escaped(unit, 16);
}

std::string names(const std::vector<std::string>& all) {
  std::string text;
  for (size_t i = 0; i < std::min(all.size(), kOffendersListed); ++i) {
    text += (i == 0 ? "" : ", ") + escaped_name(all[i]);
  }
  if (all.size() > kOffendersListed) {
    text += fmt::format(" and {} more", grouped(all.size() - kOffendersListed));
  }
  return text;
}

std::string limits_section(const std::vector<LimitCheck>& limits) {
  if (limits.empty()) return "";
  HtmlTable table("Limits that were asked for",
                  {"limit", ">asked", ">found", "met?", "~what broke it, the worst first"});
  for (const LimitCheck& limit : limits) {
    table.add_row({escaped_name(limit.option), quantity(limit.asked, limit.unit),
                   quantity(limit.found, limit.unit),
                   limit.is_met ? element("span", "met", "class=\"met\"")
                                : element("span", "broken", "class=\"broken\""),
                   names(limit.offenders)});
  }
  return section("limits", "Limits", table.html());
}

// For an order in which what is not a number comes first: it is the worst.
double ordered(double value) {
  return std::isnan(value) ? -std::numeric_limits<double>::infinity() : value;
}

std::string increase(double from, double to) {
  return fmt::format("{:+.2f} %", 100.0 * (to / from - 1.0));
}

std::string outputs_section(const OutputComparison& outputs) {
  HtmlTable table("The float model and the quantized one",
                  {"measure", ">float", ">quantized", ">difference"});
  if (outputs.float_perplexity || outputs.quantized_perplexity) {
    const auto shown = [](const std::optional<double>& value) {
      return value ? number(*value) : std::string();
    };
    const bool has_both = outputs.float_perplexity && outputs.quantized_perplexity;
    table.add_row(
        {"perplexity", shown(outputs.float_perplexity), shown(outputs.quantized_perplexity),
         has_both ? increase(*outputs.float_perplexity, *outputs.quantized_perplexity) : ""});
  }
  if (outputs.mean_kl) {
    table.add_row({"mean KL divergence a token", "", "", number(*outputs.mean_kl) + " nats"});
  }
  if (outputs.top1_agreement) {
    table.add_row({"the same most probable token", "", "",
                   fmt::format("{:.2f} %", 100.0 * *outputs.top1_agreement)});
  }
  std::string where = counted(outputs.tokens, "token");
  if (!outputs.text.empty()) where = fmt::format("{}: {}", where, escaped(outputs.text, 200));
  return section("outputs", "Outputs",
                 element("p", "Compared on " + where + ".") + (table.empty() ? "" : table.html()));
}

std::string layer_table(const std::vector<HiddenStateError>& states) {
  HtmlTable table("Cosine of hidden states to the float model's",
                  {"hidden state", ">mean cosine", ">least cosine"});
  for (size_t i = 0; i < std::min(states.size(), kRowsListed); ++i) {
    table.add_row({escaped_name(states[i].name), fmt::format("{:.6f}", states[i].mean_cosine),
                   fmt::format("{:.6f}", states[i].least_cosine)});
  }
  note_rest(table, states.size());
  return details("The cosines as a table", table.html());
}

std::string layers_section(const std::vector<HiddenStateError>& states) {
  if (states.empty()) return "";
  Series mean{"c1", {}}, least{"c2", {}, true};
  for (const HiddenStateError& state : states) {
    mean.values.push_back(state.mean_cosine);
    least.values.push_back(state.least_cosine);
  }
  const auto worst = std::ranges::min_element(
      states, {}, [](const HiddenStateError& state) { return ordered(state.mean_cosine); });
  const std::string words = fmt::format(
      "Cosine between each hidden state of the quantized model and the float model's; 1 is the "
      "same "
      "direction. The lowest mean is {:.6f}, of {}.",
      worst->mean_cosine, escaped_name(worst->name));
  const std::string key =
      element("p",
              element("span", swatch("c1") + " mean over the tokens, solid line") + " " +
                  element("span", swatch("c2") + " least of all tokens, dashed line"),
              "class=\"key\"");
  const std::string plot = line_plot({"Error by layer", words}, {mean, least},
                                     {states.front().name, states.back().name});
  return section(
      "layers", "Error by layer",
      element("figure", element("figcaption", words) + scroll_box("Error by layer", plot)) + key +
          layer_table(states));
}

std::string quantization_section(const ConversionFacts& facts) {
  std::vector<QuantizedTensor> tensors = facts.tensors;
  if (tensors.empty()) return "";
  std::ranges::stable_sort(tensors, {}, [](const QuantizedTensor& tensor) {
    return ordered(tensor.signal_to_noise_db);
  });
  double most = 0.0;
  for (const QuantizedTensor& tensor : tensors) {
    if (std::isfinite(tensor.signal_to_noise_db)) most = std::max(most, tensor.signal_to_noise_db);
  }
  HtmlTable table("Signal-to-noise of tensors, the worst first",
                  {"tensor", "type", "method", ">float bytes", ">bytes", ">signal-to-noise", ""});
  for (size_t i = 0; i < std::min(tensors.size(), kRowsListed); ++i) {
    const QuantizedTensor& tensor = tensors[i];
    const std::string title = escaped_name(tensor.name);
    const std::string decibels = std::isfinite(tensor.signal_to_noise_db)
                                     ? fmt::format("{:.1f} dB", tensor.signal_to_noise_db)
                                     : number(tensor.signal_to_noise_db);
    const double amount = std::min(ordered(tensor.signal_to_noise_db), most);
    table.add_row({title, escaped(tensor.type, 16), escaped(tensor.method, 40),
                   grouped(tensor.float_bytes), grouped(tensor.bytes), decibels,
                   bar({title, decibels}, {{"c1", amount}}, most, "class=\"row-bar\"")});
  }
  note_rest(table, tensors.size());
  return section("quantization", "Quantization", table.html());
}

std::string notes_section(const std::vector<ConversionNote>& notes) {
  if (notes.empty()) return "";
  HtmlTable table("What went another way than asked, and its cost",
                  {"tensor", "what happened", "~why, and what it cost"});
  for (size_t i = 0; i < std::min(notes.size(), kRowsListed); ++i) {
    std::string text = escaped(notes[i].text, 400);
    if (notes[i].tensors.size() > 1) {
      text += ": " + escaped(fmt::format("{}", fmt::join(notes[i].tensors, ", ")), 1000);
    }
    table.add_row({notes[i].subject.empty() ? "the model" : escaped_name(notes[i].subject),
                   escaped(notes[i].kind, 40), text});
  }
  note_rest(table, notes.size());
  return section("notes", "Notes", table.html());
}

std::string source_section(const ConversionFacts& facts) {
  std::string rows;
  const auto add = [&](std::string_view term, const std::string& text) {
    if (text.empty()) return;
    rows += element("div", element("dt", term) + element("dd", escaped(text, 400)));
  };
  add("From", facts.source);
  add("Weights asked for", facts.weights);
  add("Calibrated with", facts.calibration);
  return rows.empty() ? "" : section("conversion", "Conversion", element("dl", rows));
}

}  // namespace

std::string conversion_sections(const ConversionFacts& facts) {
  return source_section(facts) + limits_section(facts.limits) +
         (facts.outputs ? outputs_section(*facts.outputs) : "") +
         layers_section(facts.hidden_states) + quantization_section(facts) +
         notes_section(facts.notes);
}

}  // namespace arenite::tool
