// SPDX-License-Identifier: Apache-2.0
// A model of features: all tokens in one call.
#include <fmt/format.h>

#include "cli/process.h"
#include "cli/run.h"
#include "convert/files/error.h"

namespace arenite::tool {
namespace {

void refuse_token_options(const RunOptions& options) {
  const char* option = nullptr;
  if (!options.hidden_states.empty()) option = "--hidden-states";
  if (options.chunk) option = "--chunk";
  if (options.last) option = "--last";
  if (option == nullptr) return;
  throw convert::InputError("{}: {} is for models that read tokens, and this one reads features",
                            convert::quote(options.model.string()), option);
}

// The elements as they lie in the file where kernels can read them so, else a copy in `converted`.
std::span<const float> features_of(const convert::NpyArray& input, std::vector<float>& converted) {
  const std::byte* const data = input.data().data();
  if (input.dtype() == convert::DType::kF32 &&
      reinterpret_cast<uintptr_t>(data) % alignof(float) == 0) {
    return {reinterpret_cast<const float*>(data), static_cast<size_t>(input.elements())};
  }
  converted = input.to_f32();
  return converted;
}

// A session begins by copying the features: from the first op on, the file's pages are not needed.
struct DropPagesAfterCopy {
  const convert::NpyArray& input;
  ProfileHook next;  // called as if it were alone

  ProfileHook hook() {
    ProfileHook hook;
    hook.context = this;
    hook.op_begins = [](void* context, uint32_t op_index) {
      const DropPagesAfterCopy& self = *static_cast<DropPagesAfterCopy*>(context);
      if (op_index == 0) self.input.drop_pages();
      if (self.next.op_begins != nullptr) self.next.op_begins(self.next.context, op_index);
    };
    hook.op_ends = [](void* context, uint32_t op_index) {
      const DropPagesAfterCopy& self = *static_cast<DropPagesAfterCopy*>(context);
      if (self.next.op_ends != nullptr) self.next.op_ends(self.next.context, op_index);
    };
    return hook;
  }
};

// Rows after a sequence's length stay zero.
void write_output(const RunOptions& options, const Output& output, const InputShape& shape,
                  convert::NpyWriter& writer) {
  const size_t width = output.features;
  size_t row = 0;
  for (uint32_t s = 0; s < shape.sequences; ++s) {
    const size_t length = length_of(options, shape, s);
    writer.write(uint64_t{s} * shape.tokens * width, {output.data + row * width, length * width});
    row += length;
  }
}

}  // namespace

void run_features(const RunOptions& options, const ModelFile& file) {
  refuse_token_options(options);
  const convert::NpyArray input = convert::NpyArray::read(options.input);
  const InputShape shape = check_input(options, input, file.model());

  Profiler profiler(options.profile, file.model());
  ThreadPool pool(options.threads);
  SessionOptions session_options;
  session_options.positions_max = shape.tokens;
  session_options.sequences_max = shape.sequences;
  session_options.kv_cache = options.kv_cache;
  profiler.attach(session_options, pool.parallel_for());
  DropPagesAfterCopy drop_pages{input, session_options.profile};
  session_options.profile = drop_pages.hook();
  ModelSession session(file, session_options);
  std::vector<float> converted;
  const std::span<const float> features = features_of(input, converted);
  Progress progress("running " + options.model.string());
  for (uint32_t s = 0; s < shape.sequences; ++s) {
    profiler.add_sequence(0, length_of(options, shape, s), length_of(options, shape, s));
  }
  Diagnostic why;
  const Result<Output> output =
      session.session().run(Batch{features, shape.sequences, shape.tokens, options.lengths}, &why);
  progress.done();
  if (!output.ok()) throw_status(options.input.string(), output.status(), why);

  std::vector<uint64_t> output_shape = input.shape();
  output_shape.back() = output->features;
  convert::NpyWriter writer(options.output, output_shape);
  write_output(options, *output, shape, writer);
  profiler.report({&writer.file()});
  print_run(options, file, output_shape, session.plan(), output->finite());
}

}  // namespace arenite::tool
