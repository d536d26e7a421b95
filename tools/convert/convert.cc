// SPDX-License-Identifier: Apache-2.0
#include "convert/convert.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <string_view>
#include <utility>

#include "convert/check/check_session.h"
#include "convert/check/pack_model.h"
#include "convert/families/hf_models.h"
#include "convert/files/error.h"
#include "convert/files/input_limits.h"
#include "convert/files/json_file.h"
#include "convert/files/memory.h"
#include "convert/files/npy.h"
#include "convert/files/progress.h"
#include "convert/open/exported_folder.h"
#include "convert/passes/passes.h"
#include "convert/program/program.h"
#include "convert/quantize/matrix_product.h"
#include "convert/tokenizers/tokenizer_source.h"

namespace arenite::convert {
namespace {

// A larger share of the largest output means that the conversion itself is wrong.
constexpr double kModelErrorMax = 1e-3;
constexpr double kModuleErrorMax = 1e-4;

// Tolerated difference from outputs that the author computed in float16 or bfloat16, in rounding
// steps of that type.
constexpr double kDigitsOfAuthor = 8.0;

// Counts the elements of the large matrices, which make up nearly all of a model.
uint64_t weights_of(const TransformerSpec& spec) {
  const uint64_t width = spec.model_dim;
  return width * spec.vocab_size + spec.layers.size() * width * (2 * width + 2 * spec.ffn_dim);
}

bool has_quantization(const Graph& graph) {
  return graph.kv_cache != TensorType::kF32 ||
         std::ranges::any_of(graph.order(), [&](ValueId value) {
           const auto* linear = graph.weights_at(value);
           const auto* embedding = graph.as<EmbeddingNode>(value);
           return (linear != nullptr && linear->parts[0].storage.type != TensorType::kF32) ||
                  (embedding != nullptr && embedding->storage.type != TensorType::kF32);
         });
}

// Returns the requested tokenizer, else the one next to the model.
std::optional<TokenizerSpec> tokenizer_of(const Conversion& conversion,
                                          const ConvertOptions& options,
                                          const std::string& quoted) {
  if (conversion.module() != nullptr) return std::nullopt;
  const bool reads_tokens = std::ranges::any_of(
      conversion.graph.inputs, [](const GraphInput& input) { return input.vocab_size != 0; });
  TokenizerPlace place = conversion.model.tokenizer;
  if (reads_tokens) return tokenizer_for(place, options.tokenizer);
  if (options.tokenizer.empty() && !place.is_of_outputs) return std::nullopt;
  place.vocab_size = UINT32_MAX;
  std::optional<TokenizerSpec> tokenizer = tokenizer_for(place, options.tokenizer);
  if (!tokenizer) return tokenizer;
  if ((tokenizer->flags & format::kDropRepeats) == 0) {
    throw InputError(
        "{}: --tokenizer: the model reads features, not text, and {} has no decoder of type CTC, "
        "which its outputs would need: drop the option",
        quoted, quote(tokenizer->origin));
  }
  check_vocabulary(*tokenizer, conversion.graph.width(conversion.graph.output));
  return tokenizer;
}

// Fixes the length of input 0's sequences to the length that sounds are padded to, since the
// feature extractor used in training produces no other length. A program with a fixed length takes
// precedence.
void fix_length(GraphInput& input, const SoundNumbers& numbers, uint64_t samples, uint32_t frames,
                const std::string& quoted) {
  if (samples == 0 || (input.tokens_min > 1 && input.tokens_min == input.positions_max)) return;
  const uint64_t tokens = numbers.frames(samples) / frames;
  const uint64_t most = input.positions_max != 0 ? input.positions_max : 1u << 24;
  refuse_if(
      tokens > most || tokens != format::allowed_length(input, static_cast<uint32_t>(tokens)),
      "{}: --sound: each sound is padded to {} samples, {} tokens, but the model takes {} to {}: "
      "pass length=N, the samples that training padded sounds to, or length=0 if it did not",
      quoted, samples, tokens, std::max(1u, input.tokens_min), most);
  input.tokens_min = input.positions_max = static_cast<uint32_t>(tokens);
  input.tokens_step = 0;
}

// Describes how a sound becomes the model's first input.
struct SoundInput {
  std::optional<SoundTable> bands;
  SampleInput samples;
};

// Returns the sound front end of the model's first input, if an option or the program defines one.
SoundInput sound_of(Graph& graph, const std::string& words, ExportedModel* exported,
                    const std::string& quoted) {
  if (exported != nullptr && exported->sound) return {exported->sound, {}};
  if (words.empty()) return {};
  const SoundParameters parameters = parse_sound(words);
  const bool is_image = graph.axes[0].is_image();
  refuse_if(graph.inputs[0].vocab_size != 0 || is_image,
            "{}: --sound: the model reads {}: drop the option", quoted,
            is_image ? "images" : "tokens, not features");
  const auto is_input = [&](ValueId value) {
    return graph.as<FeaturesNode>(value) != nullptr && graph.axis(value) == 0;
  };
  const uint32_t width = graph.width(*std::ranges::find_if(graph.order(), is_input));
  if (parameters.form == SoundForm::kSamples) {
    refuse_if(width != 1,
              "{}: --sound: the model reads {} features a token, not samples: pass how "
              "they are computed",
              quoted, width);
    return {{}, {parameters.rate, parameters.normalizes}};
  }
  SoundTable sound = make_sound_table(parameters);
  const uint32_t features = sound.numbers.features();
  refuse_if(width % features != 0 || width / features > kFramesPerTokenMax,
            "{}: --sound: a frame has {} features, but the model reads {}: expected the same "
            "number, or a multiple of a frame's",
            quoted, features, width);
  GraphInput& input = graph.inputs[0];
  const GraphInput before = input;
  fix_length(input, sound.numbers, parameters.length, width / features, quoted);
  if (exported != nullptr && !(input == before)) {
    exported->length +=
        fmt::format("\n{} is then exactly {} tokens: --sound makes each sound {} samples long",
                    input.name, input.positions_max, parameters.length);
  }
  return {std::move(sound), {}};
}

// Limits the longest sequence to `context` positions; 0 keeps the model's limit. Throws InputError,
// which begins with `path`, if the model has fewer; `positions_max` 0 means no limit.
void limit_context(uint32_t& positions_max, uint32_t context, const std::string& path) {
  if (context == 0) return;
  refuse_if(positions_max != 0 && context > positions_max,
            "{}: --context: found {}, expected at most {}, which the model was trained for", path,
            context, positions_max);
  positions_max = context;
}

void refuse_context_of_images(const Graph& graph, const std::string& path) {
  refuse_if(graph.axes[0].is_image(),
            "{}: --context: the model reads images, which have {} pixels each: drop the option",
            path, graph.axes[0].rows);
}

// Returns the tolerated difference from a program that computes with less precision than float32: a
// few units in the last place, accumulated over its layers.
double author_difference_max(const ExportedProgram& program) {
  double largest = kAuthorDifferenceMax;
  for (const Call& node : program.nodes) {
    for (const uint32_t value : node.outputs) {
      const ElementType type = program.values[value].type;
      if (type == ElementType::kF16) largest = std::max(largest, kDigitsOfAuthor * 0x1p-11);
      if (type == ElementType::kBF16) largest = std::max(largest, kDigitsOfAuthor * 0x1p-8);
    }
  }
  return largest;
}

// Whether the program dequantizes integer weights, as after quantization-aware training.
bool has_integer_weights(const ExportedProgram& program) {
  return std::ranges::any_of(
             program.nodes,
             [&](const Call& node) { return node.op.find("quantize") != std::string::npos; }) ||
         std::ranges::any_of(program.inputs, [&](const ExportedInput& input) {
           const ExportedValue& value = program.values[input.value];
           return input.kind != InputKind::kUser && value.sizes.size() > 1 &&
                  (value.type == ElementType::kI8 || value.type == ElementType::kU8);
         });
}

// Reads the names of the output columns, from lines or from JSON with an id2label.
std::vector<std::string> read_label_file(const std::filesystem::path& file, uint32_t columns) {
  const FileMap map(file);
  std::string_view text = map.text();
  std::vector<std::string> labels;
  const size_t begin = text.find_first_not_of(" \t\r\n");
  if (begin != std::string_view::npos && text[begin] == '{') {
    nlohmann::json object = read_json_object(file);
    if (!object.contains("id2label")) object = {{"id2label", object}};
    ConfigFields fields(object, quote(file.string()));
    return read_labels(fields, columns);
  }
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (!line.empty()) labels.emplace_back(line);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  refuse_if(labels.size() != columns,
            "{}: it has {} labels, one per line, but the model outputs {} values: expected a label "
            "for each",
            quote(file.string()), labels.size(), columns);
  return labels;
}

// Sets the labels of the output columns from `options` or, for an exported program, from a
// config.json next to it.
void name_columns(Recognised& model, const std::filesystem::path& path,
                  const ConvertOptions& options) {
  const uint32_t columns = model.graph.width(model.graph.output);
  if (!options.labels.empty()) {
    model.graph.labels = read_label_file(options.labels, columns);
    model.account.given.push_back(fmt::format("--labels {}", options.labels.string()));
    return;
  }
  const std::filesystem::path config = path.parent_path() / "config.json";
  if (!std::holds_alternative<ExportedModel>(model.facts) || !is_there(config)) return;
  const nlohmann::json object = read_json_object(config);
  const auto labels = object.find("id2label");
  if (labels == object.end() || !labels->is_object()) return;
  if (labels->size() != columns) {
    model.account.assumed.push_back(
        fmt::format("no class names: {} has {}, and the program outputs {} values",
                    quote(config.string()), labels->size(), columns));
    return;
  }
  model.graph.labels = read_label_file(config, columns);
  model.account.given.push_back(fmt::format("class names from {}", quote(config.string())));
}

// Encodes Model.suppressed; empty where no token is.
std::vector<uint32_t> suppressed_tokens(const TokenizerSpec& tokenizer) {
  std::vector<uint32_t> list;
  if (tokenizer.suppressed.empty() && tokenizer.suppressed_first.empty()) return list;
  list.push_back(static_cast<uint32_t>(tokenizer.suppressed.size()));
  list.insert(list.end(), tokenizer.suppressed.begin(), tokenizer.suppressed.end());
  list.insert(list.end(), tokenizer.suppressed_first.begin(), tokenizer.suppressed_first.end());
  return list;
}

// Recognises the model at `path`, with the outputs that `options` select.
Recognised recognise_at(const std::filesystem::path& path, const ConvertOptions& options) {
  ModelOptions source = options.source;
  source.sound_rate = rate_alone(options.sound);
  Opened opened = open_model(path, source.state_dict);
  report_progress("recognising");
  for (const AuthorFiles& files : options.expect) {
    if (!files.more_inputs.empty()) continue;  // their lengths prove nothing of each other's
    opened.expected_inputs.push_back(NpyArray::read(files.input).shape());
  }
  Recognised read = recognise(opened, source);
  refuse_if(options.decoder.empty() && !options.source.encoded.empty(),
            "{}: --encoded names an input of a second program: pass that program, too",
            quote(path.string()));
  if (!source.state_dict.empty()) {
    read.account.given.push_back(fmt::format("--state-dict {}", source.state_dict));
  }
  if (auto* const exported = std::get_if<ExportedModel>(&read.facts)) {
    if (!options.decoder.empty()) {
      Recognised second = recognise(open_model(options.decoder), options.source);
      const auto* const decoder = std::get_if<ExportedModel>(&second.facts);
      refuse_if(decoder == nullptr, "{}: expected a second exported program",
                quote(options.decoder.string()));
      ExportedModel one = *decoder;
      one.account = second.account;
      exported->account = read.account;
      *exported = joined_programs(std::move(*exported), one, options.source.encoded);
      read.graph = exported->graph;
      read.account = exported->account;
    }
    read.graph.function_names = options.source.functions;
    functions_of(read.graph);  // refuses names that do not fit
  } else {
    refuse_if(!options.decoder.empty() || !options.source.functions.empty(),
              "{}: --functions, and a second file, are for exported programs: drop them",
              quote(path.string()));
  }
  return read;
}

// Adds what facts.json says to the options, which come first.
ConvertOptions completed(ConvertOptions options, const ExportedFolder& folder) {
  refuse_if(!options.decoder.empty(),
            "{}: a second program was given: {} names all programs of the folder: drop it",
            quote(options.decoder.string()), quote(folder.facts.string()));
  options.decoder = folder.decoder;
  if (options.sound.empty()) options.sound = folder.sound;
  if (options.source.output_indices.empty()) options.source.output_indices = folder.output_indices;
  if (options.source.functions.empty()) options.source.functions = folder.functions;
  if (options.source.encoded.empty()) options.source.encoded = folder.encoded;
  options.expect.insert(options.expect.end(), folder.samples.begin(), folder.samples.end());
  return options;
}

// Drops a folder's samples with more tokens than the model takes, as with --context. At least one
// must remain.
void drop_long_samples(std::vector<AuthorFiles>& samples, const Graph& graph,
                       const ExportedFolder& folder) {
  const auto is_too_long = [&](const AuthorFiles& sample) {
    std::vector<std::string> files = sample.more_inputs;
    files.insert(files.begin(), sample.input.string());
    return std::ranges::any_of(graph.inputs, [&](const GraphInput& input) {
      const std::string own = files.size() == 1 ? "" : input.name + "=";
      const auto file = std::ranges::find_if(
          files, [&](const std::string& text) { return text.starts_with(own); });
      if (file == files.end() || input.vocab_size == 0 || input.positions_max == 0) return false;
      const std::vector<uint64_t> shape = NpyArray::read(file->substr(own.size())).shape();
      return shape.size() == 2 && shape[1] > input.positions_max;
    });
  };
  std::erase_if(samples, [&](const AuthorFiles& sample) {
    return !sample.listed_in.empty() && is_too_long(sample);
  });
  refuse_if(samples.empty(),
            "{}: all samples have more than {} tokens, the model's longest sequence: export it "
            "with --context {}",
            quote(folder.facts.string()), graph.inputs[0].positions_max,
            graph.inputs[0].positions_max);
}

// Checks that the program reads the ids that facts.json says, and takes over its other facts.
void apply_facts(const ExportedFolder& folder, Recognised& model) {
  const uint32_t vocab_size = model.graph.inputs[0].vocab_size;
  refuse_if(folder.vocab_size != 0 && vocab_size != 0 && vocab_size != folder.vocab_size,
            "{}: field 'vocab_size' is {}, but {} reads ids below {}: the files are of two "
            "exports: run arenite_export.py again",
            quote(folder.facts.string()), folder.vocab_size, quote(folder.program.string()),
            vocab_size);
  if (folder.has_tokenizer) model.tokenizer.files = kEncoderTokenizers;
  model.tokenizer.is_of_outputs = folder.has_tokenizer;
  model.tokenizer.lowers_case = folder.lowers_case;
  model.account.given.push_back(
      fmt::format("{}: {}", folder.facts.filename().string(), folder.origin));
  for (const std::string& note : folder.notes) model.account.assumed.push_back(printable(note));
}

// CPU names used by compilers, boards and users, in lower-case letters and digits only, with their
// targets. The first match counts.
constexpr std::pair<std::string_view, const char*> kCpuNames[] = {
    {"cortexm52", "cortex-m-mve"},
    {"cortexm55", "cortex-m-mve"},
    {"cortexm85", "cortex-m-mve"},
    {"armv81m", "cortex-m-mve"},
    {"helium", "cortex-m-mve"},
    {"cortexm4", "cortex-m-dsp"},
    {"cortexm7", "cortex-m-dsp"},
    {"cortexm33", "cortex-m-dsp"},
    {"cortexm35", "cortex-m-dsp"},
    {"armv7em", "cortex-m-dsp"},
    {"stm32f4", "cortex-m-dsp"},
    {"stm32f7", "cortex-m-dsp"},
    {"stm32h7", "cortex-m-dsp"},
    {"stm32l4", "cortex-m-dsp"},
    {"nrf52", "cortex-m-dsp"},
    {"nrf53", "cortex-m-dsp"},
    {"rp2350", "cortex-m-dsp"},
    {"pico2", "cortex-m-dsp"},
    {"teensy4", "cortex-m-dsp"},
    {"cortexm", "portable"},
    {"armv6m", "portable"},
    {"armv7m", "portable"},
    {"armv8m", "portable"},
    {"stm32", "portable"},
    {"rp2040", "portable"},
    {"pico", "portable"},
    {"esp32", "portable"},
    {"xtensa", "portable"},
    {"riscv32", "portable"},
    {"rv32", "portable"},
    {"riscv", "rv64-v128 or rv64-v256, where it has vectors"},
    {"rv64", "rv64-v128 or rv64-v256, where it has vectors"},
    {"armv7", "arm32"},
    {"armhf", "arm32"},
    {"cortexa5", "arm64, or arm64-dot and arm64-i8mm for later ones"},
    {"cortexa7", "arm64 or arm64-dot; of the Cortex-A7 itself, arm32"},
    {"cortexa8", "arm32"},
    {"cortexa9", "arm32"},
    {"cortexa1", "arm32"},
    {"cortexa", "arm64, or arm64-dot and arm64-i8mm for later ones"},
    {"neoverse", "arm64-i8mm, or arm64-dot for the first ones"},
    {"graviton", "arm64-i8mm, or arm64-dot for the first ones"},
    {"apple", "arm64-i8mm, or arm64-dot for an M1"},
    {"aarch64", "arm64, or arm64-dot and arm64-i8mm for later ones"},
    {"armv8", "arm64, or arm64-dot and arm64-i8mm for later ones"},
    {"armv9", "arm64-i8mm"},
    {"raspberry", "arm64, or arm64-dot from the fifth on"},
    {"arm", "arm64, arm32, or portable for a Cortex-M"},
    {"avx512", "x86-64-v4 or x86-64-v4-vnni"},
    {"avx2", "x86-64-v3"},
    {"haswell", "x86-64-v3"},
    {"sse", "x86-64-v2"},
    {"x86", "x86-64-v2, or x86-64-v3 with AVX2"},
    {"x64", "x86-64-v2, or x86-64-v3 with AVX2"},
    {"amd64", "x86-64-v2, or x86-64-v3 with AVX2"}};

// Returns "for that CPU take ..., or portable, which every CPU runs; ".
std::string hint_of_cpu(const std::string& part) {
  std::string letters;
  for (const char c : part) {
    const auto byte = static_cast<unsigned char>(c);
    if (std::isalnum(byte) != 0) letters += static_cast<char>(std::tolower(byte));
  }
  for (const auto& [name, targets] : kCpuNames) {
    if (letters.find(name) == letters.npos) continue;
    return std::string_view(targets) == "portable"
               ? "for that CPU take portable; "
               : fmt::format("for that CPU take {}; every CPU runs portable; ", targets);
  }
  return "";
}

// Parses one name, or "native".
Target parse_target(const std::string& part) {
  if (part == "native") return best_kernels().target;
  std::vector<std::string> known;
  for (uint32_t i = 0; i < kTargets; ++i) {
    const Target target = static_cast<Target>(i);
    if (part == name(target)) return target;
    known.emplace_back(name(target));
  }
  throw InputError("unknown target {}: {}expected all, or some of native, {}", quote(part),
                   hint_of_cpu(part), fmt::join(known, ", "));
}

}  // namespace

std::vector<Target> parse_targets(const std::string& text) {
  std::vector<Target> targets;
  if (text == "all") {
    for (uint32_t i = 0; i < kTargets; ++i) targets.push_back(static_cast<Target>(i));
    return targets;
  }
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    const Target target = parse_target(text.substr(begin, end - begin));
    if (std::ranges::find(targets, target) == targets.end()) targets.push_back(target);
    begin = end + 1;
  }
  return targets;
}

