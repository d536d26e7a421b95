// SPDX-License-Identifier: Apache-2.0
// Commands that compute refuse kernel sets with wrong results, whatever the file holds. Correct
// kernels pass on every set.
#include "cli/kernel_check.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "cli/printed.h"
#include "convert/files/error.h"
#include "convert/files/npy.h"
#include "convert/program/writer.h"
#include "format/model_needs.h"
#include "support/byte_string.h"
#include "support/encoder_factory.h"
#include "support/few_bits_models.h"
#include "support/kernel_sets.h"
#include "support/stand_in_kernels.h"
#include "support/test_data.h"

namespace arenite::testing {
namespace {

using test::force_kernels;

// A copy of a kernel set, in which a test exchanges kernels.
struct OwnSet {
  explicit OwnSet(const KernelSet& of) : set(of), w8(*of.w8), q8(*of.q8), q4(*of.q4) {
    set.w8 = &w8, set.q8 = &q8, set.q4 = &q4;
    if (of.indirect != nullptr) indirect = *of.indirect, set.indirect = &indirect;
    if (of.integers != nullptr) integers = *of.integers, set.integers = &integers;
  }
  OwnSet(const OwnSet&) = delete;
  OwnSet& operator=(const OwnSet&) = delete;

  KernelSet set;
  FloatKernels w8;
  QuantizedKernels q8, q4;
  IndirectKernels indirect = {};
  IntegerAttention integers = {};
};

// ---- kernels that compute what the right ones do, and spoil the last number ----

const KernelSet* right_set = nullptr;

template <TensorType kType>
void wrong_gemm(size_t rows, size_t columns, size_t k_bytes, const float* a, size_t a_stride,
                const void* w, float* c, size_t c_stride) {
  const FloatKernels& right = kType == TensorType::kF32 ? right_set->f32 : *right_set->w8;
  right.gemm[rows](rows, columns, k_bytes, a, a_stride, w, c, c_stride);
  c[(rows - 1) * (c_stride / sizeof(float)) + columns - 1] += 1.0f;
}

template <TensorType kType>
void wrong_quantized(size_t rows, size_t columns, size_t k, const int8_t* a, size_t a_stride,
                     const void* w, float* c, size_t c_stride,
                     const QuantizedRow (&a_rows)[kRowsMax], std::byte* scratch) {
  right_set->quantized(kType).gemm[rows](rows, columns, k, a, a_stride, w, c, c_stride, a_rows,
                                         scratch);
  c[(rows - 1) * (c_stride / sizeof(float)) + columns - 1] += 1.0f;
}

void spoil_products(OwnSet& own, TensorType type, size_t rows) {
  if (type == TensorType::kF32) own.set.f32.gemm[rows] = wrong_gemm<TensorType::kF32>;
  if (type == TensorType::kW8) own.w8.gemm[rows] = wrong_gemm<TensorType::kW8>;
  if (type == TensorType::kQ8) own.q8.gemm[rows] = wrong_quantized<TensorType::kQ8>;
  if (type == TensorType::kQ4) own.q4.gemm[rows] = wrong_quantized<TensorType::kQ4>;
}

constexpr TensorType kTypes[] = {TensorType::kF32, TensorType::kW8, TensorType::kQ8,
                                 TensorType::kQ4};

// ---- the check by itself ----

std::vector<const KernelSet*> sets_here() {
  std::vector<const KernelSet*> sets;
  for (const Target target : test::targets_here()) sets.push_back(kernel_set(target));
  const KernelSet* const plain = plain_avx2_set();
  if (plain != nullptr && plain != kernel_set(Target::kX86_64_v3)) sets.push_back(plain);
  return sets;
}

// Small models with weights of all types, in files.
std::vector<convert::AlignedBytes> files_of_all_types() {
  std::vector<convert::AlignedBytes> files;
  const auto add = [&](const convert::Program& program) {
    files.push_back(convert::write_model(program, {Target::kPortable}));
  };
  add(test::encoder_program(test::few_bits_encoders()[0]));
  for (const test::FewBitsModel& model : test::few_bits_modules()) add(model.program());
  for (const test::FewBitsModel& model : test::few_bits_encoder_models()) add(model.program());
  return files;
}

NeedSet needs_of(const convert::AlignedBytes& file) {
  NeedSet needs;
  format::for_each_need(file.span(), [&](Need need, uint32_t) {
    needs |= need;
    return true;
  });
  return needs;
}

// Returns the message of the check of `set`, with all kernels and with those that each model needs.
// Empty if the check passes.
std::string found_in(const KernelSet& set, const std::vector<convert::AlignedBytes>& files,
                     TensorType kv_type) {
  try {
    for (const convert::AlignedBytes& file : files) {
      for (const NeedSet& needs : {kLinked, needs_of(file)}) {
        tool::check_kernels(set, format::ModelReader(file.span()), needs, kv_type, "m.arn");
      }
    }
  } catch (const convert::InputError& error) {
    return error.what();
  }
  return "";
}

TEST(KernelCheck, PassesOnEverySetWithEveryTypeOfWeightsAndCaches) {
  const std::vector<convert::AlignedBytes> files = files_of_all_types();
  for (const TensorType kv_type : {TensorType::kF32, TensorType::kInt8}) {
    for (const KernelSet* set : sets_here()) EXPECT_EQ(found_in(*set, files, kv_type), "");
    for (uint32_t i = 0; i < kTargets; ++i) {
      const KernelSet& set = test::stand_in_kernels(static_cast<Target>(i));
      EXPECT_EQ(found_in(set, files, kv_type), "") << "stand-ins";
    }
  }
}

TEST(KernelCheck, FindsEachProductThatIsWrong) {
  const std::vector<convert::AlignedBytes> files = files_of_all_types();
  for (const KernelSet* set : sets_here()) {
    right_set = set;
    for (const TensorType type : kTypes) {
      for (size_t rows = 1; rows <= packing_of(set->target, type).mr; ++rows) {
        OwnSet own(*set);
        spoil_products(own, type, rows);
        const std::string found = found_in(own.set, files, TensorType::kF32);
        const std::string set_name = std::string("kernel set ") + set->name;
        EXPECT_NE(found.find(set_name), std::string::npos) << found;
        const std::string weights = std::string("with ") + name(type) + " weights";
        EXPECT_NE(found.find(weights), std::string::npos) << rows << " rows: " << found;
      }
    }
  }
}

// Replaces each kernel in turn by one that computes something else, or nothing.
TEST(KernelCheck, FindsEachOtherKernelThatIsWrong) {
  const std::vector<convert::AlignedBytes> files = files_of_all_types();
  using Change = std::function<void(OwnSet&)>;
  const std::vector<std::pair<const char*, Change>> changes = {
      {"gelu", [](OwnSet& own) { own.set.gelu = own.set.tanh; }},
      {"sigmoid", [](OwnSet& own) { own.set.sigmoid = own.set.tanh; }},
      {"tanh", [](OwnSet& own) { own.set.tanh = own.set.sigmoid; }},
      {"add", [](OwnSet& own) { own.set.add = own.set.multiply; }},
      {"multiply", [](OwnSet& own) { own.set.multiply = own.set.add; }},
      {"add_constant", [](OwnSet& own) { own.set.add_constant = own.set.scale; }},
      {"scale", [](OwnSet& own) { own.set.scale = own.set.add_constant; }},
      {"rotate", [](OwnSet& own) { own.set.rotate = own.set.multiply; }},
      {"sum", [](OwnSet& own) { own.set.sum = [](size_t, const float*, float*) {}; }},
      {"extremes", [](OwnSet& own) { own.set.row_extremes = own.set.sum; }},
      {"exp_sum",
       [](OwnSet& own) {
         own.set.exp_sum = [](size_t, const float*, const float*, float*, float* sum) {
           *sum = 1.0f;
         };
       }},
      {"quantize",
       [](OwnSet& own) { own.q8.quantize = [](size_t, const float*, float, int32_t, int8_t*) {}; }},
      {"windows",
       [](OwnSet& own) {
         own.indirect.gemm[1] = [](size_t, size_t, size_t, size_t, const float**, const void*,
                                   float*, size_t) {};
       }},
      {"transpose",
       [](OwnSet& own) {
         own.set.transpose = [](size_t, size_t, const float*, size_t, float*, size_t) {};
       }},
      {"scores",
       [](OwnSet& own) {
         own.integers.scores = [](size_t, size_t, size_t, const float*, size_t, const RowSteps*,
                                  const int8_t*, const float*, float*, size_t) {};
       }},
      {"values", [](OwnSet& own) {
         own.integers.values = [](size_t, size_t, size_t, float*, size_t, const float*,
                                  const std::byte*, float*, size_t, bool) {};
       }}};
  for (const KernelSet* set : sets_here()) {
    for (const auto& [what, change] : changes) {
      const std::string kernel = what;
      if (set->integers == nullptr && (kernel == "scores" || kernel == "values")) continue;
      OwnSet own(*set);
      change(own);
      EXPECT_NE(
          found_in(own.set, files, TensorType::kF32) + found_in(own.set, files, TensorType::kInt8),
          "")
          << set->name << " " << kernel;
    }
  }
}

// ---- the commands ----

class ComputingCommands : public ::testing::TestWithParam<TensorType> {
 protected:
  ComputingCommands() : own_(*kernel_set(best())) {
    right_set = kernel_set(best());
    for (size_t rows = 1; rows <= kRowsMax; ++rows) spoil_products(own_, GetParam(), rows);
  }
  void TearDown() override { force_kernels(nullptr); }

