// SPDX-License-Identifier: Apache-2.0
// Checks the program first: slots, ops and their operands; then data: tensors, segments and masks.
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

// Operands of the ops in SPEC.md's table, one letter for each place. Views: r read, o read if
// present, w written, u written, in place or not, - unused. Numbers: t a tensor, T a tensor or
// none, c a cache, m a mask, - others.
struct OpRule {
  const char* views;
  const char* numbers;
};
constexpr OpRule kOpRules[] = {
    {"r--w", "t----"},  // Linear
    {"ooow", "cmT-T"},  // Attention
    {"---w", "TTT--"},  // Embedding
    {"r--u", "--TT-"},  // Norm
    {"r--u", "-t---"},  // Rope
    {"ro-u", "-----"},  // Activation
    {"rr-u", "-----"},  // Add
    {"r--w", "-----"},  // Select
    {"rr-w", "-----"},  // Join
    {"r--w", "t----"},  // Convolution
    {"r--w", "t---t"},  // Depthwise
    {"r--w", "-----"},  // MaxPool
    {"-or-", "c----"},  // Store
    {"r--w", "-----"},  // TopK
    {"rr-w", "t----"},  // Experts
};

class Promises {
 public:
  explicit Promises(std::span<const std::byte> file)
      : file_(file), model_(*format::GetModel(file.data())) {}

