// SPDX-License-Identifier: Apache-2.0
// Tests of the drawings of a report, and of the pieces of HTML that it is made of.
#include "cli/report_plots.h"

#include <gtest/gtest.h>

#include "cli/html.h"
#include "cli/report_page.h"
#include "cli/report_slot_map.h"
#include "support/decoder_factory.h"
#include "support/model_factory.h"

namespace arenite::testing {
namespace {

TEST(ReportPlots, TicksAreRoundAndCoverTheRange) {
  EXPECT_EQ(tool::round_ticks(0.0, 10.0, 5), std::vector<double>({0, 2, 4, 6, 8, 10}));
  EXPECT_EQ(tool::round_ticks(-3.0, 4.0, 5), std::vector<double>({-4, -2, 0, 2, 4}));
  for (const double low : {0.9612, 0.99998, -17.3, 1e-9, 12345.0}) {
    for (const double span : {1e-6, 0.03, 1.0, 777.0, 1e9}) {
      const std::vector<double> ticks = tool::round_ticks(low, low + span, 5);
      EXPECT_LE(ticks.front(), low + span * 1e-6);
      EXPECT_GE(ticks.back(), low + span * (1.0 - 1e-6));
      EXPECT_GE(ticks.size(), 3u);
      EXPECT_LE(ticks.size(), 8u);
    }
  }
}

TEST(ReportPlots, MasksHaveRunsOfCells) {
  const tool::MaskPicture picture = {4, 9, 1, {"#...", "##..", ".+#.", "#.##"}};
  const std::string svg = tool::mask_drawing(picture, {"Mask", "words"});
  EXPECT_TRUE(holds(svg,
                    "class=\"seen\" d=\"M0 0h32v32h-32zM0 32h64v32h-64zM64 64h32v32h-32z"
                    "M0 96h32v32h-32zM64 96h64v32h-64z\""))
      << svg;
  EXPECT_TRUE(holds(svg, "class=\"partly\" d=\"M32 64h32v32h-32z\"")) << svg;
  EXPECT_TRUE(holds(svg, "<title>Mask</title><desc>words</desc>"));
}

TEST(ReportPlots, BarsAreSharesOfTheWhole) {
  const std::string svg =
      tool::bar({"Bar", "words"}, {{"c1", 1.0}, {"c2", 0.0}, {"c3", 2.0}}, 4.0, "");
  EXPECT_TRUE(holds(svg, "class=\"c1\" d=\"M0 0h250v10h-250z\"")) << svg;
  EXPECT_FALSE(holds(svg, "c2"));
  EXPECT_TRUE(holds(svg, "class=\"c3\" d=\"M250 0h500v10h-500z\"")) << svg;
  EXPECT_FALSE(holds(tool::bar({"Bar", "words"}, {{"c1", 0.0}}, 0.0, ""), "<path"));
}

TEST(ReportPlots, LinesSkipWhatIsNotFinite) {
  const std::vector<double> values = {1.0, 0.5, std::nan(""), 0.5};
  const std::string svg = tool::line_plot({"Line", "words"}, {{"c1", values}}, {"first", "last"});
  EXPECT_EQ(count_of(svg, "class=\"line c1\""), 1u);
  const size_t shape = svg.find("class=\"line c1\"");
  const std::string line = svg.substr(shape, svg.find("/>", shape) - shape);
  EXPECT_EQ(count_of(line, "M"), 2u) << line;
  EXPECT_EQ(count_of(line, "L"), 1u) << line;
  EXPECT_TRUE(holds(svg, ">first<"));
  EXPECT_TRUE(holds(svg, ">0.5<") && holds(svg, ">1.0<")) << svg;
}

tool::ModelFacts facts_of(const tool::VerifiedFile& file) { return tool::gather_facts(file, {}); }

TEST(ReportPlots, TheMapHasEverySlotOverTheOpsThatNeedIt) {
  const convert::AlignedBytes model = test::make_decoder_model(test::decoder_named("llama"));
  const tool::VerifiedFile file("m.arn", model.span());
  const tool::ModelFacts facts = facts_of(file);
  const auto ops = static_cast<uint32_t>(facts.ops.size());
  const std::string tokens = tool::draw_slot_map({facts, false, 0, ops}, {"Map", "words"});
  const std::string outputs = tool::draw_slot_map({facts, true, 0, ops}, {"Map", "words"});
  for (size_t i = 0; i < facts.slots.size(); ++i) {
    const bool per_output = facts.slots[i].slot.per_output != 0;
    const std::string title = "<title>slot " + std::to_string(i) + ": " + facts.slots[i].label;
    EXPECT_EQ(holds(tokens, title), !per_output) << title;
    EXPECT_EQ(holds(outputs, title), per_output) << title;
  }
}

// An op may be called as the slot that a call fills; only that slot has the colour of inputs.
TEST(ReportPlots, SlotsHaveTheColourOfTheOpThatFillsThem) {
  const convert::AlignedBytes model = test::make_model(test::spec_named("causal"));
  const tool::VerifiedFile file("m.arn", model.span());
  tool::ModelFacts facts = facts_of(file);
  for (tool::SlotFacts& slot : facts.slots) slot.label = "input";
  for (size_t i = 0; i < facts.slots.size(); ++i) {
    const bool is_input = i == facts.reader.input_slot();
    EXPECT_EQ(tool::is_input(facts, i), is_input);
    EXPECT_EQ(tool::slot_color(facts, i) == "c8", is_input) << i;
  }
  const convert::AlignedBytes tokens = test::make_decoder_model(test::decoder_named("llama"));
  const tool::VerifiedFile decoder("m.arn", tokens.span());
  EXPECT_FALSE(tool::is_input(facts_of(decoder), 0));
}

// As many layers as a file can have.
TEST(ReportPlots, TheMapOfAVeryLongProgramLeavesOutItsMiddle) {
  test::DecoderShape shape = test::decoder_named("llama");
  shape.windows.assign(110, 0);
  const convert::AlignedBytes model = test::make_decoder_model(shape, {Target::kPortable});
  const tool::VerifiedFile file("m.arn", model.span());
  const tool::ModelFacts facts = facts_of(file);
  const auto ops = static_cast<uint32_t>(facts.ops.size());
  ASSERT_GT(ops, 1000u);
  const tool::SlotMap map = {facts, false, 0, ops};
  EXPECT_EQ(map.ops_left_out(), ops - 512);
  const std::string svg = tool::draw_slot_map(map, {"Map", "words"});
  EXPECT_TRUE(holds(svg, "&#8230;"));
  EXPECT_TRUE(holds(svg, ">109<") || holds(svg, ">108<")) << "the last layers are drawn";
  EXPECT_LT(svg.size(), 400000u);
}

TEST(Html, TextIsEscapedAndShortenedByCharacters) {
  EXPECT_EQ(tool::escaped("a<b>&\"'"), "a&lt;b&gt;&amp;&quot;&#39;");
  EXPECT_EQ(tool::escaped(std::string_view("\0\n\x7f", 3)), "???");
  EXPECT_EQ(tool::escaped("\xc2\x85|\xe2\x80\xae|\xed\xa0\x80"),
            "?|?|\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd");
  EXPECT_EQ(tool::escaped("<<<<<<", 5), "&lt;&lt;\xe2\x80\xa6&lt;&lt;");
  EXPECT_EQ(tool::escaped("\xc3\xa4\xc3\xb6\xc3\xbc", 3), "\xc3\xa4\xc3\xb6\xc3\xbc");
  EXPECT_EQ(tool::escaped("\xc3\xa4\xc3\xb6\xc3\xbc\xc3\x9f", 3), "\xc3\xa4\xe2\x80\xa6\xc3\x9f");
}

TEST(Html, NumbersAreAsPeopleReadThem) {
  EXPECT_EQ(tool::short_bytes(1), "1 byte");
  EXPECT_EQ(tool::short_bytes(999), "999 bytes");
  EXPECT_EQ(tool::short_bytes(507462432), "507 MB");
  EXPECT_EQ(tool::short_bytes(838496), "838 kB");
  EXPECT_EQ(tool::short_bytes(12345678), "12.3 MB");
  EXPECT_EQ(tool::short_bytes(999999), "1.0 MB");
  EXPECT_EQ(tool::percent(1, 3), "33.3 %");
  EXPECT_EQ(tool::percent(1, 100000), "&lt;0.1 %");
  EXPECT_EQ(tool::percent(0, 0), "0 %");
}

}  // namespace
}  // namespace arenite::testing
