// SPDX-License-Identifier: Apache-2.0
// Tests of the option --report of `arenite inspect`: the files for each kind of model, and
// refusals.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "cli/printed.h"
#include "cli/program.h"
#include "cli/report_page.h"
#include "cli/token_models.h"
#include "support/decoder_factory.h"
#include "support/model_factory.h"

namespace arenite::testing {
namespace {

using nlohmann::json;
using test::ModuleSpec;

// The report of a model, in the form that its name says.
std::string report_of(const TempFolder& folder, const std::string& model, const std::string& name) {
  const std::string report = (folder.path() / name).string();
  EXPECT_TRUE(ends(run_arenite({"inspect", model, "--report", report}), kDone, {report}));
  return read_bytes(report);
}

TEST(Report, IsAPageForEveryKindOfModule) {
  const TempFolder folder;
  for (const ModuleSpec& spec : test::all_specs()) {
    SCOPED_TRACE(spec.name);
    const std::string model = write_file(folder, "m.arn", test::make_model(spec).span());
    const std::string page = report_of(folder, model, "m.html");
    ASSERT_TRUE(is_page(page));
    const json facts = facts_in(page);
    EXPECT_EQ(facts["model"]["name"], spec.name);
    EXPECT_EQ(facts["report"]["masks"].size(), spec.masks.size());
    EXPECT_EQ(facts["report"]["conversion"], nullptr);
    EXPECT_EQ(facts["report"]["layers"].empty(), spec.head_dim == 0);
    EXPECT_EQ(facts["report"]["layers"], facts["report"]["parts"]);
    EXPECT_TRUE(holds(page, "arena         "));  // without JavaScript
  }
}

TEST(Report, IsAPageForDecodersAndEncoders) {
  const TempFolder folder;
  for (const test::DecoderShape& shape : test::all_decoders()) {
    SCOPED_TRACE(shape.name);
    const std::string model = write_file(folder, "m.arn", test::make_decoder_model(shape).span());
    const std::string page = report_of(folder, model, "m.html");
    ASSERT_TRUE(is_page(page));
    for (const char* const part : {"layer 0", "layer 1", "embedding", "every CPU", "AVX-512"}) {
      EXPECT_TRUE(holds(page, part)) << part;
    }
  }
  for (const std::string& model :
       {write_sentence_encoder(folder), write_tagger(folder), write_sensor_classifier(folder)}) {
    const std::string page = report_of(folder, model, "m.html");
    ASSERT_TRUE(is_page(page)) << model;
    EXPECT_TRUE(holds(facts_in(page)["page"]["calls"].get<std::string>(), "whole sequences only"));
  }
}

TEST(Report, EscapesHtmlInNames) {
  const TempFolder folder;
  ModuleSpec spec = test::spec_named("causal");
  spec.name =
      "</script><!--<script>alert(\"1\" & '2')</pre></noscript> \x1b[31m\n\xff \xe2\x80\xae";
  const std::string model = write_file(folder, "m.arn", test::make_model(spec).span());
  const std::string page = report_of(folder, model, "m.html");
  ASSERT_TRUE(is_page(page));
  EXPECT_TRUE(holds(page, "&lt;/script&gt;&lt;!--&lt;script&gt;alert"));
  const json facts = json::parse(report_of(folder, model, "m.json"), nullptr, false);
  ASSERT_TRUE(facts.is_object());
  EXPECT_TRUE(facts["model"]["name"].get<std::string>().starts_with("</script><!--"));
  EXPECT_EQ(facts_in(page)["model"]["name"], facts["model"]["name"]);
}

TEST(Report, HasTheFactsOfInspectAndMoreAsJson) {
  const TempFolder folder;
  const std::string model = write_plain_decoder(folder);
  const json report = json::parse(report_of(folder, model, "m.json"), nullptr, false);
  const json facts = json::parse(run_arenite({"inspect", model, "--json"}).output, nullptr, false);
  ASSERT_TRUE(report.is_object() && facts.is_object());
  for (const auto& [key, value] : facts.items()) EXPECT_EQ(report[key], value) << key;
  ASSERT_EQ(report["targets"].size(), facts["targets"].size());
  EXPECT_FALSE(report["targets"][0]["cpus"].get<std::string>().empty());
  EXPECT_EQ(report["report"]["tensors"].size(), facts["tensors"].size());
  uint64_t bytes = 0;
  for (const json& part : report["report"]["file_parts"]) bytes += part["bytes"].get<uint64_t>();
  EXPECT_EQ(bytes, facts["file"]["bytes"]);
  EXPECT_EQ(report["report"]["conversion"], nullptr);
}

TEST(Report, FollowsTheRequestedSizes) {
  const TempFolder folder;
  const std::string model = write_plain_decoder(folder);
  const std::string report = (folder.path() / "m.json").string();
  EXPECT_TRUE(
      ends(run_arenite({"inspect", model, "--report", report, "--positions", "17"}), kDone));
  const json facts = json::parse(read_bytes(report), nullptr, false);
  EXPECT_EQ(facts["sizes"]["positions"], 17);
  EXPECT_EQ(facts["report"]["masks"][0]["positions"], 17);
  EXPECT_EQ(facts["report"]["masks"][0]["visible_pairs"], 17 * 18 / 2);
  EXPECT_EQ(facts["report"]["masks"][0]["rows"].size(), 17u);
}

TEST(Report, PrintsOneJsonObjectBesideTheFile) {
  const TempFolder folder;
  const std::string model = write_plain_decoder(folder);
  const ProgramResult result =
      run_arenite({"inspect", model, "--json", "--report", (folder.path() / "m.html").string()});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_TRUE(json::parse(result.output, nullptr, false).is_object()) << result.output;
}

TEST(Report, RefusesNamesThatSayNoForm) {
  const TempFolder folder;
  const std::string model = write_plain_decoder(folder);
  for (const char* const name : {"m.txt", "m", "m.html.gz", ".html"}) {
    const std::string report = (folder.path() / name).string();
    EXPECT_TRUE(ends(run_arenite({"inspect", model, "--report", report}), kBadUsage,
                     {"--report", name, "expected a name that ends in .html", ".json"}));
    EXPECT_FALSE(std::filesystem::exists(report));
  }
}

TEST(Report, RefusesPlacesThatCannotBeWritten) {
  const TempFolder folder;
  const std::string model = write_plain_decoder(folder);
  const std::string missing = (folder.path() / "none" / "m.html").string();
  EXPECT_TRUE(ends(run_arenite({"inspect", model, "--report", missing}), kBadInput, {missing}));
  const std::string place = (folder.path() / "folder.html").string();
  std::filesystem::create_directory(place);
  EXPECT_TRUE(ends(run_arenite({"inspect", model, "--report", place}), kBadInput, {place}));
  const std::string model_page = (folder.path() / "model.html").string();
  std::filesystem::rename(model, model_page);
  const std::string before = read_bytes(model_page);
  EXPECT_TRUE(ends(run_arenite({"inspect", model_page, "--report", model_page}), kBadUsage,
                   {"--report", "is an input of this command"}));
  EXPECT_EQ(read_bytes(model_page), before);
  Command full_disk;
  full_disk.file_bytes_max = 4096;
  const auto names = names_in(folder.path());
  EXPECT_TRUE(
      ends(run_arenite({"inspect", model_page, "--report", (folder.path() / "m.html").string()},
                       full_disk),
           kBadInput, {"m.html"}));
  EXPECT_EQ(names_in(folder.path()), names);
}

}  // namespace
}  // namespace arenite::testing
