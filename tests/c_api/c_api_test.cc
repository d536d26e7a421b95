// SPDX-License-Identifier: Apache-2.0
// The C interface gives bit for bit the results of the C++ interface: every form of a batch, every
// option, every hook. c_api_test.c is a program in C.
#include <gtest/gtest.h>

#include <cstring>

#include "arenite/arenite.h"
#include "convert/modules/attention_modules.h"
#include "convert/program/writer.h"
#include "runtime/session/decoder_fixture.h"
#include "runtime/session/encoder_fixture.h"
#include "runtime/session/functions_fixture.h"
#include "support/compare.h"
#include "support/malloc_trap.h"
#include "support/pool.h"

namespace arenite::test {
namespace {

// The model in C, for the same kernels.
arenite_model c_model(const TestModel& model) {
  arenite_model c = ARENITE_MODEL_INIT;
  arenite_load_options options = ARENITE_LOAD_OPTIONS_INIT;
  options.force_target = true;
  options.target = static_cast<arenite_target>(model->target());
  const std::span<const std::byte> file = model->file();
  EXPECT_EQ(arenite_model_load(&c, file.data(), file.size(), &options, nullptr), ARENITE_OK);
  return c;
}

// A session in C, in an arena of exactly the planned size.
class CSession {
 public:
  CSession(const arenite_model& model, const arenite_session_options& options)
      : arena_(planned(model, options), kArenaAlignment) {
    EXPECT_EQ(arenite_session_create(&session_, &model, &options, arena_.data(),
                                     arena_.span().size(), nullptr),
              ARENITE_OK);
  }
  arenite_session* operator*() const { return session_; }

 private:
  static size_t planned(const arenite_model& model, const arenite_session_options& options) {
    arenite_arena_plan plan = {};
    EXPECT_EQ(arenite_plan_arena(&plan, &model, &options, nullptr), ARENITE_OK);
    return plan.total_bytes;
  }

