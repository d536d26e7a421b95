// SPDX-License-Identifier: Apache-2.0
// The program first: slots, ops and what they name. Then data: tensors, segments and masks.
#include "fuzz/promises.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include "fuzz/require.h"
#include "model_generated.h"

namespace arenite::test {
namespace {

using format::Model;
using format::Op;
using format::Slot;
using format::Tensor;
using format::View;

constexpr uint32_t kNone = UINT32_MAX;
constexpr uint32_t kColumnsMost = 1 << 16;
constexpr uint32_t kMaskPositionsMost = 300;

// What the ops of SPEC.md's table do with their views and numbers; one letter for each place:
// r read, o read if there, w write, u in place or write, - nothing; and in numbers t a tensor, T
// one or none, c a cache, m a mask, - none of these.
struct OpRule {
  const char* views;
  const char* numbers;
};
constexpr OpRule kOpRules[] = {
    {"r--w", "t----"},  // Linear
    {"oorw", "-cmT-"},  // Attention
    {"---w", "TTT--"},  // Embedding
    {"r--u", "--TT-"},  // Norm
    {"r--u", "-t---"},  // Rope
    {"ro-u", "-----"},  // Activation
    {"rr-u", "-----"},  // Add
    {"r--w", "-----"},  // Select
    {"r--u", "t----"},  // Prefix
    {"---w", "-----"},  // Patches
};

class Promises {
 public:
  explicit Promises(std::span<const std::byte> file)
      : file_(file), model_(*format::GetModel(file.data())) {}

  void check() {
    check_slots();
    for (uint32_t i = 0; i < model_.ops()->size(); ++i) check_op(i);
    check_columns();
    check_ends();
    for (uint32_t i = 0; i < model_.packed()->size(); ++i) check_tensors(i);
    for (const format::Mask* mask : *model_.masks()) check_mask(*mask);
  }

 private:
  const Slot& slot(uint32_t index) const { return *model_.slots()->Get(index); }
  const Op& op(uint32_t index) const { return *model_.ops()->Get(index); }
  const Tensor& tensor(uint32_t index) const { return *model_.tensors()->Get(index); }

  void check_view(const View& view, uint32_t op_index) const {
    require(view.slot() < model_.slots()->size(), "a view has a slot");
    const Slot& of = slot(view.slot());
    require(uint64_t{view.column()} + view.width() <= of.width(), "a view lies in its slot");
    require(of.first_op() <= op_index && op_index <= of.last_op(), "an op uses living slots");
  }

  void check_slots() const {
    require(model_.slots()->size() >= 1, "there are slots");
    for (const Slot* a : *model_.slots()) {
      require(a->width() >= 1 && uint64_t{a->offset()} + a->width() < (1u << 30), "a slot's place");
      require(a->first_op() <= a->last_op() && a->last_op() < model_.ops()->size(), "a life");
      for (const Slot* b : *model_.slots()) {
        const bool together = a->first_op() <= b->last_op() && b->first_op() <= a->last_op();
        if (a == b || !together || (a->per_output() != 0) != (b->per_output() != 0)) continue;
        require(uint64_t{a->offset()} + a->width() <= b->offset() ||
                    uint64_t{b->offset()} + b->width() <= a->offset(),
                "slots that are alive together do not overlap");
      }
    }
  }

  void check_op(uint32_t index) const {
    const Op& of = op(index);
    require(of.kind() < std::size(kOpRules), "an op of a known kind");
    const OpRule& rule = kOpRules[of.kind()];
    for (uint32_t i = 0; i < 4; ++i) {
      const View& view = *of.views()->Get(i);
      const char letter = rule.views[i];
      require(view.width() != 0 || letter == '-' || letter == 'o', "an operand is there");
      if (view.width() != 0) check_view(view, index);
    }
    for (uint32_t i = 0; i < 5; ++i) {
      const uint32_t number = of.numbers()->Get(i);
      const char letter = rule.numbers[i];
      const bool is_tensor = letter == 't' || (letter == 'T' && number != kNone);
      require(!is_tensor || number < model_.tensors()->size(), "a tensor is there");
      require(letter != 'c' || number < model_.caches()->size(), "a cache is there");
      require(letter != 'm' || number < model_.masks()->size(), "a mask is there");
    }
    check_widths(of);
  }

