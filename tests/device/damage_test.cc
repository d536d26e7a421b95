// SPDX-License-Identifier: Apache-2.0
// Damaged model files are refused for every kind of damage, and wrong weights are detected.
#include <algorithm>
#include <cstring>

#include "core/crc32c.h"
#include "device/device_test.h"
#include "device/tests.h"
#include "device/vectors.h"
#include "format/file_layout.h"
#include "format/reader.h"
#include "model_generated.h"
#include "ops/integer_rows.h"

namespace arenite::device {
namespace {

std::span<std::byte> fresh_copy() {
  std::ranges::copy(model_to_damage().span(), copy_memory().data());
  return copy_memory().first(model_to_damage().bytes);
}

// Puts `value` in place of the number at `at` in the metadata, for as long as this object lives,
// and makes the checksum right.
class WithNumber {
 public:
  WithNumber(std::span<std::byte> file, const void* at, uint32_t value)
      : file_(file), at_(static_cast<std::byte*>(const_cast<void*>(at))) {
    std::memcpy(&before_, at_, sizeof(before_));
    put(value);
  }
  ~WithNumber() { put(before_); }
  WithNumber(const WithNumber&) = delete;
  WithNumber& operator=(const WithNumber&) = delete;

 private:
  void put(uint32_t value) {
    std::memcpy(at_, &value, sizeof(value));
    std::byte* const end = file_.data() + file_.size() - sizeof(format::Footer);
    format::Footer footer;
    std::memcpy(&footer, end, sizeof(footer));
    footer.metadata_crc32c = crc32c(file_.first(static_cast<size_t>(footer.metadata_bytes)));
    std::memcpy(end, &footer, sizeof(footer));
  }

  std::span<std::byte> file_;
  std::byte* at_;
  uint32_t before_ = 0;
};

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

// The bytes of these lists are 2^32 and a few: where sizes have 32 bits they look like a few. They
// are refused as what is no FlatBuffer at all, and not by a later check that reads elements.
void endless_lists() {
  const std::span<std::byte> file = fresh_copy();
  REQUIRE(Model::load(file).ok());
  Diagnostic malformed;
  {
    const WithNumber no_root(file, file.data(), 0);
    EXPECT(Model::load(file, &malformed).status() == Status::kBadModel);
  }
  const format::Model& model = *format::GetModel(file.data());
  struct List {
    const char* name;
    const void* count;
    uint32_t element_bytes;
  };
  const List lists[] = {
      {"slots", model.slots(), sizeof(format::Slot)},
      {"ops", model.ops(), sizeof(format::Op)},
      {"op_names", model.op_names(), sizeof(uint32_t)},
      {"tensors", model.tensors(), sizeof(format::Tensor)},
      {"tensor_names", model.tensor_names(), sizeof(uint32_t)},
      {"caches", model.caches(), sizeof(format::Cache)},
      {"packed", model.packed(), sizeof(format::Packed)},
      {"tensor_offsets", model.tensor_offsets(), sizeof(uint32_t)},
  };
  for (const List& list : lists) {
    in_hand("list", list.name);
    REQUIRE(list.count != nullptr);
    const WithNumber endless(file, list.count, UINT32_MAX / list.element_bytes + 1);
    Diagnostic why;
    EXPECT(Model::load(file, &why).status() == Status::kBadModel);
    EXPECT(why.reason == malformed.reason && why.field == malformed.field);
    EXPECT(why.found == malformed.found && why.expected == malformed.expected);
  }
  EXPECT(Model::load(file).ok());
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
  if (kRowsAreIntegers) {
    EXPECT((*session)->self_test().status() == Status::kUnsupported);
    return;
  }
  EXPECT((*session)->self_test()->passed);

  const format::ModelReader reader(file);
  for (uint32_t op = 0; op < reader.ops(); ++op) {
    if (reader.op(op).kind != format::OpKind::kLinear) continue;
    in_hand("op", reader.op_name(op), op);
    float* const bias = const_cast<float*>(
        reader.weights(0, reader.op(op).numbers[format::LinearOp::kTensor]).f32());
    const float before = *bias;
    *bias += 1.0f;
    const Result<SelfTest> test = (*session)->self_test();
    EXPECT(test.ok() && !test->passed && test->op_index == op);
    *bias = before;
  }
  EXPECT((*session)->self_test()->passed);
}

}  // namespace arenite::device
