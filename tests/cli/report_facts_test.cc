// SPDX-License-Identifier: Apache-2.0
// Tests of the facts gathered for a report, against the model file and the converter.
#include "cli/report_facts.h"

#include <gtest/gtest.h>

#include <numeric>
#include <set>

#include "cli/report_page.h"
#include "support/decoder_factory.h"
#include "support/model_factory.h"

namespace arenite::testing {
namespace {

using tool::ReportFacts;
using tool::TensorGroup;
using tool::VerifiedFile;

uint64_t sum_of(const std::vector<TensorGroup>& groups) {
  return std::accumulate(
      groups.begin(), groups.end(), uint64_t{0},
      [](uint64_t sum, const TensorGroup& group) { return sum + group.bytes(); });
}

TEST(ReportFacts, GroupsHoldEveryTensorOnce) {
  for (const test::DecoderShape& shape : test::all_decoders()) {
    SCOPED_TRACE(shape.name);
    const convert::AlignedBytes model = test::make_decoder_model(shape);
    const VerifiedFile file("m.arn", model.span());
    const ReportFacts facts = tool::gather_report(tool::gather_facts(file, {}));
    const auto shown =
        static_cast<size_t>(&facts.model.shown_target() - facts.model.targets.data());
    uint64_t bytes = 0;
    for (const tool::TensorFacts& tensor : facts.model.tensors) {
      bytes += tensor.packed_bytes[shown].value;
    }
    EXPECT_EQ(sum_of(facts.types), bytes);
    EXPECT_EQ(sum_of(facts.layers), bytes);
    EXPECT_EQ(sum_of(facts.parts), bytes);
    for (const tool::TensorPlace& place : facts.places) EXPECT_FALSE(place.ops.empty());
    const std::set<std::string> names = [&] {
      std::set<std::string> found;
      for (const TensorGroup& group : facts.layers) found.insert(group.name);
      return found;
    }();
    EXPECT_TRUE(names.contains("layer 0") && names.contains("layer 1"));
  }
}

TEST(ReportFacts, LayersAreTakenFromTheNamesOfOps) {
  const auto split = [](const char* name) {
    const tool::OpName parts = tool::split_op_name(name);
    return parts.layer + "|" + parts.part;
  };
  EXPECT_EQ(split("12.qkv"), "12|qkv");
  EXPECT_EQ(split("final_norm"), "|final_norm");
  EXPECT_EQ(split("0."), "|0.");
  EXPECT_EQ(split(".x"), "|.x");
  EXPECT_EQ(split("a1.x"), "|a1.x");
  EXPECT_EQ(split(""), "|");
}

TEST(ReportFacts, MasksAreDrawnWhateverTheirForm) {
  for (const test::ModuleSpec& spec : test::all_specs()) {
    SCOPED_TRACE(spec.name);
    const convert::AlignedBytes model = test::make_model(spec);
    const VerifiedFile file("m.arn", model.span());
    const ReportFacts facts = tool::gather_report(tool::gather_facts(file, {}));
    ASSERT_EQ(facts.masks.size(), spec.masks.size());
    for (size_t i = 0; i < facts.masks.size(); ++i) {
      const tool::MaskPicture& picture = facts.masks[i];
      const convert::DenseMask dense = convert::expand_mask(spec.masks[i], picture.positions);
      uint64_t visible = 0;
      for (const bool seen : dense.visible) visible += seen ? 1 : 0;
      EXPECT_EQ(picture.visible, visible);
      EXPECT_EQ(picture.rows.size(), std::min(picture.positions, tool::kMaskCells));
      EXPECT_GT(picture.ops, 0u);
    }
  }
}

TEST(ReportFacts, StayAPageOfReasonableSizeForManyLayers) {
  test::DecoderShape shape = test::decoder_named("llama");
  shape.windows.assign(110, 0);
  const convert::AlignedBytes model = test::make_decoder_model(shape, {Target::kPortable});
  const VerifiedFile file("m.arn", model.span());
  const ReportFacts facts = tool::gather_report(tool::gather_facts(file, {}));
  const std::string page = tool::report_as_html(facts);
  ASSERT_TRUE(is_page(page));
  EXPECT_LT(page.size(), 1000000u);
}

}  // namespace
}  // namespace arenite::testing
