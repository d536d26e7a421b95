// SPDX-License-Identifier: Apache-2.0
// Loads a model file. Start here, then see plan_arena and Session::create in session.h:
//
//     const Result<Model> model = Model::load(file_bytes, &why);
//     if (model.ok()) use(model->vocab_size(), model->positions_max());
//
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "arenite/status.h"
#include "arenite/target.h"
#include "arenite/tensor_type.h"

namespace arenite {

// Alignment of a model file in bytes, in flash, ROM or a memory map.
inline constexpr size_t kModelAlignment = 64;

// Selects the checksums that Model::load verifies.
enum class Checksums : uint8_t {
  kVerify,  // reads the whole file
  kSkip,    // does not read the weights
};

// Returns the CRC-32C of `count` bytes (Castagnoli, reflected, initial value and final xor all
// ones), computed by the CPU's instruction if there is one, else by a table.
uint32_t crc32c_of(const void* bytes, size_t count);

// A function that computes CRC-32C: crc32c_of or one of the application.
using Crc32c = uint32_t (*)(const void* bytes, size_t count);

// Options of Model::load; the defaults suit most programs.
struct LoadOptions {
  // Forces a target of the file instead of the best one for this CPU, e.g. for tests of the slower
  // kernels. Fails with kUnsupported if the file or the CPU lacks it.
  bool force_target = false;
  Target target = Target::kPortable;  // the forced target
  // Whether load computes the CRC-32C of the packed weights, which takes nearly all of its time.
  // All else is verified in any case, so any bytes are safe to pass; but with kSkip damaged weights
  // yield wrong results or NaN without an error. Use kSkip for files that were verified since they
  // were written, or will be by Model::verify_checksums.
  Checksums checksums = Checksums::kVerify;
  // Computes checksums, e.g. by a CRC peripheral on a CPU without a CRC instruction: polynomial
  // 0x1EDC6F41, with reflected bytes and result. Results must equal those of crc32c_of: otherwise
  // intact files are refused. An optimized program whose loads all set this member does not link
  // the table.
  Crc32c crc32c = crc32c_of;
};

// Describes one input of a model. The name lies in the file.
struct InputInfo {
  const char* name;        // "" if unnamed
  uint32_t features;       // floats per token; 0 if the input is tokens
  uint32_t vocab_size;     // size of the vocabulary; 0 if the input is features
  uint32_t token_types;    // number of token types; 0: no token types
  uint32_t positions_max;  // the longest sequence; 0: any
  uint32_t tokens_min;     // the shortest sequence
  uint32_t tokens_step;    // lengths are tokens_min plus multiples of it; 0 and 1: any
  bool takes_pairs;        // each call says which tokens see which: Batch::pairs
};

// Describes one function, which a call computes. Most models have a single function. Others have
// several, which are called one after the other, e.g. an encoder, whose keys and values stay in the
// session, and a decoder that sees these. The name lies in the file.
struct FunctionInfo {
  const char* name;      // "" if unnamed
  uint32_t inputs;       // bit set of its inputs; no two functions share an input
  uint32_t inputs_read;  // bit set of the inputs of other functions whose keys and values it sees
  uint32_t output_features;  // floats per output row
  bool pooled;               // returns one row per sequence
  bool causal;               // can be fed in several steps
  uint32_t first_op;         // its ops are [first_op, first_op + ops)
  uint32_t ops;              // ops of its program
};

// A view of a verified model file. Copies nothing: the bytes must outlive it and not change. A
// Model is cheap to copy, and any number of threads may share one. Returned texts lie in the file.
// Calls without an index are short forms for the first input and the first function; most models
// have one of each.
class Model {
 public:
  // Holds no model: plan_arena, Session::create and verify_checksums fail; no other call is
  // allowed.
  Model() = default;

  // Verifies every byte of `file`, its structure and its meaning, and selects the kernels that suit
  // this CPU. LoadOptions::checksums can exclude the checksums of the weights. Any bytes are safe
  // to pass. Fails with kInvalidArgument (misaligned), kBadModel, kVersionMismatch or kUnsupported.
  static Result<Model> load(std::span<const std::byte> file, Diagnostic* why = nullptr,
                            const LoadOptions& options = {});

  // Verifies the checksums of the packed weights of all targets in the file, which Checksums::kSkip
  // excludes. Fails with kBadModel, or with kInvalidArgument if this holds no model.
  Status verify_checksums(Diagnostic* why = nullptr, Crc32c crc32c = crc32c_of) const;

  uint32_t inputs() const;                         // from 1 to kInputsMax
  InputInfo input(uint32_t index) const;           // REQUIRES: index < inputs()
  uint32_t functions() const;                      // 1 for most models
  FunctionInfo function(uint32_t index) const;     // REQUIRES: index < functions()
  uint32_t find_function(const char* name) const;  // index; functions() if not found

  const char* name() const;                   // as given at conversion; "" if none
  uint32_t vocab_size() const;                // 0: the input is features
  uint32_t token_types() const;               // 0: no token types
  uint32_t ops() const;                       // ops of the program, as a ProfileHook counts them
  const char* op_name(uint32_t index) const;  // for display. REQUIRES: index < ops()
  uint32_t hidden_states() const;             // 0: none available
  uint32_t input_features() const;            // floats per token; 0: the input is tokens
  uint32_t output_features() const;           // floats per output row
  bool pooled() const;                        // returns one row per sequence
  uint32_t labels() const;  // output columns of the last function if they are named, else 0
  const char* label(uint32_t index) const;  // name of a class. REQUIRES: index < labels()
  TensorType kv_cache() const;              // kF32 or kInt8: default type of sessions
  uint32_t positions_max() const;           // longest sequence that the masks allow; 0: any
  uint32_t tokens_min() const;        // shortest sequence; equal to positions_max: fixed length
  bool causal() const;                // no token sees a later one; can be fed in several steps
  uint32_t self_test_tokens() const;  // tokens that Session::self_test feeds; 0: no self-test
  Target target() const { return target_; }  // the selected target
  uint32_t file_targets() const;             // bit set of the targets in the file

  // Returns the bytes that load was given; empty if this holds no model.
  std::span<const std::byte> file() const { return file_; }

 private:
  std::span<const std::byte> file_;
  uint32_t packed_index_ = 0;  // index of target_ among the targets in the file
  Target target_ = Target::kPortable;

  friend struct ModelAccess;  // internal access to the file
};

}  // namespace arenite
