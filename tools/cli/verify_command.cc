// SPDX-License-Identifier: Apache-2.0
// arenite verify: makes the checks of loading, then runs the self-test on each kernel set of this
// machine. arenite strip: removes the self-test from a file, for devices that are short of flash.

#include "cli/arguments.h"
#include "cli/kernel_check.h"
#include "cli/process.h"
#include "convert/check/pack_model.h"
#include "convert/masks/masks.h"

namespace arenite::tool {
namespace {

struct VerifyArguments {
  std::filesystem::path model;
  std::string kernels;
  KvType kv_cache = KvType::kOfModel;
  bool json = false;
};

std::string describe(const ModelFile& file, const SelfTest& test) {
  if (test.passed && test.difference == 0.0f) return "passed: no difference";
  if (test.passed) {
    return fmt::format("passed: at most {:.2g} % of a tolerance, in {}",
                       100.0 * double{test.difference} / double{test.tolerance}, op_of(file, test));
  }
  return "FAILED at " + describe_failure(file, test);
}

struct VerifiedTarget {
  Target target;
  std::optional<SelfTest> test{};        // absent if it was not run
  std::optional<std::string> op_name{};  // a copy, as test->op_name lives only as long as its model
};

struct VerifyFacts {
  WrittenPath file;
  std::vector<VerifiedTarget> targets{};
  bool passed = false;
};

void run_verify(const VerifyArguments& arguments) {
  const convert::OutputGuard guard({});
  const VerifiedFile file(arguments.model);
  const uint32_t wanted =
      arguments.kernels.empty() ? UINT32_MAX : bit(target_named(arguments.kernels));
  const std::string path = convert::quote(file.name());
  if (!arguments.json) {
    print_output("{}: {} bytes, sound; checksums are right\n", file.name(), file.bytes().size());
  }
  TextTable table({"target", "kernels", "self-test"});
  VerifyFacts facts = {{file.name(), file.bytes().size()}};
  uint32_t run = 0;
  uint32_t failed = 0;
  for (uint32_t i = 0; i < file.reader().packed_count(); ++i) {
    const Target target = static_cast<Target>(file.reader().packed(i).target);
    if ((wanted & bit(target)) == 0) continue;
    const char* const kernels = kernel_set_name(target);
    if ((cpu_targets() & bit(target)) == 0) {
      table.add_row({name(target), kernels, "not run: this CPU and build lack the kernels"});
      facts.targets.push_back({target});
      continue;
    }
    const ModelFile model(arguments.model, kernels);
    const SelfTest test = run_self_test(model, arguments.kv_cache);
    table.add_row({name(target), kernels, describe(model, test)});
    facts.targets.push_back({target, test, test.op_name == nullptr ? "" : test.op_name});
    ++run;
    if (!test.passed) ++failed;
  }
  if (arguments.json) {
    facts.passed = run != 0 && failed == 0;
    print_json(facts);
  } else {
    print_output("{}", table.text());
  }
  if (failed != 0) {
    throw convert::InputError("{}: the self-test failed on {} of {} kernel set{}", path, failed,
                              run, run == 1 ? "" : "s");
  }
  if (run == 0) {
    throw convert::InputError(
        "{}: no self-test was run: the file is not packed for a kernel set of this machine{}; "
        "convert with --target all to test it here",
        path, arguments.kernels.empty() ? "" : " that --kernels names");
  }
}

struct StripArguments {
  std::filesystem::path model;
  std::filesystem::path output;
  bool json = false;
};

struct StripFacts {
  WrittenPath output;
  uint64_t removed_bytes = 0;
};

void run_strip(const StripArguments& arguments) {
  const convert::OutputGuard guard({{"--output", arguments.output}});
  const VerifiedFile file(arguments.model);
  convert::AlignedBytes stripped(file.bytes().size());
  std::ranges::copy(file.bytes(), stripped.data());
  convert::strip_self_test(stripped);
  convert::AtomicFile output(arguments.output);
  output.write(stripped.span());
  output.commit();
  const uint64_t removed = file.bytes().size() - output.bytes_written();
  if (arguments.json) {
    return print_json(StripFacts{{arguments.output, output.bytes_written()}, removed});
  }
  print_output("{}: {} bytes, ", arguments.output.string(), output.bytes_written());
  if (removed == 0) {
    print_output("as before: there was no self-test\n");
  } else {
    print_output("{} less without the self-test\n", removed);
  }
}

// A field of the self-test; null if the test was not run.
template <typename Get>
constexpr auto of_test(Get get) {
  return [get](const VerifiedTarget& f) {
    using Value = std::remove_cvref_t<std::invoke_result_t<Get, const SelfTest&>>;
    return f.test ? std::optional<Value>(std::invoke(get, *f.test)) : std::nullopt;
  };
}

}  // namespace

template <>
constexpr auto kFacts<VerifiedTarget> = std::tuple(
    Fact("name", [](const VerifiedTarget& f) { return name(f.target); }),
    Fact("kernel_set", [](const VerifiedTarget& f) { return kernel_set_name(f.target); }),
    Fact("ran", "The kernels run on this CPU",
         [](const VerifiedTarget& f) { return f.test.has_value(); }),
    Fact("passed", "null: not run", of_test(&SelfTest::passed)),
    Fact("difference", "Largest difference; null: not run", of_test(&SelfTest::difference)),
    Fact("tolerance", "Tolerance at the largest difference", of_test(&SelfTest::tolerance)),
    Fact("op", "Op with the largest difference; the number of ops stands for the output",
         of_test(&SelfTest::op_index)),
    Fact("op_name", &VerifiedTarget::op_name), Fact("token", of_test(&SelfTest::token)));

template <>
constexpr auto kFacts<VerifyFacts> = std::tuple(
    Fact("file", &VerifyFacts::file), Fact("targets", &VerifyFacts::targets),
    Fact("passed", "At least one kernel set was run, and all passed", &VerifyFacts::passed));

template <>
constexpr auto kFacts<StripFacts> = std::tuple(Fact("output", &StripFacts::output),
                                               Fact("removed_bytes", &StripFacts::removed_bytes));

Json verify_facts() { return schema_of<VerifyFacts>(); }
Json strip_facts() { return schema_of<StripFacts>(); }

void add_verify(CLI::App& app) {
  const auto [command, arguments] = add_command(
      app, run_verify, "verify", "Verify a model file, and run its self-test on this machine",
      "\nThe self-test feeds tokens that the converter stored in the file, and compares what each "
      "op makes of them with what it made at conversion. On a device, Session::self_test does the "
      "same. Exits with 1 where the file is damaged, has no self-test, or a result differs.\n"
      "\nExamples:\n"
      "  arenite verify recall.arn\n"
      "  arenite verify recall.arn --kernels avx2\n");
  add_model(command, arguments.model);
  command.add_option("--kernels", arguments.kernels, "Only this kernel set, or target")
      ->type_name(kKernelsType)
      ->check(kernel_set_or_target_name());
  add_kv_option(command, arguments.kv_cache);
  add_json_option(command, arguments.json);
}

void add_strip(CLI::App& app) {
  const auto [command, arguments] = add_command(
      app, run_strip, "strip", "Write a model file without its self-test, to save flash",
      "\nWeights, masks and tokenizer stay as they are. Session::self_test and arenite verify "
      "then "
      "have nothing to compare with: run them before.\n"
      "\nExample:\n"
      "  arenite strip recall.arn -o recall-flash.arn\n");
  add_model(command, arguments.model);
  add_file(command, "-o,--output", arguments.output, "The model file to write")->required();
  add_json_option(command, arguments.json);
}

}  // namespace arenite::tool