void check_angles(const TransformerSpec& spec, const std::string& path) {
  uint64_t angles = 0;
  for (const std::optional<RopeSpec>& rope : {spec.rope, spec.local_rope}) {
    if (rope) angles += uint64_t{spec.positions_max} * rope->rotary_dim;
  }
  const uint64_t angles_max = kAnglesBase + kAnglesPerWeight * weights_of(spec);
  if (angles <= angles_max) return;
  throw InputError(
      "{}: a context of {} positions takes a table of {} angles: at most {} are accepted for a "
      "model of this size; pass --context N with fewer positions",
      path, spec.positions_max, angles, angles_max);
}

// Limits the sequences of a recognised model to `context` positions, those of an encoder-decoder in
// each input of tokens.
static void limit_contexts(Recognised& model, uint32_t context, const std::string& path) {
  if (auto* spec = std::get_if<TransformerSpec>(&model.facts)) {
    limit_context(spec->positions_max, context, path);
    check_angles(*spec, path);
    model.graph.inputs[0].positions_max = spec->positions_max;
  } else if (std::holds_alternative<EncoderDecoderSpec>(model.facts)) {
    for (GraphInput& input : model.graph.inputs) {
      if (input.vocab_size != 0) limit_context(input.positions_max, context, path);
    }
  }
}

