// SPDX-License-Identifier: Apache-2.0
// Chooses sources by the models' needs, follows their includes through the embedded files, and
// rewrites the includes to relative paths.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <list>
#include <map>
#include <optional>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "arenite/version.h"
#include "cli/bundle.h"
#include "cli/bundle_sources.h"
#include "cli/embed.h"
#include "cli/inspect_facts.h"
#include "core/needs.h"
#include "core/targets.h"
#include "format/model_needs.h"
#include "kernels/kernel_set.h"

namespace arenite::tool {
namespace {

// Generated files and the paths by which sources include them.
constexpr std::string_view kNeedsHeader = "arenite_needs.h";
constexpr std::string_view kKernelsHeader = "xnnpack/kernels.h";
constexpr std::string_view kSettingsHeader = "settings.h";
constexpr std::string_view kKernelSettingsHeader = "kernel_settings.h";

// XNNPACK's headers that declare kernels. kKernelsHeader replaces them.
constexpr std::string_view kDeclarations[] = {
    "xnnpack/gemm.h",   "xnnpack/igemm.h",     "xnnpack/raddstoreexpminusmax.h",
    "xnnpack/reduce.h", "xnnpack/transpose.h", "xnnpack/vbinary.h",
    "xnnpack/vcvt.h",   "xnnpack/vunary.h"};
// XNNPACK's public header. Kernels use nothing of it, but the parameters of other kernels do.
constexpr std::string_view kInterface = "xnnpack.h";
constexpr std::string_view kInterfaceText =
    "// Stands in for XNNPACK's own header, of which microparams.h takes these for kernels that "
    "are\n"
    "// not here; made by arenite bundle.\n"
    "#pragma once\n\n"
    "struct xnn_binary_params {\n  double unused;\n};\n"
    "union xnn_unary_params {\n  float unused;\n};\n";

bool is_kernel(std::string_view path) { return path.starts_with("src/"); }
bool is_source(std::string_view path) { return path.ends_with(".cc") || path.ends_with(".c"); }

// Files that a bundle has only if its models have one of these needs.
struct SourceRow {
  std::string_view path;
  NeedSet needs;
};
constexpr SourceRow kSourceRows[] = {
    {"kernels/cortex_m_dsp_attention.cc", set_of(Need::kInt8Cache)},
    {"kernels/cortex_m_mve_attention.cc", set_of(Need::kInt8Cache)},
    {"kernels/integer_attention.cc", set_of(Need::kInt8Cache)},
    {"ops/activation.cc", kActivationNeeds},
    {"ops/convolution.cc", set_of(Need::kConvolution, Need::kDepthwise, Need::kMaxPool)},
    {"ops/embedding.cc", set_of(Need::kEmbedding)},
    {"ops/experts.cc", set_of(Need::kTopK, Need::kExperts)},
    {"ops/norm.cc", kNormNeeds},
    {"arenite/arenite_sound.h", set_of(Need::kSound)},
    {"arenite/sound.h", set_of(Need::kSound)},
    {"c/c_sound.cc", set_of(Need::kSound)},
    {"format/verify_sound.cc", set_of(Need::kSound)},
    {"session/sound_stream.cc", set_of(Need::kSound)},
    {"sound/frames.cc", set_of(Need::kSound)},
    {"sound/integer_frames.cc", set_of(Need::kSound)},
    {"ops/select.cc",
     set_of(Need::kSelectAsAsked, Need::kSelectFirst, Need::kSelectMean, Need::kSelectMax,
            Need::kSelectMeanSqrtLength, Need::kSelectWeightedMean, Need::kSelectLast,
            Need::kSelectSum, Need::kSelectTurns, Need::kSelectTransposed)},
};

// Text input and output. Token models come with all of it: a program may use the sampler even if
// the file has no tokenizer.
bool is_for_text(std::string_view path) {
  return path.starts_with("text/") || path == "c/c_text.cc" || path == "arenite/arenite_text.h" ||
         path == "arenite/sampler.h" || path == "arenite/tokenizer.h";
}

// Returns whether `set` has the kernels of a file; the name says of which kind they are. Int8
// products need XNNPACK unless all `targets` are Cortex-M ones, which have kernels of their own.
bool has_kernel(const KernelSet& set, uint32_t targets, std::string_view path) {
  const bool multiplies = (targets & ~(bit(Target::kCortexMDsp) | bit(Target::kCortexMMve))) != 0;
  const struct {
    std::string_view file;
    bool wanted;
  } rows[] = {
      {"/f32-qc8w-gemm-", set.w8 != nullptr},
      {"/qd8-f32-qc8w-gemm-", set.q8 != nullptr && multiplies},
      {"/qd8-f32-qb4w-gemm-", set.q4 != nullptr && multiplies},
      {"/f32-igemm-", set.indirect != nullptr},
      {"/f32-qs8-vcvt-", (set.q8 != nullptr || set.q4 != nullptr) && multiplies},
      {"/f32-rminmax-", set.row_extremes != nullptr},
      {"/f32-raddstoreexpminusmax-", set.exp_sum != nullptr},
      {"/f32-rsum-", set.sum != nullptr},
      {"/f32-vmul-", set.multiply != nullptr},
      {"/x32-transposec-", set.transpose != nullptr},
      {"/f32-vcmul-", set.rotate != nullptr},
      {"/f32-vgelu-", set.gelu != nullptr},
      {"/f32-vsigmoid-", set.sigmoid != nullptr},
      {"/f32-vtanh-", set.tanh != nullptr},
  };
  for (const auto& row : rows) {
    if (path.find(row.file) != path.npos) return row.wanted;
  }
  return true;
}

// Returns the bit set of targets that the models are packed for.
uint32_t target_bits_of(std::span<const BundledModel> models) {
  uint32_t targets = 0;
  for (const BundledModel& model : models) targets |= model.file.reader().file_targets();
  return targets;
}

// Returns the macro of the only architecture that a source is for; empty: all.
std::string_view architecture_of(std::string_view path, std::string_view isa) {
  if (path == "kernels/x86_64_sets.cc") return "__x86_64__";
  if (path == "kernels/arm_sets.cc" || isa.starts_with("neon")) return "__aarch64__";
  return isa.empty() || isa == "scalar" ? "" : "__x86_64__";
}

// Returns whether a kernel set of these targets uses microkernels of an instruction set.
bool takes_isa(uint32_t targets, std::string_view isa) {
  for (uint32_t i = 0; i < kTargets; ++i) {
    if ((targets >> i & 1u) == 0) continue;
    const std::string_view name = packed_for(static_cast<Target>(i));
    const auto set = std::ranges::find(bundled_sets(), name, &BundledSet::name);
    if (set->isas.find(fmt::format(" {} ", isa)) != set->isas.npos) return true;
  }
  return false;
}

// Returns the bit set of the targets that a file is for; 0: all.
uint32_t for_targets(std::string_view path) {
  if (path == "kernels/x86_64_sets.cc") return kX86Targets;
  if (path == "kernels/arm_sets.cc") return kArm64Targets;
  if (path == "kernels/scalar_set.cc" || path.starts_with("kernels/soft_")) return kPlainTargets;
  if (path.starts_with("kernels/cortex_m_dsp")) return bit(Target::kCortexMDsp);
  if (path.starts_with("kernels/cortex_m_mve")) return bit(Target::kCortexMMve);
  if (path.starts_with("ops/integer_") || path.starts_with("sound/integer_")) {
    return bit(Target::kPortable);
  }
  const bool is_for_both = path == "kernels/cortex_m_rows.cc";
  return is_for_both ? bit(Target::kCortexMDsp) | bit(Target::kCortexMMve) : 0;
}

// Returns the files to start from; their includes lead to all others.
std::vector<std::string_view> chosen_files(std::span<const BundledModel> models) {
  const NeedSet needs = needs_of(models);
  const uint32_t targets = target_bits_of(models);
  const KernelSet kernels = linked_kernels(*kernel_set(Target::kPortable), needs);
  const bool has_text = std::ranges::any_of(
      models, [](const BundledModel& model) { return model.file.reader().vocab_size() != 0; });
  std::vector<std::string_view> chosen;
  for (const EmbeddedSource& source : embedded_sources()) {
    const std::string_view path = source.path;
    if (!is_source(path) && !path.starts_with("arenite/")) continue;
    if (path.starts_with("bundle/") || (!has_text && is_for_text(path))) continue;
    if (is_kernel(path) &&
        (!takes_isa(targets, source.isa) || !has_kernel(kernels, targets, path))) {
      continue;
    }
    if (for_targets(path) != 0 && (targets & for_targets(path)) == 0) continue;
    const auto row = std::ranges::find(kSourceRows, path, &SourceRow::path);
    if (row != std::end(kSourceRows) && !needs.has_any(row->needs)) continue;
    chosen.push_back(path);
  }
  return chosen;
}

// Returns a file's path in the bundle.
std::string place_of(std::string_view path) {
  std::string place(path);
  if (path.starts_with("arenite/")) return place;
  if (!is_source(path)) return "arenite/internal/" + place;
  if (is_kernel(path)) place = "xnnpack/" + place.substr(place.rfind('/') + 1);
  if (!is_kernel(path)) place = "arenite/" + place;
  std::ranges::replace(place, '/', '_');
  std::ranges::replace(place, '-', '_');
  return place;
}

// Returns the name in an #include line, without quotes or brackets; empty for other lines.
std::string_view included_name(std::string_view line) {
  const auto skip = [&line](std::string_view word) {
    line.remove_prefix(std::min(line.find_first_not_of(" \t"), line.size()));
    if (!line.starts_with(word)) return false;
    line.remove_prefix(word.size());
    return true;
  };
  if (!skip("#") || !skip("include")) return {};
  const bool is_quoted = skip("\"");
  if (!is_quoted && !skip("<")) return {};
  return line.substr(0, line.find(is_quoted ? '"' : '>'));
}

// Returns the declarations of a kernel file's functions, in C that is valid C++.
std::string declarations_of(std::string_view text) {
  std::string declarations;
  for (size_t at = text.find("\nvoid xnn_"); at != text.npos; at = text.find("\nvoid xnn_", at)) {
    size_t end = text.find('(', at);
    for (int depth = 1; depth != 0 && end != text.npos;) {
      end = text.find_first_of("()", end + 1);
      if (end != text.npos) depth += text[end] == '(' ? 1 : -1;
    }
    declarations += std::string(text.substr(at, end - at)) + ");\n";
    at = end;
  }
  constexpr std::string_view kRestrict = "restrict ";
  for (size_t at = declarations.find(kRestrict); at != declarations.npos;
       at = declarations.find(kRestrict, at + kRestrict.size() + 4)) {
    declarations.replace(at, kRestrict.size(), "XNN_RESTRICT ");
  }
  return declarations;
}

std::string kernels_header(uint32_t targets) {
  std::string text =
      "// The microkernels that sources of Arenite name, linked or not; made by arenite bundle.\n"
      "#pragma once\n\n"
      "#include \"xnnpack/common.h\"\n#include \"xnnpack/microparams.h\"\n\n"
      "#ifdef __cplusplus\nextern \"C\" {\n#endif\n";
  for (const EmbeddedSource& source : embedded_sources()) {
    if (is_kernel(source.path) && takes_isa(targets, source.isa)) {
      text += declarations_of(source.text());
    }
  }
  return text + "\n#ifdef __cplusplus\n}\n#endif\n";
}

std::string needs_header(const NeedSet& needs) {
  std::string names;
  for (uint32_t i = 0; i < kNeeds; ++i) {
    if (needs.has_any(static_cast<Need>(i)))
      names += fmt::format("    \"{}\",\n", need_name(static_cast<Need>(i)));
  }
  return fmt::format(
      "// What the models of this bundle need; made by arenite bundle.\n"
      "#pragma once\n\n"
      "namespace arenite {{\n\n"
      "inline constexpr bool kEverythingLinked = false;\n"
      "inline constexpr const char* kLinkedNeeds[] = {{\n{}}};\n\n"
      "}}  // namespace arenite\n",
      names);
}

// Converts flags for GCC's pragma: "-ffp-contract=off -fwrapv" becomes "fp-contract=off", "wrapv".
std::string pragma_arguments(std::string_view flags) {
  std::string text;
  while (!flags.empty()) {
    std::string_view flag = flags.substr(0, flags.find(' '));
    flags.remove_prefix(std::min(flag.size() + 1, flags.size()));
    flag.remove_prefix(flag.find('f') + 1);
    text += fmt::format("{}\"{}\"", text.empty() ? "" : ", ", flag);
  }
  return text;
}

// Defines macros for the kernel sets in the bundle.
std::string kernel_sets(uint32_t targets) {
  std::string text;
  if ((targets & bit(Target::kPortable)) != 0) text += "#define ARENITE_HAVE_SCALAR\n";
  if ((targets & bit(Target::kCortexMDsp)) != 0) {
    text +=
        "#define ARENITE_HAVE_DSP\n"
        "#if !defined(__ARM_FEATURE_DSP) || !defined(__ARM_ARCH_PROFILE) || "
        "__ARM_ARCH_PROFILE != 'M'\n"
        "#error \"This is for Cortex-M with the DSP extension: bundle a model for portable\"\n"
        "#endif\n";
  }
  if ((targets & bit(Target::kCortexMMve)) != 0) {
    text +=
        "#define ARENITE_HAVE_MVE\n"
        "#if !defined(__ARM_FEATURE_MVE)\n"
        "#error \"This is for Cortex-M with MVE: bundle a model for another target\"\n"
        "#endif\n";
  }
  const struct {
    uint32_t targets;
    const char* macro;
  } architectures[] = {{kX86Targets, "__x86_64__"}, {kArm64Targets, "__aarch64__"}};
  for (const auto& architecture : architectures) {
    std::string sets;
    for (uint32_t i = 0; i < kTargets; ++i) {
      if ((targets & architecture.targets & bit(static_cast<Target>(i))) == 0) continue;
      sets += fmt::format("#define ARENITE_HAVE_{}\n", upper(packed_for(static_cast<Target>(i))));
    }
    if (!sets.empty()) text += fmt::format("#if defined({})\n{}#endif\n", architecture.macro, sets);
  }
  if ((targets & kPlainTargets) == 0) {
    text += fmt::format("#if {}{}\n#error \"The models are packed for other CPUs\"\n#endif\n",
                        (targets & kX86Targets) != 0 ? "!defined(__x86_64__)" : "",
                        (targets & kArm64Targets) == 0 ? ""
                        : (targets & kX86Targets) != 0 ? " && !defined(__aarch64__)"
                                                       : "!defined(__aarch64__)");
  }
  return text;
}

std::string settings_header(uint32_t targets) {
  return fmt::format(
      R"(// What every source of this bundle begins with, so that a compiler without options does
// right; made by arenite bundle.
#pragma once

#if defined(__cplusplus) && __cplusplus < 201709L
#error "Arenite needs C++20: compile with -std=c++20, or -std=gnu++20"
#endif

#include "kernels/soft_floats.h"

#define ARENITE_VERSION "{}"
{}
// Asserts would bring the library's output with them. With ARENITE_ASSERTS they are there.
#if !defined(NDEBUG) && !defined(ARENITE_ASSERTS)
#define NDEBUG
#endif

// Products and sums are rounded separately, so that every CPU computes the same bits. A build that
// says {} itself defines ARENITE_FLAGS_GIVEN: after a pragma, GCC
// inlines less and the code grows.
#if defined(__clang__)
#pragma STDC FP_CONTRACT OFF
#elif defined(__GNUC__) && !defined(ARENITE_FLAGS_GIVEN)
#pragma GCC optimize({})
#endif
)",
      version(), kernel_sets(targets), kFloatFlags, pragma_arguments(kFloatFlags));
}

std::string kernel_settings_header() {
  return fmt::format(
      R"(// The same for microkernels, which are always optimized: nearly all of the time is theirs.
#pragma once

#include "settings.h"

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("O2", {})
#endif

{})",
      pragma_arguments(kKernelFlags), kKernelDefinitions);
}

