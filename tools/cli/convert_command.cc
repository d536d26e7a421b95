// SPDX-License-Identifier: Apache-2.0
// arenite convert: from a checkpoint to a model file, and what it made.
#include <fmt/format.h>

#include <filesystem>

#include "cli/arguments.h"
#include "cli/commands.h"
#include "cli/convert_options.h"
#include "cli/convert_report.h"
#include "cli/process.h"
#include "cli/report.h"
#include "cli/report_facts.h"
#include "convert/check/pack_model.h"
#include "convert/convert.h"
#include "convert/families/families.h"
#include "convert/files/error.h"
#include "convert/files/output_files.h"
#include "convert/graph/graph.h"
#include "convert/modules/attention_modules.h"

namespace arenite::tool {
namespace {

// Compares, writes and reports. A conversion that is not what its author expects leaves no file.
void finish(convert::Conversion& conversion, const ConvertArguments& arguments) {
  std::optional<convert::AuthorCheck> expect;
  if (!arguments.expect.empty()) {
    expect = convert::check_against_author(conversion, {arguments.expect[0], arguments.expect[1]},
                                           arguments.checkpoint.string());
  }
  if (arguments.explain) {
    fmt::print("as recognised\n{}\n", convert::print_graph(conversion.graph));
    fmt::print("after the passes\n{}\n", convert::print_graph(conversion.rewritten));
  }
  if (arguments.no_self_test) convert::strip_self_test(conversion.file);
  const ConversionFacts found =
      conversion_facts(conversion, convert::quote(arguments.checkpoint.string()),
                       describe_weights(arguments), arguments.limits);
  require_limits(found);
  const VerifiedFile verified(arguments.output.string(), conversion.file.span());
  const ReportFacts facts = gather_report(verified, resolve_sizes(verified, {}), found);
  convert::AtomicFile file(arguments.output);
  file.write(conversion.file.span());
  std::optional<convert::AtomicFile> page;
  if (!arguments.report.empty()) {
    const std::string report = render_report(facts, arguments.report);
    page.emplace(arguments.report).write(std::as_bytes(std::span(report)));
  }
  convert::AtomicFile* const files[] = {&file, page ? &*page : nullptr};
  convert::commit_together(files);
  const WrittenFile written = {arguments.output, expect};
  if (arguments.json) {
    fmt::print("{}", conversion_as_json(conversion, written, facts));
  } else {
    print_conversion(conversion, written, facts);
  }
}

void run_convert(const ConvertArguments& arguments) {
  const convert::OutputGuard guard(
      {{"--output", arguments.output}, {"--report", arguments.report}});
  const std::filesystem::path& checkpoint = arguments.checkpoint;
  require_no_part_of(checkpoint, arguments.output);
  for (const std::filesystem::path& array : arguments.expect) convert::note_read(array);
  const std::string name =
      arguments.name.empty() ? arguments.output.stem().string() : arguments.name;
  const std::vector<Target> targets = convert::parse_targets(arguments.targets);
  Progress progress("converting " + checkpoint.string());
  convert::Conversion conversion =
      convert::convert_model(checkpoint, name, convert_options(arguments), targets);
  progress.done();
  if (conversion.module() != nullptr) refuse_model_options(arguments);
  finish(conversion, arguments);
}

std::string footer() {
  return fmt::format(
      "\nYour own PyTorch model, exported (.pt2), says all that it computes:\n"
      "  torch.export.save(torch.export.export(model.eval(), (example,)), 'model.pt2')\n"
      "Beside tokens or features it may take a mask of padding, lengths, positions or types.\n"
      "\nDecoders: a Hugging Face folder ({},\n"
      "also quantized by GPTQ, by compressed-tensors in integers, or by bitsandbytes in int8),\n"
      "GGUF (llama, gpt2, qwen2, qwen3), llama2.c .bin, and state dicts whose parts have names of\n"
      "the field: nanoGPT's, Meta's Llama's, those of books and lectures, or one's own.\n"
      "Encoders: a Hugging Face folder (bert, distilbert, roberta, xlm-roberta, electra; with a\n"
      "classifier or a masked-LM head, too), one of sentence-transformers, and state dicts, those\n"
      "around torch.nn.TransformerEncoder among them.\n"
      "The tokenizer is the one in the same file or beside it, unless --tokenizer names another.\n"
      "\nModules, recognised by their parameters under any prefix:\n{}\n"
      "A state dict does not say all that its model computes. What is missing is asked for: "
      "heads,\n"
      "activation and the place of norms; where there is a choice the kind of norms and "
      "rotations,\n"
      "the mask, pooling and the embedding scale; for a module the heads alone. A config.json\n"
      "beside the file may give them instead, as num_heads, activation, norm_first, norm, causal,\n"
      "embedding_scale, pooling, attention_scale, layer_norm_eps and rope_theta, and so may plain\n"
      "values in the checkpoint (model_args, args, config); stoi or itos there is the tokenizer.\n"
      "What is assumed then is reported. --expect finds out what was not said, and makes sure: X "
      "is\n"
      "[tokens], [batch, tokens] or, of features, [tokens, width] or [batch, tokens, width]; Y has "
      "a\n"
      "row for each token, for each sequence's last token, or for each sequence where the model\n"
      "pools.\n"
      "\n--json prints kind (module, decoder, encoder, exported), architecture, source,\n"
      "parameters, shape, context (0: any), output_rows, labels, tokenizer, notes, masks,\n"
      "targets with cpus, arena_bytes and largest_error (null: not checked), arena, formula,\n"
      "check, given, assumed, expect, self_test, report and file. In check, computing_error\n"
      "is how far targets are off\n"
      "double precision with the file's weights (null: not checked), and storing_error how far\n"
      "that is off double precision with the author's weights. report has what --report writes of\n"
      "weights, and arenite inspect --help names (file_parts, types, layers, parts, decode_bytes,\n"
      "kernels, tensors), and as conversion: source, weights, calibration, limits[] option, "
      "asked,\n"
      "found, unit, is_met, offenders; outputs (null: nothing to compare) text, tokens, mean_kl,\n"
      "top1_agreement, float_perplexity, quantized_perplexity; hidden_states[] name, mean_cosine,\n"
      "least_cosine; tensors[] name, type, method, signal_to_noise_db, float_bytes, bytes; "
      "notes[]\n"
      "kind, subject, text, tensors.\n"
      "\nExamples:\n"
      "  arenite convert models/home-intent -o intent.arn\n"
      "  arenite convert stories15M.bin -o stories.arn --tokenizer tokenizer.bin\n"
      "  arenite convert all-MiniLM-L6-v2 -o sentences.arn\n"
      "  arenite convert ckpt.pt -o nano.arn --heads 6 --activation gelu --norm-first\n"
      "  arenite convert lm.pt -o lm.arn --heads 2 --activation relu --norm-last --causal "
      "--embedding-scale sqrt --expect x.npy,y.npy\n"
      "  arenite convert mine.pt -o mine.arn --expect x.npy,y.npy\n"
      "  arenite convert encoder.pt -o encoder.arn --heads 4 --activation gelu --norm-first "
      "--bidirectional --embedding-scale 1 --pooling mean\n"
      "  arenite convert attention.safetensors -o attention.arn --heads 12 --context 1024\n"
      "  arenite convert model.pt -o layer0.arn --module transformer.h.0.attn --heads 12 "
      "--target all\n",
      convert::decoder_types(), convert::known_modules());
}

}  // namespace

void add_convert(CLI::App& app) {
  const auto [command, arguments] = add_command(
      app, run_convert, "convert",
      "Convert a decoder, an encoder or one attention module into a model file", footer());
  add_convert_options(command, arguments);
  add_limit_options(command, arguments.limits);
  add_report_option(command, arguments.report);
}

}  // namespace arenite::tool
