// SPDX-License-Identifier: Apache-2.0
// NumPy arrays: round trips, the types that are read, and headers that are refused.
#include "convert/files/npy.h"

#include <gtest/gtest.h>

#include <string>

#include "support/byte_string.h"
#include "support/refusal.h"
#include "support/temp_folder.h"

namespace arenite::convert {
namespace {

using testing::bytes_of;

std::string npy_file(std::string_view header, std::string_view data, char major = 1) {
  const std::string length = major == 1 ? bytes_of(static_cast<uint16_t>(header.size()))
                                        : bytes_of(static_cast<uint32_t>(header.size()));
  return std::string("\x93NUMPY") + major + '\0' + length + std::string(header) + std::string(data);
}

class Npy : public ::testing::Test {
 protected:
  NpyArray read(const std::string& bytes) { return NpyArray::read(folder_.write("x.npy", bytes)); }
  ::testing::AssertionResult refuses(const std::string& bytes,
                                     std::initializer_list<std::string_view> parts) {
    const auto names_file = testing::refuses([&] { read(bytes); }, {"x.npy'"});
    return names_file ? testing::refuses([&] { read(bytes); }, parts) : names_file;
  }
  // An array of four bytes of data whose header is a dict of these fields.
  ::testing::AssertionResult refuses_fields(const std::string& fields,
                                            std::initializer_list<std::string_view> parts) {
    return refuses(npy_file("{" + fields + "}\n", "1234"), parts);
  }

  testing::TempFolder folder_;
};

TEST_F(Npy, RoundTripsFloatsAndIntegers) {
  const std::vector<float> floats = {1.5f, -2, 3, 4, 5, 6};
  const std::vector<int32_t> integers = {7, -8};
  const auto file = folder_.path() / "out.npy";
  for (const std::vector<uint64_t>& shape :
       {std::vector<uint64_t>{6}, std::vector<uint64_t>{2, 3}, std::vector<uint64_t>{1, 6, 1}}) {
    write_npy(file, shape, floats);
    const NpyArray array = NpyArray::read(file);
    EXPECT_EQ(array.shape(), shape);
    EXPECT_EQ(array.dtype(), DType::kF32);
    EXPECT_EQ(array.to_f32(), floats);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(array.data().data()) % 64, 0u);
  }
  const std::vector<uint64_t> pair = {2};
  write_npy(file, pair, integers);
  EXPECT_EQ(NpyArray::read(file).to_i64(), (std::vector<int64_t>{7, -8}));
}

TEST_F(Npy, RoundTripsScalarsAndEmptyArrays) {
  const std::vector<float> one = {2.5f};
  const auto file = folder_.path() / "out.npy";
  write_npy(file, {}, one);
  EXPECT_TRUE(NpyArray::read(file).shape().empty());
  EXPECT_EQ(NpyArray::read(file).to_f32(), one);
  const std::vector<uint64_t> none = {3, 0};
  write_npy(file, none, std::span<const float>());
  EXPECT_EQ(NpyArray::read(file).shape(), none);
}

TEST_F(Npy, WritesTheSameBytesAsNumpy) {
  const auto file = folder_.path() / "out.npy";
  const std::vector<uint64_t> shape = {1};
  const std::vector<float> value = {1};
  write_npy(file, shape, value);
  std::string header = "{'descr': '<f4', 'fortran_order': False, 'shape': (1,), }";
  header.resize(117, ' ');
  EXPECT_EQ(testing::read_bytes(file), npy_file(header + "\n", bytes_of(1.0f)));
}

TEST_F(Npy, ReadsEveryTypeAndBothVersions) {
  const auto array_of = [&](const char* descr, const std::string& data, const char* count,
                            char major) {
    return read(
               npy_file(fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({},), }}\n",
                                    descr, count),
                        data, major))
        .to_f64();
  };
  const std::vector<double> expected = {1, 0};
  for (const char major : {'\1', '\2'}) {
    EXPECT_EQ(array_of("<f4", bytes_of<float>({1, 0}), "2", major), expected);
    EXPECT_EQ(array_of("<f8", bytes_of<double>({1, 0}), "2", major), expected);
    EXPECT_EQ(array_of("<i4", bytes_of<int32_t>({1, 0}), "2", major), expected);
    EXPECT_EQ(array_of("<i8", bytes_of<int64_t>({1, 0}), "2", major), expected);
    EXPECT_EQ(array_of("|i1", bytes_of<int8_t>({1, 0}), "2", major), expected);
    EXPECT_EQ(array_of("|u1", bytes_of<uint8_t>({1, 0}), "2", major), expected);
    EXPECT_EQ(array_of("|b1", bytes_of<uint8_t>({1, 0}), "2", major), expected);
  }
}

