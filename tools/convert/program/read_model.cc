// SPDX-License-Identifier: Apache-2.0
// The inverse of writer.cc. Only what depends on the target is not taken over: where tensors lie,
// and the arena's formula.
#include "convert/program/writer.h"
#include "model_generated.h"

namespace arenite::convert {
namespace {

// All bytes of a name: the reader ends it at the first zero. A list may be shorter than what it has
// names for.
template <typename Names>
std::string name_at(const Names& names, uint32_t index) {
  return index < names.size() ? names.Get(index)->str() : "";
}

template <typename T>
std::vector<T> copy_of(std::span<const T> list) {
  return {list.begin(), list.end()};
}

CompiledMask copy_of(const MaskView& view) {
  CompiledMask mask;
  mask.kind = view.kind;
  mask.positions = view.positions;
  mask.lookback = view.lookback;
  mask.lookahead = view.lookahead;
  mask.values = copy_of(view.values);
  mask.map = copy_of(view.map);
  mask.bits = copy_of(view.bits);
  mask.row_begin = copy_of(view.row_begin);
  mask.row_end = copy_of(view.row_end);
  return mask;
}

ProgramTensor tensor_at(const format::ModelReader& reader, uint32_t packed_index, uint32_t index) {
  const format::TensorShape& shape = reader.tensor(index);
  ProgramTensor tensor;
  tensor.outputs = shape.outputs;
  tensor.inputs = shape.inputs;
  tensor.layout = shape.layout;
  tensor.type = shape.type;
  tensor.packed = reader.weights(packed_index, index);
  return tensor;
}

}  // namespace

Program read_model(std::span<const std::byte> file, uint32_t packed_index) {
  const format::ModelReader reader(file);
  const format::Model& model = *format::GetModel(file.data());
  Program program;
  program.producer = model.producer()->str();
  program.name = model.name()->str();
  program.architecture = model.architecture()->str();
  program.positions_max = reader.positions_max();
  program.tokens_min = reader.tokens_min();
  program.vocab_size = reader.vocab_size();
  program.input_slot = reader.input_slot();
  program.output_slot = reader.output_slot();
  program.kv_cache = reader.kv_cache();
  program.array_flags = model.array_flags();
  for (uint32_t i = 0; i < reader.slots(); ++i) program.slots.push_back(reader.slot(i));
  for (uint32_t i = 0; i < reader.ops(); ++i) {
    program.ops.push_back({name_at(*model.op_names(), i), reader.op(i)});
  }
  for (uint32_t i = 0; i < reader.tensors(); ++i) {
    program.tensors.push_back(tensor_at(reader, packed_index, i));
    program.tensors.back().name = name_at(*model.tensor_names(), i);
  }
  for (uint32_t i = 0; i < reader.caches(); ++i) program.caches.push_back(reader.cache(i));
  for (uint32_t i = 0; i < reader.masks(); ++i) program.masks.push_back(copy_of(reader.mask(i)));
  for (uint32_t i = 0; i < reader.hidden_states(); ++i) {
    program.hidden_states.push_back(reader.hidden_state(i));
  }
  for (const auto* label : *model.labels()) program.labels.push_back(label->str());
  if (format::has_tokenizer(file)) program.stored_tokenizer = format::tokenizer_view(file);
  return program;
}

}  // namespace arenite::convert