  void check_widths(const Op& of) const {
    const auto width = [&](uint32_t i) { return of.views()->Get(i)->width(); };
    const auto number = [&](uint32_t i) { return of.numbers()->Get(i); };
    switch (of.kind()) {
      case 0: {
        const Tensor& weights = tensor(number(0));
        require(
            weights.layout() == 0 && weights.inputs() == width(0) && weights.outputs() == width(3),
            "weights are as wide as the views");
        return;
      }
      case 1: {
        const format::Cache& cache = *model_.caches()->Get(number(1));
        const uint64_t heads = number(0);
        require(heads != 0 && cache.kv_heads() != 0 && heads % cache.kv_heads() == 0 &&
                    width(0) == heads * cache.head_dim() &&
                    width(1) == uint64_t{cache.kv_heads()} * cache.head_dim() &&
                    width(2) == uint64_t{cache.kv_heads()} * cache.value_dim() &&
                    width(3) == heads * cache.value_dim(),
                "heads fill the views");
        return;
      }
      case 2:
        for (uint32_t i = 0; i < 3; ++i) {
          if (number(i) != kNone) require(tensor(number(i)).inputs() == width(3), "an embedding");
        }
        require(
            number(0) == kNone || tensor(number(0)).outputs() >= model_.signature()->vocab_size(),
            "a row for each token of the vocabulary");
        return;
      case 3:
        require(width(0) == width(3) && number(1) != 0 && width(0) % number(1) == 0, "a norm");
        for (const uint32_t vector : {number(2), number(3)}) {
          if (vector == kNone) continue;
          require(tensor(vector).inputs() == width(0) / number(1) && tensor(vector).outputs() == 1,
                  "a vector as wide as a group");
        }
        return;
      case 4:
        require(width(0) == width(3) && number(0) != 0 && width(0) % number(0) == 0 &&
                    tensor(number(1)).inputs() <= width(0) / number(0) &&
                    tensor(number(1)).outputs() >= model_.signature()->positions_max(),
                "a rotation");
        return;
      case 5:
        require(width(0) == width(3) && (width(1) == 0 || width(1) == width(0)), "an activation");
        return;
      case 6:
        require(width(0) == width(3) && width(1) == width(3), "a sum");
        return;
      case 7:
      case 8:
        require(width(0) == width(3), "rows that are copied");
        require(of.kind() == 7 || tensor(number(0)).inputs() == width(3), "a prefix");
        return;
      default:
        require(uint64_t{number(0)} * number(3) * number(4) == width(3), "a patch");
        require(number(3) <= number(1) && number(4) <= number(2), "a patch is in the image");
    }
  }

  // Runs the program with a flag for each column instead of a number.
  void check_columns() const {
    for (const Slot* slot : *model_.slots()) {
      if (slot->width() > kColumnsMost) return;
    }
    std::vector<std::vector<bool>> written;
    for (const Slot* slot : *model_.slots()) written.emplace_back(slot->width());
    const format::Signature& signature = *model_.signature();
    if (signature.vocab_size() == 0 && op(0).kind() != 9) {
      require(signature.input_slot() < written.size(), "an input slot");
      written[signature.input_slot()].assign(slot(signature.input_slot()).width(), true);
    }
    const auto all = [&](const View& view, bool value) {
      const auto begin = written[view.slot()].begin() + view.column();
      return std::all_of(begin, begin + view.width(), [=](bool x) { return x == value; });
    };
    for (const Op* of : *model_.ops()) {
      const View& output = *of->views()->Get(3);
      bool in_place = false;
      for (uint32_t i = 0; i < 3; ++i) {
        const View& input = *of->views()->Get(i);
        if (input.width() == 0) continue;
        require(all(input, true), "columns are written before they are read");
        in_place = in_place ||
                   (input.slot() == output.slot() && input.column() == output.column() && i == 0);
      }
      require(all(output, in_place), "columns are written once, or changed in place");
      std::fill_n(written[output.slot()].begin() + output.column(), output.width(), true);
    }
    for (const std::vector<bool>& slot : written) {
      require(std::ranges::find(slot, false) == slot.end(), "a slot is filled in the end");
    }
  }

  void check_ends() const {
    const uint32_t output = model_.signature()->output_slot();
    require(output < model_.slots()->size(), "an output slot");
    require(slot(output).last_op() == model_.ops()->size() - 1, "the output lives to the end");
    const uint32_t labels = model_.labels()->size();
    require(labels == 0 || labels == slot(output).width(), "a label for each column");
    for (const format::HiddenState* state : *model_.hidden_states()) {
      require(state->op() < model_.ops()->size() && state->view().width() != 0, "a state");
      check_view(state->view(), state->op());
    }
  }

  struct Tile {
    uint64_t nr, kr;
  };
  // Of SPEC.md's table of targets: by type, how many outputs lie side by side, and inputs follow
  // each other.
  static Tile tile(uint32_t target, uint32_t type) {
    constexpr Tile kTiles[9][4] = {
        {{4, 1}, {4, 1}, {4, 1}, {4, 1}},     {{8, 1}, {8, 1}, {4, 8}, {4, 8}},
        {{16, 1}, {16, 1}, {8, 8}, {8, 8}},   {{32, 1}, {32, 1}, {16, 8}, {8, 8}},
        {{8, 1}, {8, 1}, {16, 1}, {16, 1}},   {{8, 1}, {8, 1}, {8, 1}, {16, 1}},
        {{32, 1}, {32, 1}, {16, 8}, {16, 8}}, {{8, 1}, {8, 1}, {16, 4}, {16, 4}},
        {{8, 1}, {8, 1}, {16, 8}, {16, 8}},
    };
    require(target < std::size(kTiles) && type < 4, "a known target and type");
    return kTiles[target][type];
  }

