// SPDX-License-Identifier: Apache-2.0
// A model as torch.export.save wrote it (a .pt2 archive): the author's code op by op, with its
// weights. The program is functional and flat: in-place ops are rewritten to ops that return new
// values, and subgraphs that only set a mode are inlined. Source: torch/_export/serde/schema.py of
// PyTorch, version 8.
//
//   x.add_(1); return x * 2  ->  %1 = add(%0, 1); %2 = mul(%1, 2); outputs: %2
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "convert/exported/read/array.h"
#include "convert/exported/read/call.h"
#include "convert/files/checkpoint.h"
#include "convert/files/memory.h"

namespace arenite::convert {
// One extent of a traced tensor.
struct Extent {
  int64_t size = 0;      // symbolic: that of the example, or 0 if unknown
  std::string symbol{};  // "s27", or an expression; empty: fixed size

  bool is_fixed() const { return symbol.empty(); }
  friend bool operator==(const Extent&, const Extent&) = default;
};

enum class ValueKind { kTensor, kInteger, kBool, kReal };  // the last three are symbolic

struct ExportedValue {
  std::string name;  // in the graph: "linear_3"; may be empty if unread
  ValueKind kind = ValueKind::kTensor;
  ElementType type = ElementType::kF32;  // tensors only
  std::vector<Extent> sizes{};           // tensors only; may be missing

  Shape shape() const;  // sizes without symbols
};

enum class InputKind { kParameter, kBuffer, kConstant, kUser };

struct ExportedInput {
  InputKind kind = InputKind::kUser;
  uint32_t value = 0;  // index of the program's value
  // Path of a parameter, "transformer.wte.weight", or the name of the user's argument, "x".
  std::string name{};
  // Index in `tensors`; absent for the user's inputs. Tied weights have different names and
  // indices, and equal `storage`.
  std::optional<size_t> tensor{};
  uint32_t storage = 0;                  // inputs with equal numbers share all elements
  std::vector<uint32_t> mark_columns{};  // columns of features that hold a padding mask
};

// Bounds of a symbolic extent.
struct SymbolRange {
  int64_t min = 0;
  std::optional<int64_t> max{};  // absent: unbounded
};

// A condition on input sizes under which the program is valid, in the Python that torch.export
// writes: (L['x'].size()[1] % 2) == 0.
struct SizeGuard {
  std::string text{};
  std::vector<Extent> sizes{};  // named in `text`, in order
  bool is_read = false;         // the whole text was parsed
};

struct ExportedProgram {
  std::string source;     // file name, for messages
  uint32_t checksum = 0;  // CRC-32C of the file; seeds the checks
  std::vector<ExportedValue> values;
  std::vector<ExportedInput> inputs;  // in graph order
  std::vector<Call> nodes;            // in topological order
  // The outputs, flattened: ValueRefs, or constants such as None.
  std::vector<Argument> outputs;
  std::map<std::string, SymbolRange> symbols;  // "s27"
  std::vector<SizeGuard> guards;               // conditions beside the ranges
  bool has_any_batch = false;  // sizes of the batch were symbolic, and are fixed now
  // The author's example, one array for each of the user's inputs; empty if there is none.
  std::vector<Array> sample_inputs;
  // Parameters, buffers and constants by name.
  std::shared_ptr<const TensorStore> tensors;

  const StoredTensor& tensor(const ExportedInput& input) const {
    return tensors->tensors()[input.tensor.value()];
  }
  // Returns the number of elements of the largest stored tensor.
  uint64_t largest_weight() const;
  std::vector<const ExportedInput*> user_inputs() const;

  // Loads a parameter, buffer or constant.
  Array load(const ExportedInput& input) const;
};

// Whether the bytes are an archive of torch.export.save, of any version.
bool is_exported_program(std::string_view bytes);

// Reads an archive. Weights stay in memory once, in their stored type. Throws InputError, naming
// the op and its place in the author's source, for violations of the format, archives of PyTorch
// before 2.9, and programs that cannot be traced: data-dependent shapes, control flow, inputs that
// are not tensors.
ExportedProgram read_exported(const std::filesystem::path& file);

// Reads an archive from memory, which may be released afterwards. `file_name` is for messages.
ExportedProgram read_exported(std::span<const std::byte> bytes, const std::string& file_name);

// Parses a guard. REQUIRES: the program has its inputs.
SizeGuard read_guard(const std::string& text, const ExportedProgram& program);
// Whether the guard holds for these sizes; nullopt if the guard could not be parsed.
std::optional<bool> holds(const SizeGuard& guard,
                          const std::function<int64_t(const Extent&)>& value_of);

// Symbolic sizes are written as SymPy constructors: Add(Symbol('s27', positive=True, integer=True),
// Integer(-1)).

// Evaluates a size. Returns nullopt for symbols without a value, unknown functions, and malformed
// text. Text without parentheses is the name of a symbol.
std::optional<int64_t> evaluate_size(
    std::string_view expression,
    const std::function<std::optional<int64_t>(std::string_view symbol)>& value_of);

// Returns the symbols in an extent: {"s27"} for "s27", and for "Mul(Integer(8), Symbol('s27',
// positive=True, integer=True))".
std::set<std::string> symbols_in(const Extent& extent);

// A size that is linear in one symbol: step * symbol + first.
struct LinearSize {
  std::string symbol{};
  int64_t step = 1, first = 0;

  friend bool operator==(const LinearSize&, const LinearSize&) = default;
};
// Returns nullopt for fixed sizes, sizes of several symbols and those that are not linear.
std::optional<LinearSize> linear_size(const Extent& extent);

}  // namespace arenite::convert
