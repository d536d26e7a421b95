// SPDX-License-Identifier: Apache-2.0
// A failed call changes nothing: the session continues as if it had not been made.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include "arenite/checked_math.h"
#include "runtime/session/failure_fixture.h"

namespace arenite::test {
namespace {

using Features = std::span<const float>;

constexpr uint32_t kRestOfTest = kPositions - kHeld;

class SessionFailure : public SessionTest {
 protected:
  void check(const Refusal& refusal, const FailingCall<float>& call) {
    const TestModel model = load("causal");
    expect_failure_that_changes_nothing(*model, options_for(kPositions, kSequences),
                                        features(*model, kSequences * kPositions),
                                        features(*model, 100), refusal, call);
  }
};
ARENITE_FOR_EACH_FLOAT_SET(SessionFailure);

Features first(Features features, uint32_t tokens) {
  return features.first(size_t{tokens} * 6);  // the width of the spec "causal"
}

TEST_P(SessionFailure, StepBeyondThePositionsIsContextFull) {
  check({Status::kContextFull, "batch.lengths", 0, kPositions + 1, kPositions},
        [](Session& session, Features features, Diagnostic* why) {
          return session.step(first(features, kPositions - kHeld + 1), why);
        });
}

TEST_P(SessionFailure, ContextFullNamesTheSequence) {
  check({Status::kContextFull, "batch.lengths", 1, kPositions + 1, kPositions},
        [](Session& session, Features features, Diagnostic* why) {
          const uint32_t lengths[] = {1, 9};
          return session.step({first(features, 18), 2, 9, lengths}, why);
        });
}

TEST_P(SessionFailure, RunBeyondThePositionsIsContextFull) {
  check({Status::kContextFull, "batch.lengths", 0, kPositions + 1, kPositions},
        [](Session& session, Features features, Diagnostic* why) {
          return session.run({first(features, kPositions + 1), 1, kPositions + 1, {}}, why);
        });
}

TEST_P(SessionFailure, RunRefusesMoreTokensThanACallTakes) {
  check({Status::kInvalidArgument, "batch.tokens", 0, 32, 30},
        [](Session& session, Features features, Diagnostic* why) {
          return session.run({first(features, 32), 2, 16, {}}, why);
        });
}

TEST_P(SessionFailure, RefusesNoTokens) {
  check({Status::kInvalidArgument, "batch.tokens", 0, 0, 30},
        [](Session& session, Features, Diagnostic* why) { return session.step(Batch{}, why); });
  check({Status::kInvalidArgument, "batch.tokens", 0, 0, 30},
        [](Session& session, Features features, Diagnostic* why) {
          const uint32_t lengths[] = {0, 0};
          return session.run({first(features, 6), 2, 3, lengths}, why);
        });
}

#if UINTPTR_MAX > UINT32_MAX
// The pages are inaccessible: the call may check only the size.
TEST_P(SessionFailure, RefusesMoreTokensThanCanBeCounted) {
  const size_t count = (size_t{1} << 32) * 6;
  void* const place = mmap(nullptr, count * sizeof(float), PROT_NONE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  ASSERT_NE(place, MAP_FAILED);
  check({Status::kInvalidArgument, "batch.features", 0, count, 0},
        [&](Session& session, Features, Diagnostic* why) {
          return session.step(Features(static_cast<const float*>(place), count), why);
        });
  munmap(place, count * sizeof(float));
}
#endif

TEST_P(SessionFailure, RefusesNoSequencesAndTooMany) {
  check({Status::kInvalidArgument, "batch.sequences", 0, 0, 2},
        [](Session& session, Features features, Diagnostic* why) {
          return session.run({first(features, 4), 0, 4, {}}, why);
        });
  check({Status::kInvalidArgument, "batch.sequences", 0, 3, 2},
        [](Session& session, Features features, Diagnostic* why) {
          return session.run({first(features, 6), 3, 2, {}}, why);
        });
}

TEST_P(SessionFailure, RefusesFeaturesOfAnotherShape) {
  check({Status::kInvalidArgument, "batch.features", 0, 23, 24},
        [](Session& session, Features features, Diagnostic* why) {
          return session.step({features.first(23), 2, 2, {}}, why);
        });
  check({Status::kInvalidArgument, "batch.features", 0, 25, 24},
        [](Session& session, Features features, Diagnostic* why) {
          return session.step({features.first(25), 2, 2, {}}, why);
        });
  check({Status::kInvalidArgument, "batch.features", 0, 13, 12},
        [](Session& session, Features features, Diagnostic* why) {
          return session.step(features.first(13), why);
        });
}

TEST_P(SessionFailure, RefusesNullFeatures) {
  check({Status::kInvalidArgument, "batch.features", 0, 12, 12},
        [](Session& session, Features, Diagnostic* why) {
          return session.step(Features(static_cast<const float*>(nullptr), 12), why);
        });
}

// The pool skips tasks, or passes a thread index without scratch.
TEST_P(SessionFailure, RefusesThreadsThatDoNotRunTheTasks) {
  struct Faulty {
    const char* field;
    uint32_t found, expected;
    void (*run)(void*, uint32_t tasks, ParallelFor::Task task, void* job);
    bool is_faulty = false;
  } pools[] = {
      {"options.parallel.run", 0, 0, [](void*, uint32_t, ParallelFor::Task, void*) {}},
      {"options.parallel.run", 0, 0,
       [](void*, uint32_t tasks, ParallelFor::Task task, void* job) {
         for (uint32_t i = 1; i < tasks; ++i) task(job, i, 0);
       }},
      {"options.parallel.run", 0, 0,
       [](void*, uint32_t tasks, ParallelFor::Task task, void* job) {
         for (uint32_t i = 0; i < tasks; ++i) task(job, i - i % 2, 1);
       }},
      {"options.parallel.threads", 2, 1,
       [](void*, uint32_t tasks, ParallelFor::Task task, void* job) {
         for (uint32_t i = 0; i < tasks; ++i) task(job, i, i % 3);
       }},
      {"options.parallel.threads", 4000000000, 1,
       [](void*, uint32_t tasks, ParallelFor::Task task, void* job) {
         for (uint32_t i = 0; i < tasks; ++i) task(job, i, 4000000000);
       }},
  };
  for (Faulty& pool : pools) {
    const TestModel model = load("causal");
    SessionOptions options = options_for(kPositions, kSequences);
    options.parallel = {2,
                        [](void* of, uint32_t tasks, ParallelFor::Task task, void* job) {
                          const Faulty& own = *static_cast<Faulty*>(of);
                          if (own.is_faulty) return own.run(nullptr, tasks, task, job);
                          for (uint32_t i = 0; i < tasks; ++i) task(job, i, i % 2);
                        },
                        &pool};
    for (const bool in_slices : {false, true}) {
      const auto call = [&](Session& session, Features features,
                            Diagnostic* why) -> Result<Output> {
        const Batch batch = {first(features, 2 * kRestOfTest), 2, kRestOfTest};
        pool.is_faulty = true;
        Result<Output> output = Output{};
        if (in_slices) {
          EXPECT_EQ(session.begin_step(batch), Status::kOk);
          const Result<uint32_t> left = session.advance(UINT64_MAX - 1, why);
          if (!left.ok()) output = left.status();
        } else {
          output = session.step(batch, why);
        }
        pool.is_faulty = false;
        EXPECT_EQ(session.output().rows, 0u) << "the step is cancelled";
        return output;
      };
      expect_failure_that_changes_nothing<float>(
          *model, options, features(*model, kSequences * kPositions), features(*model, 100),
          {Status::kInvalidArgument, pool.field, 0, pool.found, pool.expected}, call);
    }
    options.tokens_max = 1;  // the same of the self-test
    const TestSession session(*model, options);
    pool.is_faulty = true;
    if (model->self_test_tokens() != 0) {
      EXPECT_EQ(session->self_test().status(), Status::kInvalidArgument);
    }
    pool.is_faulty = false;
  }
}

TEST_P(SessionFailure, RefusesAShapeThatOverflows) {
  check({Status::kInvalidArgument, "batch.features", 0, 12, (Checked(2) * UINT32_MAX * 6).value()},
        [](Session& session, Features features, Diagnostic* why) {
          return session.step({features.first(12), 2, UINT32_MAX, {}}, why);
        });
}

TEST_P(SessionFailure, RefusesLengthsOfAnotherNumber) {
  check({Status::kInvalidArgument, "batch.lengths", 0, 1, 2},
        [](Session& session, Features features, Diagnostic* why) {
          const uint32_t lengths[] = {1};
          return session.step({first(features, 4), 2, 2, lengths}, why);
        });
}

TEST_P(SessionFailure, RefusesALengthBeyondTheTokens) {
  check({Status::kInvalidArgument, "batch.lengths", 1, 3, 2},
        [](Session& session, Features features, Diagnostic* why) {
          const uint32_t lengths[] = {2, 3};
          return session.step({first(features, 4), 2, 2, lengths}, why);
        });
}

TEST_P(SessionFailure, NeedsNoDiagnostic) {
  check({Status::kContextFull, "set by the test"},
        [](Session& session, Features features, Diagnostic* why) {
          *why = {.reason = "", .field = "set by the test"};
          return session.step(first(features, kPositions));
        });
}

TEST_P(SessionFailure, NonCausalModelsRefuseToContinue) {
  const TestModel model = load("bidirectional");
  const TestSession session(*model, options_for(kPositions, 2));
  const std::vector<float> tokens = features(*model, 4);
  const std::vector<float> expected = session.run(tokens, 2);
  for (const uint32_t begin : {0u, 1u}) {
    uint32_t lengths[] = {0, 0};
    lengths[begin] = 1;
    Diagnostic why;
    EXPECT_EQ(session->step({tokens, 2, 2, lengths}, &why).status(), Status::kUnsupported);
    EXPECT_EQ(why.index, begin);
    EXPECT_EQ(session->positions(begin), 2u);
  }
  EXPECT_TRUE(same_bits(session.run(tokens, 2), expected));
}

// Row 0 of this mask sees key 5 alone, so that shorter sequences leave it nothing.
TEST_P(SessionFailure, RefusesLengthsAtWhichATileMaskHidesARow) {
  ModuleSpec spec = spec_named("prefix");
  spec.masks = {mask_where(kSpecPositions, [](uint32_t query, uint32_t key) {
    return query == 0 ? key == 5 : key <= query;
  })};
  ASSERT_EQ(std::get<convert::CompiledMask>(spec.masks[0]).kind, MaskKind::kTiles);
  const TestModel model = load(spec);
  const TestSession session(*model, options_for(kPositions, 2));
  const std::vector<float> tokens = features(*model, 2 * 6);
  const std::vector<float> expected = session.run(tokens, 2);
  for (uint32_t length = 1; length < 6; ++length) {
    const uint32_t lengths[] = {6, length};
    Diagnostic why;
    ASSERT_EQ(session->run({tokens, 2, 6, lengths}, &why).status(), Status::kInvalidArgument);
    EXPECT_STREQ(why.reason, "at this length the mask hides every key of a token");
    EXPECT_EQ(why.index, 1u);
    EXPECT_EQ(why.found, length);
    EXPECT_EQ(session->positions(0), 6u);
  }
  const uint32_t lengths[] = {6, 0};
  EXPECT_TRUE(
      same_bits(session.run(tokens, 2, lengths), rows(expected, model->output_features(), 0, 6)));
}

TEST_P(SessionFailure, RefusesAMaskBesideTheModelsOwn) {
  ModuleSpec lookback = spec_named("causal");
  lookback.masks = {convert::band_mask(6, kUnlimited, 0)};
  for (const ModuleSpec& spec : {spec_named("prefix"), spec_named("causal"), lookback}) {
    const TestModel model = load(spec);
    const TestSession session(*model, options_for(kPositions));
    const std::vector<uint8_t> visible(4, 1);
    Diagnostic why;
    EXPECT_EQ(session->run({features(*model, 4), 1, 4, {}, visible}, &why).status(),
              Status::kUnsupported);
    EXPECT_STREQ(why.field, "batch.visible");
    EXPECT_EQ(why.index, 0u);
  }
}

TEST_P(SessionFailure, AreDescribedInOneLine) {
  const TestModel model = load("causal");
  const TestSession session(*model, options_for(4));
  const std::vector<float> tokens = features(*model, 5);
  Diagnostic why;
  Status status = session->run({tokens, 1, 5, {}}, &why).status();
  EXPECT_EQ(describe(status, why),
            "context full: the tokens do not fit the positions of the session; batch.lengths[0]; "
            "found 5, expected 4");
  const GuardedBuffer arena(kArenaAlignment, kArenaAlignment);
  status = Session::create(*model, options_for(4), arena.span(), &why).status();
  const std::string bytes = std::to_string(plan_arena(*model, options_for(4))->total_bytes);
  EXPECT_EQ(describe(status, why),
            "arena too small: the arena is too small for these options; arena[0]; found 64, "
            "expected " +
                bytes + "; needs " + bytes + " bytes");
  status = plan_arena(*model, {}, &why).status();
  EXPECT_EQ(describe(status, why),
            "invalid argument: the model has no context length: set positions_max; "
            "options.positions_max[0]; found 0, expected 1");
}

}  // namespace
}  // namespace arenite::test
