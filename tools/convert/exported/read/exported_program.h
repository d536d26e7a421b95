// SPDX-License-Identifier: Apache-2.0
// A model as torch.export.save wrote it (a .pt2 archive): what the author's code computes, op by
// op, with its weights. The program is functional and flat: ops that change a tensor in place
// became ops that make a new value, and subgraphs that only set a mode are part of the graph.
// Source: torch/_export/serde/schema.py of PyTorch, version 8.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "convert/exported/read/array.h"
#include "convert/exported/read/call.h"
#include "convert/files/checkpoint.h"
#include "convert/files/memory.h"

namespace arenite::convert {
// One extent of a tensor as it was traced.
struct Extent {
  int64_t size = 0;      // where it is symbolic: that of the example, or 0 where not even that
  std::string symbol{};  // "s27" of a symbol alone, an expression otherwise; empty: a fixed size

  bool is_fixed() const { return symbol.empty(); }
  friend bool operator==(const Extent&, const Extent&) = default;
};

enum class ValueKind { kTensor, kInteger, kBool, kReal };  // the last three: symbolic numbers

struct ExportedValue {
  std::string name;  // in the graph: "linear_3"; may be empty where nobody reads it
  ValueKind kind = ValueKind::kTensor;
  ElementType type = ElementType::kF32;  // of a tensor
  std::vector<Extent> sizes{};           // of a tensor, where the archive says them

  Shape shape() const;  // the sizes
};

enum class InputKind { kParameter, kBuffer, kConstant, kUser };

struct ExportedInput {
  InputKind kind = InputKind::kUser;
  uint32_t value = 0;  // of the program
  // "transformer.wte.weight"; of the user's: the name of the argument, "x"
  std::string name{};
  // Not of the user's: the tensor's index in `tensors`. Tied weights have names and indexes of
  // their own and the same `storage`.
  std::optional<size_t> tensor{};
  uint32_t storage = 0;  // inputs with the same number have the very same elements
};

// What a symbolic extent may be.
struct SymbolRange {
  int64_t min = 0;
  std::optional<int64_t> max{};  // absent: any
};

// What the program takes for granted of the sizes of its inputs, in Python as torch.export writes
// it: (L['x'].size()[1] % 2) == 0.
struct SizeGuard {
  std::string text{};
  std::vector<Extent> sizes{};  // that it names, in order
  bool is_read = false;         // all of it is understood
};

struct ExportedProgram {
  std::string source;     // the file, for messages
  uint32_t checksum = 0;  // of the file: by it, what a check computes is chosen
  std::vector<ExportedValue> values;
  std::vector<ExportedInput> inputs;  // in the order of the graph
  std::vector<Call> nodes;            // each after what it reads; their tensors and symbolic
                                      // numbers are ValueRefs
  // What the model gives out, flattened: ValueRef, or a constant such as None.
  std::vector<Argument> outputs;
  std::map<std::string, SymbolRange> symbols;  // "s27"
  std::vector<SizeGuard> guards;               // that hold at its lengths, beside the ranges
  // The author's example, one for each input of the user, or nothing.
  std::vector<Array> sample_inputs;
  // Parameters, buffers and constants under their names. load() reads all elements.
  std::shared_ptr<const TensorStore> tensors;

  const StoredTensor& tensor(const ExportedInput& input) const {
    return tensors->tensors()[input.tensor.value()];
  }
  // Elements of the largest tensor that the file has.
  uint64_t largest_weight() const;
  std::vector<const ExportedInput*> user_inputs() const;

  // All elements of an input that is not the user's.
  Array load(const ExportedInput& input) const;
};

// Whether a file of these bytes is an archive of torch.export.save, of any version.
bool is_exported_program(std::string_view bytes);

// Reads the archive. Its weights lie in memory once, as they are stored. Throws InputError for
// whatever breaks a rule of the format, for archives of a PyTorch that is too old, and for a
// program that cannot be followed: data-dependent shapes, control flow, objects that are no
// tensors. The message names the op and its place in the author's source.
ExportedProgram read_exported(const std::filesystem::path& file);

// The same of bytes in memory, which may go afterwards. `file_name` is for messages.
ExportedProgram read_exported(std::span<const std::byte> bytes, const std::string& file_name);

// REQUIRES: the program has its inputs.
SizeGuard read_guard(const std::string& text, const ExportedProgram& program);
// Whether it holds for sizes of these values; nothing where it is not understood.
std::optional<bool> holds(const SizeGuard& guard,
                          const std::function<int64_t(const Extent&)>& value_of);

// Symbolic sizes as PyTorch writes them: SymPy's constructors, such as
// Add(Symbol('s27', positive=True, integer=True), Integer(-1)).

// The size, or nothing for a symbol that `value_of` has no number for, for functions that are not
// known, and for what is no size. A text without parentheses is a symbol's name.
std::optional<int64_t> evaluate_size(
    std::string_view expression,
    const std::function<std::optional<int64_t>(std::string_view symbol)>& value_of);

}  // namespace arenite::convert
