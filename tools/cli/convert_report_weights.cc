// SPDX-License-Identifier: Apache-2.0
// What a conversion prints of weights and kernels: the facts that its report shows, as lines.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <string_view>
#include <utility>

#include "cli/convert_report.h"
#include "cli/text_table.h"
#include "convert/files/error.h"

namespace arenite::tool {
namespace {

constexpr size_t kListWidth = 80;
constexpr size_t kNameMax = 40;  // of tensors

void print_tensors(const std::vector<QuantizedTensor>& tensors) {
  if (tensors.empty()) return;
  TextTable table({"matrix", "type", ">bytes", ">signal to noise", "by"});
  for (const QuantizedTensor& tensor : tensors) {
    table.add_row({convert::printable(tensor.name, kNameMax), tensor.type, grouped(tensor.bytes),
                   std::isfinite(tensor.signal_to_noise_db)
                       ? fmt::format("{:.1f} dB", tensor.signal_to_noise_db)
                       : "as it was",
                   tensor.method});
  }
  fmt::print("matrices   in few bits\n{}", table.text());
}

void print_layers(const std::vector<HiddenStateError>& states) {
  if (states.empty()) return;
  std::vector<std::string> cosines;
  for (const HiddenStateError& state : states) {
    cosines.push_back(fmt::format("{} {:.5f}", state.name, state.mean_cosine));
  }
  fmt::print("layers     mean cosine of their hidden states in few bits and in float32\n");
  print_list("", cosines);
}

// "f32 4x16, q8 4x8c8": a tensor has the kernel of its type.
std::string kernels_of(const ReportFacts& facts, uint32_t target) {
  std::vector<std::string> tiles;
  for (const KernelUse& use : facts.kernels) {
    if (use.target != facts.model.targets[target].target || use.layout == format::Layout::kRows)
      continue;
    const Packing packing = facts.model.targets[target].packed.packing(use.type);
    tiles.push_back(fmt::format("{} {}", name(use.type), tile_name(packing)));
  }
  return fmt::format("{}: {}", kernel_set_name(facts.model.targets[target].target),
                     fmt::join(tiles, ", "));
}

}  // namespace

void print_list(const char* title, const std::vector<std::string>& parts) {
  std::string line;
  std::string_view start = title;
  for (const std::string& part : parts) {
    if (!line.empty() && line.size() + part.size() > kListWidth) {
      fmt::print("{:<10} {},\n", std::exchange(start, ""), line);
      line.clear();
    }
    line += (line.empty() ? "" : ", ") + part;
  }
  if (!line.empty()) fmt::print("{:<10} {}\n", start, line);
}

void print_few_bits(const ConversionFacts& facts) {
  print_tensors(facts.tensors);
  print_layers(facts.hidden_states);
  for (const ConversionNote& note : facts.notes) {
    if (note.kind == "chosen") continue;  // these have lines of their own
    fmt::print("note       {}{}{}\n", note.subject, note.subject.empty() ? "" : " ", note.text);
    if (note.tensors.size() > 1) print_list("", note.tensors);
  }
}

void print_kernels(const ReportFacts& facts) {
  const char* title = "serves";
  for (const TargetFacts& target : facts.model.targets) {
    fmt::print("{:<10} {}: {}\n", std::exchange(title, ""), name(target.target),
               cpus_of(target.target));
  }
  std::vector<std::string> titles = {"target", "kernels, and their tiles by type of weights"};
  if (!facts.decode.empty()) titles.insert(titles.end(), {">first token", ">last token"});
  TextTable table(titles);
  for (uint32_t i = 0; i < facts.model.targets.size(); ++i) {
    std::vector<std::string> row = {name(facts.model.targets[i].target), kernels_of(facts, i)};
    for (size_t token = 0; token < titles.size() - 2; ++token) {
      const double bytes = token == 0 ? facts.decode[i].value.first : facts.decode[i].value.last;
      row.push_back(grouped(static_cast<uint64_t>(bytes)));
    }
    table.add_row(row);
  }
  fmt::print("kernels    {}\n{}",
             facts.decode.empty()
                 ? "that multiply the weights"
                 : "and the bytes of weights and cache that decoding a token reads",
             table.text());
}

}  // namespace arenite::tool
