// SPDX-License-Identifier: Apache-2.0
// Reads and writes .npy files. The header is a Python dict literal of three fixed keys.
#include "convert/files/npy.h"

#include <algorithm>
#include <cassert>
#include <cstdint>
#include <cstring>
#include <functional>
#include <numeric>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "convert/files/checkpoint.h"
#include "convert/files/error.h"
#include "convert/files/json_file.h"
#include "convert/files/output_files.h"

namespace arenite::convert {
namespace {

using nlohmann::json;

constexpr const char* kFields[] = {"descr", "fortran_order", "shape"};

struct NpyHeader {
  DType dtype;
  std::vector<uint64_t> shape;
};

// The header, a Python dict of strings, flags and tuples of numbers, as JSON.
std::string as_json(std::string_view dict) {
  constexpr std::string_view kPython = "'()TF";
  constexpr std::string_view kJson = "\"[]tf";
  std::string text;
  bool in_string = false;
  for (const char c : dict) {
    if (c == '\'' || c == '"') in_string = !in_string;
    if (!in_string && (c == ')' || c == '}')) {  // Python takes a comma before the end
      text.resize(text.find_last_not_of(" \n") + 1);
      if (text.ends_with(',') && !text.ends_with("[,")) text.pop_back();
    }
    const size_t place = in_string && c != '\'' ? kPython.npos : kPython.find(c);
    text += place == kPython.npos ? c : kJson[place];
  }
  return text;
}

// Parses what stands between the header's length and the data. Throws InputError that names the
// file and the field.
NpyHeader parse_npy_header(std::string_view text, const std::string& file_name) {
  const auto fail = [&](std::string_view field, std::string_view problem) {
    throw InputError("{}, field {}: it {}", quote(file_name), quote(field), problem);
  };
  const json header =
      parse_json(as_json(text), fmt::format("{}: the header, as JSON,", quote(file_name)));
  if (!header.is_object()) fail("header", "is no dict");
  for (const auto& [field, value] : header.items()) {
    if (std::ranges::count(kFields, field) != 0) continue;
    fail(field, "is not known: expected descr, fortran_order and shape");
  }
  for (const char* const field : kFields) {
    if (!header.contains(field)) fail(field, "is missing");
  }
  const json& order = header["fortran_order"];
  if (!order.is_boolean()) fail("fortran_order", "is neither True nor False");
  if (order.get<bool>()) {
    fail("fortran_order", "is True: expected False; save numpy.ascontiguousarray(array) instead");
  }
  const json& descr = header["descr"];
  if (!descr.is_string()) fail("descr", "is a structured type: expected one plain type");
  const auto dtype = dtype_called(&DTypeRow::npy, descr.get<std::string>());
  if (!dtype) {
    fail("descr",
         fmt::format("is {}: expected one of <f4 <f8 <i4 <i8 <u4 |i1 |u1 |b1; convert the array "
                     "with array.astype",
                     quote(descr.get<std::string>())));
  }
  const json& shape = header["shape"];
  if (shape.size() > kRankMax) {
    fail("shape", fmt::format("has more than {} dimensions", kRankMax));
  }
  if (!shape.is_array() ||
      !std::ranges::all_of(shape, [](const json& extent) { return extent.is_number_unsigned(); })) {
    fail("shape", "is not a tuple of whole numbers from 0, in 64 bits");
  }
  return {*dtype, shape.get<std::vector<uint64_t>>()};
}

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr size_t kPrefixBytes = 8;  // magic, major and minor version
constexpr size_t kAlignmentBytes = 64;
constexpr size_t kHeaderBytesMax = 65536;  // what version 1.0 can hold; plain arrays need about 100

// The text of the header; what follows it in `file` is the data.
std::string_view npy_header_text(std::span<const std::byte> file, const std::string& file_name) {
  const std::string_view text(reinterpret_cast<const char*>(file.data()), file.size());
  refuse_if(!text.starts_with(kMagic),
            "{} is not a NumPy array: expected a .npy file, which begins with \\x93NUMPY",
            quote(file_name));
  const auto cut_short = [&]() {
    throw InputError("{}: the file is cut short in its header: save the array again",
                     quote(file_name));
  };
  if (text.size() < kPrefixBytes) cut_short();
  const int major = static_cast<unsigned char>(text[6]);
  const int minor = static_cast<unsigned char>(text[7]);
  refuse_if((major != 1 && major != 2) || minor != 0,
            "{}, field 'version': it is {}.{}: expected 1.0 or 2.0", quote(file_name), major,
            minor);
  const size_t length_bytes = major == 1 ? 2 : 4;
  const size_t start = kPrefixBytes + length_bytes;
  if (text.size() < start) cut_short();
  uint32_t header_bytes = 0;
  std::memcpy(&header_bytes, text.data() + kPrefixBytes, length_bytes);
  refuse_if(header_bytes > kHeaderBytesMax,
            "{}, field 'header length': it is {}: at most {} bytes are accepted", quote(file_name),
            header_bytes, kHeaderBytesMax);
  if (header_bytes > text.size() - start) cut_short();
  return text.substr(start, header_bytes);
}

CheckpointTensor array_view(std::span<const std::byte> file, const std::string& file_name) {
  const std::string_view text = npy_header_text(file, file_name);
  const auto start =
      static_cast<size_t>(text.data() + text.size() - reinterpret_cast<const char*>(file.data()));
  NpyHeader header = parse_npy_header(text, file_name);
  uint64_t array_bytes = bytes(header.dtype);
  bool fits = true;
  for (const uint64_t extent : header.shape) {
    fits = fits && multiply(array_bytes, extent, array_bytes);
  }
  refuse_if(
      !fits || array_bytes != file.size() - start,
      "{}, field 'shape': [{}] of {} takes {} bytes, but {} follow the header: the file is cut "
      "short or damaged",
      quote(file_name), fmt::join(header.shape, ", "), name(header.dtype),
      fits ? fmt::format("{}", array_bytes) : "more than 2^64", file.size() - start);
  CheckpointTensor tensor;
  tensor.name = file_name;
  tensor.dtype = header.dtype;
  tensor.strides = contiguous_strides(header.shape);
  tensor.shape = std::move(header.shape);
  tensor.data = file.subspan(start);
  return tensor;
}

// Everything before the data.
std::string header_of(const char* descr, std::span<const uint64_t> shape) {
  // A tuple of one element needs its comma in Python.
  std::string header = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}{}), }}",
                                   descr, fmt::join(shape, ", "), shape.size() == 1 ? "," : "");
  const size_t unpadded = kPrefixBytes + sizeof(uint16_t) + header.size() + 1;
  header.append((kAlignmentBytes - unpadded % kAlignmentBytes) % kAlignmentBytes, ' ');
  header += '\n';
  const auto header_bytes = static_cast<uint16_t>(header.size());  // kRankMax keeps it below 2 KB

  std::string start(kMagic);
  start += {'\x01', '\x00', static_cast<char>(header_bytes & 0xff),
            static_cast<char>(header_bytes >> 8)};
  return start + header;
}

