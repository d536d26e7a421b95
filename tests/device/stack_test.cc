// SPDX-License-Identifier: Apache-2.0
// Every call of the runtime stays within the stack size of format/bounds.h, for every model.
#include <algorithm>
#include <cstdint>
#include <cstring>

#include "arenite/sampler.h"
#include "arenite/session.h"
#include "arenite/text_stream.h"
#include "arenite/tokenizer.h"
#include "device/device_test.h"
#include "device/stack_use.h"
#include "device/tests.h"
#include "device/vectors.h"
#include "format/bounds.h"
#include "ops/integer_rows.h"

namespace arenite::device {
namespace {

struct Use {
  const char* call;
  size_t bytes;       // the most that it took
  const char* model;  // with this one
};

constexpr size_t kCallsMax = 24;
constinit Use uses[kCallsMax] = {};

constexpr size_t kTextBytesMax = 128;
constinit TokenId tokens[encode_tokens_max(kTextBytesMax)] = {};
constexpr uint32_t kLogitsMax = 1024;
constinit Candidate candidates[kLogitsMax] = {};

// Makes a call, which returns whether it succeeded, and records its stack size.
template <typename Call>
void measure(const char* name, const char* model, Call call) {
  bool ok = false;
  const size_t bytes = stack_bytes_of([&] { ok = call(); });
  EXPECT(ok);
  for (Use& use : uses) {
    if (use.call != nullptr && std::strcmp(use.call, name) != 0) continue;
    if (bytes > use.bytes) use = {name, bytes, model};
    return;
  }
  EXPECT(false);  // more calls than there is room for
}

void measure_steps(Session& session, const Model& model, const ModelCase& model_case) {
  const char* const name = model_case.name;
  const TokenBatch ids = {model_case.ids, model_case.sequences, model_case.tokens,
                          model_case.lengths};
  const Batch features = {model_case.features, model_case.sequences, model_case.tokens,
                          model_case.lengths};
  const bool reads_tokens = model.vocab_size() != 0;
  measure("Session::run", name,
          [&] { return (reads_tokens ? session.run(ids) : session.run(features)).ok(); });
  session.reset();
  measure("Session::step", name,
          [&] { return (reads_tokens ? session.step(ids) : session.step(features)).ok(); });
  measure("Session::rewind", name, [&] { return session.rewind(0, 0) == Status::kOk; });
  session.reset();
  measure("Session::begin_step", name, [&] {
    return (reads_tokens ? session.begin_step(ids) : session.begin_step(features)) == Status::kOk;
  });
  measure("Session::advance", name, [&] { return session.advance(UINT64_MAX - 1).ok(); });
}

void measure_model(const ModelCase& model_case, Target target) {
  const char* const name = model_case.name;
  LoadOptions load_options;
  load_options.force_target = true;
  load_options.target = target;
  SessionOptions options;
  options.sequences_max = model_case.sequences;
  options.outputs = model_case.outputs;

  Result<Model> model = Status::kBadModel;
  measure("Model::load", name, [&] {
    model = Model::load(model_case.file.span(), nullptr, load_options);
    return model.ok();
  });
  REQUIRE(model.ok());
  options.positions_max = std::max(model_case.tokens, model->self_test_tokens());
  Result<Session*> session = Status::kBadModel;
  measure("plan_arena", name, [&] { return plan_arena(*model, options).ok(); });
  measure("Session::create", name, [&] {
    session = Session::create(*model, options, arena_memory());
    return session.ok();
  });
  REQUIRE(session.ok());
  measure_steps(**session, *model, model_case);
  (*session)->reset();
  measure("Session::self_test", name,
          [&] { return (*session)->self_test().ok() || kRowsAreIntegers; });
}

void measure_text(const TextCase& text) {
  const Result<Model> model = Model::load(text.file.span());
  REQUIRE(model.ok());
  Result<Tokenizer> tokenizer = Status::kBadModel;
  measure("Tokenizer::of", text.text, [&] {
    tokenizer = Tokenizer::of(*model);
    return tokenizer.ok();
  });
  REQUIRE(tokenizer.ok());
  EncodeOptions options;
  options.read_specials = true;
  measure("Tokenizer::encode", text.text,
          [&] { return tokenizer->encode(text.text, options, tokens).ok(); });
  measure("TextStream::next", text.text, [&] {
    TextStream stream(*tokenizer);
    size_t bytes = 0;
    for (const TokenId id : text.ids) {
      const TextParts parts = stream.next(id);
      bytes += parts.head.size() + parts.tail.size();
    }
    return bytes != 0 || text.ids.empty();
  });
}

void measure_sampler() {
  const std::span<float> logits(reinterpret_cast<float*>(arena_memory().data()), kLogitsMax);
  for (uint32_t i = 0; i < kLogitsMax; ++i) logits[i] = static_cast<float>(i * 37 % 101) / 10.0f;
  SamplerOptions options;
  options.repetition_penalty = 1.1f;
  options.temperature = 0.8f;
  for (const uint32_t top_k : {0u, 40u}) {
    options.top_k = top_k;
    options.top_p = 0.9f;
    measure("Sampler::sample", "every option", [&] {
      const Result<Sampler> created = Sampler::create(options);
      if (!created.ok()) return false;
      Sampler sampler = *created;
      return sampler.sample(logits, std::span(tokens).first(8), candidates).ok();
    });
  }
}

void measure_description() {
  Diagnostic why;
  const std::span<std::byte> copy = copy_memory().first(model_to_damage().bytes);
  std::ranges::copy(model_to_damage().span(), copy.begin());
  copy.back() ^= std::byte{1};
  Status status = Status::kOk;
  measure("Model::load", "a damaged file", [&] {
    status = Model::load(copy, &why).status();
    return status != Status::kOk;
  });
  char line[200];
  measure("describe", "a damaged file", [&] { return describe(status, why, line) != 0; });
}

}  // namespace

void stack_is_measured() {
  const size_t bytes = stack_bytes_of([] {
    volatile char local[1000];
    for (volatile char& byte : local) byte = 1;
  });
  // Sanitizers keep locals elsewhere; there is no bound either.
  if (!ARENITE_HAS_STACK_BOUNDS) {
    EXPECT(bytes != 0);
    return;
  }
  EXPECT(bytes >= 1000 && bytes < 1400);
}

void stack_of_calls() {
  std::ranges::fill(uses, Use{});
  for (const ModelCase& model_case : model_cases()) {
    const Result<Model> any = Model::load(model_case.file.span());
    REQUIRE(any.ok());
    for (uint32_t i = 0; i < kTargets; ++i) {
      in_hand(model_case.name, name(static_cast<Target>(i)));
      if ((any->file_targets() & cpu_targets() & 1u << i) == 0) continue;
      measure_model(model_case, static_cast<Target>(i));
    }
  }
  for (const TextCase& text : text_cases()) measure_text(text);
  measure_sampler();
  measure_description();
  for (const Use& use : uses) {
    if (use.call == nullptr) break;
    in_hand(use.call, use.model, static_cast<uint32_t>(use.bytes));
    EXPECT(use.bytes <= (ARENITE_HAS_STACK_BOUNDS ? stack_bound_here().bytes : SIZE_MAX));
    // Lines that tests/style/footprint.py reads.
    print("stack  ");
    print(uint64_t{use.bytes});
    print("  ");
    print(use.call);
    print(", ");
    print(use.model);
    print("\n");
  }
  print("stack bound  ");
  print(uint64_t{stack_bound_here().bytes});
  print("\n");
}

}  // namespace arenite::device
