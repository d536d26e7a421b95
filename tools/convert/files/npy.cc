// SPDX-License-Identifier: Apache-2.0
// Reads and writes .npy files. The header is a Python dict literal with three fixed keys.
#include "convert/files/npy.h"

#include <algorithm>
#include <cassert>
#include <charconv>
#include <cstdint>
#include <cstring>
#include <functional>
#include <numeric>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "convert/files/checkpoint.h"
#include "convert/files/error.h"
#include "convert/files/output_files.h"

namespace arenite::convert {
namespace {

struct NpyHeader {
  DType dtype;
  std::vector<uint64_t> shape;
};

// Parses the header text. Throws InputError that names the file and the field.
class HeaderParser {
 public:
  HeaderParser(std::string_view text, const std::string& file_name)
      : rest_(text), file_name_(file_name) {}

  NpyHeader run() {
    expect('{', "a dict");
    while (!accept('}')) {
      parse_field();
      if (accept(',')) continue;
      expect('}', "',' or '}'");
      break;
    }
    skip_space();
    if (!rest_.empty())
      fail("header", fmt::format("has {} more bytes after the dict", rest_.size()));
    if (!dtype_) fail("descr", "is missing");
    if (!fortran_order_) fail("fortran_order", "is missing");
    if (!shape_) fail("shape", "is missing");
    if (*fortran_order_) {
      fail("fortran_order", "is True: expected False; save numpy.ascontiguousarray(array) instead");
    }
    return {*dtype_, std::move(*shape_)};
  }

 private:
  void parse_field() {
    const std::string_view key = string("a key");
    expect(':', "':'");
    if ((key == "descr" && dtype_) || (key == "fortran_order" && fortran_order_) ||
        (key == "shape" && shape_)) {
      fail(key, "occurs twice");
    }
    if (key == "descr") {
      parse_descr();
    } else if (key == "fortran_order") {
      skip_space();
      const bool is_true = rest_.starts_with("True");
      if (!is_true && !rest_.starts_with("False")) fail(key, "is neither True nor False");
      rest_.remove_prefix(is_true ? 4 : 5);
      fortran_order_ = is_true;
    } else if (key == "shape") {
      parse_shape();
    } else {
      fail(key, "is not known: expected descr, fortran_order and shape");
    }
  }

  void parse_descr() {
    skip_space();
    if (rest_.starts_with('[')) fail("descr", "is a structured type: expected one plain type");
    const std::string_view descr = string("the type");
    dtype_ = dtype_called(&DTypeRow::npy, descr);
    if (dtype_) return;
    fail("descr",
         fmt::format(
             "is {}: expected one of <f4 <f8 <i2 <i4 <i8 <u4 |i1 |u1 |b1; convert the array with "
             "array.astype",
             quote(descr)));
  }

  void parse_shape() {
    expect('(', "a tuple");
    shape_.emplace();
    while (!accept(')')) {
      if (shape_->size() == kRankMax) {
        fail("shape", fmt::format("has more than {} dimensions", kRankMax));
      }
      shape_->push_back(number());
      if (accept(',')) continue;
      expect(')', "',' or ')'");
      break;
    }
  }

  uint64_t number() {
    skip_space();
    uint64_t value = 0;
    const auto end = std::from_chars(rest_.data(), rest_.data() + rest_.size(), value);
    if (end.ec == std::errc::result_out_of_range)
      fail("shape", "has a number of more than 64 bits");
    if (end.ec != std::errc()) fail("shape", "is not a tuple of non-negative integers");
    rest_.remove_prefix(static_cast<size_t>(end.ptr - rest_.data()));
    return value;
  }

  std::string_view string(std::string_view what) {
    skip_space();
    const char mark = rest_.empty() ? '\0' : rest_.front();
    const size_t end = mark == '\'' || mark == '"' ? rest_.find(mark, 1) : std::string_view::npos;
    if (end == std::string_view::npos) fail("header", fmt::format("has no string for {}", what));
    const std::string_view text = rest_.substr(1, end - 1);
    rest_.remove_prefix(end + 1);
    return text;
  }

  void skip_space() {
    while (!rest_.empty() && (rest_.front() == ' ' || rest_.front() == '\n'))
      rest_.remove_prefix(1);
  }

  bool accept(char wanted) {
    skip_space();
    if (!rest_.starts_with(wanted)) return false;
    rest_.remove_prefix(1);
    return true;
  }

