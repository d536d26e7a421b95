// SPDX-License-Identifier: Apache-2.0
// Gathers the facts about a model file once; they are then printed as text or as JSON.
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
  uint32_t heads = 0;           // of an attention op
  std::vector<uint32_t> reads;  // slots
  uint32_t writes = 0;          // slot; if the op changes it in place, `reads` has it too
  OpCost cost;
  uint64_t pass_multiply_adds = 0;  // over all positions of one sequence
  OpTraffic pass_traffic;           // of that pass, for the shown target
};

struct SlotFacts {
  uint32_t index = 0;
  std::string label;  // "input", "output", or the op that fills it
  format::SlotView slot;
  bool is_per_output = false;  // has a row per sequence, or only the rows asked for
  uint32_t area = 0;           // the axis whose part of the activation area it lies in
};

struct TensorFacts {
  uint32_t index = 0;
  std::string name;
  format::TensorShape shape;
  std::vector<Named<uint64_t>> packed_bytes{};  // per target
};

struct MaskFacts {
  uint32_t index = 0;
  MaskView mask;
  std::string description;
  uint64_t bytes = 0;
  uint64_t dense_bytes = 0;  // of a float mask with an element per pair of positions
};

struct CacheFacts {
  uint32_t index = 0;
  format::CacheView cache;
  std::vector<Named<uint64_t>> bytes{};  // per target, for all sequences
};

struct TargetFacts {
  Target target = Target::kPortable;
  format::PackedView packed;
  ArenaLayout arena;
  bool runs_here = false;
  bool chosen = false;  // Model::load picks it on this CPU
  SmallestSlice slice;
};

// The largest call of a kind that the sizes allow, and an upper bound of its work.
struct CallFacts {
  std::string name;  // "run of 64 tokens"
  CallSize size;
  CallWork work;
  CallWork work_not_finite;  // if values are NaN or infinite
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
  std::string role_of_pairs;  // of the author's array
  format::InputView input;
  uint32_t tokens_step = 0;
};

struct FunctionFacts {
  std::string name;
  std::vector<std::string> inputs;       // those it takes
  std::vector<std::string> inputs_read;  // those whose cached keys and values it sees
  uint32_t output_features = 0;
  bool has_row_of_sequence = false;
  bool causal = false;
  format::FunctionView function;
  CallFacts run;                  // one pass with as many tokens as a call may have
  std::optional<CallFacts> step;  // the last token of a full context, if causal
};

struct ModelFacts {
  explicit ModelFacts(const VerifiedFile& file) : path(file.name()), reader(file.reader()) {}

  std::string path;
  format::ModelReader reader;  // for fields that are reported unchanged
  format::Footer footer{};
  std::string sound;                // how sound becomes the first input; empty: unknown
  std::string tokenizer_kind;       // such as "WordPiece"; empty: no tokenizer
  uint32_t tokenizer_tokens = 0;    // at most the reader's vocab_size
  uint32_t input_features = 0;      // 0: the input is token ids
  std::vector<std::string> labels;  // of the output features; may be empty
  SizeOptions sizes;                // those that arenas and passes are computed for
  bool has_row_of_sequence = false;
  bool lengths_claimed = false;    // kLengthsClaimed
  std::vector<std::string> needs;  // runtime features, each once (core/needs.h)
  std::vector<OpFacts> ops;
  std::vector<SlotFacts> slots;
  std::vector<TensorFacts> tensors;
  std::vector<MaskFacts> masks;
  std::vector<CacheFacts> caches;
  std::vector<TargetFacts> targets;
  std::vector<InputFacts> inputs;
  std::vector<FunctionFacts> functions;
  std::optional<BoardEstimate> board;  // if a board is named

  // Returns the index of the chosen target; 0 if this CPU runs none.
  uint32_t shown_target_index() const;
  const TargetFacts& shown_target() const { return targets[shown_target_index()]; }

  bool has_several() const { return !reader.has_one_function(); }
  uint32_t output_features() const { return reader.slot(reader.output_slot()).width; }
  // Names the unit of the output rows, unless a session asks for others.
  const char* output_rows() const { return has_row_of_sequence ? "sequences" : "tokens"; }
};

// The facts point into `file`. Throws InputError if the model cannot serve the sizes.
ModelFacts gather_facts(const VerifiedFile& file, const SizeOptions& sizes);

// Adds the estimated calls on a board. clock_mhz 0: the board's. Throws like estimate_for().
void add_board(const std::string& board, double clock_mhz, ModelFacts& facts);

// Returns sections for a person, at most 100 columns wide (except for longer paths).
std::string facts_as_text(const ModelFacts& facts);

// Returns lines about what the model takes and gives, with titles of `width` characters.
std::string model_as_text(const ModelFacts& facts, size_t width);

// Returns a few lines: the kind of model, and its memory on the shown target.
std::string facts_in_brief(const ModelFacts& facts);

// Returns one JSON object; `arenite help json inspect` names its keys.
Json facts_of(const ModelFacts& facts);

// The images that an input reads, if any.
std::optional<ImageFacts> image_facts(const format::ModelReader& reader, uint32_t input);

// Returns the most rows that an axis of the function has for sequences of `tokens` tokens.
uint32_t max_rows(const format::ModelReader& reader, const InputTokens& tokens,
                  uint32_t function = 0);
// Returns the rows of an axis per token; more than 1 for axes of kind kTurns.
uint32_t rows_of_token(const format::ModelReader& reader, uint32_t axis);
// Returns the most rows that an axis of the first function has besides the rows of its tokens.
uint32_t prefix_rows(const format::ModelReader& reader);
// Returns the largest number of stored cross-attention keys that an op of the function reads, for
// sequences of `tokens` tokens.
uint32_t most_stored(const format::ModelReader& reader, const InputTokens& tokens,
                     uint32_t function = 0);

// Upper bound of loading's steps, in basic blocks as compiled without optimization.
uint64_t load_steps_max(const ModelFacts& facts);

// Names for the output.
inline const char* op_kind_name(format::OpKind kind) { return format::row_of(kind).name; }
std::string field_name(const char* field);            // the op's own name for a field of its row
std::string function_name(const format::OpView& op);  // of an op with several functions
// is_terms_by: whether field `number` of an attention op selects its attention bias's kind.
bool is_terms_by(const format::OpView& op, uint32_t number);
std::string terms_name(const format::OpView& op);
// Describes the images that an input reads. REQUIRES: it reads images.
std::string image_text(const format::ModelReader& reader, uint32_t input = 0);
std::string calls_text(const format::ModelReader& reader);  // the ways it may be fed
const char* tokenizer_kind_name(format::TokenizerKind kind);
const char* layout_name(format::Layout layout);

// Returns the name of a need in arenite_needs.h: "norm rms".
inline std::string need_name(Need need) {
  const NeedName found = name(need);
  return std::string(found.kind) + " " + found.name;
}

}  // namespace arenite::tool