Conversion convert_model(const std::filesystem::path& given_path, const std::string& name,
                         const ConvertOptions& given, const std::vector<Target>& targets) {
  Conversion conversion;
  report_progress("reading");
  const std::optional<ExportedFolder> folder = read_exported_folder(given_path);
  const ConvertOptions options = folder ? completed(given, *folder) : given;
  const std::filesystem::path& path = folder ? folder->program : given_path;
  conversion.expect = options.expect;
  conversion.model = recognise_at(path, options);
  if (folder) {
    apply_facts(*folder, conversion.model);
    drop_long_samples(conversion.expect, conversion.model.graph, *folder);
  }
  name_columns(conversion.model, path, options);
  conversion.account = conversion.model.account;
  const std::string quoted = quote(path.string());
  limit_contexts(conversion.model, options.source.context, quoted);
  conversion.graph = std::move(conversion.model.graph);
  if (options.source.context != 0) refuse_context_of_images(conversion.graph, quoted);
  if (const ExportedModel* exported = conversion.exported()) {
    conversion.evaluated = exported->evaluated;
    conversion.author_difference_max = author_difference_max(*exported->program);
    if (has_integer_weights(*exported->program)) find_integers(conversion.graph);
  }
  const std::optional<TokenizerSpec> tokenizer = tokenizer_of(conversion, options, quoted);
  const std::string& sound_words = options.sound.empty() ? conversion.model.sound : options.sound;
  const SoundInput sound = sound_of(conversion.graph, sound_words,
                                    std::get_if<ExportedModel>(&conversion.model.facts), quoted);
  WeightRules rules = options.weights;
  RoundingCache before;
  before.model = quoted;
  if (options.budget) {
    before.tries_types = true;
    report_progress("choosing types of weights");
    ChosenWeights chosen = choose_by_loss({conversion.graph, name, tokenizer, options.calibration,
                                           options.without_passes, targets, quoted},
                                          rules.keep, *options.budget, before);
    rules = std::move(chosen.rules);
    conversion.choices = std::move(chosen.choices);
    before.notes.insert(before.notes.end(), chosen.notes.begin(), chosen.notes.end());
  }
  conversion.rewritten = conversion.graph;
  conversion.fallbacks = choose_types(conversion.rewritten, rules);
  conversion.rewritten = rewrite(std::move(conversion.rewritten), options.without_passes);
  conversion.rewritten.kv_cache = options.kv_cache;
  if (has_quantization(conversion.rewritten)) {
    conversion.quantization =
        quantize_weights(conversion.rewritten, name, tokenizer, options.calibration, before);
  } else if (!options.calibration.files.empty() && !options.budget) {
    throw InputError(
        "{}: --calibrate: all weights are float32, so nothing is quantized: pass --weights or --kv "
        "int8, too, or drop the option",
        quoted);
  }
  conversion.program = lower(conversion.rewritten, name);
  conversion.program.tokenizer = tokenizer;
  conversion.program.sound = sound.bands;
  conversion.program.samples = encoded(sound.samples);
  if (tokenizer) conversion.program.suppressed = suppressed_tokens(*tokenizer);
  if (const auto* exported = conversion.exported()) {
    conversion.program.array_flags |= exported->unread_inputs << kUnreadInputShift;
  }
  if (tokenizer && conversion.program.functions.size() > 1) {
    const uint32_t start = tokenizer->start + 1;
    refuse_if(start >> (kUnreadInputShift - kStartTokenShift) != 0,
              "{}: its decoder begins with token {}, an id too large for a model file to store",
              quoted, start - 1);
    conversion.program.array_flags |= start << kStartTokenShift;
  }
  conversion.file = pack_model(conversion.program, targets, quoted);
  check_conversion(conversion, path.string(), targets,
                   conversion.module() != nullptr ? kModuleErrorMax : kModelErrorMax);
  if (conversion.quantization) {
    evaluate_quantization(*conversion.quantization, conversion.program, conversion.file);
  }
  return conversion;
}

}  // namespace arenite::convert