  static uint64_t row_bytes(const Tensor& of) {
    const uint64_t inputs = of.inputs();
    switch (of.type()) {
      case 0:
        return 4 * inputs;
      case 3:
        return inputs / 32 * 18;
      default:
        return 4 + (inputs + 3) / 4 * 4;
    }
  }

  static uint64_t panel_bytes(const Tensor& of, Tile tile) {
    const uint64_t inputs = of.inputs();
    const uint64_t rounded = (inputs + tile.kr - 1) / tile.kr * tile.kr;
    switch (of.type()) {
      case 0:
        return 4 * tile.nr * (1 + inputs);
      case 1:
        return tile.nr * (8 + inputs);
      case 2:
        return tile.nr * (12 + rounded);
      default:
        return tile.nr * (8 + inputs / 32 * 18);
    }
  }

  void check_tensors(uint32_t index) const {
    const format::Packed& packed = *model_.packed()->Get(index);
    const uint64_t begin = uint64_t{packed.segment().offset()} * 64;
    const uint64_t length = uint64_t{packed.segment().length()} * 64;
    require(begin + length <= file_.size(), "a segment lies in the file");
    uint64_t end = 0;
    for (uint32_t i = 0; i < model_.tensors()->size(); ++i) {
      const Tensor& of = tensor(i);
      require(of.outputs() != 0 && of.inputs() != 0 && of.layout() <= 1, "a tensor has elements");
      const Tile size = tile(packed.target(), of.type());
      const uint64_t bytes = of.layout() == 1
                                 ? of.outputs() * row_bytes(of)
                                 : (of.outputs() + size.nr - 1) / size.nr * panel_bytes(of, size);
      const uint32_t place = model_.tensor_offsets()->Get(index * model_.tensors()->size() + i);
      require(uint64_t{place} * 64 >= end, "tensors do not overlap");
      end = uint64_t{place} * 64 + bytes;
      require(end + 16 <= length, "a tensor lies in its segment, with what kernels may read");
    }
  }

  template <typename T>
  std::span<const T> words(const format::Mask& mask, uint64_t first, uint64_t count) const {
    const uint64_t bytes = uint64_t{mask.words()} * sizeof(uint32_t);
    require((first + count) * sizeof(T) <= bytes, "a mask's lists lie in its words");
    const uint32_t* const begin = model_.mask_words()->data() + mask.first_word();
    return {reinterpret_cast<const T*>(begin) + first, static_cast<size_t>(count)};
  }

  void check_mask(const format::Mask& mask) const {
    require(mask.kind() <= 2, "a mask of a known kind");
    require(uint64_t{mask.first_word()} + mask.words() <= model_.mask_words()->size(),
            "a mask's words are there");
    const uint64_t positions = mask.positions();
    if (mask.kind() == 1) (void)words<float>(mask, 0, 2 * positions - 1);
    if (mask.kind() != 2) return;
    const uint64_t tiles = (positions + 31) / 32;
    const auto map = words<uint16_t>(mask, 0, tiles * tiles);
    const uint64_t after_map = (tiles * tiles + 1) / 2;
    const auto begins = words<uint32_t>(mask, after_map, positions);
    const auto ends = words<uint32_t>(mask, after_map + positions, positions);
    const uint64_t first_bits = after_map + 2 * positions;
    const uint64_t mixed = (mask.words() - first_bits) / 32;
    const auto bits = words<uint32_t>(mask, first_bits, mixed * 32);
    for (const uint16_t tile : map) require(tile < 2 + mixed, "a tile is there");
    if (positions > kMaskPositionsMost) return;
    for (uint64_t q = 0; q < positions; ++q) {
      uint64_t first = positions;
      uint64_t last = 0;
      for (uint64_t k = 0; k < positions; ++k) {
        const uint16_t tile = map[q / 32 * tiles + k / 32];
        const bool sees =
            tile == 1 || (tile > 1 && (bits[(tile - 2u) * 32 + q % 32] >> k % 32 & 1) != 0);
        if (!sees) continue;
        first = std::min(first, k);
        last = k + 1;
      }
      require(first < last && begins[q] == first && ends[q] == last, "a row's range is exact");
    }
  }

  std::span<const std::byte> file_;
  const Model& model_;
};

}  // namespace

void check_promises(std::span<const std::byte> file) { Promises(file).check(); }

}  // namespace arenite::test
