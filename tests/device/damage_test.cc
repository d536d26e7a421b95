// SPDX-License-Identifier: Apache-2.0
// Damaged model files are refused, whatever is wrong with them, and wrong weights are noticed.
#include <algorithm>

#include "device/device_test.h"
#include "device/tests.h"
#include "device/vectors.h"
#include "format/reader.h"

namespace arenite::device {
namespace {

std::span<std::byte> fresh_copy() {
  std::ranges::copy(model_to_damage().span(), copy_memory().data());
  return copy_memory().first(model_to_damage().bytes);
}

}  // namespace

void changed_bytes() {
  const std::span<std::byte> file = fresh_copy();
  REQUIRE(Model::load(file).ok());
  for (uint32_t i = 0; i < file.size(); ++i) {
    in_hand("byte", "", i);
    const std::byte before = file[i];
    file[i] ^= std::byte{1} << i % 8;
    EXPECT(!Model::load(file).ok());
    file[i] = before;
  }
  EXPECT(Model::load(file).ok());
}

void other_lengths() {
  const std::span<std::byte> file = fresh_copy();
  for (uint32_t bytes = 0; bytes < file.size(); ++bytes) {
    in_hand("length", "", bytes);
    EXPECT(!Model::load(file.first(bytes)).ok());
  }
  // The copy's memory has room for more, and what lies there is no part of the model.
  EXPECT(!Model::load(copy_memory()).ok());
  Diagnostic why;
  EXPECT(Model::load(copy_memory().subspan(4, 128), &why).status() == Status::kInvalidArgument);
}

// The checksums of weights are left out, as where memory changes after the model was loaded.
void wrong_weights() {
  const std::span<std::byte> file = fresh_copy();
  LoadOptions options;
  options.checksums = Checksums::kSkip;
  const Result<Model> model = Model::load(file, nullptr, options);
  REQUIRE(model.ok());
  SessionOptions session_options;
  session_options.positions_max = model->self_test_tokens();
  const auto session = Session::create(*model, session_options, arena_memory());
  REQUIRE(session.ok());
  EXPECT((*session)->self_test()->passed);

  const format::ModelReader reader(file);
  for (uint32_t op = 0; op < reader.ops(); ++op) {
    if (reader.op(op).kind != format::OpKind::kLinear) continue;
    in_hand("op", reader.op_name(op), op);
    float* const bias = const_cast<float*>(reader.weights(0, reader.op(op).linear.tensor));
    const float before = *bias;
    *bias += 1.0f;
    const Result<SelfTest> test = (*session)->self_test();
    EXPECT(test.ok() && !test->passed && test->op_index == op);
    *bias = before;
  }
  EXPECT((*session)->self_test()->passed);
}

}  // namespace arenite::device
