// SPDX-License-Identifier: Apache-2.0
// What a refusal tells the author beside the op at which it shows: the op that is its cause, and
// for several inputs what can be exported instead.
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
// What is at fault: the op that is refused, what put its input together, or, where that is a sum or
// a value times constants, what added or multiplied it.
enum class Cause { kOp, kInput, kSum };

// Why a program cannot become the runtime's. The op and its place are added by who catches it.
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
    "it puts a row that was made of a whole sequence, such as a mean over tokens, between the rows "
    "of tokens: not supported, such a row can stand before the first token or after the last one, "
    "beside the columns of each token, or be added to or multiplied with each";
inline constexpr const char* kReadsIds =
    "it computes with the token ids, which are only looked up by nn.Embedding: give a mask of "
    "padding as a second input instead, as in def forward(self, ids, padding_mask), and export "
    "with torch.export.export(model.eval(), (ids, ids == 0))";
inline constexpr const char* kMixesTokens =
    "its rows mix elements of several tokens, which only attention and pooling may do";

// Of a program that is followed in several readings, the refusal at the latest op is told.
class OpRefused : public InputError {
 public:
  OpRefused(size_t index, const std::string& message)
      : InputError("{}", message), op_index(index) {}

  size_t op_index;  // of the program's ops
};

// How far a reading came: the op at which it was refused, or SIZE_MAX where all were followed.
size_t ops_followed(const InputError& error);

// The op that put together one of `values`, or the sum where that is the cause, before ops that
// only arrange elements anew. Null: layers made them as they are.
const Call* maker_of(const ExportedProgram& program, const std::vector<uint32_t>& values,
                     Cause cause);

// Why the inputs of a model are not what a model file has, and what to export instead.
std::string why_not_these_inputs(const ExportedProgram& program);

}  // namespace arenite::convert