  void expect(char wanted, std::string_view what) {
    if (!accept(wanted)) {
      fail("header", fmt::format("is not what NumPy writes: expected {} at {}", what,
                                 quote(rest_.substr(0, 20))));
    }
  }

  [[noreturn]] void fail(std::string_view field, std::string_view problem) const {
    throw InputError("{}, field {}: it {}", quote(file_name_), quote(field), problem);
  }

  std::string_view rest_;
  const std::string& file_name_;
  std::optional<DType> dtype_;
  std::optional<bool> fortran_order_;
  std::optional<std::vector<uint64_t>> shape_;
};

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr size_t kPrefixBytes = 8;  // magic, major and minor version
constexpr size_t kAlignmentBytes = 64;
constexpr size_t kHeaderBytesMax = 65536;  // what version 1.0 can hold; plain arrays need about 100

// Returns the text of the header; the data follows it in `file`.
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
  NpyHeader header = HeaderParser(text, file_name).run();
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

// Returns everything before the data.
std::string header_of(const char* descr, std::span<const uint64_t> shape) {
  // In Python, a tuple of one element needs its comma.
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

// Writes an array of an element type of four bytes.
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

namespace {

// Returns rows that concatenate the rows of all arrays; the first array is that of `file`.
NpyArray side_by_side(const std::filesystem::path& file, const std::string& name,
                      const std::vector<NpyArray>& arrays) {
  // One integer for each row is a column, too.
  size_t rank = 3;
  for (const NpyArray& array : arrays) rank = std::max(rank, array.shape().size());
  const auto shape_of = [rank](const NpyArray& array) {
    std::vector<uint64_t> own = array.shape();
    if (own.size() + 1 == rank && !is_real(array.dtype())) own.push_back(1);
    return own;
  };
  const std::vector<uint64_t> first = shape_of(arrays[0]);
  std::vector<uint64_t> shape = first;
  for (const NpyArray& array : std::span(arrays).subspan(1)) {
    const std::vector<uint64_t> own = shape_of(array);
    refuse_if(own.empty() || own.size() != first.size() ||
                  !std::equal(own.begin(), own.end() - 1, first.begin()) ||
                  own.back() > UINT32_MAX || array.elements() == 0 || arrays[0].elements() == 0,
              "{} has shape [{}], and {} [{}]: expected arrays that differ only in the last "
              "extent, as their columns are concatenated",
              quote(arrays[0].name()), fmt::join(first, ", "), quote(array.name()),
              fmt::join(own, ", "));
    shape.back() += own.back();
  }
  const auto columns = static_cast<size_t>(shape.back());
  std::vector<float> values(static_cast<size_t>(arrays[0].elements() / first.back()) * columns);
  size_t begin = 0;  // column
  for (const NpyArray& array : arrays) {
    std::vector<float> own;
    if (!is_real(array.dtype())) {
      for (const int64_t number : array.to_i64()) own.push_back(static_cast<float>(number));
    } else {
      own = array.to_f32();
    }
    const auto width = static_cast<size_t>(shape_of(array).back());
    for (size_t i = 0; i < own.size(); ++i) {
      values[i / width * columns + begin + i % width] = own[i];
    }
    begin += width;
  }
  return NpyArray::of(FileMap(file), name, std::move(shape), std::move(values));
}

}  // namespace

NpyArray NpyArray::read(const std::filesystem::path& file) {
  const std::string name = file.string();
  if (name.find(',') != std::string::npos && !std::filesystem::exists(file)) {
    std::vector<NpyArray> arrays;
    for (size_t begin = 0; begin <= name.size();) {
      const size_t end = std::min(name.find(',', begin), name.size());
      arrays.push_back(read(name.substr(begin, end - begin)));
      begin = end + 1;
    }
    return side_by_side(name.substr(0, name.find(',')), name, arrays);
  }
  FileMap map(file);
  CheckpointTensor tensor = array_view(map.bytes(), file.string());
  return NpyArray(std::move(map), std::move(tensor));
}

NpyArray NpyArray::of(FileMap file, std::string name, std::vector<uint64_t> shape,
                      std::vector<float> values) {
  CheckpointTensor tensor = {std::move(name), DType::kF32, std::move(shape), {}};
  tensor.strides = contiguous_strides(tensor.shape);
  tensor.data = std::as_bytes(std::span(values));
  NpyArray array(std::move(file), std::move(tensor));
  array.made_ = std::move(values);
  return array;
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