// Of a type of four bytes.
void write_array(const std::filesystem::path& file, const char* descr,
                 std::span<const uint64_t> shape, std::span<const std::byte> data) {
  assert(shape.size() <= kRankMax);
  assert(std::accumulate(shape.begin(), shape.end(), uint64_t{4}, std::multiplies<>()) ==
         data.size());
  AtomicFile out(file);
  const std::string header = header_of(descr, shape);
  out.write(std::as_bytes(std::span(header)));
  out.write(data);
  out.commit();
}

}  // namespace

NpyArray::NpyArray(FileMap file, CheckpointTensor tensor)
    : file_(std::move(file)), tensor_(std::move(tensor)) {}

std::vector<float> NpyArray::to_f32(uint64_t first, uint64_t count) const {
  CheckpointTensor part = tensor_;
  const size_t size = bytes(part.dtype);
  part.shape = {count};
  part.strides = {1};
  part.data =
      part.data.subspan(static_cast<size_t>(first * size), static_cast<size_t>(count * size));
  return part.to_f32();
}

NpyArray NpyArray::read(const std::filesystem::path& file) {
  FileMap map(file);
  CheckpointTensor tensor = array_view(map.bytes(), file.string());
  return NpyArray(std::move(map), std::move(tensor));
}

NpyWriter::NpyWriter(const std::filesystem::path& file, std::span<const uint64_t> shape)
    : file_(file) {
  const std::string header = header_of("<f4", shape);
  for (const uint64_t extent : shape) elements_ *= extent;
  start_bytes_ = header.size();
  file_.write(std::as_bytes(std::span(header)));
  file_.resize(start_bytes_ + elements_ * sizeof(float));
}

void NpyWriter::write(uint64_t first, std::span<const float> values) {
  assert(first + values.size() <= elements_);
  file_.write_at(start_bytes_ + first * sizeof(float), std::as_bytes(values));
}

void NpyWriter::commit() { file_.commit(); }

void write_npy(const std::filesystem::path& file, std::span<const uint64_t> shape,
               std::span<const float> values) {
  write_array(file, "<f4", shape, std::as_bytes(values));
}

void write_npy(const std::filesystem::path& file, std::span<const uint64_t> shape,
               std::span<const int32_t> values) {
  write_array(file, "<i4", shape, std::as_bytes(values));
}

}  // namespace arenite::convert
