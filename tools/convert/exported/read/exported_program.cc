// SPDX-License-Identifier: Apache-2.0
// From a file to a program, the elements of its tensors, and its symbolic sizes.
#include "convert/exported/read/exported_program.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <limits>
#include <vector>

#include "convert/exported/read/pt2_archive.h"
#include "convert/files/error.h"
#include "core/crc32c.h"

namespace arenite::convert {
Shape ExportedValue::shape() const {
  Shape shape;
  for (const Extent& extent : sizes) shape.push_back(extent.size);
  return shape;
}

const StoredTensor& ExportedProgram::tensor(const ExportedInput& input) const {
  return tensors->tensors()[input.tensor.value()];
}

std::vector<const ExportedInput*> ExportedProgram::user_inputs() const {
  std::vector<const ExportedInput*> found;
  for (const ExportedInput& input : inputs) {
    if (input.kind == InputKind::kUser) found.push_back(&input);
  }
  return found;
}

Array ExportedProgram::load(const ExportedInput& input) const {
  const StoredTensor& stored = tensor(input);
  const ExportedValue& value = values[input.value];
  if (!stored.load_f64 && is_real(value.type)) {
    return Array::of_floats(value.shape(), stored.load(), value.type);
  }
  std::vector<double> numbers;
  if (stored.load_f64) {
    numbers = stored.load_f64();
  } else {
    const std::vector<float> floats = stored.load();
    numbers.assign(floats.begin(), floats.end());
  }
  if (is_complex(value.type)) {
    Array::Complexes pairs(numbers.size() / 2);
    for (size_t i = 0; i < pairs.size(); ++i) pairs[i] = {numbers[2 * i], numbers[2 * i + 1]};
    return Array::complex(value.shape(), std::move(pairs), value.type);
  }
  if (is_real(value.type)) return Array::real(value.shape(), std::move(numbers), value.type);
  return Array::real(value.shape(), std::move(numbers), ElementType::kF64).to(value.type);
}

uint64_t ExportedProgram::largest_weight() const {
  uint64_t largest = 0;
  for (const StoredTensor& tensor : tensors->tensors()) {
    uint64_t elements = 1;
    for (const uint64_t extent : tensor.shape) elements *= extent;
    largest = std::max(largest, elements);
  }
  return largest;
}

bool is_exported_program(std::string_view bytes) {
  if (!bytes.starts_with("PK\x03\x04")) return false;
  // Names of members stand in the list at the end of the archive.
  constexpr size_t kListBytesMax = size_t{1} << 22;
  const std::string_view list = bytes.substr(bytes.size() - std::min(bytes.size(), kListBytesMax));
  return list.find("/models/") != std::string_view::npos ||
         list.find("serialized_exported_program.json") != std::string_view::npos;
}

ExportedProgram read_exported(const std::filesystem::path& file) {
  const FileMap map(file);
  return read_exported(map.bytes(), file.string());
}

ExportedProgram read_exported(std::span<const std::byte> bytes, const std::string& file_name) {
  const Pt2Archive archive = read_pt2_archive(bytes, file_name);
  ExportedProgram program = read_graph(archive, file_name);
  program.checksum = crc32c(bytes);
  return program;
}

namespace {

constexpr int kSizeDepthMax = 64;  // of expressions within expressions

using Size = std::optional<int64_t>;

Size floor_divided(int64_t a, int64_t b) {
  if (b == 0 || (b == -1 && a == std::numeric_limits<int64_t>::min())) return std::nullopt;
  return a / b - (a % b != 0 && (a < 0) != (b < 0) ? 1 : 0);
}

Size size_power(int64_t base, int64_t exponent) {
  int64_t result = 1;
  if (exponent < 0 || exponent > 63) return std::nullopt;
  for (int64_t i = 0; i < exponent; ++i) {
    if (__builtin_mul_overflow(result, base, &result)) return std::nullopt;
  }
  return result;
}

Size applied_size(std::string_view function, int64_t a, int64_t b) {
  int64_t result = 0;
  if (function == "Add") return __builtin_add_overflow(a, b, &result) ? Size() : result;
  if (function == "Mul") return __builtin_mul_overflow(a, b, &result) ? Size() : result;
  if (function == "Max") return std::max(a, b);
  if (function == "Min") return std::min(a, b);
  if (function == "Pow" || function == "PowByNatural") return size_power(a, b);
  if (function == "FloorDiv" || function == "CleanDiv") return floor_divided(a, b);
  if (function == "Mod" || function == "PythonMod") {
    const Size quotient = floor_divided(a, b);
    return quotient ? Size(a - *quotient * b) : Size();
  }
  return std::nullopt;
}

// Reads one constructor after the other, and what follows it is left.
class SizeReader {
 public:
  SizeReader(std::string_view text, const std::function<Size(std::string_view)>& value_of)
      : rest_(text), value_of_(value_of) {}

  Size whole() {
    const Size number = constructor(0);
    return rest_.empty() ? number : std::nullopt;
  }

 private:
  Size constructor(int depth) {
    const size_t open = rest_.find('(');
    if (open == std::string_view::npos || depth == kSizeDepthMax) return std::nullopt;
    const std::string_view name = rest_.substr(0, open);
    rest_.remove_prefix(open + 1);
    if (name == "Integer" || name == "Symbol") {
      const size_t close = rest_.find(')');
      if (close == std::string_view::npos) return std::nullopt;
      const std::string_view inside = rest_.substr(0, close);
      rest_.remove_prefix(close + 1);
      return name == "Integer" ? integer(inside) : symbol(inside);
    }
    Size result = constructor(depth + 1);
    if (!rest_.starts_with(", ")) return std::nullopt;  // no function of one size is known
    while (result && rest_.starts_with(", ")) {
      rest_.remove_prefix(2);
      const Size next = constructor(depth + 1);
      result = next ? applied_size(name, *result, *next) : std::nullopt;
    }
    if (!result || !rest_.starts_with(')')) return std::nullopt;
    rest_.remove_prefix(1);
    return result;
  }

  static Size integer(std::string_view digits) {
    int64_t number = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
    return error == std::errc() && end == digits.data() + digits.size() ? Size(number) : Size();
  }

  // 's27', positive=True, integer=True
  Size symbol(std::string_view inside) const {
    const size_t end = inside.find('\'', 1);
    if (!inside.starts_with('\'') || end == std::string_view::npos) return std::nullopt;
    return value_of_(inside.substr(1, end - 1));
  }

  std::string_view rest_;
  const std::function<Size(std::string_view)>& value_of_;
};

}  // namespace

std::optional<int64_t> evaluate_size(
    std::string_view expression,
    const std::function<std::optional<int64_t>(std::string_view symbol)>& value_of) {
  if (expression.find('(') == std::string_view::npos) return value_of(expression);
  return SizeReader(expression, value_of).whole();
}

}  // namespace arenite::convert
