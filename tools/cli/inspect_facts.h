// SPDX-License-Identifier: Apache-2.0
// What there is to know about a model file: gathered once, then printed as text or as JSON.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/board_estimate.h"
#include "cli/facts.h"
#include "cli/model_cost.h"
#include "cli/model_file.h"
#include "cli/session_sizes.h"
#include "core/needs.h"
#include "format/file_layout.h"
#include "format/tokenizer_reader.h"

namespace arenite::tool {

struct OpFacts {
  uint32_t index = 0;
  std::string name;
  format::OpView op;
  uint32_t heads = 0;           // of attention
  std::vector<uint32_t> reads;  // slots
  uint32_t writes = 0;          // a slot; one that it changes in place is read, too
  OpCost cost;
  uint64_t pass_multiply_adds = 0;  // over all positions of one sequence
  OpTraffic pass_traffic;           // of the same, for the target that is shown
};

struct SlotFacts {
  uint32_t index = 0;
  std::string label;  // "input", "output", or the op that fills it
  format::SlotView slot;
  bool is_per_output = false;  // with a row for each sequence, or those that are asked for
  uint32_t area = 0;           // the axis in whose part of the activations it lies
};

struct TensorFacts {
  uint32_t index = 0;
  std::string name;
  format::TensorShape shape;
  std::vector<Named<uint64_t>> packed_bytes{};  // for each target
};

struct MaskFacts {
  uint32_t index = 0;
  MaskView mask;
  std::string description;
  uint64_t bytes = 0;
  uint64_t dense_bytes = 0;  // of a float for each pair of positions
};

struct CacheFacts {
  uint32_t index = 0;
  format::CacheView cache;
  std::vector<Named<uint64_t>> bytes{};  // for each target, all sequences
};

struct TargetFacts {
  Target target = Target::kPortable;
  format::PackedView packed;
  FormulaOfModel formula;
  ArenaLayout arena;
  bool runs_here = false;
  bool chosen = false;  // Model::load takes it on this CPU
  SmallestSlice slice;
};

// A call that the sizes allow, and what it does at most.
struct CallFacts {
  std::string name;  // "run of 64 tokens"
  CallSize size;
  uint64_t multiply_adds = 0;
  uint64_t bytes_read = 0;
  uint64_t multiply_adds_not_finite = 0;  // where numbers are not finite
  uint64_t bytes_read_not_finite = 0;
  Feed feed = {};
};

struct ImageFacts {
  uint32_t channels = 0, height = 0, width = 0;
};

struct InputFacts {
  std::string name;
  std::optional<ImageFacts> image;
  uint32_t features = 0;  // 0: it reads tokens
  uint32_t axis = 0;
  uint32_t token_types = 0;
  bool takes_pairs = false;
  format::InputView input;
};

struct FunctionFacts {
  std::string name;
  std::vector<std::string> inputs;       // that it takes
  std::vector<std::string> inputs_read;  // whose stored keys and values it sees
  uint32_t output_features = 0;
  bool has_row_of_sequence = false;
  bool causal = false;
  format::FunctionView function;
  CallBounds bounds;              // for the target that is shown
  CallFacts run;                  // one pass over as many tokens as a call may have
  std::optional<CallFacts> step;  // the last token of a full context, where it is causal
};

struct ModelFacts {
  explicit ModelFacts(const VerifiedFile& file) : path(file.name()), reader(file.reader()) {}

  std::string path;
  format::ModelReader reader;  // for what the file says as it is
  format::Footer footer{};
  std::string tokenizer_kind;       // such as "WordPiece"; empty: the file has none
  uint32_t tokenizer_tokens = 0;    // at most the reader's vocab_size
  uint32_t input_features = 0;      // 0: the input is tokens
  std::vector<std::string> labels;  // of the columns given out; or none
  SizeOptions sizes;                // that the arena and the work of a pass are for
  bool has_row_of_sequence = false;
  bool lengths_claimed = false;    // kLengthsClaimed
  std::vector<std::string> needs;  // parts of the runtime, each once (core/needs.h)
  std::vector<OpFacts> ops;
  std::vector<SlotFacts> slots;
  std::vector<TensorFacts> tensors;
  std::vector<MaskFacts> masks;
  std::vector<CacheFacts> caches;
  std::vector<TargetFacts> targets;
  std::vector<InputFacts> inputs;
  std::vector<FunctionFacts> functions;
  std::optional<BoardEstimate> board;  // where one is named

