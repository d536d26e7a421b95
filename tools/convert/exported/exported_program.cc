// SPDX-License-Identifier: Apache-2.0
// From a file to a program, and the elements of its tensors.
#include "convert/exported/exported_program.h"

#include <algorithm>
#include <cstring>

#include "convert/exported/graph_reader.h"
#include "convert/exported/pt2_archive.h"
#include "convert/files/error.h"

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

bool is_exported_program(const std::filesystem::path& file) {
  const FileMap map(file);
  const std::string_view bytes = map.text();
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
  return GraphReader(archive, file_name).run();
}

}  // namespace arenite::convert
