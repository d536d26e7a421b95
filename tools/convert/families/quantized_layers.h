// SPDX-License-Identifier: Apache-2.0
// Linear layers whose weights a checkpoint has as integers and scales, in tensors of their own.
#pragma once

#include <cstdint>
#include <functional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "convert/files/checkpoint.h"
#include "convert/spec/config_fields.h"
#include "convert/spec/quantized_weights.h"

namespace arenite::convert {

// What to do about weights that are not taken over, for messages.
inline constexpr const char* kConvertOriginal =
    "convert the original weights, with --weights q4 or q8";

// Matrices of integers, with how to read them.
struct IntegerWeight {
  std::string scheme;  // for people: "GPTQ, groups of 128"
  uint32_t rows = 0;
  uint32_t columns = 0;
  uint32_t bits = 0;   // 4 or 8
  uint32_t group = 0;  // columns that share a scale; divides `columns`
  std::function<ScaledIntegers()> read;
};

// Finds the tensors that stand for the weights of layers, and puts one matrix, `<layer>.weight`, in
// their place. A part is what follows the layer's name and a dot. REQUIRES: the store outlives it.
class QuantizedLayers {
 public:
  explicit QuantizedLayers(const TensorStore& store) : store_(store) {}

  // The layers that have this part, of this type; empty: of any.
  std::vector<std::string> layers_with(std::string_view part, std::string_view type = {}) const;

  // nullptr when absent.
  const StoredTensor* find(const std::string& layer, const std::string& part) const;
  // Throws InputError when it is missing or of none of `types`.
  const StoredTensor& require(const std::string& layer, const std::string& part,
                              std::span<const char* const> types) const;

  // From now on the weight stands for `parts`. Where no type holds its integers as they are, it has
  // their products with the scales alone.
  void replace(const std::string& layer, const std::vector<std::string>& parts,
               IntegerWeight weight);

  // All tensors, with whole weights for those replaced.
  TensorStore result() const;

 private:
  const TensorStore& store_;
  std::set<std::string> replaced_;
  std::vector<StoredTensor> weights_;
};

inline constexpr const char* kInt32[] = {"I32"};
inline constexpr const char* kReals[] = {"F32", "F16", "BF16"};

// "'file': 'tensor'", for messages.
std::string place_of(const StoredTensor& tensor);

// Throws InputError unless the shape is that.
void expect_shape(const StoredTensor& tensor, const std::vector<uint64_t>& shape);

// Throws InputError unless it is a matrix whose sides are within limits.
struct Sides {
  uint32_t rows, columns;
};
Sides sides_of(const StoredTensor& tensor);

// The unsigned integers of `bits` each in a tensor of 32-bit words, the first one lowest.
std::vector<uint8_t> unpack_words(const StoredTensor& words, uint32_t bits);

// The numbers of a tensor of scales. Throws InputError unless all are finite and at least 0.
std::vector<float> load_scales(const StoredTensor& scales);

// Throws InputError where integers that are not zero have a scale of zero, so that their weights
// are lost.
void check_zero_scales(const ScaledIntegers& integers, const StoredTensor& scales);

// Throws InputError unless `order` has one number for each column, and says that column i belongs
// to group i / group. The numbers may all be -1: that nobody has set them.
void check_group_order(const StoredTensor& order, uint32_t columns, uint32_t group);

// One function for each scheme that is taken over. It takes the fields that say how the tensors are
// to be read, refuses what is not supported, and replaces the layers.
using SchemeReader = void(ConfigFields& config, QuantizedLayers& layers);
SchemeReader read_gptq, read_compressed_tensors, read_bitsandbytes;

}  // namespace arenite::convert
