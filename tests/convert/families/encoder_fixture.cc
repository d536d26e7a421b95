// SPDX-License-Identifier: Apache-2.0
// Reads fixtures back into memory.
#include "convert/families/encoder_fixture.h"

#include <utility>

#include "convert/files/checkpoint.h"
#include "support/recognised.h"
#include "support/refusal.h"
#include "support/test_data.h"

namespace arenite::testing {

using convert::Checkpoint;

std::filesystem::path encoder_fixture(const std::string& name) {
  return convert_fixture("encoders") / name;
}

namespace {

// Row `row` of `tensor` [batch, tokens, ...], as far as its sequence goes.
template <typename Value, typename Stored>
std::vector<Value> sequence_of(const std::vector<Stored>& values, size_t batch, size_t tokens,
                               size_t row, size_t length) {
  const size_t per_token = values.size() / (batch * tokens);
  const auto begin = values.begin() + static_cast<ptrdiff_t>(row * tokens * per_token);
  std::vector<Value> sequence;
  for (size_t i = 0; i < length * per_token; ++i) {
    sequence.push_back(static_cast<Value>(begin[static_cast<ptrdiff_t>(i)]));
  }
  return sequence;
}

}  // namespace

convert::Evaluation run_row(const convert::TransformerSpec& spec, const std::string& fixture,
                            size_t row) {
  const Checkpoint expected = Checkpoint::read(encoder_fixture(fixture) / "expected.safetensors");
  const convert::CheckpointTensor& input = *expected.find("input");
  const size_t batch = input.shape[0];
  const size_t tokens = input.shape[1];
  const size_t length = static_cast<size_t>(expected.find("lengths")->to_i64()[row]);
  if (spec.input_features != 0) {
    return reference_encoder(spec, sequence_of<float>(input.to_f32(), batch, tokens, row, length));
  }
  const auto ids = sequence_of<uint32_t>(input.to_i64(), batch, tokens, row, length);
  const convert::CheckpointTensor* types = expected.find("types");
  if (types == nullptr) return reference_encoder(spec, ids);
  return reference_encoder(spec, ids,
                           sequence_of<uint8_t>(types->to_i64(), batch, tokens, row, length));
}

EditedEncoder::EditedEncoder(const std::string& fixture)
    : config(nlohmann::json::parse(read_bytes(encoder_fixture(fixture) / "config.json"))) {
  const Checkpoint checkpoint = Checkpoint::read(encoder_fixture(fixture) / "model.safetensors");
  for (const convert::CheckpointTensor& tensor : checkpoint.tensors()) {
    tensors[tensor.name] = {tensor.shape, tensor.to_f32()};
  }
}

void EditedEncoder::rename(const std::string& old_prefix, const std::string& prefix) {
  TensorMap renamed;
  for (auto& [name, tensor] : tensors) {
    const bool is_meant = name.starts_with(old_prefix);
    renamed[is_meant ? prefix + name.substr(old_prefix.size()) : name] = std::move(tensor);
  }
  tensors = std::move(renamed);
}

std::filesystem::path EditedEncoder::write() const {
  const auto folder = write_hf(folder_, "encoder", config, tensors);
  if (config.is_null()) std::filesystem::remove(folder / "config.json");
  return folder;
}

convert::TransformerSpec EditedEncoder::open(const convert::ModelOptions& options) const {
  return encoder_at(write(), options);
}

::testing::AssertionResult EditedEncoder::refuses(std::initializer_list<std::string_view> parts,
                                                  const convert::ModelOptions& options) const {
  return testing::refuses([&] { open(options); }, parts);
}

}  // namespace arenite::testing
