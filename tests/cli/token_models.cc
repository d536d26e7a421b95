// SPDX-License-Identifier: Apache-2.0
// The weights are random: the models' texts make no sense, but are the same on each run.
#include "cli/token_models.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <stdexcept>

#include "arenite/session.h"
#include "cli/checkpoints.h"
#include "convert/files/memory.h"
#include "convert/program/writer.h"
#include "convert/tokenizers/tokenizer_spec.h"
#include "support/byte_string.h"
#include "support/decoder_factory.h"
#include "support/encoder_factory.h"
#include "support/kernel_sets.h"
#include "support/tokenizer_model.h"

namespace arenite::testing {

std::string write_plain_decoder(const TempFolder& folder) {
  const test::DecoderShape shape;
  return write_file(folder, "plain.arn", test::make_decoder_model(shape).span());
}

namespace {

std::string write_decoder_of_pieces(const TempFolder& folder, const std::string& name,
                                    const std::vector<std::string>& pieces, bool byte_fallback) {
  convert::TokenizerSpec spec = test::piece_spec(pieces, byte_fallback);
  convert::complete_tokenizer(spec);
  test::DecoderShape shape;
  shape.vocab_size = static_cast<uint32_t>(spec.tokens.size());
  convert::Program program = test::decoder_program(shape);
  program.tokenizer = std::move(spec);
  return write_file(folder, name, convert::write_model(program, test::all_targets()).span());
}

std::string write_encoder(const TempFolder& folder, test::EncoderShape shape) {
  shape.positions_max = kEncoderContext;
  convert::TokenizerSpec spec =
      test::word_spec({"the", "pump", "is", "loud", "a", "noisy", "##s", "."});
  convert::complete_tokenizer(spec);
  if (shape.vocab_size != 0) shape.vocab_size = static_cast<uint32_t>(spec.tokens.size());
  convert::Program program = test::encoder_program(shape);
  if (shape.vocab_size != 0) program.tokenizer = std::move(spec);
  return write_file(folder, shape.name + ".arn",
                    convert::write_model(program, test::all_targets()).span());
}

}  // namespace

std::string write_text_decoder(const TempFolder& folder) {
  return write_decoder_of_pieces(folder, "text.arn", {" a", " b", "ab", " ab", "\xC3\xA9"}, true);
}

std::string write_decoder_without_byte_tokens(const TempFolder& folder) {
  return write_decoder_of_pieces(folder, "bytes.arn", {" ", "a", "b", " a", "ab"}, false);
}

std::string write_sentence_encoder(const TempFolder& folder) {
  test::EncoderShape shape = test::encoder_named("sentences");
  shape.token_types = 2;
  return write_encoder(folder, shape);
}

std::string write_text_classifier(const TempFolder& folder) {
  test::EncoderShape shape = test::encoder_named("classifier");
  shape.classes = 3;
  return write_encoder(folder, shape);
}

std::string write_tagger(const TempFolder& folder) {
  return write_encoder(folder, test::encoder_named("tagger"));
}

std::string write_counting_encoder(const TempFolder& folder) {
  test::EncoderShape shape = test::encoder_named("mixture");
  shape.padding_id = kUncounted;
  shape.pooling = SelectKind::kMean;
  shape.more_pooling.clear();
  return write_encoder(folder, shape);
}

std::string write_sensor_classifier(const TempFolder& folder) {
  return write_encoder(folder, test::encoder_named("sensor"));
}

std::string write_large_decoder(const TempFolder& folder) {
  test::DecoderShape shape;
  shape.vocab_size = 2000;
  shape.model_dim = 256;
  shape.heads = shape.kv_heads = 4;
  shape.head_dim = shape.rotary_dim = 64;
  shape.ffn_dim = 1024;
  shape.positions_max = 512;
  shape.windows = {0, 0, 0};
  return write_file(folder, "large.arn",
                    test::make_decoder_model(shape, {test::targets_here().back()}).span());
}

std::vector<float> logits_of(const std::string& model, const std::vector<TokenId>& ids) {
  const convert::FileMap file(model);
  const Result<Model> loaded = Model::load(file.bytes());
  SessionOptions options;
  options.outputs = Outputs::kAll;
  options.positions_max = static_cast<uint32_t>(ids.size());
  convert::AlignedBytes arena(plan_arena(*loaded, options)->total_bytes);
  const Result<Session*> session = Session::create(*loaded, options, arena.span());
  const Result<Output> output = (*session)->step(std::span(ids));
  if (!output.ok()) throw std::runtime_error("the reference does not run");
  return {output->data, output->data + size_t{output->rows} * output->features};
}

std::vector<TokenId> greedy_after(const std::string& model, std::vector<TokenId> ids,
                                  uint32_t count) {
  const size_t prompt = ids.size();
  for (uint32_t i = 0; i < count; ++i) {
    const std::vector<float> logits = logits_of(model, ids);
    const auto last = logits.end() - static_cast<ptrdiff_t>(logits.size() / ids.size());
    ids.push_back(static_cast<TokenId>(std::max_element(last, logits.end()) - last));
  }
  ids.erase(ids.begin(), ids.begin() + static_cast<ptrdiff_t>(prompt));
  return ids;
}

std::string spaced(const std::vector<TokenId>& ids) {
  return fmt::format("{}", fmt::join(ids, " "));
}
std::string listed(const std::vector<TokenId>& ids) {
  return fmt::format("{}", fmt::join(ids, ","));
}

std::string write_ids(const TempFolder& folder, const std::string& shape,
                      const std::vector<int64_t>& ids) {
  return folder.write("ids.npy", npy_bytes("<i8", "False", shape, bytes_of(ids))).string();
}

}  // namespace arenite::testing
