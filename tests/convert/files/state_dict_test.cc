// SPDX-License-Identifier: Apache-2.0
// Tests names of tensors inside unpickled containers, and hostile containers.
#include "convert/files/pickle.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

#include "support/pickle_builder.h"
#include "support/refusal.h"

namespace arenite::convert {
namespace {

namespace op = testing::op;
using testing::PickleBuilder;

const testing::PickledView kOne{.storage_elements = 1, .shape = {1}, .strides = {1}};

std::vector<std::string> names_in(const PickleBuilder& builder) {
  const std::string pickle = builder.stop();
  std::vector<std::string> names;
  for (const NamedTensor& named :
       named_tensors(unpickle(std::as_bytes(std::span(pickle)), "data.pkl"), "data.pkl")) {
    names.push_back(named.name);
  }
  return names;
}

::testing::AssertionResult refuses(const PickleBuilder& builder,
                                   std::initializer_list<std::string_view> parts) {
  return testing::refuses([&] { names_in(builder); }, parts);
}

// Adds `key`: {"w": tensor} to the dict on the stack.
void add_state_dict(PickleBuilder& pickle, const char* key) {
  pickle.text(key).ordered_dict().text("w").tensor(kOne).code(op::kSetItem).code(op::kSetItem);
}

TEST(StateDict, NamesTensorsByTheirPath) {
  PickleBuilder pickle;
  pickle.code(op::kEmptyDict).text("a").code(op::kEmptyDict).number(3).code(op::kEmptyList);
  pickle.number(9).code(op::kAppend).tensor(kOne).code(op::kAppend).code(op::kSetItem);
  pickle.code(op::kSetItem).text("b.c").tensor(kOne).code(op::kSetItem);
  EXPECT_EQ(names_in(pickle), (std::vector<std::string>{"a.3.1", "b.c"}));
}

TEST(StateDict, StartsInsideATrainingCheckpoint) {
  for (const char* key : {"model_state_dict", "state_dict", "model"}) {
    PickleBuilder pickle;
    pickle.code(op::kEmptyDict);
    add_state_dict(pickle, "optimizer");
    add_state_dict(pickle, key);
    EXPECT_EQ(names_in(pickle), std::vector<std::string>{"w"}) << key;
  }
}

TEST(StateDict, KeepsFullNamesWhereTwoStateDictsCompete) {
  PickleBuilder pickle;
  pickle.code(op::kEmptyDict);
  add_state_dict(pickle, "model");
  add_state_dict(pickle, "state_dict");
  EXPECT_EQ(names_in(pickle), (std::vector<std::string>{"model.w", "state_dict.w"}));
}

TEST(StateDict, IgnoresAWellKnownKeyWithoutTensors) {
  PickleBuilder pickle;
  pickle.code(op::kEmptyDict).text("model").code(op::kEmptyDict).code(op::kSetItem);
  add_state_dict(pickle, "state_dict");
  EXPECT_EQ(names_in(pickle), std::vector<std::string>{"w"});
}

TEST(StateDict, KeepsFullNamesBesideAnAverage) {
  for (const char* key : {"model_ema", "shadow", "ModelEMA", "teacher"}) {
    PickleBuilder pickle;
    pickle.code(op::kEmptyDict);
    add_state_dict(pickle, "model");
    add_state_dict(pickle, key);
    EXPECT_EQ(names_in(pickle), (std::vector<std::string>{"model.w", std::string(key) + ".w"}));
  }
  EXPECT_FALSE(is_average("schema"));
}

TEST(StateDict, PassesOverOptimizers) {
  PickleBuilder pickle;
  pickle.code(op::kEmptyDict);
  add_state_dict(pickle, "net");
  pickle.text("optim").code(op::kEmptyDict).text("state").code(op::kEmptyDict).number(0);
  pickle.tensor(kOne).code(op::kSetItem).code(op::kSetItem);
  pickle.text("param_groups").code(op::kEmptyList).code(op::kSetItem).code(op::kSetItem);
  EXPECT_EQ(names_in(pickle), std::vector<std::string>{"net.w"});
}

TEST(StateDict, RefusesTensorsThatItCannotRead) {
  PickleBuilder pickle;
  pickle.code(op::kEmptyDict).text("w").tensor(kOne).code(op::kSetItem).text("q");
  pickle.global("torch._utils", "_rebuild_sparse_tensor").tensor(kOne).code(op::kTuple1);
  pickle.code(op::kReduce).code(op::kSetItem);
  EXPECT_TRUE(refuses(pickle, {"tensor 'q' is of a kind that is not supported"}));
}

TEST(StateDict, KeepsPlainValuesOneDictDeep) {
  PickleBuilder pickle;
  pickle.code(op::kEmptyDict).text("step").number(7).code(op::kSetItem);
  pickle.text("model_args").code(op::kEmptyDict).text("n_head").number(4).code(op::kSetItem);
  pickle.text("bias").code(op::kNewFalse).code(op::kSetItem);
  pickle.text("kind").text("gpt").code(op::kSetItem);
  pickle.number(5).text("five").code(op::kSetItem);
  pickle.text("deeper").code(op::kEmptyDict).text("x").number(1).code(op::kSetItem);
  pickle.code(op::kSetItem).code(op::kSetItem).number(3).number(4).code(op::kSetItem);
  const std::string bytes = pickle.stop();
  const Pickle read = unpickle(std::as_bytes(std::span(bytes)), "data.pkl");
  EXPECT_EQ(plain_values(read, "data.pkl"),
            (std::map<std::string, std::string>{{"step", "7"},
                                                {"model_args.n_head", "4"},
                                                {"model_args.5", "five"},
                                                {"model_args.bias", "false"},
                                                {"model_args.kind", "gpt"}}));
}

// Pickles keep floats with the most significant byte first.
TEST(StateDict, PlainValuesMayBeFloats) {
  PickleBuilder pickle;
  pickle.code(op::kEmptyDict).text("epsilon").code(op::kBinFloat);
  pickle.raw(std::string_view("\x3e\xb0\xc6\xf7\xa0\xb5\xed\x8d", 8)).code(op::kSetItem);
  const std::string bytes = pickle.stop();
  const Pickle read = unpickle(std::as_bytes(std::span(bytes)), "data.pkl");
  EXPECT_EQ(plain_values(read, "data.pkl"),
            (std::map<std::string, std::string>{{"epsilon", "1e-06"}}));
}

TEST(StateDict, RefusesTwoTensorsOfOneName) {
  PickleBuilder pickle;
  pickle.code(op::kEmptyDict).text("a.w").tensor(kOne).code(op::kSetItem);
  add_state_dict(pickle, "a");
  EXPECT_TRUE(refuses(pickle, {"the name 'a.w' stands for two tensors"}));
}

TEST(StateDict, RefusesFilesWithoutNamedTensors) {
  EXPECT_TRUE(refuses(PickleBuilder().number(1), {"holds an integer and no named tensor"}));
  EXPECT_TRUE(refuses(PickleBuilder().tensor(kOne), {"holds a tensor and no named tensor"}));
  EXPECT_TRUE(refuses(PickleBuilder().code(op::kEmptyDict), {"model.state_dict()"}));
}

TEST(StateDict, RefusesKeysThatMakeNoName) {
  PickleBuilder pickle;
  pickle.code(op::kEmptyDict).numbers({1, 2}).tensor(kOne).code(op::kSetItem);
  EXPECT_TRUE(refuses(pickle, {"is a tuple: expected a string or an integer"}));
  PickleBuilder lengthy;
  lengthy.code(op::kEmptyDict).text(std::string(5000, 'x')).tensor(kOne).code(op::kSetItem);
  EXPECT_TRUE(refuses(lengthy, {"more than 4096 characters"}));
}

TEST(StateDict, RefusesDeepNestingAndCycles) {
  PickleBuilder deep;
  for (int i = 0; i < 200'000; ++i) deep.code(op::kEmptyList);
  for (int i = 1; i < 200'000; ++i) deep.code(op::kAppend);
  EXPECT_TRUE(refuses(deep, {"nested more than 100 deep"}));
  PickleBuilder cycle;
  cycle.code(op::kEmptyList).code(op::kMemoize).code(op::kBinGet).raw(std::string(1, '\0'));
  EXPECT_TRUE(refuses(cycle.code(op::kAppend), {"contains itself"}));
}

TEST(StateDict, BoundsTheExpansionOfSharedContainers) {
  // Each list holds the one before it twice: 2^60 leaves from a few hundred bytes.
  PickleBuilder pickle;
  pickle.code(op::kEmptyList).code(op::kMemoize);
  for (char level = 0; level < 60; ++level) {
    pickle.code(op::kEmptyList).code(op::kMemoize);
    for (int copy = 0; copy < 2; ++copy) {
      pickle.code(op::kBinGet).raw(std::string(1, level)).code(op::kAppend);
    }
    pickle.code(op::kTuple2)
        .code(op::kPop)
        .code(op::kBinGet)
        .raw(std::string(1, static_cast<char>(level + 1)));
  }
  EXPECT_TRUE(refuses(pickle, {"hold more than 6", "share parts of each other"}));
}

// Makes a pickle whose outermost dict holds `count` copies of what `add` leaves on the stack, under
// "0", "1"...
template <typename Add>
PickleBuilder repeated(int32_t count, const Add& add) {
  PickleBuilder pickle;
  add(pickle);
  pickle.code(op::kBinPut).raw(std::string(1, '\0')).code(op::kPop).code(op::kEmptyDict);
  pickle.code(op::kMark);
  for (int32_t i = 0; i < count; ++i) {
    pickle.number(i).code(op::kBinGet).raw(std::string(1, '\0'));
  }
  return pickle.code(op::kSetItems);
}

TEST(StateDict, BoundsTheNamesOfAFileTogether) {
  const auto many_tensors = [](PickleBuilder& pickle) {
    pickle.code(op::kEmptyDict);
    for (int i = 0; i < 1000; ++i) {
      pickle.number(i).tensor(kOne).code(op::kSetItem);
    }
  };
  EXPECT_EQ(names_in(repeated(3, many_tensors)).size(), 3000u);
  PickleBuilder lengthy;
  lengthy.code(op::kEmptyDict).text(std::string(4000, 'x'));
  many_tensors(lengthy);
  EXPECT_TRUE(refuses(lengthy.code(op::kSetItem), {"names have more than", "together"}));
}

TEST(StateDict, BoundsPlainValuesThatShareADict) {
  const std::string bytes = repeated(30'000, [](PickleBuilder& pickle) {
                              pickle.code(op::kEmptyDict).code(op::kMark);
                              for (int32_t i = 0; i < 1000; ++i) pickle.number(i).number(i);
                              pickle.code(op::kSetItems);
                            }).stop();
  const Pickle pickle = unpickle(std::as_bytes(std::span(bytes)), "data.pkl");
  EXPECT_TRUE(plain_values(pickle, "data.pkl").empty());  // keys are numbers
  PickleBuilder named;
  named.code(op::kEmptyDict).text("a").code(op::kEmptyDict).code(op::kMark);
  for (int i = 0; i < 2000; ++i) named.text("k").code(op::kNone);
  named.code(op::kSetItems).code(op::kMemoize).code(op::kSetItem);
  for (int i = 0; i < 100; ++i) {
    named.text("b").code(op::kBinGet).raw(std::string(1, '\0')).code(op::kSetItem);
  }
  const std::string text = named.stop();
  EXPECT_TRUE(testing::refuses(
      [&] { plain_values(unpickle(std::as_bytes(std::span(text)), "data.pkl"), "data.pkl"); },
      {"data.pkl", "share parts of each other"}));
}

TEST(StateDict, BoundsTheElementsOfRepeatedViews) {
  const auto view = [](int32_t side) {
    return [side](PickleBuilder& pickle) {
      pickle.tensor({.storage_elements = 1, .shape = {side, side}, .strides = {0, 0}});
    };
  };
  // One row that all share can back a float mask of context 2048, or a bool mask of 4096; the limit
  // counts the total over all names.
  EXPECT_EQ(names_in(repeated(1, view(2048))).size(), 1u);
  EXPECT_TRUE(refuses(repeated(2, view(2048)), {"33554432 bytes", "the 4 that are stored"}));
  const auto flags = [](PickleBuilder& pickle) {
    pickle.tensor({.storage_elements = 4096,
                   .shape = {4096, 4096},
                   .strides = {0, 1},
                   .storage_class = "BoolStorage"});
  };
  EXPECT_EQ(names_in(repeated(1, flags)).size(), 1u);
  EXPECT_TRUE(refuses(repeated(100, view(256)), {"tensor.contiguous()"}));
  EXPECT_TRUE(refuses(repeated(1, view(0x7fffffff)), {"which repeat the 4"}));
  EXPECT_TRUE(refuses(repeated(5, view(0x7fffffff)), {"more than 2^64"}));
}

TEST(StateDict, AllowsTensorsThatShareAStorage) {
  const auto large = [](PickleBuilder& pickle) {
    pickle.tensor({.storage_elements = 1 << 24, .shape = {1 << 24}, .strides = {1}});
  };
  EXPECT_EQ(names_in(repeated(4, large)).size(), 4u);  // as tied weights do
  EXPECT_TRUE(refuses(repeated(5, large), {"at most 285212672 are read"}));
}

}  // namespace
}  // namespace arenite::convert
