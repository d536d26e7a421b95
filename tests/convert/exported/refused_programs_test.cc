// SPDX-License-Identifier: Apache-2.0
// Programs of a few ops that can be traced, but compute something else than their graph.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "convert/exported/exported_model.h"
#include "convert/exported/read/exported_program.h"
#include "support/refusal.h"

namespace arenite::convert {
namespace {

using arenite::testing::refuses;

class SmallProgram {
 public:
  explicit SmallProgram(ExportedValue input) : made_(std::make_shared<ExportedProgram>()) {
    made_->source = "model.pt2";
    made_->tensors = std::make_shared<TensorStore>("model.pt2");
    made_->inputs.push_back({.value = 0, .name = input.name});
    made_->values.push_back(std::move(input));
  }
  ValueRef op(const std::string& name, std::vector<NamedArgument> arguments,
              std::vector<Extent> sizes, ElementType type = ElementType::kF32) {
    const auto value = static_cast<uint32_t>(made_->values.size());
    made_->values.push_back({.name = name, .type = type, .sizes = std::move(sizes)});
    made_->nodes.push_back({.op = name, .arguments = std::move(arguments), .outputs = {value}});
    return {value};
  }
  ExportedModel model(ValueRef output) const {
    made_->outputs = {output};
    return read_exported_model(made_, {});
  }

 private:
  std::shared_ptr<ExportedProgram> made_;
};

// The program takes the row at the largest id, after the mean of all rows was added to each.
TEST(RefusedPrograms, ReadTokensAfterTheEndOfTheirSequence) {
  constexpr int64_t kTokens = 6, kWidth = 4, kIds = 9;
  SmallProgram program({.name = "ids", .type = ElementType::kI64, .sizes = {{1}, {kTokens}}});
  Array::Reals rows;
  for (int64_t i = 0; i < kIds * kWidth; ++i) rows.push_back(static_cast<double>(i * i % 7) - 3.0);
  const std::vector<Extent> sizes = {{1}, {kTokens}, {kWidth}};
  const ValueRef table = program.op(
      "clone", {{"self", Array::real({kIds, kWidth}, std::move(rows))}}, {{kIds}, {kWidth}});
  const ValueRef tokens =
      program.op("embedding", {{"weight", table}, {"indices", ValueRef{0}}}, sizes);
  const ValueRef mean =
      program.op("mean", {{"self", tokens}, {"dim", Argument::List{int64_t{1}}}, {"keepdim", true}},
                 {{1}, {1}, {kWidth}});
  const ValueRef sum = program.op("add", {{"self", tokens}, {"other", mean}}, sizes);
  const ValueRef places =
      program.op("argmax", {{"self", ValueRef{0}}, {"dim", int64_t{-1}}}, {{1}}, ElementType::kI64);
  const ValueRef first =
      program.op("clone", {{"self", Array::integer({1}, {0})}}, {{1}}, ElementType::kI64);
  const ValueRef made = program.op(
      "index", {{"self", sum}, {"indices", Argument::List{first, places}}}, {{1}, {kWidth}});
  EXPECT_TRUE(refuses([&] { program.model(made); },
                      {"It ends sequences of 'ids'", "but later tokens change its output"}));
}

}  // namespace
}  // namespace arenite::convert
