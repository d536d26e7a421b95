// SPDX-License-Identifier: Apache-2.0
// Builds checkpoints in memory: tensors of any type and shape, as a safetensors file.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "convert/files/checkpoint.h"

namespace arenite::test {

// `count` multiples of 1/64 in [-1, 1): every floating-point type holds them exactly.
std::vector<double> exact_values(size_t count, uint64_t seed);

class CheckpointBuilder {
 public:
  // Row-major values; without any, exact_values of a seed that depends on the name. F16 and BF16
  // drop what they cannot hold. Throws std::invalid_argument if the shape has another number.
  CheckpointBuilder& add(const std::string& name, const std::vector<uint64_t>& shape,
                         std::vector<double> values = {},
                         convert::DType dtype = convert::DType::kF32);

  // name.weight [outputs, inputs] and, if asked for, name.bias [outputs].
  CheckpointBuilder& add_linear(const std::string& name, uint32_t outputs, uint32_t inputs,
                                bool bias = true);

  CheckpointBuilder& remove(const std::string& name);

  const std::vector<double>& values(const std::string& name) const;

  // The file, with `prefix` in front of every name. `dtype` replaces F32.
  std::string safetensors(const std::string& prefix = "",
                          convert::DType dtype = convert::DType::kF32) const;

 private:
  struct Tensor {
    std::string name;
    std::vector<uint64_t> shape;
    std::vector<double> values;
    convert::DType dtype;
  };
  std::vector<Tensor> tensors_;
};

}  // namespace arenite::test
