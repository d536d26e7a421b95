// SPDX-License-Identifier: Apache-2.0
// What a refusal tells the author beside the op at which it shows: the op that is its cause, and
// for several inputs what can be exported instead.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "convert/exported/read/exported_program.h"
#include "convert/exported/recover/constant.h"
#include "convert/files/error.h"

namespace arenite::convert {
// Where it is an op's input that cannot be: what put that together is the cause.
struct InputNotRecognised : NotRecognised {
  using NotRecognised::NotRecognised;
};

// The same of an input that is a sum, or a value times constants.
struct SumNotRecognised : InputNotRecognised {
  using InputNotRecognised::InputNotRecognised;
};

inline constexpr const char* kPooledGoesBack =
    "it puts what was made of a whole sequence, such as a mean over tokens, back together with the "
    "tokens: not supported, pooled values can only be given out. A series is normalised by its own "
    "mean or deviation before the model";
inline constexpr const char* kReadsIds =
    "it computes with the token ids, which are only looked up by nn.Embedding: give a mask of "
    "padding as a second input instead, as in def forward(self, ids, padding_mask), and export "
    "with torch.export.export(model.eval(), (ids, ids == 0))";

// Of a program that is followed in several readings, the refusal at the latest op is told.
class OpRefused : public InputError {
 public:
  OpRefused(size_t index, const std::string& message)
      : InputError("{}", message), op_index(index) {}

  size_t op_index;  // of the program's ops
};

// How far a reading came: the op at which it was refused, or SIZE_MAX where all were followed.
size_t ops_followed(const InputError& error);

// The op that put together one of `values`, or the sum where that is asked for, before ops that
// only arrange elements anew. Null: layers made them as they are.
const Call* maker_of(const ExportedProgram& program, const std::vector<uint32_t>& values,
                     bool is_sum);

// Why the inputs of a model are not what a model file has, and what to export instead.
std::string why_not_these_inputs(const ExportedProgram& program);

}  // namespace arenite::convert
