// SPDX-License-Identifier: Apache-2.0
// Turns the runtime's statuses into errors for people.
#include "cli/model_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "convert/files/error.h"
#include "core/targets.h"
#include "format/file_layout.h"
#include "format/verify.h"

namespace arenite::tool {
namespace {

bool has_identifier(std::span<const std::byte> bytes) {
  return bytes.size() >= 8 && std::memcmp(bytes.data() + 4, format::kFileIdentifier, 4) == 0;
}

// Throws; if the file is not a model at all, the message says how to make one.
[[noreturn]] void refuse_file(const std::string& file, std::span<const std::byte> bytes,
                              Status status, const Diagnostic& why) {
  if (bytes.size() < 8 || has_identifier(bytes)) throw_status(file, status, why);
  throw convert::InputError(
      "{}: bad model: this is not an Arenite model file, which 'arenite convert' makes of a "
      "checkpoint",
      convert::quote(file));
}

void require_verified(const std::string& file, std::span<const std::byte> bytes) {
  Diagnostic why;
  const Status status = format::verify(bytes, &why);
  if (status != Status::kOk) refuse_file(file, bytes, status, why);
}

// For tests: if ARENITE_FILL_ARENA is in the environment, fills the arena with signalling NaN,
// which shows reads of memory that was never written.
void fill_for_tests(std::span<std::byte> arena) {
  if (std::getenv("ARENITE_FILL_ARENA") == nullptr) return;
  constexpr uint32_t kSignallingNan = 0x7FA00000;
  for (size_t i = 0; i + sizeof(kSignallingNan) <= arena.size(); i += sizeof(kSignallingNan)) {
    std::memcpy(arena.data() + i, &kSignallingNan, sizeof(kSignallingNan));
  }
}

}  // namespace

void throw_status(const std::string& file, Status status, const Diagnostic& why) {
  char text[512];
  describe(status, why, text);
  throw convert::InputError("{}: {}", convert::quote(file), text);
}

void require_one_input(const ModelFile& file, const char* command) {
  const Model& model = file.model();
  if (model.inputs() == 1 && model.functions() == 1) return;
  std::vector<std::string> names;
  for (uint32_t i = 0; i < model.inputs(); ++i) names.emplace_back(model.input(i).name);
  throw convert::InputError(
      "{}: arenite {} feeds models of one input, and this one has {} ({}): arenite run takes a "
      "file for each",
      convert::quote(file.name()), command, model.inputs(), fmt::join(names, ", "));
}

void require_finite(const std::string& source, const Output& output) {
  if (!output.finite()) refuse_results(source);
}

void refuse_results(const std::string& source) {
  throw convert::InputError(
      "{}: found NaN or infinity among the results, expected finite numbers: check the input and "
      "the weights for numbers that are not finite or very large",
      convert::quote(source));
}

const char* why_whole_sequences(const format::ModelReader& model) {
  const uint32_t last = model.functions() - 1;
  const uint32_t inputs = model.function(last).inputs;
  if (!std::has_single_bit(inputs)) return "it takes several inputs at once";
  if (model.causal(last)) return nullptr;
  const auto input = static_cast<uint32_t>(std::countr_zero(inputs));
  if (model.reads_images(input)) return "it reads images";
  if (model.takes_whole_sequences(input))
    return "it equals the author's model only at some lengths";
  const auto is_one = [](const Axis& axis) { return axis.kind == AxisKind::kOne; };
  const bool attends_ahead = [&] {
    for (uint32_t i = 0; i < model.masks(); ++i) {
      if (!format::is_causal(model.mask(i))) return true;
    }
    return false;
  }();
  if (model.sees_windows() && !attends_ahead && std::ranges::none_of(model.axes(), is_one)) {
    return "its convolutions see later tokens, or make fewer rows";
  }
  return std::ranges::any_of(model.axes(), is_one) ? "it makes a row of all tokens of a sequence"
                                                   : "it is not causal: tokens see later ones";
}

const char* why_whole_sequences(const Model& model) {
  return why_whole_sequences(format::ModelReader(model.file()));
}

Target target_named(const std::string& kernels) {
  std::string known;
  for (uint32_t i = 0; i < kTargets; ++i) {
    const Target target = static_cast<Target>(i);
    const char* const packed = packed_for(target);
    if (kernels == packed || kernels == kernel_set_name(target) || kernels == name(target)) {
      return target;
    }
    known += fmt::format("{}{}", i == 0 ? "" : ", ", packed);
  }
  throw convert::InputError("unknown kernel set {}: expected one of {}", convert::quote(kernels),
                            known);
}

std::optional<Target> forced_target(const std::string& kernels) {
  if (!kernels.empty()) return target_named(kernels);
  const char* const variable = std::getenv("ARENITE_KERNELS");
  if (variable == nullptr || *variable == '\0') return std::nullopt;
  try {
    return target_named(variable);
  } catch (const convert::InputError& error) {
    throw convert::InputError("ARENITE_KERNELS in the environment: {}", error.what());
  }
}

ModelFile::ModelFile(const std::filesystem::path& file, const std::string& kernels,
                     Checksums checksums)
    : name_(file.string()), map_(file) {
  LoadOptions options;
  options.checksums = checksums;
  if (const std::optional<Target> target = forced_target(kernels)) {
    options.force_target = true;
    options.target = *target;
  }
  Diagnostic why;
  const Result<Model> model = Model::load(map_.bytes(), &why, options);
  if (!model.ok()) refuse_file(name_, map_.bytes(), model.status(), why);
  model_ = *model;
}

VerifiedFile::VerifiedFile(const std::filesystem::path& file)
    : name_(file.string()), map_(file), bytes_(map_->bytes()) {
  require_verified(name_, bytes_);
}

VerifiedFile::VerifiedFile(std::string name, std::span<const std::byte> bytes)
    : name_(std::move(name)), bytes_(bytes) {
  require_verified(name_, bytes_);
}

ModelSession::ModelSession(const ModelFile& file, const SessionOptions& options) {
  Diagnostic why;
  const Result<ArenaPlan> plan = plan_arena(file.model(), options, &why);
  if (!plan.ok()) throw_status(file.name(), plan.status(), why);
  plan_ = *plan;
  arena_ = convert::AlignedBytes(plan_.total_bytes);
  fill_for_tests(arena_.span());
  const Result<Session*> session = Session::create(file.model(), options, arena_.span(), &why);
  if (!session.ok()) throw_status(file.name(), session.status(), why);
  session_ = *session;
}

}  // namespace arenite::tool
