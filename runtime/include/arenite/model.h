// SPDX-License-Identifier: Apache-2.0
// A model file, verified: start here. Then plan_arena and Session::create in session.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "arenite/status.h"
#include "arenite/target.h"
#include "arenite/tensor_type.h"

namespace arenite {

// A model file starts at an address that is a multiple of this, in flash, ROM or a memory map.
inline constexpr size_t kModelAlignment = 64;

enum class Checksums : uint8_t {
  kVerify,  // reads the whole file
  kSkip,    // does not read the weights
};

// The CRC-32C of bytes (Castagnoli, reflected, initial value and final xor all ones): by the CPU's
// instruction where it has one, else by a table.
uint32_t crc32c_of(const void* bytes, size_t count);

// What computes it: the above, or a function of yours.
using Crc32c = uint32_t (*)(const void* bytes, size_t count);

struct LoadOptions {
  // Run this target of the file instead of the best one that the CPU has: for tests that must
  // cover the slower kernels. kUnsupported if the file or the CPU lacks it.
  bool force_target = false;
  Target target = Target::kPortable;
  // The CRC-32C of the packed weights, nearly all of the time that loading takes. Everything else
  // is verified in any case: with kSkip, too, any bytes are safe to pass, but weights that were
  // damaged on their way give wrong results, or NaN, and nobody says so. For files whose bytes were
  // verified since they were written, or will be: see Model::verify_checksums.
  Checksums checksums = Checksums::kVerify;
  // For CPUs whose instructions cannot and that have a peripheral for it, such as a CRC unit with a
  // polynomial of your choice: that is 0x1EDC6F41, bits of bytes and of the result reversed. It
  // must give what crc32c_of does, or sound files are refused; a program that names its own for
  // each load, and optimizes, does not link the table.
  Crc32c crc32c = crc32c_of;
};

// What one input is fed.
struct InputInfo {
  const char* name;        // "" if it has none
  uint32_t features;       // floats per token; 0 if it is fed tokens
  uint32_t vocab_size;     // tokens that it reads; 0 if it is fed features
  uint32_t token_types;    // that may go with tokens; 0 if it knows none
  uint32_t positions_max;  // the longest sequence; 0: any
  uint32_t tokens_min;     // the shortest sequence
  bool takes_pairs;        // a call says which tokens see which: Batch::pairs
};

// What one call computes: a model has one function, as most have, or several that are called one
// after the other, such as an encoder, whose keys and values are kept, and a decoder that sees
// them.
struct FunctionInfo {
  const char* name;          // "" if it has none
  uint32_t inputs;           // bit set of those that it takes; each is taken by one function
  uint32_t inputs_read;      // of those that others took, whose keys and values it sees
  uint32_t output_features;  // floats per row coming out
  bool pooled;               // gives out one row for each sequence, whatever is asked
  bool causal;               // can be fed step by step
  uint32_t first_op;         // its part of the program
  uint32_t ops;
};

// A view of a verified model file. Copies nothing: the bytes must outlive it and stay unchanged.
class Model {
 public:
  // No model yet: plan_arena, Session::create and verify_checksums refuse it; call nothing else.
  Model() = default;

  // Verifies every byte of `file`, structure and meaning, and chooses the kernels that suit this
  // CPU; LoadOptions::checksums can leave the weights' checksums out. Any bytes are safe to pass.
  // Fails with kInvalidArgument (misaligned), kBadModel, kVersionMismatch or kUnsupported, and then
  // explains itself in `why`, if given.
  static Result<Model> load(std::span<const std::byte> file, Diagnostic* why = nullptr,
                            const LoadOptions& options = {});

  // Verifies the checksums of the packed weights, of all targets in the file: what load leaves out
  // with Checksums::kSkip. Fails with kBadModel, or kInvalidArgument if there is no model yet.
  Status verify_checksums(Diagnostic* why = nullptr, Crc32c crc32c = crc32c_of) const;

  uint32_t inputs() const;
  InputInfo input(uint32_t index) const;  // REQUIRES: index < inputs()
  uint32_t functions() const;
  FunctionInfo function(uint32_t index) const;     // REQUIRES: index < functions()
  uint32_t find_function(const char* name) const;  // its number; functions(): there is none

  // The same in short, of the first input and the first function, which most models have alone.
  const char* name() const;                   // as given at conversion; "" if none
  uint32_t vocab_size() const;                // tokens that it reads; 0 if its input is features
  uint32_t token_types() const;               // that may go with tokens; 0 if it knows none
  uint32_t ops() const;                       // steps of its program, as a ProfileHook counts them
  const char* op_name(uint32_t index) const;  // for people. REQUIRES: index < ops()
  uint32_t hidden_states() const;             // how many a session can show; 0 if none
  uint32_t input_features() const;            // floats per token going in; 0 if its input is tokens
  uint32_t output_features() const;           // floats per row coming out
  bool pooled() const;      // gives out one row for each sequence, whatever is asked
  uint32_t labels() const;  // names of the columns that the last function gives: all, or 0
  const char* label(uint32_t index) const;  // a classifier's class. REQUIRES: index < labels()
  TensorType kv_cache() const;              // kF32 or kInt8: of sessions that do not say
  uint32_t positions_max() const;           // the longest sequence its masks allow; 0: any
  uint32_t tokens_min() const;              // the shortest sequence; the longest: it takes no other
  bool causal() const;                      // no token sees a later one: it can be fed step by step
  uint32_t self_test_tokens() const;        // of its Session::self_test; 0: it has none
  Target target() const { return target_; }  // what it runs on
  uint32_t file_targets() const;             // bit set of all targets in the file

  std::span<const std::byte> file() const { return file_; }

 private:
  std::span<const std::byte> file_;
  uint32_t packed_index_ = 0;  // which of the targets in the file
  Target target_ = Target::kPortable;

  friend struct ModelAccess;  // the runtime's own way to the file
};

}  // namespace arenite