  static Target best() { return test::targets_here().back(); }

  // A folder of checkpoints, converted.
  std::string converted(const std::string& checkpoint, bool has_self_test) const {
    const std::string model = path(checkpoint + (has_self_test ? ".tested.arn" : ".arn"));
    std::vector<std::string> words = {
        "convert",   (project_folder() / "tests/cli/matrix/data" / checkpoint).string(),
        "-o",        model,
        "--weights", name(GetParam()),
        "--target",  name(best())};
    if (!has_self_test) words.emplace_back("--no-self-test");
    const ProgramResult result = run_arenite(words);
    EXPECT_TRUE(ends(result, kDone)) << result.output;
    return model;
  }

  std::vector<std::vector<std::string>> commands(bool has_self_test) const {
    const int32_t ids[] = {1, 2, 3, 4, 5};
    convert::write_npy(path("ids.npy"), std::vector<uint64_t>{5}, std::span<const int32_t>(ids));
    const std::string decoder = converted("decoder", has_self_test);
    return {{"run", decoder, "--input", path("ids.npy"), "--output", path("y.npy")},
            {"generate", decoder, "--prompt-ids", "1,2,3", "--ids", "--tokens", "3"},
            {"classify", converted("classifier", has_self_test), "--text", "a"},
            {"embed-text", converted("sentence", has_self_test), "--text", "a"}};
  }

