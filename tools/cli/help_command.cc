// SPDX-License-Identifier: Apache-2.0
// arenite help: prints help on a command or topic; writes man pages and completions for the build.
#include "arenite/target.h"
#include "cli/arguments.h"
#include "cli/report_facts.h"
#include "convert/families/families.h"
#include "convert/families/state_dicts.h"
#include "convert/modules/attention_modules.h"
#include "convert/sound/sound_parameters.h"
#include "core/targets.h"

namespace arenite::tool {
namespace {

std::string formats() {
  return fmt::format(
      "Your own PyTorch model, exported (.pt2), says all that it computes:\n"
      "  tokens = torch.export.Dim.AUTO  # any length that your code takes\n"
      "  program = torch.export.export(\n"
      "      model.eval(), (example,), dynamic_shapes=({{1: tokens}},))\n"
      "  torch.export.save(program, 'model.pt2')\n"
      "\nDecoders: a Hugging Face folder ({}), also quantized by GPTQ, AWQ, by compressed-tensors "
      "in "
      "integers, or by bitsandbytes in int8; GGUF ({}); llama2.c .bin; and "
      "state dicts of published programs: nanoGPT, Meta's Llama, those of a book and a lecture.\n"
      "\nEncoders: a Hugging Face folder ({}; with the head of its class, too), one of "
      "sentence-transformers, and state dicts of BERT, The Annotated Transformer and "
      "torch.nn.TransformerEncoder.\n"
      "\nEncoder-decoders: a Hugging Face folder ({}).\n"
      "\nAny other model of transformers: arenite_export.py, installed in share/arenite, exports "
      "it to a folder with its tokenizer, its labels and samples that prove the conversion.\n"
      "\nTokenizers: the one in the same file or beside it, unless --tokenizer names another: "
      "tokenizer.json, tokenizer.model, vocab.json, vocab.txt, tokenizer.bin or meta.pkl.\n"
      "\nAttention modules, recognised by their parameters under any prefix:\n{}"
      "\nWhat a state dict does not say: see 'arenite help state-dicts'.\n"
      "\nExamples:\n"
      "  arenite convert model.pt2 -o model.arn\n"
      "  arenite convert all-MiniLM-L6-v2 -o sentences.arn\n"
      "  python3 arenite_export.py openai/whisper-tiny -o whisper\n"
      "  arenite convert whisper -o whisper.arn\n"
      "  arenite convert stories15M.bin -o stories.arn --tokenizer tokenizer.bin\n",
      convert::decoder_types(), convert::gguf_architectures(), convert::encoder_types(),
      convert::encoder_decoder_types(), convert::known_modules());
}

std::string state_dicts() {
  return fmt::format(
      "State dicts of these programs are known, by their tensors' names under any prefix:\n{}"
      "\nNo state dict says all that its model computes. What is missing is asked for: heads, "
      "activation and the place of norms; where there is a choice the longest sequence, the mask, "
      "pooling and the embedding scale; for a module the heads alone. What is assumed then is "
      "reported. An exported program (.pt2) needs none of this, and may be any model.\n"
      "\nA config.json beside the file may give them instead, as num_heads, activation, "
      "norm_first, causal, embedding_scale, pooling, attention_scale, layer_norm_eps and "
      "rope_theta, and so may plain values in the checkpoint (model_args, args, config); stoi "
      "or itos there is the tokenizer.\n"
      "\n--expect X.npy,Y.npy makes sure, and writes no file where outputs differ: X is [tokens], "
      "[batch, tokens] or, of features, [tokens, width] or [batch, tokens, width]; Y has a row "
      "for each token, for each sequence's last token, or for each sequence where the model "
      "pools.\n"
      "\nExamples:\n"
      "  arenite convert ckpt.pt -o nano.arn --heads 6 --activation gelu --norm-first\n"
      "  arenite convert encoder.pt -o encoder.arn --heads 4 --activation gelu \\\n"
      "    --norm-first --bidirectional --embedding-scale 1 --pooling mean\n"
      "  arenite convert model.pt -o layer0.arn --heads 12 \\\n"
      "    --module transformer.h.0.attn\n",
      convert::known_programs());
}

std::string sound() {
  return fmt::format(
      "A model of log mel energies, or of other features of sound, carries what makes them of "
      "samples where --sound says how its training did it: [NAME,]KEY=VALUE,..., or the "
      "preprocessor_config.json of a WhisperFeatureExtractor or ASTFeatureExtractor. Programs then "
      "pass samples to an arenite::SoundStream, and arenite run takes a .wav, or a .raw of 16-bit "
      "samples.\n"
      "\n{}"
      "\n'window' samples are weighted by 'shape', every 'hop' samples, and 'fft' points are "
      "transformed, by default as many; 'frames' says which of both are cut out of the sound, and "
      "'pad' what comes before and after it, half a frame each. Energies of 'mels' bands from "
      "'low' to 'high' hertz, by default half the rate, are at least 'floor', or 'add' more. Then "
      "come the logarithm, 'range' below the loudest band or 'peak', (x - mean) / deviation, and "
      "the cosine transform to 'mfcc' numbers. The loudest band of a whole sound is not known "
      "before it ends: without 'peak', a model with 'range' takes no stream. Each sound is padded "
      "or cut to 'length' samples, with silence or, with 'padding=frames', with frames of zeros: "
      "the model is then of that length, unless the export is of one itself. Of an exported "
      "program that takes samples itself, rate=N is all that is left to say.\n"
      "\nExamples:\n"
      "  arenite convert words.pt2 -o words.arn \\\n"
      "    --sound rate=16000,window=400,hop=160,fft=512,mels=40,add=1e-6\n"
      "  arenite convert whisper.pt2 -o whisper.arn --sound whisper\n"
      "  arenite run words.arn --input x.wav --output y.npy\n",
      convert::sound_grammar());
}

std::string weights() {
  return "Weights are stored as f32; w8 (int8, for small files); q8 (int8, activations too: "
         "speed); q4 (int4 in blocks of 32, activations int8: memory, and the speed of decoding); "
         "or auto: those that --max-bytes or --max-perplexity-increase allow, where they help "
         "most. They are rounded for a text, and the conversion says what that cost.\n"
         "\nExamples:\n"
         "  arenite convert model -o model.arn --weights q8 --calibrate text.txt\n"
         "  arenite convert model -o model.arn --weights q4 --keep down=q8,output=f32\n"
         "  arenite convert model -o model.arn --weights auto --max-bytes 2000000\n";
}

std::string limits() {
  return "A conversion that does not keep a limit says by how much and because of what, and "
         "writes no file.\n"
         "\nExample:\n"
         "  arenite convert model -o model.arn --weights q4 --max-perplexity-increase 5\n";
}

std::string targets() {
  TextTable table({"target", "kernels", "serves"});
  for (uint32_t i = 0; i < kTargets; ++i) {
    const Target target = static_cast<Target>(i);
    table.add_row({name(target), packed_for(target), cpus_of(target)});
  }
  return "A model file holds its weights packed for one target or several, and the runtime takes "
         "the best that the CPU has. For a microcontroller (Cortex-M, RISC-V) it is 'portable'; "
         "'cortex-m-dsp' and 'cortex-m-mve' multiply q8 and q4 several times as fast, on a "
         "Cortex-M that has the DSP extension, or MVE. Vectors of RISC-V must be as long as those "
         "of the target. "
         "With --target, 'native' is the best of this machine and 'all' is every one; names have "
         "commas between.\n\n" +
         table.text() +
         "\nArenite repack packs a model file for other targets, without its checkpoint.\n"
         "\nExamples:\n"
         "  arenite convert models/vibration -o vibration.arn --target portable\n"
         "  arenite repack intent.arn -o intent-pi.arn --target arm64,arm64-dot\n";
}

std::string json() {
  return fmt::format(
      "With --json a command prints one JSON object on the standard output; what goes wrong still "
      "is a message on the standard error, and an exit code. Keys are added, and never renamed. "
      "'arenite help json COMMAND' prints the JSON Schema (draft 2020-12) of one of\n  {}\n"
      "\nThe schemas are installed in share/arenite/schemas, too.\n"
      "\nExamples:\n"
      "  arenite help json inspect\n"
      "  arenite inspect model.arn --json | jq '.targets[].arena.total_bytes'\n",
      names_of_schemas());
}

}  // namespace

std::span<const HelpTopic> help_topics() {
  static constexpr HelpTopic kTopics[] = {
      {"formats", "What can be converted, and how models are recognised", formats, ""},
      {"state-dicts", "What a state dict does not say, and how to say it", state_dicts,
       kStateDictGroup},
      {"sound", "How features are computed from sound", sound, ""},
      {"weights", "Quantized weights, and what they are calibrated with", weights, kWeightGroup},
      {"limits", "Limits that a conversion must meet", limits, kLimitGroup},
      {"targets", "The CPUs that weights are packed for, microcontrollers among them", targets, ""},
      {"json", "What --json prints", json, ""},
  };
  return kTopics;
}

namespace {

struct HelpArguments {
  const CLI::App* program = nullptr;
  std::vector<std::string> words;
  bool man = false;
  std::string schema;
  std::string completion;
  bool complete = false;         // print the completions of the words
  std::filesystem::path folder;  // where all files are written; empty: write none
};

const CLI::App* command_named(const CLI::App& program, const std::string& name) {
  for (const CLI::App* command : commands_of(program)) {
    if (command->get_name() == name) return command;
  }
  return nullptr;
}

[[noreturn]] void refuse(const HelpArguments& arguments, const std::string& word) {
  std::vector<std::string> known;
  for (const HelpTopic& topic : help_topics()) known.push_back(topic.name);
  for (const CLI::App* command : commands_of(*arguments.program)) {
    known.push_back(command->get_name());
  }
  throw CLI::ValidationError("help",
                             fmt::format("there is neither a command nor a topic {}: there are {}",
                                         convert::quote(word), fmt::join(known, ", ")));
}

const Schema& schema_named(const std::string& name) {
  const Schema* const schema = find_schema(name);
  if (schema != nullptr) return *schema;
  throw CLI::ValidationError("help", fmt::format("{} has no --json: there are {}",
                                                 convert::quote(name), names_of_schemas()));
}

std::string text_of(const HelpTopic& topic, const HelpArguments& arguments) {
  const size_t columns = terminal_columns();
  const HelpFormatter formatter(columns);
  std::string text = std::string(topic.what) + "\n\n" + topic.text();
  if (!std::string_view(topic.group).empty()) {
    text += "\nOptions of arenite convert:\n" +
            formatter.group(*command_named(*arguments.program, "convert"), topic.group);
  }
  return in_columns(text, columns);
}

std::string help_of(const HelpArguments& arguments) {
  if (arguments.words.empty()) {
    if (arguments.man) return man_page(*arguments.program);
    // The program's own help() would show the help of the current subcommand.
    return arguments.program->get_formatter()->make_help(arguments.program, "",
                                                         CLI::AppFormatMode::Normal);
  }
  const std::string& word = arguments.words[0];
  if (arguments.words.size() > 1 && word != "json") refuse(arguments, arguments.words[1]);
  if (const CLI::App* command = command_named(*arguments.program, word)) {
    return arguments.man ? man_page(*command) : command->help();
  }
  for (const HelpTopic& topic : help_topics()) {
    if (topic.name != word) continue;
    if (arguments.words.size() > 1) {
      return text_of(schema_named(arguments.words[1]));
    }
    return arguments.man ? man_page(topic, *command_named(*arguments.program, "convert"))
                         : text_of(topic, arguments);
  }
  refuse(arguments, word);
}

void write(const std::filesystem::path& file, std::string_view text) {
  convert::make_folders(file.parent_path());
  convert::AtomicFile output(file);
  output.write(std::as_bytes(std::span(text)));
  output.commit();
}

// Writes all files in the layout of an installation's folder `share`.
void write_files(const CLI::App& program, const std::filesystem::path& share) {
  const std::filesystem::path man = share / "man";
  write(man / "man1" / "arenite.1", man_page(program));
  for (const CLI::App* command : commands_of(program)) {
    write(man / "man1" / fmt::format("arenite-{}.1", command->get_name()), man_page(*command));
  }
  for (const HelpTopic& topic : help_topics()) {
    write(man / "man7" / fmt::format("arenite-{}.7", topic.name),
          man_page(topic, *command_named(program, "convert")));
  }
  write(share / "bash-completion" / "completions" / "arenite", completion_script("bash"));
  write(share / "zsh" / "site-functions" / "_arenite", completion_script("zsh"));
  write(share / "fish" / "vendor_completions.d" / "arenite.fish", completion_script("fish"));
  for (const Schema& schema : schemas()) {
    write(share / "arenite" / "schemas" / fmt::format("{}.schema.json", schema.name),
          text_of(schema));
  }
}

std::string topic_names() {
  std::string names;
  for (const HelpTopic& topic : help_topics()) {
    if (!names.empty()) names += ", ";
    names += topic.name;
  }
  return names;
}

void run_help(const HelpArguments& arguments) {
  const convert::OutputGuard guard({});
  if (!arguments.folder.empty()) return write_files(*arguments.program, arguments.folder);
  if (!arguments.schema.empty()) {
    fmt::print("{}", text_of(schema_named(arguments.schema)));
  } else if (!arguments.completion.empty()) {
    fmt::print("{}", completion_script(arguments.completion));
  } else if (arguments.complete) {
    fmt::print("{}", completions(*arguments.program, arguments.words));
  } else {
    fmt::print("{}", arguments.man ? help_of(arguments) : for_terminal(help_of(arguments)));
  }
}

}  // namespace

void add_help(CLI::App& app) {
  const auto [command, arguments] =
      add_command(app, run_help, "help", "Explain a command, or formats, targets, JSON and more",
                  "\nTopics: " + topic_names() +
                      ".\n"
                      "\nExamples:\n"
                      "  arenite help convert\n"
                      "  arenite help targets\n"
                      "  arenite help json inspect\n"
                      "  arenite help --man convert | man -l -\n"
                      "  source <(arenite help --completion bash)\n");
  arguments.program = &app;
  command.add_option("topic", arguments.words, "A command or a topic; after json a command");
  command.add_flag("--man", arguments.man, "Print it as a page for man");
  command.add_option("--schema", arguments.schema, "Print the JSON Schema of what --json prints")
      ->type_name("COMMAND");
  command.add_option("--completion", arguments.completion, "Print the completions for a shell")
      ->check(CLI::IsMember({"bash", "zsh", "fish"}));
  command.add_flag("--complete", arguments.complete)->group("");  // for the scripts
  command
      .add_option(
          "--write-files", arguments.folder,
          "Write all pages, completions and schemas below this folder, as they lie in share")
      ->type_name("FOLDER");
}

}  // namespace arenite::tool
