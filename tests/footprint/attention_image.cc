// SPDX-License-Identifier: Apache-2.0
// The smallest complete program: one attention module of 8 tokens on a board without an operating
// system. `make size` prints the size of its linked image.
#include "arenite/session.h"
#include "board.h"
#include "hello/task.h"
#include "recall_8.h"

namespace {

constexpr uint32_t kTokensOfImage = recall_8_tokens_max;

alignas(arenite::kArenaAlignment) std::byte arena[recall_8_arena_bytes_max];

// The module answers each question among the first tokens with the latest value of its key.
arenite::Status answer_questions(bool& right, arenite::Diagnostic& why) {
  const auto model = arenite::Model::load(recall_8_model(), &why);
  if (!model.ok()) return model.status();
  const auto session = arenite::Session::create(*model, {}, arena, &why);
  if (!session.ok()) return session.status();

  std::array<float, kTokensOfImage * 18> features;
  for (uint32_t i = 0; i < kTokensOfImage; ++i) {
    std::ranges::copy(features_of(kTokens[i], i), features.begin() + i * 18);
  }
  const auto output = (*session)->run({features, 1, kTokensOfImage}, &why);
  if (!output.ok()) return output.status();

  uint32_t latest[8] = {};
  for (uint32_t i = 0; i < kTokensOfImage; ++i) {
    const auto [key, value] = kTokens[i];
    if (value != kAsk) latest[key] = value;
    if (value == kAsk && answer_of(output->row(i)) != latest[key]) right = false;
  }
  return arenite::Status::kOk;
}

}  // namespace

int main() {
  bool right = true;
  arenite::Diagnostic why;
  const arenite::Status status = answer_questions(right, why);
  if (status != arenite::Status::kOk) {
    char text[200];
    board::write({text, arenite::describe(status, why, text)});
    return 1;
  }
  return right ? 0 : 1;
}
