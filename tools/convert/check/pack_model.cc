// SPDX-License-Identifier: Apache-2.0
// The self-test's expected results are recorded by the code that later compares them: the real
// runtime, op by op.
#include "convert/check/pack_model.h"

#include <fmt/format.h>
#include <algorithm>
#include <cmath>
#include <cstring>
#include <string_view>
#include <vector>

#include "arenite/tokenizer.h"
#include "convert/check/check_session.h"
#include "convert/files/error.h"
#include "convert/program/writer.h"
#include "core/crc32c.h"
#include "format/file_layout.h"
#include "format/reader.h"
#include "model_generated.h"
#include "session/self_test.h"

namespace arenite::convert {
namespace {

constexpr uint32_t kTokens = 6;
constexpr float kRelativeTolerance = 1e-4f;   // of a row's length
constexpr float kStepTolerance = 1e-2f;       // where rows are rounded to int8
constexpr float kTimesTheDifference = 16.0f;  // between kernel sets
constexpr float kTimesTheRounding = 4.0f;     // between types of caches
constexpr float kToleranceMin = 1e-30f;       // where a row is nothing but zeros
constexpr std::string_view kText = "Turn on the light in the kitchen, and tell me a story.";

// Results on one target for the self-test's tokens.
struct Recording {
  std::vector<std::vector<float>> digests;  // of each op's rows
  std::vector<float> lengths;               // largest row norm of each op
  std::vector<std::vector<float>> outputs;  // of each function
};

float length_of(std::span<const float> row) {
  double sum = 0.0;
  for (const float value : row) sum += double{value} * value;
  return static_cast<float>(std::sqrt(sum));
}

Recording record(const AlignedBytes& file, Target target, const SelfTestInputs& inputs,
                 KvType kv_cache) {
  const uint32_t tokens = inputs.of[0].tokens;
  CheckSession session(file, target, tokens, Outputs::kAll, kv_cache);
  SessionState& state = SessionState::of(&session.session());
  const uint32_t ops = state.reader.ops();
  Recording recording;
  const format::SelfTestLayout layout = format::self_test_layout(state.reader, tokens);
  recording.digests.resize(ops);
  for (uint32_t op = 0; op < ops; ++op) {
    recording.digests[op].resize(layout.rows_of_op(state.reader, op));
  }
  recording.lengths.resize(ops);
  Diagnostic why;
  const auto take_row = [&](uint32_t op, uint32_t index, std::span<const float> row) {
    recording.digests[op][index] = format::digest_of_row(row);
    recording.lengths[op] = std::max(recording.lengths[op], length_of(row));
    return true;
  };
  const auto take_output = [&](uint32_t function, const Output& output) {
    CallRows results(output, state.model, function, output.rows);
    const std::span<const float> last = results[results.size() - 1];
    recording.outputs.emplace_back(last.begin(), last.end());
    return true;
  };
  const Status status = run_self_test(state, inputs, &why, take_row, take_output);
  if (status != Status::kOk) throw std::logic_error("a self-test cannot be run: this is a bug");
  return recording;
}

// Returns the first `count` tokens of a text; empty if the tokenizer cannot encode it or returns
// fewer.
std::vector<TokenId> tokens_of_text(const Model& model, uint32_t count) {
  const Result<Tokenizer> tokenizer = Tokenizer::of(model);
  if (!tokenizer.ok()) return {};
  std::vector<TokenId> ids(encode_tokens_max(kText.size()));
  EncodeOptions options;
  const Result<size_t> encoded = tokenizer->encode(kText, options, ids);
  if (!encoded.ok() || *encoded < count) return {};
  ids.resize(count);
  return ids;
}

ModelInput input_to_record(const Model& model, uint32_t index, uint32_t tokens) {
  const InputInfo info = model.input(index);
  const format::ModelReader reader(model.file());
  const uint32_t count = format::self_test_tokens(reader, index, tokens);
  const uint32_t rows = format::self_test_feature_rows(reader, index, count);
  ModelInput input =
      input_to_check(count, info.vocab_size, info.token_types, size_t{rows} * info.features);
  if (info.vocab_size == 0) return input;
  std::vector<TokenId> text = tokens_of_text(model, count);
  if (!text.empty()) input.ids = std::move(text);
  return input;
}

float largest_difference(std::span<const float> a, std::span<const float> b) {
  float largest = 0.0f;
  for (size_t i = 0; i < a.size(); ++i) largest = std::max(largest, std::fabs(a[i] - b[i]));
  return largest;
}

// Results with all kernel sets of this CPU for the self-test's tokens, the scalar set first.
struct Recordings {
  std::vector<Recording> of_model;  // with the cache type of the file
  std::vector<Recording> of_other;  // with the other cache type
};

// Computes the tolerance of one op, or of the output; `numbers` selects its values in a recording.
template <typename Numbers>
std::vector<float> tolerances(const Recordings& recordings, float length, float relative,
                              const Numbers& numbers) {
  const auto most = [&](const std::vector<Recording>& others) {
    float difference = 0.0f;
    for (const Recording& other : others) {
      const Recording& stored = recordings.of_model.front();
      difference = std::max(difference, largest_difference(numbers(stored), numbers(other)));
    }
    return difference;
  };
  const float same =
      std::max({relative * length, kTimesTheDifference * most(recordings.of_model), kToleranceMin});
  const float other =
      std::max({same, kStepTolerance * length, kTimesTheRounding * most(recordings.of_other)});
  return {same, other};
}

void write_segment(std::span<std::byte> segment, const format::ModelReader& reader,
                   const format::SelfTestLayout& layout, std::span<const ModelInput> inputs,
                   const Recordings& recordings, float relative) {
  const Recording& stored = recordings.of_model.front();
  const uint32_t ops = static_cast<uint32_t>(stored.lengths.size());
  const auto put = [&](uint64_t offset, const auto& values) {
    const auto bytes = std::as_bytes(std::span(values));
    std::ranges::copy(bytes, segment.begin() + static_cast<ptrdiff_t>(offset));
  };
  for (size_t i = 0; i < inputs.size(); ++i) {
    put(layout.inputs[i], inputs[i].features);
    put(layout.inputs[i], inputs[i].ids);
    put(layout.types[i], inputs[i].types);
  }
  for (uint32_t op = 0; op < ops; ++op) {
    const auto digests = [&](const Recording& recording) {
      return std::span(recording.digests[op]);
    };
    const uint64_t begin = layout.tolerances_of_op(reader, op);
    put(begin, tolerances(recordings, stored.lengths[op], relative, digests));
    put(begin + format::kSelfTestTolerances * sizeof(float), digests(stored));
  }
  for (size_t i = 0; i < stored.outputs.size(); ++i) {
    const auto output = [&](const Recording& recording) { return std::span(recording.outputs[i]); };
    put(layout.outputs[i], tolerances(recordings, length_of(stored.outputs[i]), relative, output));
    put(layout.outputs[i] + format::kSelfTestTolerances * sizeof(float), stored.outputs[i]);
  }
}

format::Footer footer_of(std::span<const std::byte> file) {
  format::Footer footer;
  std::memcpy(&footer, file.data() + file.size() - sizeof(footer), sizeof(footer));
  return footer;
}

// Replaces the metadata's record of the self-test, and the checksum of the metadata.
void set_record(AlignedBytes& file, const format::SelfTest& record, format::Footer& footer) {
  const auto metadata = file.span().first(static_cast<size_t>(footer.metadata_bytes));
  const format::SelfTest* const place = format::GetModel(metadata.data())->self_test();
  std::memcpy(const_cast<format::SelfTest*>(place), &record, sizeof(record));
  footer.metadata_crc32c = crc32c(metadata);
}

}  // namespace

std::vector<Target> runnable_targets(const AlignedBytes& file) {
  const uint32_t targets = format::ModelReader(file.span()).file_targets() & cpu_targets();
  std::vector<Target> list;
  for (uint32_t i = 0; i < kTargets; ++i) {
    if ((targets & 1u << i) != 0) list.push_back(static_cast<Target>(i));
  }
  return list;
}

void set_self_test(AlignedBytes& file, std::span<const std::byte> bytes) {
  const format::SelfTestView test = format::ModelReader(file.span()).self_test();
  std::ranges::copy(bytes, file.data() + test.segment.begin());
  format::Footer footer = footer_of(file.span());
  const format::Segment place(test.segment.offset, test.segment.length, crc32c(bytes));
  set_record(file, {place, test.tokens}, footer);
  std::memcpy(file.data() + file.size() - sizeof(footer), &footer, sizeof(footer));
}

void record_self_test(AlignedBytes& file, const Program& program) {
  const format::ModelReader reader(file.span());
  const format::SelfTestView test = reader.self_test();
  AlignedBytes scalar;
  if (runnable_targets(file).empty()) scalar = write_model(program, {Target::kPortable});
  const AlignedBytes& runnable = scalar.size() != 0 ? scalar : file;

  const std::vector<Target> targets = runnable_targets(runnable);
  const bool is_int8 = reader.kv_cache() == TensorType::kInt8;
  const auto data = [](const auto& list) { return list.empty() ? nullptr : list.data(); };
  std::vector<ModelInput> inputs;
  SelfTestInputs fed;
  const Model model = load_converted(runnable, targets.front());
  for (uint32_t i = 0; i < reader.inputs(); ++i) {
    const ModelInput& input = inputs.emplace_back(input_to_record(model, i, test.tokens));
    fed.of[i] = {input.tokens, data(input.features), data(input.ids), data(input.types)};
  }
  Recordings recordings;
  for (const Target target : targets) {
    recordings.of_model.push_back(record(runnable, target, fed, KvType::kOfModel));
    recordings.of_other.push_back(
        record(runnable, target, fed, is_int8 ? KvType::kF32 : KvType::kInt8));
  }
  std::vector<std::byte> segment(static_cast<size_t>(test.segment.bytes()));
  write_segment(segment, reader, format::self_test_layout(reader, test.tokens), inputs, recordings,
                rounds_activations(program) ? kStepTolerance : kRelativeTolerance);
  set_self_test(file, segment);
}

uint32_t self_test_tokens(const Program& program) { return token_count_for(kTokens, program); }

AlignedBytes pack_model(const Program& program, const std::vector<Target>& targets,
                        const std::string& path) {
  try {
    check_format_limits(program);
    AlignedBytes file = write_model(program, targets, self_test_tokens(program));
    record_self_test(file, program);
    return file;
  } catch (const InputError& error) {
    throw InputError("{}: {}", path, error.what());
  }
}

void strip_self_test(AlignedBytes& file) {
  const format::SegmentView test = format::ModelReader(file.span()).self_test().segment;
  if (test.length == 0) return;
  format::Footer footer = footer_of(file.span());
  footer.file_bytes = test.begin() + sizeof(footer);
  set_record(file, {}, footer);
  std::memcpy(file.data() + test.begin(), &footer, sizeof(footer));
  file.shorten(static_cast<size_t>(footer.file_bytes));
}

// ---- other targets: the program in a file is packed anew. The remaining targets are packed, too,
// and compared with the file, to prove that unpacking was lossless ----

namespace {

Target target_at(const format::ModelReader& reader, uint32_t index) {
  return static_cast<Target>(reader.packed(index).target);
}

// Returns the target whose weights are unpacked: the first that is kept, else the first of the
// file.
uint32_t source_of(const format::ModelReader& reader, const std::vector<Target>& targets) {
  for (uint32_t i = 0; i < reader.packed_count(); ++i) {
    if (std::ranges::count(targets, target_at(reader, i)) != 0) return i;
  }
  return 0;
}

// Throws InputError unless `program`, unpacked from target `source`, packs to the file's bytes for
// target `index`.
void require_same_weights(const format::ModelReader& reader, const Program& program,
                          uint32_t source, uint32_t index, const std::string& path) {
  for (uint32_t i = 0; i < reader.tensors(); ++i) {
    const ProgramTensor& tensor = program.tensors[i];
    const Packing packing = reader.packed(index).packing(tensor.type);
    std::vector<std::byte> packed(
        static_cast<size_t>(format::stored_bytes(tensor.shape(), packing).value()));
    pack_weights(tensor, *tensor.packed, packing, packed);
    if (std::ranges::equal(packed, std::span(reader.weights(index, i).data, packed.size()))) {
      continue;
    }
    refuse_if(index == source,
              "{}: tensor {} of target {}: its weights cannot be unpacked: its padding has bytes "
              "other than zero, which no converter writes: convert the checkpoint again",
              path, quote(tensor.name), name(target_at(reader, index)));
    throw InputError(
        "{}: tensor {}: targets {} and {} hold different weights, so the model is ambiguous: name "
        "one of the two with --target, or convert the checkpoint again",
        path, quote(tensor.name), name(target_at(reader, source)), name(target_at(reader, index)));
  }
}

// Runs the self-test on each target of the file that this CPU runs. Throws InputError if a test
// fails.
std::vector<Target> require_self_test(const AlignedBytes& file, uint32_t tokens,
                                      const std::string& path) {
  const std::vector<Target> targets = runnable_targets(file);
  for (const Target target : targets) {
    CheckSession session(file, target, tokens, Outputs::kAll);
    Diagnostic why;
    const Result<SelfTest> test = session.session().self_test(&why);
    if (!test.ok()) {
      char text[256];
      describe(test.status(), why, text);
      throw InputError("{}: the self-test of the file cannot be run: {}", path, text);
    }
    if (test->passed) continue;
    throw InputError(
        "{}: the self-test of the file fails with kernels {}: {} of token {} differs by {:.2g}, "
        "where {:.2g} is allowed: the weights are not those that it was recorded with, or this "
        "machine computes wrongly: run arenite verify, or drop the test with arenite strip",
        path, kernel_set_name(target),
        test->op_index == format::ModelReader(file.span()).ops()
            ? "the output"
            : fmt::format("op {}", quote(test->op_name)),
        test->token, test->difference, test->tolerance);
  }
  return targets;
}

}  // namespace

RepackedModel repack_model(std::span<const std::byte> file, const std::vector<Target>& targets,
                           const std::string& path) {
  const format::ModelReader reader(file);
  const format::SelfTestView test = reader.self_test();
  const uint32_t source = source_of(reader, targets);
  const Program program = read_model(file, source);
  for (uint32_t i = 0; i < reader.packed_count(); ++i) {
    const bool stays = std::ranges::count(targets, target_at(reader, i)) != 0;
    if (stays || i == source) require_same_weights(reader, program, source, i, path);
  }
  RepackedModel repacked;
  repacked.source = target_at(reader, source);
  try {
    repacked.file = write_model(program, targets, test.tokens);
  } catch (const InputError& error) {
    throw InputError("{}: {}", path, error.what());
  }
  if (test.tokens == 0) return repacked;

  const std::span<const std::byte> stored = file.subspan(static_cast<size_t>(test.segment.begin()),
                                                         static_cast<size_t>(test.segment.bytes()));
  set_self_test(repacked.file, stored);
  repacked.tested = require_self_test(repacked.file, test.tokens, path);
  if (repacked.tested.empty()) {
    AlignedBytes scalar = write_model(program, {Target::kPortable}, test.tokens);
    set_self_test(scalar, stored);
    repacked.tested = require_self_test(scalar, test.tokens, path);
  }
  record_self_test(repacked.file, program);
  return repacked;
}

}  // namespace arenite::convert
