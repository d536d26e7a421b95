// SPDX-License-Identifier: Apache-2.0
// Opens, recognises, builds, rewrites, lowers, packs and loads a model.
#include "fuzz/whole_model.h"

#include <algorithm>
#include <array>
#include <variant>

#include "convert/check/check_session.h"
#include "convert/check/pack_model.h"
#include "convert/convert.h"
#include "convert/files/error.h"
#include "convert/open/opened.h"
#include "convert/program/program.h"

namespace arenite::fuzz {
namespace {

using namespace convert;

constexpr uint64_t kLoadedElementsMax = uint64_t{1} << 20;  // of all tensors together
constexpr uint64_t kPackedElementsMax = uint64_t{1} << 15;
constexpr uint32_t kContextMax = 64;

uint64_t elements_of(const TensorStore& tensors) {
  uint64_t sum = 0;
  for (const StoredTensor& tensor : tensors.tensors()) {
    uint64_t elements = 1;
    for (const uint64_t extent : tensor.shape) {
      if (!multiply(elements, extent, elements)) return UINT64_MAX;
    }
    if (__builtin_add_overflow(sum, elements, &sum)) return UINT64_MAX;
  }
  return sum;
}

void load_all(const TensorStore& tensors) {
  for (const StoredTensor& tensor : tensors.tensors()) {
    try {
      tensor.load();
      if (tensor.load_f64) tensor.load_f64();
      if (tensor.load_quantized) tensor.load_quantized();
    } catch (const InputError&) {  // the next one is read all the same
    }
  }
}

// Limits the context like --context, so that tables of positions are small.
void limit_context(uint32_t& positions_max) {
  if (positions_max != 0) positions_max = std::min(positions_max, kContextMax);
}

void pack(Graph graph) {
  const Program program = compile(std::move(graph), "fuzz");
  const AlignedBytes file = pack_model(program, {Target::kPortable}, "fuzz");
  load_converted(file, Target::kPortable);  // a bug of ours where it fails: std::logic_error
}

// Continues like the converter after opening a model.
void use_opened(const Opened& opened, const ModelOptions& options) {
  const uint64_t elements = elements_of(opened.tensors);
  Recognised read = recognise(opened, options);
  if (auto* spec = std::get_if<TransformerSpec>(&read.facts)) {
    limit_context(spec->positions_max);
    check_angles(*spec, "fuzz");
    read.graph.inputs[0].positions_max = spec->positions_max;
  }
  if (elements <= kPackedElementsMax) pack(std::move(read.graph));
}

}  // namespace

ModelOptions options_of(std::string_view bytes) {
  std::array<uint32_t, 12> choice = {};
  for (size_t i = 0; i < std::min(choice.size(), bytes.size()); ++i) {
    choice[i] = static_cast<unsigned char>(bytes[i]);
  }
  ModelOptions options;
  options.heads = choice[0] % 17;
  if (choice[1] != 0) options.activation = static_cast<Activation>((choice[1] - 1) % 4);
  if (choice[2] != 0) options.norm_first = choice[2] % 2 == 1;
  if (choice[3] != 0) options.pooling = static_cast<PoolingChoice>((choice[3] - 1) % 4);
  options.mask = static_cast<MaskChoice>(choice[4] % 4);
  if (options.mask == MaskChoice::kWindow) options.window = 1 + choice[4] / 4;
  if (choice[5] != 0) options.epsilon = choice[5] % 2 == 1 ? 1e-6 : 1e-12;
  if (choice[6] != 0) options.rope_theta = choice[6] % 2 == 1 ? 5e5 : 1e6;
  if (choice[7] != 0) options.embedding_scale = EmbeddingScale{choice[7] % 2 == 1, 2.0};
  if (choice[8] != 0) options.score_scale = choice[8] % 2 == 1 ? 1.0 : 0.5;
  if (choice[9] != 0)
    options.mask_ones = choice[9] % 2 == 1 ? MaskOnes::kHidden : MaskOnes::kVisible;
  options.features = choice[10] % 33;
  options.context = choice[11] % 65;
  return options;
}

void use_model(const std::filesystem::path& path, const ModelOptions& options) {
  const Opened opened = open_model(path);
  if (elements_of(opened.tensors) <= kLoadedElementsMax) load_all(opened.tensors);
  use_opened(opened, options);
}

void use_state_dict(const std::filesystem::path& path) {
  try {
    const Opened opened = open_model(path);
    if (elements_of(opened.tensors) <= kLoadedElementsMax) load_all(opened.tensors);
    constexpr std::string_view kSaid[] = {"", "\4\2\1\2\1", "\2\2\2", "\4\2\1\1\2\2\2\1\1"};
    for (const std::string_view said : kSaid) {
      try {
        use_opened(opened, options_of(said));
      } catch (const InputError&) {
      }
    }
  } catch (const InputError&) {
  }
}

}  // namespace arenite::fuzz
