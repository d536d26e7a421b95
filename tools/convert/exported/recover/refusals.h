// SPDX-License-Identifier: Apache-2.0
// Errors for ops that the runtime cannot express, with the op at fault. For models of several
// inputs, the message says what to export instead.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "convert/exported/read/exported_program.h"
#include "convert/files/error.h"

namespace arenite::convert {
// The op at fault: the refused op, the op that concatenated or gathered its input, or the op that
// added or multiplied it.
enum class Cause { kOp, kInput, kSum };

// Thrown if the runtime cannot express a program. The handler adds the name and the source line of
// the op.
struct NotRecognised : InputError {
  explicit NotRecognised(std::string_view why, Cause at_fault = Cause::kOp)
      : InputError("{}", why), cause(at_fault) {}

  Cause cause;
};

template <Cause cause = Cause::kOp, typename... Args>
void refuse_op_if(bool is_refused, fmt::format_string<Args...> why, Args&&... args) {
  if (is_refused) throw NotRecognised(fmt::format(why, std::forward<Args>(args)...), cause);
}

inline constexpr const char* kPooledAmongTokens =
    "a row of a whole sequence, such as a mean over tokens, is between token rows; concatenate it "
    "before or after all tokens, or add it to each";
inline constexpr const char* kReadsIds =
    "an op computes with token ids, which only nn.Embedding reads; give a padding mask as a second "
    "input, as in def forward(self, ids, padding_mask), and export with "
    "torch.export.export(model.eval(), (ids, ids == 0))";
inline constexpr const char* kMixesTokens =
    "a row mixes elements of several tokens; only attention and pooling may do so";

// Thrown for a refused op. If all interpretations of a program are refused, the refusal at the
// latest op is reported.
class OpRefused : public InputError {
 public:
  OpRefused(size_t index, const std::string& message)
      : InputError("{}", message), op_index(index) {}

  size_t op_index;  // in the program's nodes
};

// Returns the index of the refused op, or SIZE_MAX if all ops were traced.
size_t refused_op_index(const InputError& error);

// Returns the op that concatenated or gathered some of `values`; with Cause::kSum, the op that
// summed them. Looks through ops that only rearrange elements. Null if layers computed the values.
const Call* maker_of(const ExportedProgram& program, const std::vector<uint32_t>& values,
                     Cause cause);

// Explains why a model file cannot have these inputs, and what to export instead.
std::string why_not_these_inputs(const ExportedProgram& program);

}  // namespace arenite::convert
