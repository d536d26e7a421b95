// SPDX-License-Identifier: Apache-2.0
// Where the bytes of a file are: tables whose rows have bars, by part of the file, type of weights,
// layer, and role in a layer.
#include <fmt/format.h>

#include <algorithm>

#include "cli/html.h"
#include "cli/report_plots.h"
#include "cli/report_sections.h"
#include "cli/text_table.h"

namespace arenite::tool {
namespace {

constexpr size_t kGroupsListed = 64;

std::string row_bar(const std::string& name, const std::vector<Segment>& segments, double whole) {
  double sum = 0.0;
  for (const Segment& segment : segments) sum += segment.amount;
  return bar({name, percent(sum, whole)}, segments, whole, "class=\"row-bar\"");
}

std::vector<Segment> segments_of(const TensorGroup& group) {
  std::vector<Segment> segments;
  for (uint32_t type = 0; type < kTensorTypes; ++type) {
    segments.push_back({type_color(static_cast<TensorType>(type)),
                        static_cast<double>(group.bytes_by_type[type])});
  }
  return segments;
}

uint64_t bytes_of(const std::vector<TensorGroup>& groups) {
  uint64_t bytes = 0;
  for (const TensorGroup& group : groups) bytes += group.bytes();
  return bytes;
}

std::string file_table(const ReportFacts& facts) {
  HtmlTable table("Parts of the file", {"part", ">bytes", ">share", "of the file"});
  const auto whole = static_cast<double>(facts.model.footer.file_bytes);
  for (const FilePart& part : facts.file_parts) {
    const auto bytes = static_cast<double>(part.bytes);
    table.add_row({part.name, grouped(part.bytes), percent(bytes, whole),
                   row_bar(part.name, {{"c1", bytes}}, whole)});
  }
  return table.html();
}

// Bars of groups are drawn against the largest, so that small ones can still be compared.
std::string group_table(const std::string& caption, const std::string& title,
                        const std::vector<TensorGroup>& groups) {
  if (groups.empty()) return "";
  HtmlTable table(caption, {title, ">tensors", ">numbers", ">bytes", ">share", "by type"});
  const auto whole = static_cast<double>(bytes_of(groups));
  uint64_t largest = 0;
  for (const TensorGroup& group : groups) largest = std::max(largest, group.bytes());
  const size_t listed = std::min(groups.size(), kGroupsListed);
  for (const TensorGroup& group : std::span(groups).first(listed)) {
    const std::string name = escaped_name(group.name);
    table.add_row({name, grouped(group.tensors), grouped(group.numbers), grouped(group.bytes()),
                   percent(static_cast<double>(group.bytes()), whole),
                   row_bar(name, segments_of(group), static_cast<double>(largest))});
  }
  if (listed < groups.size()) {
    uint64_t rest = 0;
    for (const TensorGroup& group : std::span(groups).subspan(listed)) rest += group.bytes();
    table.add_note(
        fmt::format("and {} more, {} bytes", grouped(groups.size() - listed), grouped(rest)));
  }
  return table.html();
}

std::string type_table(const ReportFacts& facts) {
  if (facts.types.empty()) return "";
  HtmlTable table("By type of weights",
                  {"type", ">tensors", ">numbers", ">bytes", ">bits a number", ">share", ""});
  const auto whole = static_cast<double>(bytes_of(facts.types));
  for (const TensorGroup& group : facts.types) {
    const auto bytes = static_cast<double>(group.bytes());
    const double bits = group.numbers == 0 ? 0.0 : 8.0 * bytes / static_cast<double>(group.numbers);
    const auto type = static_cast<TensorType>(
        std::ranges::find_if(group.bytes_by_type, [](uint64_t n) { return n != 0; }) -
        group.bytes_by_type.begin());
    table.add_row({swatch(type_color(type)) + " " + group.name, grouped(group.tensors),
                   grouped(group.numbers), grouped(group.bytes()), fmt::format("{:.2f}", bits),
                   percent(bytes, whole), row_bar(group.name, segments_of(group), whole)});
  }
  return table.html();
}

std::string decode_table(const ReportFacts& facts) {
  if (facts.decode.empty()) return "";
  const uint32_t positions = facts.model.sizes.positions;
  HtmlTable table("Bytes of weights and cache that one token reads at least",
                  {"target", ">first token",
                   fmt::format(">after {}", counted(positions - 1, "token")), ">of it cache"});
  for (size_t i = 0; i < facts.decode.size(); ++i) {
    const DecodeBytes& decode = facts.decode[i];
    table.add_row({name(facts.model.targets[i].target),
                   grouped(static_cast<uint64_t>(decode.first)),
                   grouped(static_cast<uint64_t>(decode.last)),
                   percent(decode.last - decode.first, decode.last)});
  }
  return table.html();
}

}  // namespace

std::string type_color(TensorType type) {
  constexpr const char* kColors[] = {"c1", "c3", "c5", "c2", "c7"};
  static_assert(std::size(kColors) == kTensorTypes);
  return kColors[static_cast<size_t>(type)];
}

std::string bytes_section(const ReportFacts& facts) {
  const std::string shown = name(facts.model.shown_target().target);
  const std::string what = element(
      "p", fmt::format("Bytes of tensors are as they are packed for {}, padding included.", shown));
  const bool has_layers =
      !std::ranges::equal(facts.layers, facts.parts, {}, &TensorGroup::name, &TensorGroup::name);
  return section("bytes", "Where the bytes are",
                 file_table(facts) + what + type_table(facts) +
                     group_table(has_layers ? "By layer" : "By op", "name", facts.layers) +
                     (has_layers ? group_table("By part of a layer", "part", facts.parts) : "") +
                     decode_table(facts));
}

}  // namespace arenite::tool