std::string isa_settings_name(std::string_view isa) {
  return isa == "scalar" ? std::string(kKernelSettingsHeader) : fmt::format("{}_settings.h", isa);
}

// The options of a kernel's instruction set for builds that do not pass them: GCC takes them from a
// pragma. Skips -mno- options, which are for builds that enable more.
std::string isa_settings_header(const BundledIsa& isa) {
  std::string features, options;
  std::istringstream words{std::string(isa.flags)};
  for (std::string word; words >> word;) {
    std::string& text = word.starts_with("-f") ? options : features;
    if (word.starts_with("-mno-")) continue;
    text += fmt::format("{}\"{}\"", text.empty() ? "" : ", ", word.substr(2));
  }
  const std::string header =
      isa.header.empty() ? "" : fmt::format("\n#include \"{}\"\n", isa.header);
  return fmt::format(
      R"(// What microkernels of {} begin with; made by arenite bundle.
#pragma once

#include "settings.h"

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("O2", {}{}{})
{}#endif
{})",
      isa.name, pragma_arguments(kKernelFlags), options.empty() ? "" : ", ", options,
      features.empty() ? "" : fmt::format("#pragma GCC target({})\n", features), header);
}

// Copies files together with the files that they include.
class Copier {
 public:
  Copier(const NeedSet& needs, uint32_t targets) {
    for (const EmbeddedSource& source : embedded_sources()) texts_[source.path] = source.text();
    add_generated(kNeedsHeader, needs_header(needs));
    add_generated(kKernelsHeader, kernels_header(targets));
    add_generated(kInterface, std::string(kInterfaceText));
    add_generated(kSettingsHeader, settings_header(targets));
    add_generated(kKernelSettingsHeader, kernel_settings_header());
    for (const BundledIsa& isa : bundled_isas()) {
      if (isa.name == "scalar") continue;
      isa_settings_.push_back(isa_settings_name(isa.name));
      add_generated(isa_settings_.back(), isa_settings_header(isa));
    }
    for (const EmbeddedSource& source : embedded_sources()) isas_[source.path] = source.isa;
    for (const std::string_view header : kDeclarations) same_as_[header] = kKernelsHeader;
  }