TEST_F(Npy, RefusesOtherFilesAndVersions) {
  EXPECT_TRUE(refuses("", {"not a NumPy array"}));
  EXPECT_TRUE(refuses("PK\x03\x04", {"not a NumPy array"}));
  EXPECT_TRUE(refuses("\x93NUMPY", {"cut short in its header"}));
  EXPECT_TRUE(refuses(npy_file("{}", "", 3), {"'version'", "3.0: expected 1.0 or 2.0"}));
  EXPECT_TRUE(refuses(std::string("\x93NUMPY\x02\x00\xff\xff\xff\xff", 12), {"'header length'"}));
  EXPECT_TRUE(refuses(std::string("\x93NUMPY\x01\x00\xff\xff{}", 12), {"cut short in its header"}));
}

TEST_F(Npy, RefusesTypesThatItCannotRead) {
  for (const char* descr : {">f4", "<f2", "<c8", "|S4", "<U1", "|O", "float", ""}) {
    EXPECT_TRUE(
        refuses_fields(fmt::format("'descr': '{}', 'fortran_order': False, 'shape': (1,)", descr),
                       {"field 'descr'", descr, "array.astype"}));
  }
  EXPECT_TRUE(refuses_fields("'descr': [('a', '<f4')]", {"structured type"}));
}

TEST_F(Npy, ReadsFilesSideBySide) {
  const auto write = [&](const char* name, std::vector<uint64_t> shape, std::vector<float> values) {
    write_npy(folder_.path() / name, shape, values);
    return (folder_.path() / name).string();
  };
  const std::string pairs = write("a.npy", {1, 2, 2}, {1, 2, 3, 4});
  const std::string singles = write("b.npy", {1, 2, 1}, {5, 6});
  const NpyArray both = NpyArray::read(pairs + "," + singles);
  EXPECT_EQ(both.shape(), (std::vector<uint64_t>{1, 2, 3}));
  EXPECT_EQ(both.to_f32(), (std::vector<float>{1, 2, 5, 3, 4, 6}));

  const std::string longer = write("c.npy", {1, 3, 1}, {7, 8, 9});
  const std::string empty = write("d.npy", {1, 2, 0}, {});
  for (const std::string& names :
       {pairs + "," + longer, pairs + "," + empty, empty + "," + pairs}) {
    EXPECT_TRUE(
        testing::refuses([&] { NpyArray::read(names); }, {"differ only in the last extent"}));
  }
}

TEST_F(Npy, RefusesFortranOrder) {
  EXPECT_TRUE(refuses_fields("'descr': '<f4', 'fortran_order': True, 'shape': (1,)",
                             {"field 'fortran_order'", "numpy.ascontiguousarray"}));
  EXPECT_TRUE(refuses_fields("'fortran_order': 0", {"neither True nor False"}));
}

TEST_F(Npy, RefusesShapesThatDoNotFitTheData) {
  const auto with_shape = [](const std::string& shape) {
    return "'descr': '<f4', 'fortran_order': False, 'shape': " + shape;
  };
  EXPECT_TRUE(refuses_fields(with_shape("(2,)"), {"[2] of F32 takes 8 bytes, but 4 follow"}));
  EXPECT_TRUE(refuses_fields(with_shape("(0,)"), {"takes 0 bytes"}));
  EXPECT_TRUE(refuses_fields(with_shape("(4294967296, 4294967296)"), {"more than 2^64"}));
  EXPECT_TRUE(refuses_fields(with_shape("(99999999999999999999,)"), {"more than 64 bits"}));
  EXPECT_TRUE(refuses_fields(with_shape("(-1,)"), {"field 'shape'", "non-negative integers"}));
  EXPECT_TRUE(refuses_fields(with_shape("(1.0,)"), {"expected ',' or ')'"}));
  EXPECT_TRUE(refuses_fields(with_shape("1"), {"expected a tuple at '1"}));
  EXPECT_TRUE(refuses_fields(with_shape("(,)"), {"non-negative integers"}));
  std::string ones;
  for (int i = 0; i < 65; ++i) ones += "1,";
  EXPECT_TRUE(refuses_fields(with_shape("(" + ones + ")"), {"more than 64 dimensions"}));
}

TEST_F(Npy, RefusesHeadersThatNumpyDoesNotWrite) {
  const std::string fields = "'descr': '<f4', 'fortran_order': False, 'shape': (1,)";
  EXPECT_TRUE(refuses_fields("'descr': '<f4', 'shape': (1,)", {"'fortran_order'", "is missing"}));
  EXPECT_TRUE(refuses_fields("'fortran_order': False, 'shape': (1,)", {"'descr'", "is missing"}));
  EXPECT_TRUE(refuses_fields("'descr': '<f4', 'fortran_order': False", {"'shape'", "is missing"}));
  EXPECT_TRUE(refuses_fields(fields + ", 'more': 1", {"'more'", "is not known"}));
  EXPECT_TRUE(refuses_fields(fields + ", 'descr': '<f4'", {"'descr'", "twice"}));
  EXPECT_TRUE(refuses_fields(fields + "} {", {"more bytes after the dict"}));
  EXPECT_TRUE(refuses(npy_file("[]", ""), {"expected a dict"}));
  EXPECT_TRUE(refuses(npy_file("{'descr", ""), {"no string for a key"}));
  EXPECT_TRUE(refuses(npy_file("{'descr' '<f4'}", ""), {"expected ':'"}));
}

}  // namespace
}  // namespace arenite::convert
