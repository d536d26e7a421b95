// SPDX-License-Identifier: Apache-2.0
#include "convert/check/converted_session.h"

#include <fmt/format.h>

#include <stdexcept>

namespace arenite::convert {

void fail_as_bug(const char* what, Status status, const Diagnostic& why) {
  char text[256];
  describe(status, why, text);
  throw std::logic_error(
      fmt::format("the converted model does not {}: {}; this is a bug", what, text));
}

static Model load(const AlignedBytes& file, const LoadOptions& options) {
  Diagnostic why;
  const Result<Model> model = Model::load(file.span(), &why, options);
  if (!model.ok()) fail_as_bug("load", model.status(), why);
  return *model;
}

Model load_converted(const AlignedBytes& file, Target target) {
  LoadOptions options;
  options.force_target = true;
  options.target = target;
  return load(file, options);
}

Model load_best(const AlignedBytes& file) { return load(file, {}); }

ConvertedSession::ConvertedSession(const Model& model, const SessionOptions& options) {
  Diagnostic why;
  const Result<ArenaPlan> plan = plan_arena(model, options, &why);
  if (!plan.ok()) fail_as_bug("plan", plan.status(), why);
  arena_ = AlignedBytes(plan->total_bytes);
  const Result<Session*> session = Session::create(model, options, arena_.span(), &why);
  if (!session.ok()) fail_as_bug("start", session.status(), why);
  session_ = *session;
}

}  // namespace arenite::convert
