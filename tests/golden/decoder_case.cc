// SPDX-License-Identifier: Apache-2.0
// Sessions and tokenizers whose failures become exceptions.
#include "golden/decoder_case.h"
#include "arenite/text_stream.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <stdexcept>

#include "golden/converted.h"

namespace arenite::test {

DecoderCase::DecoderCase(const std::filesystem::path& model, Target target,
                         const std::filesystem::path& tokenizer)
    : file_(converted("decoder", model, {name(target), tokenizer.string()})),
      model_(file_.span(), target) {}

std::vector<TokenId> DecoderCase::encode(const std::string& text) const {
  std::vector<TokenId> ids(encode_tokens_max(text.size()));
  Diagnostic why;
  const Result<Tokenizer> tokenizer = Tokenizer::of(model(), &why);
  if (!tokenizer.ok()) throw std::runtime_error(describe(tokenizer.status(), why));
  const Result<size_t> count = tokenizer->encode(text, {}, ids, &why);
  if (!count.ok()) throw std::runtime_error(describe(count.status(), why));
  ids.resize(*count);
  return ids;
}

std::string DecoderCase::decode(std::span<const TokenId> ids) const {
  TextStream stream(*Tokenizer::of(model()));
  std::string text;
  const auto add = [&](const TextParts& parts) {
    text.append(parts.head);
    text.append(parts.tail);
  };
  for (const TokenId id : ids) add(stream.next(id));
  add(stream.finish());
  return text;
}

DecoderRun run_in_chunks(const Model& model, std::span<const TokenId> ids, uint32_t chunk) {
  DecoderRun run;
  run.hidden_states.resize(model.hidden_states());
  SessionOptions options = options_for(static_cast<uint32_t>(ids.size()));
  options.tokens_max = std::min<uint32_t>(chunk, options.positions_max);
  options.outputs = Outputs::kAll;
  options.hidden_states.context = &run;
  options.hidden_states.state = [](void* context, uint32_t index, const float* data, uint32_t rows,
                                   uint32_t features) {
    std::vector<float>& state = static_cast<DecoderRun*>(context)->hidden_states.at(index);
    state.insert(state.end(), data, data + size_t{rows} * features);
  };
  const TestSession session(model, options);
  for (size_t at = 0; at < ids.size(); at += chunk) {
    Diagnostic why;
    const std::vector<float> rows = values_of(
        session->step(ids.subspan(at, std::min<size_t>(chunk, ids.size() - at)), &why), why);
    run.logits.insert(run.logits.end(), rows.begin(), rows.end());
  }
  return run;
}

TokenId best_token(std::span<const float> logits) {
  return static_cast<TokenId>(std::ranges::max_element(logits) - logits.begin());
}

std::vector<TokenId> continue_greedily(const Model& model, std::vector<TokenId> prompt,
                                       size_t tokens_max, std::span<const TokenId> ends) {
  const TestSession session(model, options_for(static_cast<uint32_t>(tokens_max)));
  std::vector<TokenId> ids = std::move(prompt);
  std::span<const TokenId> next = ids;
  while (ids.size() < tokens_max) {
    Diagnostic why;
    const TokenId best = best_token(values_of(session->step(next, &why), why));
    if (std::ranges::find(ends, best) != ends.end()) break;
    ids.push_back(best);
    next = std::span(ids).last(1);
  }
  return ids;
}

double negative_log_likelihood(const Model& model, std::span<const TokenId> ids) {
  const std::vector<float> logits = run_in_chunks(model, ids, 16).logits;
  const size_t width = logits.size() / ids.size();
  double sum = 0.0;
  for (size_t t = 0; t + 1 < ids.size(); ++t) {
    const auto row = std::span(logits).subspan(t * width, width);
    const double max = *std::ranges::max_element(row);
    double total = 0.0;
    for (const float logit : row) total += std::exp(logit - max);
    sum -= row[ids[t + 1]] - max - std::log(total);
  }
  return sum;
}

nlohmann::json read_json(const std::filesystem::path& file) {
  return nlohmann::json::parse(std::ifstream(file));
}

}  // namespace arenite::test