  void copy(std::string_view path) {
    if (const auto other = same_as_.find(path); other != same_as_.end()) path = other->second;
    if (!done_.insert(path).second) return;
    const std::string place = place_of(path);
    std::string text;
    const std::string_view isa = isas_[path];
    const std::string_view architecture = architecture_of(path, isa);
    if (!architecture.empty()) text += fmt::format("#if defined({})\n", architecture);
    if (is_source(path)) {
      const std::string settings = isa_settings_name(isa);
      const auto own = std::ranges::find(isa_settings_, settings);
      const std::string_view first = !is_kernel(path)             ? kSettingsHeader
                                     : own == isa_settings_.end() ? kKernelSettingsHeader
                                                                  : std::string_view(*own);
      text += include_line(place, first);
      copy(first);
    }
    std::string_view rest = texts_.at(path);
    while (!rest.empty()) {
      const std::string_view line = rest.substr(0, std::min(rest.find('\n'), rest.size() - 1) + 1);
      rest.remove_prefix(line.size());
      const std::optional<std::string> rewritten = rewritten_include(place, line);
      text += rewritten ? *rewritten : line;
    }
    if (!architecture.empty()) text += "#else\ntypedef int arenite_not_empty;\n#endif\n";
    files_.push_back({place, std::move(text)});
  }