  GuardedBuffer arena_;
  arenite_session* session_ = nullptr;
};

arenite_session_options c_options(uint32_t positions_max, uint32_t sequences_max = 1) {
  arenite_session_options options = ARENITE_SESSION_OPTIONS_INIT;
  options.positions_max = positions_max;
  options.sequences_max = sequences_max;
  return options;
}

std::span<const float> values(const arenite_output& output) {
  return {output.data, size_t{output.rows} * output.features};
}

class CApi : public EncoderTest {
 protected:
  static std::vector<float> run(arenite_session* session, const EncoderInput& input,
                                const BatchForm& form) {
    const uint32_t* lengths = form.lengths.empty() ? nullptr : form.lengths.data();
    const uint8_t* visible = form.visible.empty() ? nullptr : form.visible.data();
    const uint8_t* types = input.types.empty() ? nullptr : input.types.data();
    arenite_output output = {};
    arenite_diagnostic why;
    arenite_status status;
    if (input.features_per_token != 0) {
      const arenite_batch batch = {input.features.data(),
                                   input.features.size(),
                                   form.sequences,
                                   form.tokens,
                                   lengths,
                                   visible,
                                   form.back_to_back,
                                   nullptr,
                                   nullptr};
      status = arenite_session_run(session, &batch, &output, &why);
    } else {
      const arenite_token_batch batch = {
          input.ids.data(), input.ids.size(),  form.sequences, form.tokens, lengths,
          visible,          form.back_to_back, types,          nullptr,     nullptr};
      status = arenite_session_run_tokens(session, &batch, &output, &why);
    }
    EXPECT_EQ(status, ARENITE_OK) << (why.reason != nullptr ? why.reason : "");
    return {values(output).begin(), values(output).end()};
  }
};
ARENITE_FOR_EACH_KERNEL_SET(CApi);

TEST_P(CApi, DescribesTheModelAsCppDoes) {
  for (const EncoderShape& shape : all_encoders()) {
    const TestModel model = load(shape);
    const arenite_model c = c_model(model);
    EXPECT_STREQ(arenite_model_name(&c), model->name());
    EXPECT_EQ(arenite_model_vocab_size(&c), model->vocab_size());
    EXPECT_EQ(arenite_model_token_types(&c), model->token_types());
    EXPECT_EQ(arenite_model_input_features(&c), model->input_features());
    EXPECT_EQ(arenite_model_output_features(&c), model->output_features());
    EXPECT_EQ(arenite_model_positions_max(&c), model->positions_max());
    EXPECT_EQ(arenite_model_ops(&c), model->ops());
    EXPECT_EQ(arenite_model_hidden_states(&c), model->hidden_states());
    EXPECT_EQ(arenite_model_causal(&c), model->causal());
    EXPECT_EQ(arenite_model_pooled(&c), model->pooled());
    EXPECT_EQ(arenite_model_file_targets(&c), model->file_targets());
    EXPECT_EQ(static_cast<Target>(arenite_model_target(&c)), GetParam());
    ASSERT_EQ(arenite_model_labels(&c), model->labels());
    for (uint32_t i = 0; i < model->labels(); ++i) {
      EXPECT_STREQ(arenite_model_label(&c, i), model->label(i));
    }
  }
}

TEST_P(CApi, GivesTheSameBitsForEveryFormOfABatch) {
  const std::vector<uint32_t> lengths = {5, 8};
  const std::vector<uint8_t> visible = {1, 0, 1, 1, 0, 1, 1, 0, 1, 1, 1, 1, 1, 1, 1, 1};
  for (const EncoderShape& shape : all_encoders()) {
    const TestModel model = load(shape);
    const arenite_model c = c_model(model);
    const TestSession cpp_session(*model, options_for(kEncoderPositions, 2));
    const CSession session(c, c_options(kEncoderPositions, 2));
    for (const BatchForm& form :
         {BatchForm{2, 8}, BatchForm{2, 8, lengths}, BatchForm{2, 8, {}, visible},
          BatchForm{2, 0, lengths, {}, true}}) {
      const EncoderInput input = input_for(shape, form.back_to_back ? 13 : 16);
      const std::vector<float> expected = values_of(run_batch(*cpp_session, input, form));
      EXPECT_TRUE(same_bits(run(*session, input, form), expected)) << shape.name;
    }
  }
}

TEST_P(CApi, TellsWhetherResultsAreFinite) {
  for (const EncoderShape& shape : all_encoders()) {
    if (shape.vocab_size != 0) continue;
    const TestModel model = load(shape);
    const CSession session(c_model(model), c_options(kEncoderPositions, 2));
    EncoderInput input = input_for(shape, 16);
    (void)run(*session, input, {2, 8});
    arenite_output output = arenite_session_output(*session);
    EXPECT_TRUE(arenite_output_finite(&output)) << shape.name;
    input.features.back() = NAN;
    (void)run(*session, input, {2, 8});
    output = arenite_session_output(*session);
    EXPECT_FALSE(arenite_output_finite(&output)) << shape.name;
  }
}

TEST_P(CApi, StepsLikeCpp) {
  const TestModel model(make_decoder_model(decoder_named("llama"), {GetParam()}).span(),
                        GetParam());
  const std::vector<TokenId> ids = random_ids(12, model->vocab_size());
  const TestSession cpp_session(*model, all_outputs(options_for(kDecoderPositions)));
  const std::vector<float> expected = cpp_session.run(ids);
  arenite_session_options options = c_options(kDecoderPositions);
  options.outputs = ARENITE_OUTPUTS_ALL;
  const CSession session(c_model(model), options);
  arenite_output output = {};
  const arenite_token_batch first = {ids.data(), 5, 1, 5, {}, {}, false, {}, {}, {}};
  ASSERT_EQ(arenite_session_step_tokens(*session, &first, &output, nullptr), ARENITE_OK);
  EXPECT_TRUE(same_bits(values(output), rows(expected, output.features, 0, 5)));
  ASSERT_EQ(arenite_session_step_ids(*session, ids.data() + 5, 7, &output, nullptr), ARENITE_OK);
  EXPECT_TRUE(same_bits(values(output), rows(expected, output.features, 5, 7)));
  EXPECT_EQ(arenite_session_positions(*session, 0), 12u);
}

TEST_P(CApi, StepsThroughFeaturesLikeCpp) {
  const ModuleSpec spec = spec_named("causal");
  const TestModel model(make_model(spec, {GetParam()}).span(), GetParam());
  const std::vector<float> features = random_floats(size_t{9} * spec.features, 7);
  const TestSession cpp_session(*model, all_outputs(options_for(kSpecPositions)));
  const std::vector<float> expected = cpp_session.run(features);
  arenite_session_options options = c_options(kSpecPositions);
  options.outputs = ARENITE_OUTPUTS_ALL;
  const CSession session(c_model(model), options);
  uint32_t begin = 0;
  for (const uint32_t tokens : {4u, 5u}) {
    arenite_output output = {};
    const arenite_batch batch = {features.data() + begin * spec.features,
                                 size_t{tokens} * spec.features,
                                 1,
                                 tokens,
                                 nullptr,
                                 nullptr,
                                 false,
                                 nullptr,
                                 nullptr};
    ASSERT_EQ(arenite_session_step(*session, &batch, &output, nullptr), ARENITE_OK);
    EXPECT_TRUE(same_bits(values(output), rows(expected, output.features, begin, tokens)));
    begin += tokens;
  }
  EXPECT_EQ(arenite_session_positions(*session, 0), 9u);
}

TEST_P(CApi, StepsThroughTokensInSlices) {
  const TestModel model(make_decoder_model(decoder_named("llama"), {GetParam()}).span(),
                        GetParam());
  const std::vector<TokenId> ids = random_ids(12, model->vocab_size());
  const CSession session(c_model(model), c_options(kDecoderPositions));
  const auto finish = [&] {
    uint32_t left = 1;
    EXPECT_EQ(arenite_session_advance(*session, UINT64_MAX, &left, nullptr), ARENITE_OK);
    EXPECT_EQ(left, 0u);
    return arenite_session_positions(*session, 0);
  };
  const arenite_token_batch first = {ids.data(), 5, 1, 5, {}, {}, false, {}, {}, {}};
  const arenite_token_batch rest = {ids.data() + 5, 7, 1, 7, {}, {}, false, {}, {}, {}};
  ASSERT_EQ(arenite_session_begin_step_tokens(*session, &first, nullptr), ARENITE_OK);
  EXPECT_EQ(finish(), 5u);
  ASSERT_EQ(arenite_session_begin_step_tokens(*session, &rest, nullptr), ARENITE_OK);
  EXPECT_EQ(finish(), 12u);
  ASSERT_EQ(arenite_session_begin_run_tokens(*session, &rest, nullptr), ARENITE_OK);
  EXPECT_EQ(finish(), 7u);
}

TEST_P(CApi, RunsTokensInSlices) {
  const TestModel model = load("bert");
  const std::vector<TokenId> ids = random_ids(12, model->vocab_size());
  const TestSession cpp_session(*model, options_for(kEncoderPositions));
  const std::vector<float> expected = cpp_session.run(ids);
  const CSession session(c_model(model), c_options(kEncoderPositions));
  const arenite_token_batch batch = {ids.data(), 12, 1, 12, {}, {}, false, {}, {}, {}};
  uint32_t left = 0;
  ASSERT_EQ(arenite_session_begin_step_tokens(*session, &batch, nullptr), ARENITE_OK);
  arenite_diagnostic why;
  ASSERT_EQ(arenite_session_advance(*session, 3, &left, &why), ARENITE_INVALID_ARGUMENT);
  EXPECT_STREQ(why.field, "op");
  ASSERT_EQ(arenite_session_advance(*session, why.expected, &left, nullptr), ARENITE_OK);
  EXPECT_GT(left, 0u);
  arenite_session_reset(*session);
  ASSERT_EQ(arenite_session_begin_run_tokens(*session, &batch, nullptr), ARENITE_OK);
  ASSERT_EQ(arenite_session_advance(*session, UINT64_MAX, &left, nullptr), ARENITE_OK);
  EXPECT_EQ(left, 0u);
  EXPECT_TRUE(same_bits(values(arenite_session_output(*session)), expected));
}

TEST_P(CApi, UsesHooksAndThreads) {
  const DecoderShape shape = decoder_named("gpt2");
  const TestModel model(make_decoder_model(shape, {GetParam()}).span(), GetParam());
  const std::vector<TokenId> ids = random_ids(40, model->vocab_size());
  const TestSession cpp_session(*model, options_for(kDecoderPositions));
  const std::vector<float> expected = cpp_session.run(ids);
  struct Counts {
    uint32_t begun = 0, ended = 0, states = 0;
  } counts;
  Pool pool(2);
  const ParallelFor parallel = pool.parallel_for();
  arenite_session_options options = c_options(kDecoderPositions);
  options.parallel = {parallel.threads, parallel.run, parallel.pool};
  options.profile = {[](void* to, uint32_t) { ++static_cast<Counts*>(to)->begun; },
                     [](void* to, uint32_t) { ++static_cast<Counts*>(to)->ended; }, &counts};
  options.hidden_states = {[](void* to, uint32_t index, const float*, uint32_t rows, uint32_t) {
                             EXPECT_EQ(static_cast<Counts*>(to)->states++, index);
                             EXPECT_EQ(rows, 40u);
                           },
                           &counts};
  const CSession session(c_model(model), options);
  arenite_output output = {};
  ASSERT_EQ(arenite_session_step_ids(*session, ids.data(), 40, &output, nullptr), ARENITE_OK);
  EXPECT_TRUE(same_bits(values(output), expected));
  EXPECT_EQ(counts.states, model->hidden_states());
  EXPECT_GT(counts.begun, 0u);
  EXPECT_EQ(counts.begun, counts.ended);
}

TEST_P(CApi, ReportsTheDiagnosticsOfCpp) {
  const TestModel model = load("bert");
  const TestSession cpp_session(*model, options_for(8));
  const CSession session(c_model(model), c_options(8));
  const std::vector<TokenId> ids(9, 0);
  arenite_output output = {};
  arenite_diagnostic why;
  Diagnostic cpp_why;
  const Result<Output> result = cpp_session->step(ids, &cpp_why);
  ASSERT_EQ(arenite_session_step_ids(*session, ids.data(), ids.size(), &output, &why),
            static_cast<arenite_status>(result.status()));
  char text[256], cpp_text[256];
  arenite_describe(ARENITE_CONTEXT_FULL, &why, text, sizeof(text));
  describe(result.status(), cpp_why, cpp_text);
  EXPECT_STREQ(text, cpp_text);
  EXPECT_EQ(output.data, nullptr) << "a failed call changes nothing";
}

TEST(CApiModel, RefusesAFileForOtherCpusAndSaysHowToConvertIt) {
  std::vector<Target> elsewhere = all_targets();
  std::erase_if(elsewhere, [](Target target) { return (cpu_targets() & bit(target)) != 0; });
  const auto file = make_model(spec_named("causal"), elsewhere);
  arenite_model model = ARENITE_MODEL_INIT;
  arenite_diagnostic why;
  ASSERT_EQ(arenite_model_load(&model, file.span().data(), file.size(), nullptr, &why),
            ARENITE_UNSUPPORTED);
  char text[320];
  ASSERT_LT(arenite_describe(ARENITE_UNSUPPORTED, &why, text, sizeof(text)), sizeof(text) - 1);
  const std::string line = text;
  for (const Target target : all_targets()) {
    EXPECT_NE(line.find(name(target)), std::string::npos) << line;
  }
  EXPECT_NE(line.find(": arenite convert --target "), std::string::npos) << line;
}

TEST_P(CApi, CountsAndSelectsTheRowsOfACall) {
  const TestModel model(make_decoder_model(decoder_named("gpt2"), {GetParam()}).span(), GetParam());
  const CSession session(c_model(model), c_options(8));
  const std::vector<TokenId> ids = random_ids(5, model->vocab_size());
  const TestSession cpp_session(*model, all_outputs(options_for(8)));
  const std::vector<float> expected = cpp_session.run(ids);
  arenite_token_batch batch = ARENITE_TOKEN_BATCH_INIT;
  batch.ids = ids.data();
  batch.size = batch.tokens = 5;
  const arenite_input input = {nullptr, &batch};
  arenite_output output = {};
  for (const uint32_t token : {4u, 2u}) {
    const uint8_t outputs[5] = {0, 0, 1, 0, 0};
    if (token != 4) batch.outputs = outputs;
    uint32_t count = 0;
    ASSERT_EQ(arenite_session_rows_out(*session, 0, &input, 1, true, &count, nullptr), ARENITE_OK);
    EXPECT_EQ(count, 1u);
    ASSERT_EQ(arenite_session_run_tokens(*session, &batch, &output, nullptr), ARENITE_OK);
    EXPECT_TRUE(same_bits(values(output), rows(expected, output.features, token, 1)));
  }
}

TEST_P(CApi, RefusesNullAndUnknownOptions) {
  const TestModel model = load("bert");
  arenite_model c = c_model(model);
  arenite_diagnostic why;
  EXPECT_EQ(arenite_model_load(&c, nullptr, 100, nullptr, &why), ARENITE_INVALID_ARGUMENT);
  EXPECT_STREQ(why.field, "file");
  arenite_session_options options = c_options(8);
  arenite_session* session = nullptr;
  EXPECT_EQ(arenite_session_create(&session, &c, &options, nullptr, 1 << 20, &why),
            ARENITE_INVALID_ARGUMENT);
  EXPECT_STREQ(why.reason, "the arena is null");
  for (const uint32_t outputs : {7u, 256u}) {
    options.outputs = static_cast<arenite_outputs>(outputs);
    arenite_arena_plan plan;
    EXPECT_EQ(arenite_plan_arena(&plan, &c, &options, &why), ARENITE_INVALID_ARGUMENT);
    EXPECT_STREQ(why.field, "options.outputs");
  }
  options = c_options(8);
  options.parallel = {2, [](void*, uint32_t, arenite_task, void*) {}, nullptr};
  const CSession idle(c, options);
  const uint32_t ids[3] = {};
  arenite_output output = {};
  EXPECT_EQ(arenite_session_step_ids(*idle, ids, 3, &output, &why), ARENITE_INVALID_ARGUMENT);
  EXPECT_STREQ(why.field, "options.parallel.run");
  EXPECT_EQ(output.data, nullptr);
  EXPECT_EQ(arenite_session_step_ids(*idle, nullptr, 3, &output, &why), ARENITE_INVALID_ARGUMENT);
  EXPECT_STREQ(why.field, "batch.ids");
}

TEST_P(CApi, KeepsCachesInTheRequestedType) {
  const TestModel model = load("bert");
  const arenite_model c = c_model(model);
  arenite_session_options options = c_options(8);
  arenite_arena_plan plan = {};
  arenite_diagnostic why;
  EXPECT_EQ(arenite_model_kv_cache(&c), ARENITE_KV_F32);
  ASSERT_EQ(options.kv_cache, ARENITE_KV_OF_MODEL);
  ASSERT_EQ(arenite_plan_arena(&plan, &c, &options, &why), ARENITE_OK);
  const size_t in_f32 = plan.kv_cache_bytes;
  options.kv_cache = ARENITE_KV_INT8;
  ASSERT_EQ(arenite_plan_arena(&plan, &c, &options, &why), ARENITE_OK);
  EXPECT_LT(plan.kv_cache_bytes, in_f32);
  options.kv_cache = static_cast<arenite_kv_type>(3);
  EXPECT_EQ(arenite_plan_arena(&plan, &c, &options, &why), ARENITE_INVALID_ARGUMENT);
  EXPECT_STREQ(why.field, "options.kv_cache");
}

TEST_P(CApi, PlansForTheRequestedTokens) {
  const TestModel model = load("bert");
  const arenite_model c = c_model(model);
  arenite_session_options options = c_options(8);
  arenite_arena_plan all = {}, few = {};
  ASSERT_EQ(arenite_plan_arena(&all, &c, &options, nullptr), ARENITE_OK);
  options.tokens_max = 3;
  ASSERT_EQ(arenite_plan_arena(&few, &c, &options, nullptr), ARENITE_OK);
  EXPECT_LT(few.activation_bytes, all.activation_bytes);
  EXPECT_EQ(few.kv_cache_bytes, all.kv_cache_bytes);
}

TEST_P(CApi, RefusesAnArenaInTheWrongPlace) {
  const TestModel model = load("bert");
  const arenite_model c = c_model(model);
  const arenite_session_options options = c_options(8);
  arenite_arena_plan plan = {};
  ASSERT_EQ(arenite_plan_arena(&plan, &c, &options, nullptr), ARENITE_OK);
  const GuardedBuffer memory(plan.total_bytes + kArenaAlignment, kArenaAlignment);
  arenite_session* session = nullptr;
  arenite_diagnostic why;
  EXPECT_EQ(
      arenite_session_create(&session, &c, &options, memory.data() + 4, plan.total_bytes, &why),
      ARENITE_INVALID_ARGUMENT);
  EXPECT_STREQ(why.reason, "an arena must start at a multiple of 64 bytes");
  EXPECT_EQ(arenite_session_create(&session, &c, &options, nullptr, plan.total_bytes, &why),
            ARENITE_INVALID_ARGUMENT);
  EXPECT_EQ(session, nullptr);
}

TEST_P(CApi, TouchesNoHeap) {
  if (!NoHeapScope::traps_malloc()) GTEST_SKIP() << "this build cannot see calls of malloc";
  const TestModel model = load("bert");
  convert::AlignedBytes arena(1 << 20);
  const TokenId ids[] = {1, 2, 3};
  arenite_status statuses[3];
  {
    const NoHeapScope no_heap;
    arenite_model c = ARENITE_MODEL_INIT;
    arenite_session* session = nullptr;
    arenite_output output;
    const arenite_session_options options = c_options(8);
    statuses[0] =
        arenite_model_load(&c, model->file().data(), model->file().size(), nullptr, nullptr);
    statuses[1] =
        arenite_session_create(&session, &c, &options, arena.data(), arena.size(), nullptr);
    statuses[2] = arenite_session_step_ids(session, ids, 3, &output, nullptr);
  }
  for (const arenite_status status : statuses) EXPECT_EQ(status, ARENITE_OK);
}

// Padded batches have pairs for all rows of a sequence; back-to-back batches only for its tokens.
TEST_P(CApi, TakesPairs) {
  ModuleSpec spec = spec_named("bidirectional");
  spec.masks = {convert::pair_mask(false)};
  const convert::Program program =
      convert::compile(convert::build_graph(make_module(spec)), "pairs");
  const TestModel model(convert::write_model(program, {GetParam()}).span(), GetParam());
  ASSERT_TRUE(model->input(0).takes_pairs);
  const arenite_model c = c_model(model);
  const uint32_t lengths[] = {3, 5};
  for (const bool dense : {false, true}) {
    const uint32_t tokens = dense ? 0 : 5;
    const std::vector<float> rows = random_floats((dense ? 8 : 10) * model->input_features(), 3);
    std::vector<uint8_t> pairs;
    for (uint32_t i = 0; i < (dense ? 9u + 25u : 50u); ++i) pairs.push_back(i % 3 != 1);
    const TestSession session(*model, options_for(5, 2));
    const CSession other(c, c_options(5, 2));
    const arenite_batch batch = {rows.data(), rows.size(),  2,      tokens, lengths, {},
                                 dense,       pairs.data(), nullptr};
    arenite_output output = {};
    arenite_diagnostic why = {};
    ASSERT_EQ(arenite_session_run(*other, &batch, &output, &why), ARENITE_OK) << why.reason;
    EXPECT_TRUE(same_bits(values(output),
                          values_of(session->run({rows, 2, tokens, lengths, {}, dense, pairs}))));
  }
}

TEST_P(CApi, CallsFunctions) {
  const convert::Program program = convert::compile(functions_graph({}), "functions");
  const TestModel model(convert::write_model(program, {GetParam()}).span(), GetParam());
  const arenite_model c = c_model(model);
  ASSERT_EQ(arenite_model_inputs(&c), 2u);
  ASSERT_EQ(arenite_model_functions(&c), 2u);
  const arenite_input_info input = arenite_model_input(&c, kText);
  EXPECT_STREQ(input.name, "text");
  EXPECT_EQ(input.vocab_size, kVocabulary);
  EXPECT_EQ(input.positions_max, kTextPositions);
  const arenite_function_info function = arenite_model_function(&c, kStep);
  EXPECT_STREQ(function.name, "step");
  EXPECT_EQ(function.inputs, 2u);
  EXPECT_EQ(function.inputs_read, 1u);
  EXPECT_EQ(function.first_op, model->function(kStep).first_op);
  EXPECT_TRUE(function.causal);
  EXPECT_EQ(arenite_model_find_function(&c, "step"), kStep);
  EXPECT_EQ(arenite_model_image_shape_of(&c, kMemory).channels, 0u);

  const std::vector<float> memory = random_floats(7 * kFeatures, 3);
  const std::vector<TokenId> ids = {1, 2, 3};
  SessionOptions options = options_for(8, 2);
  options.others[0] = {6, 6};
  const TestSession session(*model, options);
  const Input fed = Batch{memory, 1, 7}, tokens = TokenBatch{ids, 1, 3};
  const std::vector<float> encoded = values_of(session->run(kEncode, {&fed, 1}));
  const std::vector<float> expected = values_of(session->step(kStep, {&tokens, 1}));

  arenite_session_options same = c_options(8, 2);
  same.others[0].positions_max = same.others[0].tokens_max = 6;
  const CSession other(c, same);
  const arenite_batch batch = {memory.data(), memory.size(), 1, 7, {}, {}, false, {}, {}};
  const arenite_token_batch token_batch = {ids.data(), 3, 1, 3, {}, {}, false, {}, {}, {}};
  const arenite_input first = {&batch, nullptr}, second = {nullptr, &token_batch};
  arenite_output output = {};
  arenite_diagnostic why;
  EXPECT_EQ(arenite_session_step_function(*other, kStep, &second, 1, &output, &why),
            ARENITE_INVALID_ARGUMENT);
  EXPECT_STREQ(why.field, "inputs");
  const arenite_input many[6] = {first, first, first, first, first, first};
  EXPECT_EQ(arenite_session_run_function(*other, kEncode, many, 6, &output, &why),
            ARENITE_INVALID_ARGUMENT);
  ASSERT_EQ(arenite_session_run_function(*other, kEncode, &first, 1, &output, &why), ARENITE_OK);
  EXPECT_TRUE(same_bits(values(output), encoded));
  // Refused, and nothing changes.
  const auto step = [&](uint32_t function, const arenite_input* inputs, uint32_t count) {
    return arenite_session_step_function(*other, function, inputs, count, &output, &why);
  };
  const std::vector<TokenId> longer(7, 1);
  const uint32_t length = 4;
  const arenite_token_batch longer_batch = {longer.data(), 7, 1, 7, {}, {}, false, {}, {}, {}};
  const arenite_token_batch cut_batch = {ids.data(), 3, 1, 3, &length, {}, false, {}, {}, {}};
  const arenite_input too_long = {nullptr, &longer_batch}, cut = {nullptr, &cut_batch};
  const arenite_input none = {nullptr, nullptr}, two[] = {second, second};
  EXPECT_EQ(step(2, &second, 1), ARENITE_INVALID_ARGUMENT);
  EXPECT_STREQ(why.field, "function");
  EXPECT_EQ(step(kStep, two, 2), ARENITE_INVALID_ARGUMENT);
  EXPECT_STREQ(why.field, "inputs");
  EXPECT_EQ(step(kStep, nullptr, 0), ARENITE_INVALID_ARGUMENT);
  EXPECT_EQ(step(kStep, &none, 1), ARENITE_INVALID_ARGUMENT);
  EXPECT_EQ(step(kStep, &first, 1), ARENITE_INVALID_ARGUMENT);
  EXPECT_EQ(step(kStep, &too_long, 1), ARENITE_CONTEXT_FULL);
  EXPECT_EQ(step(kStep, &cut, 1), ARENITE_INVALID_ARGUMENT);
  EXPECT_STREQ(why.field, "batch.lengths");
  EXPECT_EQ(step(kEncode, &first, 1), ARENITE_CONTEXT_FULL);
  ASSERT_EQ(arenite_session_begin_step_function(*other, kStep, &second, 1, &why), ARENITE_OK);
  uint32_t left = 0;
  ASSERT_EQ(arenite_session_advance(*other, UINT64_MAX, &left, &why), ARENITE_OK);
  EXPECT_TRUE(same_bits(values(arenite_session_output_of(*other, kStep)), expected));
  EXPECT_EQ(arenite_session_output_of(*other, kEncode).rows, 0u);
  ASSERT_EQ(arenite_session_copy_sequence(*other, 0, 1, &why), ARENITE_OK);
  EXPECT_EQ(arenite_session_positions_of(*other, 1, kMemory), 7u);
  ASSERT_EQ(arenite_session_rewind_input(*other, kMemory, 1, 0, &why), ARENITE_OK);
  EXPECT_EQ(arenite_session_positions_of(*other, 1, kText), 0u);
  EXPECT_EQ(arenite_session_positions_of(*other, 0, kText), 3u);
  ASSERT_EQ(arenite_session_begin_run_function(*other, kEncode, &first, 1, &why), ARENITE_OK);
  arenite_session_cancel(*other);
}

}  // namespace
}  // namespace arenite::test
