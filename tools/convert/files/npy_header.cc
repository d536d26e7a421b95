// SPDX-License-Identifier: Apache-2.0
// Reads exactly the literals that NumPy writes, and evaluates nothing.
#include "convert/files/npy_header.h"

#include <optional>
#include <utility>

#include "convert/files/error.h"

namespace arenite::convert {
namespace {

struct DescrName {
  std::string_view descr;
  DType dtype;
};

constexpr DescrName kDescrNames[] = {
    {"<f8", DType::kF64}, {"<f4", DType::kF32}, {"<i8", DType::kI64}, {"<i4", DType::kI32},
    {"<u4", DType::kU32}, {"|i1", DType::kI8},  {"|u1", DType::kU8},  {"|b1", DType::kBool},
};

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
      fail(key, "stands there twice");
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
    for (const DescrName& known : kDescrNames) {
      if (descr == known.descr) {
        dtype_ = known.dtype;
        return;
      }
    }
    fail("descr",
         fmt::format(
             "is {}: expected one of <f4 <f8 <i4 <i8 <u4 |i1 |u1 |b1; convert the array with "
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
    size_t digits = 0;
    for (; digits < rest_.size() && rest_[digits] >= '0' && rest_[digits] <= '9'; ++digits) {
      const auto digit = static_cast<uint64_t>(rest_[digits] - '0');
      if (!multiply(value, 10, value) || __builtin_add_overflow(value, digit, &value)) {
        fail("shape", "has a number of more than 64 bits");
      }
    }
    if (digits == 0) fail("shape", "is not a tuple of whole numbers from 0");
    rest_.remove_prefix(digits);
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

}  // namespace

NpyHeader parse_npy_header(std::string_view text, const std::string& file_name) {
  return HeaderParser(text, file_name).run();
}

}  // namespace arenite::convert