  void check() {
    check_functions();
    check_axes();
    check_slots();
    for (uint32_t i = 0; i < model_.ops()->size(); ++i) check_op(i);
    for (const Slot* slot : *model_.slots()) {
      if (model_.axes()->Get(slot->axis())->kind() == 7) check_blocks(*slot);
    }
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

  // The inputs of a concatenation of rows lie in place, within its result.
  uint32_t area_of(uint32_t axis) const {
    for (uint32_t i = axis + 1; i < model_.axes()->size(); ++i) {
      const format::Axis& whole = *model_.axes()->Get(i);
      const bool is_part = whole.source() == axis || whole.other() == axis;
      if (whole.kind() == 2 && is_part && model_.axes()->Get(axis)->kind() != 3) axis = i;
    }
    return axis;
  }

  const format::Function& function_of(uint32_t op_index) const {
    uint32_t i = 0;
    while (op_index >= model_.functions()->Get(i)->first_op() + model_.functions()->Get(i)->ops()) {
      ++i;
    }
    return *model_.functions()->Get(i);
  }

  // Functions are all of the program, and inputs are dealt out among them.
  void check_functions() const {
    uint32_t end = 0, inputs = 0;
    for (const format::Function* function : *model_.functions()) {
      require(function->first_op() == end && function->ops() >= 1, "functions follow each other");
      end += function->ops();
      require(function->inputs() != 0 && (function->inputs() & inputs) == 0,
              "an input is taken once");
      inputs |= function->inputs();
    }
    require(end == model_.ops()->size(), "each op is of a function");
    require(model_.inputs()->size() <= 4 && inputs == (1u << model_.inputs()->size()) - 1,
            "each input is taken");
    for (uint32_t i = 0; i < model_.inputs()->size(); ++i) {
      const uint32_t axis = model_.inputs()->Get(i)->axis();
      require(axis < model_.axes()->size() && model_.axes()->Get(axis)->kind() == 0 &&
                  model_.axes()->Get(axis)->source() == i,
              "an input has its axis");
    }
  }

  // The inputs that an axis is made of.
  uint32_t inputs_of(uint32_t index) const {
    const format::Axis& axis = *model_.axes()->Get(index);
    if (axis.kind() == 0) return 1u << axis.source();
    return inputs_of(axis.source()) | (axis.kind() == 2 ? inputs_of(axis.other()) : 0);
  }

  void check_axes() const {
    require(model_.axes()->size() >= 1 && model_.axes()->size() <= 8, "there are axes");
    for (uint32_t i = 0; i < model_.axes()->size(); ++i) {
      const format::Axis& axis = *model_.axes()->Get(i);
      require(axis.kind() <= 8 && (i != 0 || axis.kind() == 0), "an axis of a known kind");
      const bool is_image = axis.kind() == 6 || (axis.kind() == 0 && axis.rows() != 0);
      if (is_image) check_image(axis);
      for (const uint32_t source : {axis.source(), is_image ? 0 : axis.other()}) {
        require(axis.kind() == 0 ? source < model_.inputs()->size()
                                 : source < i && model_.axes()->Get(source)->kind() != 4 &&
                                       model_.axes()->Get(source)->kind() != 7,
                "an axis is made of those before it");
      }
      const bool has_rows = axis.kind() == 1 || axis.kind() >= 7;
      require(has_rows ? axis.rows() >= 1 && axis.rows() <= 65536 : is_image || axis.rows() == 0,
              "constants, blocks and turns have rows");
      require(axis.kind() == 5 ? axis.stride() >= 1 && axis.stride() <= 65536
                               : axis.kind() == 6 || axis.stride() == 0,
              "windows follow each other");
      require(axis.kind() == 5 ? axis.window() >= -131072 && axis.window() <= 65536
                               : axis.window() == 0,
              "windows have a size");
    }
    for (const Slot* slot : *model_.slots()) {
      require(slot->axis() < model_.axes()->size(), "a slot's axis");
      const format::Function& function = function_of(slot->first_op());
      require(slot->last_op() < function.first_op() + function.ops(), "a slot is of a function");
      require((inputs_of(slot->axis()) & ~function.inputs()) == 0, "a function has its own rows");
    }
  }

  void check_image(const format::Axis& axis) const {
    require(axis.rows() >= 1 && axis.other() >= 1 && axis.rows() % axis.other() == 0,
            "an image has whole lines");
    if (axis.kind() == 0) {
      const format::Input& input = *model_.inputs()->Get(axis.source());
      require(input.vocab_size() == 0 && input.positions_max() == axis.rows() &&
                  input.tokens_min() == axis.rows(),
              "an image is a sequence of features");
      return;
    }
    const format::Axis& source = *model_.axes()->Get(axis.source());
    require(source.kind() == 6 || (source.kind() == 0 && source.rows() != 0),
            "windows of an image");
  }

  // The axis of a view's rows; of a block that of all.
  uint32_t axis_of(const View& view) const {
    const uint32_t axis = slot(view.slot()).axis();
    const format::Axis& own = *model_.axes()->Get(axis);
    return own.kind() == 7 ? own.source() : axis;
  }

  // While a slot of a block is alive, ops make each row alone, and no other slot begins or ends.
  void check_blocks(const Slot& block) const {
    for (uint32_t i = block.first_op(); i <= block.last_op(); ++i) {
      const Op& of = op(i);
      const bool reads_alone = of.kind() == 1 && of.views()->Get(2)->width() == 0;
      const bool is_of_position = of.kind() == 2 && of.numbers()->Get(0) == kNone;
      require(of.kind() == 0 || (of.kind() >= 3 && of.kind() <= 6) || of.kind() >= 12 ||
                  reads_alone || is_of_position,
              "an op runs over blocks");
      for (uint32_t k = 0; k < 4; ++k) {
        const View& view = *of.views()->Get(k);
        if (view.width() == 0) continue;
        const uint32_t axis = slot(view.slot()).axis();
        require(axis == block.axis() || axis == model_.axes()->Get(block.axis())->source(),
                "an op runs over blocks of one axis");
      }
    }
    for (const Slot* other : *model_.slots()) {
      if (other->axis() == block.axis()) continue;
      require(other->first_op() <= block.first_op() || other->first_op() > block.last_op(),
              "a slot begins before blocks");
      require(other->last_op() >= block.last_op() || other->last_op() < block.first_op(),
              "a slot ends after blocks");
    }
  }

  // The operands of an op that copies no rows are on its axis, or there is one row a sequence.
  void check_axes_of(const Op& of) const {
    const auto axis = [&](uint32_t i) { return axis_of(*of.views()->Get(i)); };
    const bool has_own = of.kind() >= 7 && of.kind() <= 11;
    if (of.kind() == 12) {
      require(of.views()->Get(1)->width() == 0 || axis(1) == axis(2), "operands are on one axis");
      return;
    }
    for (uint32_t i = 0; i < 3 && !has_own; ++i) {
      if (of.views()->Get(i)->width() == 0) continue;
      const bool is_broadcast =
          i == 1 && (of.kind() == 5 || of.kind() == 6) && model_.axes()->Get(axis(i))->kind() == 3;
      require(axis(i) == axis(3) || is_broadcast, "operands are on one axis");
    }
    const format::Axis& made = *model_.axes()->Get(axis(3));
    require(
        of.kind() != 8 || (made.kind() == 2 && made.source() == axis(0) && made.other() == axis(1)),
        "an op joins the rows of its axis");
    const bool has_windows = made.kind() == 5 || made.kind() == 6;
    require(of.kind() < 9 || of.kind() > 12 || axis(0) == axis(3) ||
                (has_windows && made.source() == axis(0)),
            "windows are laid over the rows of their axis");
  }

  void check_slots() const {
    require(model_.slots()->size() >= 1, "there are slots");
    for (const Slot* a : *model_.slots()) {
      require(a->width() >= 1 && uint64_t{a->offset()} + a->width() < (1u << 30), "a slot's place");
      require(a->first_op() <= a->last_op() && a->last_op() < model_.ops()->size(), "a life");
      for (const Slot* b : *model_.slots()) {
        const bool together = a->first_op() <= b->last_op() && b->first_op() <= a->last_op();
        if (a == b || !together || area_of(a->axis()) != area_of(b->axis())) continue;
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
    check_axes_of(of);
    check_widths(of);
  }

  uint32_t stores() const {
    uint32_t count = 0;
    for (const Op* of : *model_.ops()) {
      if (of->kind() == 12) count = std::max(count, of->numbers()->Get(0) + 1);
    }
    return count;
  }

  // The first input that an op's rows are of.
  const format::Input& input_of(const Op& of) const {
    uint32_t index = 0;
    while ((inputs_of(slot(of.views()->Get(3)->slot()).axis()) >> index & 1) == 0) ++index;
    return *model_.inputs()->Get(index);
  }

  // Keys and values have the width and the axis of their cache.
  void check_keys(const Op& of) const {
    const format::Cache& cache = *model_.caches()->Get(of.numbers()->Get(0));
    const auto& views = *of.views();
    require((of.kind() == 12) == (of.numbers()->Get(0) < stores()), "stores have their own caches");
    require(axis_of(*views.Get(2)) == cache.axis(), "a cache has an axis");
    // Biases that keys bring follow them: as many for each head.
    const uint64_t keys = uint64_t{cache.kv_heads()} * cache.head_dim();
    const uint64_t biases = views.Get(1)->width() - keys;
    const bool has_biases = of.kind() == 1 && of.numbers()->Get(3) == 5;
    const uint64_t heads = has_biases ? views.Get(3)->width() / cache.value_dim() : 1;
    require(views.Get(1)->width() >= keys &&
                (has_biases ? biases != 0 && biases % heads == 0 : biases == 0) &&
                views.Get(2)->width() == uint64_t{cache.kv_heads()} * cache.value_dim() &&
                views.Get(2)->width() != 0,
            "keys and values are as wide as the cache");
  }

  void check_attention(const Op& of) const {
    const auto width = [&](uint32_t i) { return of.views()->Get(i)->width(); };
    const auto number = [&](uint32_t i) { return of.numbers()->Get(i); };
    const format::Cache& cache = *model_.caches()->Get(number(0));
    require(cache.value_dim() != 0, "values have a width");
    const uint64_t heads = width(3) / cache.value_dim();
    require(number(4) == kNone || tensor(number(4)).inputs() == heads, "a sink for each head");
    require(heads != 0 && cache.kv_heads() != 0 && heads % cache.kv_heads() == 0 &&
                width(3) == heads * cache.value_dim(),
            "heads fill the views");
    const uint64_t queries = heads * cache.head_dim();
    const bool bring_terms = number(3) >= 3;
    require(bring_terms ? queries != 0 && width(0) > queries && (width(0) - queries) % heads == 0 &&
                              number(2) == kNone
                        : width(0) == queries,
            "queries fill the view, with the terms that they bring");
    if (width(2) != 0) return check_keys(of);
    require(number(0) < stores(), "a cache that is read is stored");
    require(width(1) == 0, "what reads a cache has no keys");
    const format::Mask& mask = *model_.masks()->Get(number(1));
    const bool is_cross = cache.axis() != axis_of(*of.views()->Get(3));
    require(!is_cross || (mask.kind() == 0 && mask.lookback() == kNone &&
                          mask.lookahead() == kNone && number(2) == kNone && !bring_terms),
            "keys of another axis are all seen");
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
      case 1:
        return check_attention(of);
      case 12:
        return check_keys(of);
      case 2:
        for (uint32_t i = 0; i < 3; ++i) {
          if (number(i) != kNone) require(tensor(number(i)).inputs() == width(3), "an embedding");
        }
        require(number(0) == kNone || tensor(number(0)).outputs() >= input_of(of).vocab_size(),
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
                    tensor(number(1)).outputs() >= input_of(of).positions_max(),
                "a rotation");
        return;
      case 5:
        require(width(0) == width(3) && (width(1) == 0 || width(0) % width(1) == 0),
                "an activation");
        return;
      case 6:
        require(width(0) == width(3) && width(1) == width(3), "a sum");
        return;
      case 7:
        if (number(0) == 8) return check_turns(of);
        if (number(0) == 9) return check_transposed(of);
        if (number(0) == 10) check_taken(of, number(1));
        require(width(0) == width(3), "rows that are copied");
        return;
      case 8:
        require(width(0) == width(3) && width(1) == width(3), "rows that are joined");
        return;
      case 9: {
        const Tensor& weights = tensor(number(0));
        require(weights.layout() == 0 && weights.inputs() % width(0) == 0 &&
                    weights.outputs() == width(3),
                "weights of whole rows");
        return check_windows(of, weights.inputs() / width(0));
      }
      case 13:
        require(width(3) % 2 == 0 && width(3) / 2 <= width(0), "ids and scores of the best");
        return;
      case 14: {
        const Tensor& weights = tensor(number(0));
        const uint32_t experts = number(1);
        require(
            weights.layout() == 0 && experts != 0 && weights.outputs() % experts == 0 &&
                width(3) == uint64_t{width(1)} * (weights.outputs() / experts) &&
                (width(0) == weights.inputs() || width(0) == uint64_t{width(1)} * weights.inputs()),
            "rows of the chosen experts");
        return;
      }
      case 11:
        require(width(0) == width(3), "the largest of each column");
        return check_windows(of, number(0));
      default:
        require(width(0) == width(3) && tensor(number(0)).inputs() == width(0) &&
                    tensor(number(4)).inputs() == width(0) && tensor(number(4)).outputs() == 1,
                "a weight for each column");
        return check_windows(of, tensor(number(0)).outputs());
    }
  }

  // Sequences of the fewest and of the most tokens have as many rows on either axis as the other
  // view is wide. Constants stand for both where an axis is theirs.
  void check_transposed(const Op& of) const {
    const format::View &from = *of.views()->Get(0), &to = *of.views()->Get(3);
    for (const auto& [own, other] : {std::pair(from, to), std::pair(to, from)}) {
      const format::Axis& axis = *model_.axes()->Get(axis_of(own));
      if (axis.kind() == 1) require(axis.rows() == other.width(), "transposed rows are columns");
      if (axis.kind() != 0) continue;
      const format::Input& input = *model_.inputs()->Get(axis.source());
      require(input.positions_max() == other.width() &&
                  std::max(input.tokens_min(), 1u) == other.width(),
              "transposed rows are of whole sequences");
    }
  }

  // Lists of constants are as long as these, and of sequences as long as the longest one; they name
  // rows that are there.
  void check_taken(const Op& of, uint64_t first) const {
    const format::Axis& to = *model_.axes()->Get(axis_of(*of.views()->Get(3)));
    const format::Axis& from = *model_.axes()->Get(axis_of(*of.views()->Get(0)));
    const auto rows = [&](const format::Axis& axis) -> uint64_t {
      if (axis.kind() == 1) return axis.rows();
      return axis.kind() == 0 ? model_.inputs()->Get(axis.source())->positions_max() : 0;
    };
    for (uint64_t i = 0; i < rows(to); ++i) {
      require(first + i < model_.taken_rows()->size(), "a list has a row for each result");
      const uint32_t row = model_.taken_rows()->Get(static_cast<uint32_t>(first + i));
      require(rows(from) == 0 || row < rows(from), "rows that are taken are there");
    }
  }

  // One of the two axes has `rows` rows for each row of the other, each with a part of its width.
  void check_turns(const Op& of) const {
    const format::View &from = *of.views()->Get(0), &to = *of.views()->Get(3);
    const bool parts = model_.axes()->Get(axis_of(to))->kind() == 8 &&
                       model_.axes()->Get(axis_of(to))->source() == axis_of(from);
    const format::View &many = parts ? to : from, &one = parts ? from : to;
    const format::Axis& turns = *model_.axes()->Get(axis_of(many));
    require(turns.kind() == 8 && turns.source() == axis_of(one), "rows in turn are on their axis");
    require(one.width() == uint64_t{many.width()} * turns.rows(), "parts fill a row");
  }

  // The zeros around a sequence are no fewer than none, so that every window has its place.
  void check_windows(const Op& of, uint64_t kernel) const {
    const auto axis = [&](uint32_t i) { return slot(of.views()->Get(i)->slot()).axis(); };
    const uint64_t dilation = of.numbers()->Get(1), before = of.numbers()->Get(2);
    if (const uint32_t columns = of.numbers()->Get(3); columns != 0) {
      const format::Axis& from = *model_.axes()->Get(axis(0));
      const format::Axis& to = *model_.axes()->Get(axis(3));
      require(kernel % columns == 0, "a window has whole lines");
      const uint32_t stride = axis(0) == axis(3) ? 0x10001 : to.stride();
      check_line(kernel / columns, dilation & 0xFFFF, before & 0xFFFF, stride & 0xFFFF,
                 from.rows() / from.other(), to.rows() / to.other());
      check_line(columns, dilation >> 16, before >> 16, stride >> 16, from.other(), to.other());
      return;
    }
    require(kernel >= 1 && kernel <= 65536 && dilation >= 1 && dilation <= 65536, "a window");
    const auto span = static_cast<int64_t>((kernel - 1) * dilation + 1);
    const int64_t window = axis(0) == axis(3) ? 1 : model_.axes()->Get(axis(3))->window();
    const int64_t after = span - window - static_cast<int64_t>(before);
    require(span <= 65536 && before <= 65536 && after >= 0 && after <= 65536, "zeros of a window");
  }

  // The last window begins before the end of what it sees, and none is left out.
  static void check_line(uint64_t kernel, uint64_t dilation, uint64_t before, uint64_t stride,
                         uint64_t rows, uint64_t windows) {
    require(kernel >= 1 && dilation >= 1 && stride >= 1 && windows >= 1, "a window of an image");
    const auto span = static_cast<int64_t>((kernel - 1) * dilation + 1);
    const int64_t after =
        static_cast<int64_t>((windows - 1) * stride) + span - static_cast<int64_t>(before + rows);
    require(span <= 65536 && after <= 65536 && after > -static_cast<int64_t>(stride),
            "windows of an image");
  }

  // Runs the program with a flag for each column instead of a number.
  void check_columns() const {
    for (const Slot* slot : *model_.slots()) {
      if (slot->width() > kColumnsMost) return;
    }
    std::vector<std::vector<bool>> written;
    for (const Slot* slot : *model_.slots()) written.emplace_back(slot->width());
    for (const format::Input* input : *model_.inputs()) {
      if (input->vocab_size() != 0) continue;
      require(input->slot() < written.size(), "an input slot");
      written[input->slot()].assign(slot(input->slot()).width(), true);
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
      if (output.width() == 0) continue;
      require(all(output, in_place), "columns are written once, or changed in place");
      std::fill_n(written[output.slot()].begin() + output.column(), output.width(), true);
    }
    for (const std::vector<bool>& slot : written) {
      require(std::ranges::find(slot, false) == slot.end(), "a slot is filled in the end");
    }
  }

  void check_ends() const {
    for (const format::Function* function : *model_.functions()) {
      const uint32_t own = function->output_slot();
      require(own < model_.slots()->size(), "an output slot");
      require(slot(own).last_op() == function->first_op() + function->ops() - 1,
              "the output lives to the end");
    }
    const uint32_t output = model_.functions()->Get(model_.functions()->size() - 1)->output_slot();
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
  // Tiles of SPEC.md's table of targets, by type: nr outputs per panel, and kr consecutive inputs
  // of an output.
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
    require(mask.kind() <= 3, "a mask of a known kind");
    if (mask.kind() == 3) require(mask.words() == 0, "pairs come with each call");
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