  std::vector<FolderFile> take() { return std::move(files_); }

 private:
  void add_generated(std::string_view path, std::string text) {
    texts_[path] = generated_[path] = std::move(text);
  }

  // Rewrites an #include of a bundled file and copies that file. Returns nullopt for other lines.
  std::optional<std::string> rewritten_include(const std::string& place, std::string_view line) {
    const std::string_view name = included_name(line);
    if (name.empty()) return std::nullopt;
    const auto other = same_as_.find(name);
    const auto found = texts_.find(other != same_as_.end() ? other->second : name);
    if (found == texts_.end()) return std::nullopt;  // a header of the compiler
    copy(found->first);
    return include_line(place, found->first);
  }

  static std::string include_line(const std::string& place, std::string_view included) {
    const std::filesystem::path folder = std::filesystem::path(place).parent_path();
    const std::filesystem::path target = place_of(included);
    return fmt::format("#include \"{}\"\n", target.lexically_relative(folder).generic_string());
  }

  std::map<std::string_view, std::string_view> texts_;
  std::map<std::string_view, std::string> generated_;
  std::map<std::string_view, std::string_view> same_as_;
  std::map<std::string_view, std::string_view> isas_;  // of kernel files
  std::list<std::string> isa_settings_;                // names of generated headers
  std::set<std::string_view> done_;
  std::vector<FolderFile> files_;
};

