// SPDX-License-Identifier: Apache-2.0
// Floats are written in hexadecimal, which is exact. The assembler includes the model files: a
// compiler would need minutes for megabytes of numbers.
#include "device/vector_writer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <stdexcept>

#include "arenite/arena_formula.h"
#include "convert/files/memory.h"
#include "device/vectors.h"
#include "session/session_state.h"

namespace arenite::device {
namespace {

constexpr size_t kPerLine = 6;

// $ stands for the path of the files.
constexpr std::string_view kBegin = R"(// NOLINTBEGIN
#include "device/vectors.h"

#if defined(__wasm__)  // whose assembler knows data by its type and size, of which 1 is enough
#define ARENITE_SECTION \
  ".section .rodata.arenite_device_files, \"\", @\n.type arenite_device_files, @object\n"
#define ARENITE_PREVIOUS ".size arenite_device_files, 1\n.section .text, \"\", @\n"
#else
#define ARENITE_SECTION ".section .rodata.arenite_device_files, \"a\"\n"
#define ARENITE_PREVIOUS ".previous\n"
#endif
asm(ARENITE_SECTION R"asm(
    .balign 64
    .globl arenite_device_files
arenite_device_files:
    .incbin "$"
)asm" ARENITE_PREVIOUS);
extern "C" const std::byte arenite_device_files[];

namespace arenite::device {
namespace {

)";

std::string literal(uint64_t value) { return fmt::format("{:#x}u", value); }
std::string literal(uint32_t value) { return fmt::format("{}u", value); }
std::string literal(float value) { return fmt::format("{:a}f", value); }

// Returns a C string literal. Characters outside plain ASCII become three octal digits, after which
// the escape ends.
std::string literal(std::string_view text) {
  std::string literal = "\"";
  for (const char c : text) {
    if (c >= ' ' && c <= '~' && c != '"' && c != '\\' && c != '?') {
      literal += c;
    } else {
      literal += fmt::format("\\{:03o}", static_cast<uint8_t>(c));
    }
  }
  return literal + '"';
}

std::string braced(std::string_view values) { return fmt::format("{{{}}}", values); }

double gelu(double x) { return 0.5 * x * (1.0 + std::erf(x / std::sqrt(2.0))); }

// Results of a case with this machine's scalar kernels.
struct PortableRun {
  uint64_t digest;
  size_t arena_bytes;
};

// Returns the bytes of the largest arena of all targets in the file.
size_t largest_arena(const Model& model, const SessionOptions& options) {
  const format::ModelReader reader = ModelAccess::reader(model);
  const uint32_t tokens =
      options.tokens_max != 0 ? options.tokens_max : options.positions_max * options.sequences_max;
  const SessionSizes sizes = {options.positions_max, tokens, options.sequences_max, true};
  uint64_t largest = 0;
  for (uint32_t i = 0; i < reader.packed_count(); ++i) {
    largest =
        std::max(largest, evaluate(reader.formula(i), reader.axes(), sizes).total_bytes.value());
  }
  return largest;
}

// REQUIRES: the result is there; what is missing is a bug of the cases.
template <typename T>
T require(const Result<T>& result, const Diagnostic& why) {
  if (result.ok()) return *result;
  char line[256];
  describe(result.status(), why, line);
  throw std::runtime_error(line);
}

Result<Output> run(Session& session, const NewModelCase& from, Diagnostic* why) {
  if (from.ids.empty()) {
    return session.run(Batch{from.features, from.sequences, from.tokens, from.lengths}, why);
  }
  return session.run(TokenBatch{from.ids, from.sequences, from.tokens, from.lengths}, why);
}

Model load_portable(std::span<const std::byte> file) {
  Diagnostic why;
  LoadOptions portable;
  portable.force_target = true;
  return require(Model::load(file, &why, portable), why);
}

PortableRun run_portable(const Model& model, const NewModelCase& from,
                         const SessionOptions& options) {
  Diagnostic why;
  const size_t bytes = require(plan_arena(model, options, &why), why).total_bytes;
  convert::AlignedBytes arena(bytes);
  Session* const session = require(Session::create(model, options, arena.span(), &why), why);
  const Output output = require(run(*session, from, &why), why);
  return {digest({output.data, size_t{output.rows} * output.features}), bytes};
}

}  // namespace

template <typename T>
std::string VectorWriter::list(std::span<const T> values) {
  if (values.empty()) return "{}";
  const std::string name = fmt::format("kValues{}", names_++);
  const char* const type = std::is_same_v<T, float> ? "float" : "uint32_t";
  arrays_ += fmt::format("constexpr {} {}[] = {{", type, name);
  for (size_t i = 0; i < values.size(); ++i) {
    arrays_ += (i % kPerLine == 0 ? "\n    " : " ") + literal(values[i]) + ",";
  }
  arrays_ += "};\n";
  return name;
}

std::string VectorWriter::file(std::span<const std::byte> bytes) {
  files_.resize((files_.size() + kModelAlignment - 1) / kModelAlignment * kModelAlignment);
  const size_t begin = files_.size();
  files_.insert(files_.end(), bytes.begin(), bytes.end());
  return fmt::format("{{arenite_device_files + {}, {}}}", begin, bytes.size());
}

void VectorWriter::model_case(const NewModelCase& from) {
  const Model model = load_portable(from.bytes);
  SessionOptions options;
  options.positions_max = from.tokens;
  options.sequences_max = from.sequences;
  options.outputs = from.outputs;
  const PortableRun portable = run_portable(model, from, options);
  options.kv_cache = KvType::kInt8;
  const PortableRun int8 = run_portable(model, from, options);
  arena_bytes_ = std::max({arena_bytes_, largest_arena(model, options), int8.arena_bytes});
  const std::vector<float> expected(from.expected.begin(), from.expected.end());
  models_ += fmt::format(
      "    {{{}, {}, Outputs::{}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}}},\n",
      literal(from.name), from.file, from.outputs == Outputs::kAll ? "kAll" : "kLast",
      from.sequences, from.tokens, list(std::span(from.lengths)), list(std::span(from.features)),
      list(std::span(from.ids)), list(std::span(expected)),
      literal(static_cast<float>(from.tolerance)), portable.arena_bytes, literal(portable.digest),
      literal(int8.digest), from.rounds_rows);
}

void VectorWriter::sound_digest(std::span<const std::byte> bytes) {
  Diagnostic why;
  const Model model = load_portable(bytes);
  SessionOptions options;
  options.positions_max = kSoundRate / 100;
  options.tokens_max = 1;
  convert::AlignedBytes arena(require(plan_arena(model, options, &why), why).total_bytes);
  sound_digest_ =
      digest_of_sound(require(Session::create(model, options, arena.span(), &why), why));
}

void VectorWriter::text_case(const std::string& file, std::string_view text,
                             std::span<const TokenId> ids, std::string_view decoded) {
  texts_ +=
      fmt::format("    {{{}, {}, {}, {}}},\n", file, literal(text), list(ids), literal(decoded));
}

void VectorWriter::command_case(const std::string& file, std::string_view prompt,
                                std::span<const TokenId> prompt_ids,
                                std::span<const TokenId> answer_ids, std::string_view answer) {
  commands_ += fmt::format("    {{{}, {}, {}, {}, {}}},\n", file, literal(prompt), list(prompt_ids),
                           list(answer_ids), literal(answer));
}

void VectorWriter::reserve_for_commands(std::span<const std::byte> bytes) {
  SessionOptions options;
  options.positions_max = kCommandPositions;
  options.tokens_max = kCommandTokens;
  arena_bytes_ = std::max(arena_bytes_, largest_arena(load_portable(bytes), options));
}

void VectorWriter::function_points(std::span<const double> points) {
  for (const double x : points) {
    const double values[] = {x, std::exp(-std::abs(x)), gelu(x), 1.0 / (1.0 + std::exp(-x)),
                             std::tanh(x)};
    std::string row;
    for (const double value : values) row += literal(static_cast<float>(value)) + ", ";
    points_ += "    " + braced(row) + ",\n";
  }
}

void VectorWriter::model_to_damage(std::span<const std::byte> bytes) {
  damaged_ = file(bytes);
  copy_bytes_ = bytes.size() + 64;
}

std::string VectorWriter::text(const std::string& files_path) const {
  std::string begin(kBegin);
  begin.replace(begin.find('$'), 1, files_path);
  return begin + arrays_ +
         fmt::format(
             "const ModelCase kModelCases[] = {{\n{}}};\n"
             "const TextCase kTextCases[] = {{\n{}}};\n"
             "const CommandCase kCommandCases[] = {{\n{}}};\n"
             "constexpr FunctionPoint kFunctionPoints[] = {{\n{}}};\n"
             "alignas(64) constinit std::byte copy[{}] = {{}};\n"
             "alignas(64) constinit std::byte arena[{}] = {{}};\n\n"
             "}}  // namespace\n\n",
             models_, texts_, commands_, points_, copy_bytes_, arena_bytes_ + kNeighbourBytes) +
         fmt::format(
             "std::span<const ModelCase> model_cases() {{ return kModelCases; }}\n"
             "std::span<const TextCase> text_cases() {{ return kTextCases; }}\n"
             "std::span<const CommandCase> command_cases() {{ return kCommandCases; }}\n"
             "uint64_t sound_digest() {{ return {}; }}\n"
             "std::span<const FunctionPoint> function_points() {{ return kFunctionPoints; }}\n"
             "EmbeddedFile model_to_damage() {{ return {}; }}\n"
             "std::span<std::byte> copy_memory() {{ return copy; }}\n"
             "std::span<std::byte> arena_memory() {{ return arena; }}\n\n"
             "}}  // namespace arenite::device\n"
             "// NOLINTEND\n",
             literal(sound_digest_), damaged_);
}

}  // namespace arenite::device