  // The one that runs here; the first if none does.
  uint32_t shown_index() const;
  const TargetFacts& shown_target() const { return targets[shown_index()]; }

  bool has_several() const { return !reader.has_one_function(); }
  uint32_t output_features() const { return reader.slot(reader.output_slot()).width; }
  // Rows given out: one for each of these, unless a session asks for others.
  const char* output_rows() const { return has_row_of_sequence ? "sequences" : "tokens"; }
};

// The facts point into `file`. Throws InputError if the model cannot serve the sizes.
ModelFacts gather_facts(const VerifiedFile& file, const SizeOptions& sizes);

// What calls take of a board. clock_mhz 0: the board's. Throws as estimate_for().
void add_board(const std::string& board, double clock_mhz, ModelFacts& facts);

// Sections for a person, at most 100 columns wide (a longer path apart).
std::string facts_as_text(const ModelFacts& facts);

// A few lines: what it is, and its memory on the target that runs here (or the first).
std::string facts_in_brief(const ModelFacts& facts);

// One JSON object; `arenite help json inspect` names its keys.
Json facts_of(const ModelFacts& facts);

// Adds what a page and text say besides.
void add_page(Json& json, const ModelFacts& facts);

extern template struct FactValue<CallBounds>;
extern template struct FactValue<CallFacts>;

// What the file says of an input, and of a function: without what calls take.
std::optional<ImageFacts> image_facts(const format::ModelReader& reader, uint32_t input);
InputFacts input_facts(const format::ModelReader& reader, uint32_t index);
FunctionFacts function_facts(const format::ModelReader& reader, uint32_t index);
extern template struct FactValue<InputFacts>;
extern template struct FactValue<FunctionFacts>;

// Rows of a sequence of so many tokens, on the function's axis that has most.
uint32_t most_rows(const format::ModelReader& reader, const InputTokens& tokens,
                   uint32_t function = 0);
// Rows of an axis for each of a token's, where some are in turn.
uint32_t rows_of_token(const format::ModelReader& reader, uint32_t axis);
// That a sequence has at most beside those of its tokens, of the first function.
uint32_t prefix_rows(const format::ModelReader& reader);
// Keys that it sees of sequences of so many tokens, on the axis of stored ones that has most.
uint32_t most_stored(const format::ModelReader& reader, const InputTokens& tokens,
                     uint32_t function = 0);

// At most so many blocks of code, as a compiler makes them that does not optimize.
uint64_t load_steps_max(const ModelFacts& facts);

// What the outputs call things.
inline const char* op_kind_name(format::OpKind kind) { return format::row_of(kind).name; }
std::string field_name(const char* field);            // what an op calls a field of its row
std::string function_name(const format::OpView& op);  // of an op with several functions
// Whether a number says what an attention op's terms go by, and what that is called.
bool is_terms_by(const format::OpView& op, uint32_t number);
std::string terms_name(const format::OpView& op);
// Of an input. REQUIRES: it reads images.
std::string image_text(const format::ModelReader& reader, uint32_t input = 0);
std::string calls_text(const format::ModelReader& reader);  // how it may be fed
const char* tokenizer_kind_name(format::TokenizerKind kind);
const char* layout_name(format::Layout layout);

// "norm rms": what arenite_needs.h calls a need.
inline std::string need_name(Need need) {
  const NeedName found = name(need);
  return std::string(found.kind) + " " + found.name;
}

}  // namespace arenite::tool