// Returns the text of an embedded file.
std::string_view embedded_text(std::string_view path) {
  for (const EmbeddedSource& source : embedded_sources()) {
    if (source.path == path) return source.text();
  }
  throw std::logic_error("no such source: " + std::string(path));
}

}  // namespace

NeedSet needs_of(std::span<const BundledModel> models) {
  NeedSet needs;
  for (const BundledModel& model : models) {
    format::for_each_need(model.file.bytes(), [&](Need need, uint32_t) {
      needs |= need;
      return true;
    });
  }
  return needs;
}

std::vector<FolderFile> runtime_files(std::span<const BundledModel> models) {
  Copier copier(needs_of(models), target_bits_of(models));
  for (const std::string_view path : chosen_files(models)) copier.copy(path);
  std::vector<FolderFile> files = copier.take();
  for (const std::string_view licence : {"LICENSE", "LICENSE.xnnpack"}) {
    files.push_back({std::string(licence), std::string(embedded_text(licence))});
  }
  return files;
}

std::vector<IsaFiles> isa_files(std::span<const BundledModel> models) {
  std::vector<IsaFiles> all;
  const std::vector<std::string_view> chosen = chosen_files(models);
  for (const BundledIsa& isa : bundled_isas()) {
    if (isa.flags.empty()) continue;
    IsaFiles own = {std::string(isa.name),
                    std::string(isa.flags),
                    architecture_of("", isa.name) == "__aarch64__",
                    {}};
    for (const EmbeddedSource& source : embedded_sources()) {
      if (source.isa != isa.name || std::ranges::find(chosen, source.path) == chosen.end())
        continue;
      own.files.push_back(place_of(source.path));
    }
    if (!own.files.empty()) all.push_back(std::move(own));
  }
  return all;
}

}  // namespace arenite::tool
