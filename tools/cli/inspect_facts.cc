// SPDX-License-Identifier: Apache-2.0
// Reads a verified file. All derived values come from the runtime's own formulas.
#include "cli/inspect_facts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "cli/text_table.h"
#include "convert/check/check_session.h"
#include "convert/exported/exported_model.h"
#include "convert/masks/masks.h"
#include "format/bounds.h"
#include "format/model_needs.h"

namespace arenite::tool {
namespace {

using format::ModelReader;
using format::NumberType;

OpFacts op_facts(const ModelReader& reader, uint32_t index, const InputTokens& positions) {
  OpFacts facts;
  facts.index = index;
  facts.name = reader.op_name(index);
  facts.op = reader.op(index);
  if (facts.op.kind == format::OpKind::kAttention) facts.heads = reader.heads_of(facts.op);
  facts.cost = op_cost(reader, index);
  facts.pass_multiply_adds = pass_multiply_adds(reader, index, positions);
  facts.writes = facts.op.views[format::kOutput].slot;
  for (const format::ColumnView& view : facts.op.views) {
    const bool in_place = view == facts.op.views[format::kInput];
    if (view.width == 0 || (&view == &facts.op.views[format::kOutput] && !in_place)) continue;
    const bool listed = std::count(facts.reads.begin(), facts.reads.end(), view.slot) != 0;
    if (!listed) facts.reads.push_back(view.slot);
  }
  return facts;
}

SlotFacts slot_facts(const ModelReader& reader, uint32_t index) {
  const format::SlotView slot = reader.slot(index);
  std::string label = reader.op_name(slot.first_op);
  if (index == reader.output_slot()) label = "output";
  if (reader.vocab_size() == 0 && index == reader.input_slot()) label = "input";
  const bool is_per_output = is_output_axis(reader.kind_of_slot(index));
  return {index, std::move(label), slot, is_per_output, reader.area_of(slot.axis)};
}

TensorFacts tensor_facts(const ModelReader& reader, uint32_t index) {
  TensorFacts facts{index, reader.tensor_name(index), reader.tensor(index)};
  for (uint32_t i = 0; i < reader.packed_count(); ++i) {
    const format::PackedView packed = reader.packed(i);
    facts.packed_bytes.push_back(
        {name(static_cast<Target>(packed.target)),
         format::stored_bytes(facts.shape, packed.packing(facts.shape.type)).value()});
  }
  return facts;
}

MaskFacts mask_facts(const ModelReader& reader, uint32_t index, uint32_t positions) {
  const MaskView mask = reader.mask(index);
  const uint64_t side = mask.positions != 0 ? mask.positions : positions;
  return {index, mask, convert::describe_mask(mask), convert::mask_bytes(mask),
          (Checked(side) * side * sizeof(float)).value()};
}

CacheFacts cache_facts(const ModelReader& reader, uint32_t index, const SizeOptions& sizes) {
  CacheFacts facts{index, reader.cache(index)};
  const uint32_t axis = facts.cache.axis;
  const uint32_t positions = reader.rows_of_axes(sizes.positions_of_inputs(), 1, false)[axis];
  const uint32_t rows = reader.rows_of_axes(sizes.tokens_of_inputs(), sizes.sequences, false)[axis];
  for (uint32_t i = 0; i < reader.packed_count(); ++i) {
    const auto target = static_cast<Target>(reader.packed(i).target);
    const Packing packing = packing_of(target, sizes.kv_type());
    const uint32_t held = cache_positions(facts.cache.lookback, packing.nr, positions, rows);
    const Checked bytes =
        Checked(panels_of(packing, held)) * cache_bytes_per_panel(packing, facts.cache.shape) +
        Checked(value_pages(held)) * cache_bytes_per_page(packing, facts.cache.shape);
    facts.bytes.push_back({name(target), (bytes * sizes.sequences).value()});
  }
  return facts;
}

void add_targets(const VerifiedFile& file, ModelFacts& facts) {
  const std::vector<ArenaLayout> arenas = plan_targets(file, facts.sizes);
  LoadOptions options;
  options.checksums = Checksums::kSkip;  // VerifiedFile has checked them
  const Result<Model> model = Model::load(file.bytes(), nullptr, options);
  for (uint32_t i = 0; i < arenas.size(); ++i) {
    const format::PackedView packed = file.reader().packed(i);
    const Target target = static_cast<Target>(packed.target);
    facts.targets.push_back(
        {target, packed, arenas[i], (cpu_targets() & bit(target)) != 0,
         model.ok() && model->target() == target,
         smallest_slice(file.bytes(), i, options_of(file.reader(), facts.sizes))});
  }
}

// Adds the bounds of the function's largest calls.
void add_calls(const ModelFacts& facts, uint32_t index, FunctionFacts& function) {
  const ModelReader& reader = facts.reader;
  const InputTokens positions = facts.sizes.positions_of_inputs();
  InputTokens tokens = facts.sizes.tokens_of_inputs(), before = positions;
  Feed run = {positions, 0, 1}, step = run;
  uint32_t longest = 0, held = 0;
  for (uint32_t i = 0; i < reader.inputs(); ++i) {
    tokens.of[i] = std::min(tokens[i], positions[i]);
    if (!reader.takes(index, i)) continue;
    before.of[i] = positions[i] - 1;
    run.held.of[i] = 0, run.tokens.of[i] = tokens[i];
    step.held.of[i] = before[i], step.tokens.of[i] = 1;
    longest = std::max(longest, tokens[i]);
    held = std::max(held, before[i]);
  }
  const uint32_t rows = max_rows(reader, tokens, index);
  const uint32_t stored = most_stored(reader, positions, index);
  bool selects = false;
  for (uint32_t i = reader.first_op(index); i < reader.end_of_ops(index); ++i) {
    selects |= reader.op(i).kind == format::OpKind::kSelect;
  }
  const auto call = [&](const std::string& name, CallSize size, const Feed& feed) {
    const auto work = [&](bool finite) {
      size.finite = finite;
      return call_work_max(reader, facts.shown_target_index(), index, size, facts.sizes.kv_type());
    };
    const std::string of = facts.has_several() ? function.name + ": " : "";
    return CallFacts{of + name, size, work(true), work(false), feed};
  };
  function.run =
      call("run of " + counted(longest, "token"), {0, rows, selects ? 1 : rows, true, stored}, run);
  if (!function.causal || held == 0) return;
  const uint32_t rows_held = max_rows(reader, before, index);
  function.step =
      call("step after " + counted(held, "token"),
           {rows_held, max_rows(reader, positions, index) - rows_held, 1, true, stored}, step);
}

}  // namespace

std::optional<ImageFacts> image_facts(const ModelReader& reader, uint32_t input) {
  if (!reader.reads_images(input)) return std::nullopt;
  const Axis& pixels = reader.axes()[reader.axis_of_input(input)];
  return ImageFacts{reader.slot(reader.input_slot(input)).width, pixels.rows / pixels.other,
                    pixels.other};
}

namespace {

InputFacts input_facts(const VerifiedFile& file, uint32_t index) {
  const ModelReader reader = file.reader();
  const bool is_features = reader.vocab_size(index) == 0;
  return {reader.input_name(index),
          image_facts(reader, index),
          is_features ? reader.slot(reader.input_slot(index)).width : 0,
          reader.axis_of_input(index),
          reader.token_types(index),
          reader.takes_pairs(index),
          convert::role_of_pairs(file.bytes(), index),
          reader.input(index),
          reader.tokens_step(index)};
}

FunctionFacts function_facts(const ModelReader& reader, uint32_t index) {
  FunctionFacts function;
  function.name = reader.function_name(index);
  function.function = reader.function(index);
  const uint32_t output = function.function.output_slot;
  for (uint32_t i = 0; i < reader.inputs(); ++i) {
    if (reader.takes(index, i)) function.inputs.emplace_back(reader.input_name(i));
    if ((reader.inputs_read(index) >> i & 1) != 0) {
      function.inputs_read.emplace_back(reader.input_name(i));
    }
  }
  function.output_features = reader.slot(output).width;
  function.has_row_of_sequence = reader.kind_of_slot(output) == AxisKind::kOne;
  function.causal = reader.causal(index);
  return function;
}

}  // namespace

std::string field_name(const char* field) {
  const std::string_view name = field;
  return std::string(name.substr(name.find('.') + 1));
}

bool is_terms_by(const format::OpView& op, uint32_t number) {
  return op.kind == format::OpKind::kAttention && number == format::AttentionOp::kTermsBy;
}

std::string calls_text(const format::ModelReader& reader) {
  const char* const why = why_whole_sequences(reader);
  return why == nullptr ? "causal: whole sequences or token by token"
                        : fmt::format("whole sequences only: {}", why);
}

std::string image_text(const format::ModelReader& reader, uint32_t input) {
  const ImageFacts image = image_facts(reader, input).value();
  // A series or a table is read as an image of one channel.
  if (image.channels == 1 && std::min(image.height, image.width) == 1) {
    return fmt::format("series of {} values", image.height * image.width);
  }
  return fmt::format("images of {} lines, {} columns and {} channel{}", image.height, image.width,
                     image.channels, image.channels == 1 ? "" : "s");
}

std::string terms_name(const format::OpView& op) {
  return name(op.choice<ScoreTerms>(format::AttentionOp::kTermsBy));
}

std::string function_name(const format::OpView& op) {
  return name(format::need_of(format::row_of(op.kind).need, format::function_of(op))).name;
}

const char* tokenizer_kind_name(format::TokenizerKind kind) {
  switch (kind) {
    case format::TokenizerKind::kBytePairs:
      return "byte pairs";
    case format::TokenizerKind::kSentencePieces:
      return "sentence pieces";
    case format::TokenizerKind::kCharacters:
      return "characters";
    case format::TokenizerKind::kWordPiece:
      return "WordPiece";
    case format::TokenizerKind::kUnigram:
      return "unigram";
  }
  return "";
}

const char* layout_name(format::Layout layout) {
  switch (layout) {
    case format::Layout::kGemm:
      return "gemm";
    case format::Layout::kPlain:
      return "rows";
  }
  return "";
}

uint32_t ModelFacts::shown_target_index() const {
  const auto found = std::ranges::find(targets, true, &TargetFacts::chosen);
  return found == targets.end() ? 0 : static_cast<uint32_t>(found - targets.begin());
}

ModelFacts gather_facts(const VerifiedFile& file, const SizeOptions& sizes) {
  const ModelReader reader = file.reader();
  ModelFacts facts(file);
  std::memcpy(&facts.footer, file.bytes().last(sizeof(facts.footer)).data(), sizeof(facts.footer));
  if (format::has_tokenizer(file.bytes())) {
    const format::TokenizerView tokenizer = format::tokenizer_view(file.bytes());
    facts.tokenizer_kind = tokenizer_kind_name(tokenizer.kind);
    facts.tokenizer_tokens = tokenizer.vocab_size();
  }
  if (const SoundNumbers* const numbers = reader.sound().numbers) {
    facts.sound = convert::describe_sound(*numbers);
  } else if (const auto samples = convert::sample_input(file.bytes()); samples.rate != 0) {
    facts.sound = convert::describe(samples);
  }
  if (reader.vocab_size() == 0) facts.input_features = reader.slot(reader.input_slot()).width;
  for (uint32_t i = 0; i < reader.labels(); ++i) facts.labels.emplace_back(reader.label(i));
  facts.has_row_of_sequence =
      convert::has_row_of_sequence(file.bytes(), convert::authors_outputs(file.bytes()));
  facts.lengths_claimed = (convert::array_flags(file.bytes()) & convert::kLengthsClaimed) != 0;
  facts.sizes = resolve_sizes(file, sizes);
  for (uint32_t i = 0; i < reader.ops(); ++i) {
    facts.ops.push_back(op_facts(reader, i, facts.sizes.positions_of_inputs()));
  }
  for (uint32_t i = 0; i < reader.slots(); ++i) facts.slots.push_back(slot_facts(reader, i));
  for (uint32_t i = 0; i < reader.tensors(); ++i) facts.tensors.push_back(tensor_facts(reader, i));
  for (uint32_t i = 0; i < reader.masks(); ++i) {
    facts.masks.push_back(mask_facts(reader, i, facts.sizes.positions));
  }
  for (uint32_t i = 0; i < reader.caches(); ++i) {
    facts.caches.push_back(cache_facts(reader, i, facts.sizes));
  }
  format::for_each_need(file.bytes(), [&](Need found, uint32_t) {
    const std::string need = need_name(found);
    if (std::ranges::find(facts.needs, need) == facts.needs.end()) facts.needs.push_back(need);
    return true;
  });
  add_targets(file, facts);
  const TensorType kv_type = facts.sizes.kv_type();
  const uint32_t shown = facts.shown_target_index();
  for (uint32_t i = 0; i < reader.inputs(); ++i) facts.inputs.push_back(input_facts(file, i));
  for (uint32_t i = 0; i < reader.functions(); ++i) {
    FunctionFacts& function = facts.functions.emplace_back(function_facts(reader, i));
    if (!facts.has_several()) function.has_row_of_sequence = facts.has_row_of_sequence;
    add_calls(facts, i, function);
  }
  for (uint32_t i = 0; i < reader.ops(); ++i) {
    facts.ops[i].pass_traffic =
        op_traffic(reader, shown, i, facts.sizes.positions_of_inputs(), kv_type);
  }
  return facts;
}

void add_board(const std::string& board, double clock_mhz, ModelFacts& facts) {
  facts.board = estimate_for(facts.reader, board, clock_mhz);
  for (uint32_t i = 0; i < facts.functions.size(); ++i) {
    for (const auto& call : {std::optional(facts.functions[i].run), facts.functions[i].step}) {
      if (!call) continue;
      add_call(facts.reader, i, call->feed, facts.sizes.kv_type(), call->name, call->size,
               *facts.board);
    }
  }
}

uint32_t max_rows(const ModelReader& reader, const InputTokens& tokens, uint32_t function) {
  const AxisRows rows = reader.rows_of_axes(tokens, 1, true);
  uint32_t most = 0;
  for (uint32_t axis = 0; axis < reader.axes().size(); ++axis) {
    const bool is_own = (reader.inputs_of_axis(axis) & reader.function(function).inputs) != 0;
    if (is_own) most = std::max(most, rows[axis]);
  }
  return most;
}

uint32_t rows_of_token(const ModelReader& reader, uint32_t axis) {
  const Axis& own = reader.axes()[axis];
  if (own.kind == AxisKind::kTurns) return own.rows * rows_of_token(reader, own.source);
  return 1;
}

uint32_t prefix_rows(const ModelReader& reader) {
  const AxisRows rows = reader.rows_of_axes(1, 1, true);
  uint32_t most = 1;
  for (uint32_t axis = 0; axis < reader.axes().size(); ++axis) {
    const bool is_own = (reader.inputs_of_axis(axis) & reader.function(0).inputs) != 0 &&
                        reader.kind_of_axis(axis) != AxisKind::kConstants;
    if (is_own) most = std::max(most, rows[axis] / rows_of_token(reader, axis));
  }
  return most - 1;
}

uint32_t most_stored(const ModelReader& reader, const InputTokens& tokens, uint32_t function) {
  const AxisRows rows = reader.rows_of_axes(tokens, 1, true);
  uint32_t most = 0;
  for (uint32_t i = reader.first_op(function); i < reader.end_of_ops(function); ++i) {
    if (reader.op(i).kind != format::OpKind::kAttention) continue;
    const uint32_t keys = reader.axis_of_cache(number_of(reader.op(i), NumberType::kCache));
    if (keys != reader.whole_axis(reader.axis_of_op(i))) most = std::max(most, rows[keys]);
  }
  return most;
}

uint64_t load_steps_max(const ModelFacts& facts) {
  return format::load_steps_max(format::load_size(facts.reader, facts.footer));
}

}  // namespace arenite::tool