  std::string path(const std::string& name) const { return (folder_.path() / name).string(); }

  TempFolder folder_;
  OwnSet own_;
};
INSTANTIATE_TEST_SUITE_P(Weights, ComputingCommands, ::testing::ValuesIn(kTypes),
                         [](const auto& info) { return std::string(name(info.param)); });

TEST_P(ComputingCommands, RefuseKernelsThatAreWrong) {
  for (const bool has_self_test : {true, false}) {
    const std::vector<std::vector<std::string>> all = commands(has_self_test);
    for (const std::vector<std::string>& words : all) EXPECT_TRUE(ends(run_arenite(words), kDone));
    std::filesystem::remove(path("y.npy"));
    force_kernels(&own_.set);
    for (const std::vector<std::string>& words : all) {
      const ProgramResult result = run_arenite(words);
      EXPECT_TRUE(ends(result, kBadInput,
                       {"the self-test failed", std::string("kernel set ") + own_.set.name}))
          << words[0];
      if (!has_self_test) {
        EXPECT_TRUE(ends(result, kBadInput, {std::string("with ") + name(GetParam()) + " weights"}))
            << words[0];
      }
      EXPECT_FALSE(std::filesystem::exists(path("y.npy")));
    }
    std::vector<std::string> at_once = all[1];
    at_once.emplace_back("--skip-checksums");
    EXPECT_TRUE(ends(run_arenite(at_once), kBadInput, {"weights: found"}));
    force_kernels(nullptr);
  }
}

}  // namespace
}  // namespace arenite::testing
