// SPDX-License-Identifier: Apache-2.0
// arenite generate: continues a prompt and streams the text.

#include <unistd.h>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <functional>

#include "arenite/sampler.h"
#include "arenite/text_stream.h"
#include "cli/arguments.h"
#include "cli/beam_search.h"
#include "cli/generate_input.h"
#include "cli/kernel_check.h"
#include "cli/process.h"
#include "cli/profiler.h"
#include "cli/texts.h"
#include "convert/check/check_session.h"
#include "convert/files/thread_pool.h"

namespace arenite::tool {
namespace {

constexpr double kTemperatureMax = 1e6;
constexpr double kPenaltyMax = 1e6;

struct GenerateArguments {
  std::filesystem::path model;
  GenerateInputOptions input;
  std::optional<uint32_t> tokens;
  SamplerOptions sampler;
  uint32_t repeat_last = 64;
  BeamOptions beams;
  uint32_t context = 0;  // 0: the model's
  uint32_t chunk = kDefaultTokens;
  std::string kernels;
  uint32_t threads = 1;
  KvType kv_cache = KvType::kOfModel;
  bool ids = false;
  bool hide_prompt = false;
  std::vector<std::string> stops;  // texts that end the continuation
  bool skip_checksums = false;
  bool json = false;
  ProfileOptions profile;
};

// Why a continuation ended: the model ended it, the requested tokens were generated, no position
// was left, or a text of --stop occurred.
enum class StopReason : uint8_t { kEndToken, kTokens, kContextFull, kStopText };
constexpr struct {
  const char* name;   // in JSON
  const char* words;  // for people
} kStopReasons[] = {{"end_token", "the model ended the text"},
                    {"tokens", "as many tokens as asked for"},
                    {"context_full", "the context is full"},
                    {"stop_text", "a text of --stop came"}};
std::vector<std::string> stop_words() {
  std::vector<std::string> words;
  for (const auto& reason : kStopReasons) words.emplace_back(reason.name);
  return words;
}

struct Generation {
  uint32_t prompt_tokens = 0;
  uint32_t new_tokens = 0;    // shown ones, without an end token
  uint32_t decode_steps = 0;  // one-token calls
  double prompt_seconds = 0.0;
  double decode_seconds = 0.0;  // with sampling and output
  uint32_t positions = 0;       // held at the end
  StopReason stop = StopReason::kTokens;
};

// Samples tokens and remembers the recent ones for the repetition penalty.
class Chooser {
 public:
  Chooser(const ModelFile& file, std::span<const TokenId> prompt, const GenerateArguments& options)
      : file_(file), recent_(prompt.begin(), prompt.end()), repeat_last_(options.repeat_last) {
    Diagnostic why;
    const Result<Sampler> sampler = Sampler::create(options.sampler, &why);
    if (!sampler.ok()) throw_status(file.name(), sampler.status(), why);
    sampler_ = *sampler;
    scratch_.resize(sampler_.candidates_needed(Writer(file.model()).info.output_features));
  }

  TokenId choose(std::span<const float> logits) {
    const size_t count = std::min<size_t>(recent_.size(), repeat_last_);
    Diagnostic why;
    const Result<TokenId> id =
        sampler_.sample(logits, std::span(recent_).last(count), scratch_, &why);
    if (!id.ok()) throw_status(file_.name(), id.status(), why);
    recent_.push_back(*id);
    return *id;
  }

 private:
  const ModelFile& file_;
  Sampler sampler_;
  std::vector<TokenId> recent_;
  std::vector<Candidate> scratch_;
  uint32_t repeat_last_;
};

// Feeds the prompt and generates tokens. Passes each new token to `show` at once; stops with
// kStopText if it returns false. An end token, or a new beginning, also stops it and is neither
// shown nor fed. Throws InputError if logits are not finite. REQUIRES: a session with kLast rows
// and room for `fed` and `context` positions.
Generation generate(const ModelFile& file, const Writer& writer, Session& session,
                    const std::optional<Tokenizer>& tokenizer, const Fed& fed,
                    const GenerateArguments& options, uint32_t context, Profiler& profiler,
                    const std::function<bool(TokenId)>& show) {
  Chooser chooser(file, fed.inputs[writer.input].ids, options);
  Generation result;
  for (const convert::ModelInput& input : fed.inputs) result.prompt_tokens += input.tokens;
  Clock::time_point start = Clock::now();
  WriterSession writing(file, session, &profiler);
  std::vector<float> logits = writing.begin(fed.inputs, std::min(options.chunk, context));
  result.prompt_seconds = seconds_since(start);

  start = Clock::now();
  while (result.new_tokens < options.tokens.value_or(UINT32_MAX)) {
    const TokenId id = chooser.choose(logits);
    // After an encoder some models generate the token that begins a text.
    const bool begins_another = fed.inputs.size() == 1 && tokenizer && id == tokenizer->bos();
    if (begins_another || (tokenizer && tokenizer->is_end(id))) {
      result.stop = StopReason::kEndToken;
      break;
    }
    ++result.new_tokens;
    if (!show(id)) {
      result.stop = StopReason::kStopText;
      break;
    }
    if (result.new_tokens == options.tokens) break;
    if (writing.positions() == context) {
      result.stop = StopReason::kContextFull;
      break;
    }
    logits = writing.step(id);
    ++result.decode_steps;
  }
  result.decode_seconds = seconds_since(start);
  result.positions = writing.positions();
  return result;
}

// Does the same by beam search, and passes the tokens to `show` when all are known.
Generation generate_by_beams(const ModelFile& file, const Writer& writer, Session& session,
                             const std::optional<Tokenizer>& tokenizer, const Fed& fed,
                             const GenerateArguments& options, uint32_t context, Profiler& profiler,
                             const std::function<bool(TokenId)>& show) {
  Generation result;
  for (const convert::ModelInput& input : fed.inputs) result.prompt_tokens += input.tokens;
  BeamOptions beams = options.beams;
  const uint32_t room = context - fed.inputs[writer.input].tokens;
  beams.tokens_max = std::min(options.tokens.value_or(room), room);
  Clock::time_point start = Clock::now();
  WriterSession writing(file, session, &profiler);
  const std::vector<float> logits = writing.begin(fed.inputs, std::min(options.chunk, context));
  result.prompt_seconds = seconds_since(start);
  start = Clock::now();
  const BeamResult found =
      beams.tokens_max == 0 ? BeamResult{} : search_beams(writing, logits, tokenizer, beams);
  result.stop = found.has_ended                             ? StopReason::kEndToken
                : options.tokens && beams.tokens_max < room ? StopReason::kTokens
                                                            : StopReason::kContextFull;
  for (const TokenId id : found.ids) {
    ++result.new_tokens;
    if (show(id)) continue;
    result.stop = StopReason::kStopText;
    break;
  }
  result.decode_steps = found.steps;
  result.decode_seconds = seconds_since(start);
  result.positions = writing.positions();
  return result;
}

// Writes tokens to the standard output as they arrive, or keeps their text for JSON.
class TokenPrinter {
 public:
  // Prints text, or ids if requested or without a tokenizer. Text ends before a stop string.
  TokenPrinter(const std::optional<Tokenizer>& tokenizer, const GenerateArguments& arguments)
      : stops_(arguments.stops.begin(), arguments.stops.end()),
        space_(StopStrings::bytes_needed(stops_)),
        finder_(stops_, space_),
        is_kept_(arguments.json) {
    if (tokenizer && !arguments.ids) {
      stream_.emplace(*tokenizer, DecodeOptions{arguments.input.prompt.specials});
    }
  }

  // Decodes hidden tokens too, because one may hold the first bytes of a character.
  void add_prompt(TokenId id, bool shown) {
    if (!stream_) {
      if (shown) write_id(id);
      return;
    }
    const TextParts parts = stream_->next(id);
    if (shown) write(parts);
  }

  // Returns whether the text may go on.
  bool add(TokenId id) {
    if (stream_) {
      const TextParts parts = stream_->next(id);
      write_unless_stopped(parts.head);
      write_unless_stopped(parts.tail);
      bytes_ += parts.head.size() + parts.tail.size();
      bytes_after_.push_back(bytes_);
    } else {
      write_id(id);
    }
    flush_output();
    return !finder_.stopped();
  }

  void finish() {
    if (stream_) {
      write_unless_stopped(stream_->finish().head);
      if (!finder_.stopped()) write({finder_.finish(), {}});
    }
    if (is_kept_) return;
    std::fputc('\n', stdout);
    flush_output();
  }

  // Returns the text kept since the last call.
  std::string take() { return std::exchange(text_, {}); }

  // Returns how many tokens of the continuation cover its first `bytes` bytes.
  size_t tokens_of(size_t bytes) const {
    if (bytes == 0) return 0;
    const auto last = std::ranges::lower_bound(bytes_after_, bytes);
    return static_cast<size_t>(last - bytes_after_.begin()) + (last != bytes_after_.end());
  }

 private:
  void write(const TextParts& parts) {
    for (const std::string_view part : {parts.head, parts.tail}) {
      if (is_kept_) {
        text_ += part;
      } else {
        // Bytes pass unchanged, except that a terminal gets no control characters.
        if (isatty(STDOUT_FILENO) != 0) {
          write_output(part);
        } else {
          std::fwrite(part.data(), 1, part.size(), stdout);
        }
      }
    }
  }

  void write_unless_stopped(std::string_view text) { write(finder_.next(text)); }

  void write_id(TokenId id) {
    if (!is_kept_) print_output("{}{}", is_first_ ? "" : " ", id);
    is_first_ = false;
  }

  std::vector<std::string_view> stops_;
  std::vector<char> space_;
  StopStrings finder_;
  std::optional<TextStream> stream_;
  std::string text_;
  size_t bytes_ = 0;                 // of the continuation, with what a stop string cuts off
  std::vector<size_t> bytes_after_;  // after each of its tokens
  bool is_kept_;
  bool is_first_ = true;
};

uint32_t context_of(const GenerateArguments& arguments, const ModelFile& file,
                    const Writer& writer) {
  const uint32_t limit = writer.takes.positions_max;
  if (limit != 0 && arguments.context > limit) {
    throw convert::InputError("{}: --context: found {}; at most {}, the model's",
                              convert::quote(file.name()), arguments.context, limit);
  }
  if (arguments.context != 0) return arguments.context;
  return limit != 0 ? limit : kDefaultPositions;
}

// Returns options with room for `fed` and `context` generated tokens.
SessionOptions session_options(const GenerateArguments& arguments, const ModelFile& file,
                               const Writer& writer, const Fed& fed, uint32_t context) {
  const InputTokens fed_tokens = convert::joined(fed.inputs).tokens_of_inputs();
  SessionOptions options =
      convert::options_for_functions(file.model(), fed_tokens, arguments.chunk);
  const bool has_beams = arguments.beams.beams > 1;
  const InputSizes sizes = {
      context, std::max(std::min(arguments.chunk, context), has_beams ? arguments.beams.beams : 1)};
  if (has_beams) options.sequences_max = arguments.beams.beams + 1;
  if (writer.input == 0) {
    options.positions_max = sizes.positions_max;
    options.tokens_max = sizes.tokens_max;
  } else {
    options.others[writer.input - 1] = sizes;
  }
  options.kv_cache = arguments.kv_cache;
  return options;
}

std::optional<Tokenizer> tokenizer_of(const GenerateArguments& arguments, const ModelFile& file) {
  const Result<Tokenizer> tokenizer = Tokenizer::of(file.model());
  if (tokenizer.ok()) return *tokenizer;
  if (!arguments.ids) {
    throw convert::InputError(
        "{}: the file has no tokenizer: use --ids with --prompt-ids, or "
        "convert it again with its tokenizer",
        convert::quote(file.name()));
  }
  return std::nullopt;
}

// Returns tokens per second, or nullopt if the time is below the clock's resolution.
std::optional<double> rate(uint32_t tokens, double seconds) {
  return tokens == 0 || seconds <= 0.0 ? std::nullopt : std::optional(tokens / seconds);
}

std::string rate_text(uint32_t tokens, double seconds) {
  const std::optional<double> found = rate(tokens, seconds);
  return found ? fmt::format(", {:.1f} tokens/s", *found) : "";
}

void print_report(const GenerateArguments& arguments, const Generation& generation,
                  uint32_t context, const ArenaPlan& plan) {
  print_error(
      "\nprompt     {}{}\n"
      "decode     {}{}\n"
      "positions  {} of {}\n"
      "arena      {} bytes, {}\n"
      "stopped    {}\n",
      counted(generation.prompt_tokens, "token"),
      rate_text(generation.prompt_tokens, generation.prompt_seconds),
      counted(generation.new_tokens, "token"),
      rate_text(generation.decode_steps, generation.decode_seconds), grouped(generation.positions),
      grouped(context), grouped(plan.total_bytes), counted(arguments.threads, "thread"),
      kStopReasons[static_cast<size_t>(generation.stop)].words);
}

std::vector<std::string> warnings_of(const Prompt& prompt) {
  std::vector<std::string> warnings;
  if (!prompt.unknown.empty()) warnings.push_back("the prompt: " + prompt.unknown);
  if (prompt.unread_specials.empty()) return warnings;
  std::vector<std::string> names;
  for (const std::string& name : prompt.unread_specials) names.push_back(convert::quote(name));
  warnings.push_back(fmt::format(
      "the prompt contains {}, {} special token{}, and is read as plain text: pass --special to "
      "have {} read as {}",
      fmt::join(names, ", "), names.size() == 1 ? "the name of a" : "names of",
      names.size() == 1 ? "" : "s", names.size() == 1 ? "it" : "them",
      names.size() == 1 ? "that token" : "these tokens"));
  return warnings;
}

// The generated text and statistics of the session.
struct GenerateFacts {
  std::optional<std::string> prompt, text;
  const Prompt& prompt_read;
  const std::vector<TokenId>& ids;
  const Generation& generation;
  uint32_t context = 0;
  uint64_t arena_bytes = 0;
  const char* kernel_set = "";
  uint32_t threads = 1;
};

}  // namespace

template <>
constexpr auto kFacts<GenerateFacts> = std::tuple(
    Fact("prompt", "null: the file has no tokenizer", &GenerateFacts::prompt),
    Fact("text", "The continuation alone; null: the file has no tokenizer", &GenerateFacts::text),
    Fact("prompt_ids", [](const GenerateFacts& f) { return f.prompt_read.ids; }),
    Fact("ids", "Tokens of the continuation that its text covers; the last may begin a stop text",
         [](const GenerateFacts& f) { return f.ids; }),
    Fact("prompt_tokens_per_s",
         [](const GenerateFacts& f) {
           return rate(f.generation.prompt_tokens, f.generation.prompt_seconds);
         }),
    Fact("tokens_per_s",
         [](const GenerateFacts& f) {
           return rate(f.generation.decode_steps, f.generation.decode_seconds);
         }),
    Fact("positions", "Held in the end",
         [](const GenerateFacts& f) { return f.generation.positions; }),
    Fact("context", &GenerateFacts::context), Fact("arena_bytes", &GenerateFacts::arena_bytes),
    Fact("kernel_set", &GenerateFacts::kernel_set), Fact("threads", &GenerateFacts::threads),
    Fact("stop", "Why it ended",
         [](const GenerateFacts& f) {
           return OneOf<stop_words>{kStopReasons[static_cast<size_t>(f.generation.stop)].name};
         }),
    Fact("warnings", [](const GenerateFacts& f) { return warnings_of(f.prompt_read); }));

Json generate_facts() { return schema_of<GenerateFacts>(); }

namespace {

void run_generate(const GenerateArguments& arguments) {
  const convert::OutputGuard guard({{"--trace", arguments.profile.trace}});
  Progress progress("loading " + arguments.model.string());
  const ModelFile file(arguments.model, arguments.kernels,
                       arguments.skip_checksums ? Checksums::kSkip : Checksums::kVerify);
  progress.done();
  const Writer writer = writer_of(file);
  const bool has_encoder = file.model().functions() > 1;
  const uint32_t context = context_of(arguments, file, writer);
  const std::optional<Tokenizer> tokenizer = tokenizer_of(arguments, file);
  const Fed fed = read_inputs(arguments.input, file, tokenizer, writer, context);
  if (!arguments.json) {
    for (const std::string& warning : warnings_of(fed.prompt)) print_warning(warning);
  }
  require_right_kernels(file, arguments.kv_cache, arguments.threads, !arguments.skip_checksums);
  convert::ThreadPool pool(arguments.threads);
  SessionOptions options = session_options(arguments, file, writer, fed, context);
  Profiler profiler(arguments.profile, file.model());
  profiler.attach(options, pool.parallel_for());
  ModelSession session(file, options);

  TokenPrinter printer(tokenizer, arguments);
  // The text that an encoder reads is not the beginning of the generated text.
  for (const TokenId id : has_encoder ? std::vector<TokenId>() : fed.prompt.ids) {
    printer.add_prompt(id, arguments.json || !arguments.hide_prompt);
  }
  flush_output();
  std::string prompt_text = printer.take();
  if (has_encoder) prompt_text = fed.prompt.text;
  std::vector<TokenId> ids;
  const auto show = [&](TokenId id) {
    ids.push_back(id);
    return printer.add(id);
  };
  const Generation generation = (arguments.beams.beams > 1 ? generate_by_beams : generate)(
      file, writer, session.session(), tokenizer, fed, arguments, context, profiler, show);
  printer.finish();
  if (arguments.json) {
    const std::string text = printer.take();
    if (generation.stop == StopReason::kStopText) ids.resize(printer.tokens_of(text.size()));
    const bool has_text = tokenizer && !arguments.ids;
    print_json(GenerateFacts{has_text ? std::optional(prompt_text) : std::nullopt,
                             has_text ? std::optional(text) : std::nullopt, fed.prompt, ids,
                             generation, context, session.plan().total_bytes,
                             kernel_set_name(file.model().target()), arguments.threads});
  } else {
    print_report(arguments, generation, context, session.plan());
  }
  profiler.report();
}

void add_prompt_options(CLI::App& command, GenerateArguments& arguments) {
  CLI::Option* text = command.add_option("--prompt", arguments.input.prompt.text,
                                         "Text to continue, or for an encoder");
  CLI::Option* file = add_file(command, "--prompt-file", arguments.input.prompt.file,
                               "The same in a file, less its last line feed; or -");
  CLI::Option* ids = add_number(command, "--prompt-ids", arguments.input.prompt.ids,
                                "The same as ids of tokens: 1,2,3", 0);
  CLI::Option* inputs = add_input_files(command, "--input", arguments.input.inputs,
                                        "Input of the encoder, .npy: as in 'arenite run'");
  add_number(command, "--start", arguments.input.start,
             "After an encoder: ids to begin with, if not the model's", 0);
  CLI::Option* special =
      command.add_flag("--special", arguments.input.prompt.specials,
                       "Read names of special tokens as these tokens; show them");
  text->excludes(file)->excludes(ids);
  file->excludes(ids);
  special->excludes(ids);
  inputs->excludes(text)->excludes(file)->excludes(ids);
  put_in_group(command, "Prompt",
               {"--prompt", "--prompt-file", "--prompt-ids", "--input", "--start", "--special"});
}

void add_sampler_options(CLI::App& command, GenerateArguments& arguments) {
  add_number(command, "--tokens", arguments.tokens, "Most tokens to generate; as many as fit", 0);
  SamplerOptions& sampler = arguments.sampler;
  CLI::Option* temperature =
      add_real(command, "--temperature", sampler.temperature,
               "How freely; 0 takes the most probable token", 0.0, false, kTemperatureMax)
          ->capture_default_str();
  add_number(command, "--top-k", sampler.top_k, "Choose among the k most probable tokens")
      ->needs(temperature);
  add_real(command, "--top-p", sampler.top_p,
           "Choose among the most probable that make up this share", 0.0, true, 1.0)
      ->needs(temperature);
  add_real(command, "--min-p", sampler.min_p,
           "Choose among those with this share of the best one's", 0.0, false, 1.0)
      ->needs(temperature);
  add_number(command, "--seed", sampler.seed, "The same seed gives the same text", 0, UINT64_MAX)
      ->capture_default_str();
  CLI::Option* penalty =
      add_real(command, "--repeat-penalty", sampler.repetition_penalty,
               "Above 1: makes recent tokens less probable", 0.0, true, kPenaltyMax)
          ->capture_default_str();
  add_number(command, "--repeat-last", arguments.repeat_last, "How many tokens are recent")
      ->capture_default_str();
  CLI::Option* beams = add_number(command, "--beams", arguments.beams.beams,
                                  "Continuations to follow; prints the best", 1, kBeamsMax)
                           ->capture_default_str()
                           ->excludes(temperature)
                           ->excludes(penalty);
  add_real(command, "--length-penalty", arguments.beams.length_penalty,
           "Above 1: longer texts are better; below: shorter ones", -kPenaltyMax, false,
           kPenaltyMax)
      ->needs(beams);
  put_in_group(command, "Sampling",
               {"--temperature", "--top-k", "--top-p", "--min-p", "--seed", "--repeat-penalty",
                "--repeat-last", "--beams", "--length-penalty"});
}

}  // namespace

void add_generate(CLI::App& app) {
  const auto [command, arguments] = add_command(
      app, run_generate, "generate", "Continue a text with a decoder, or rewrite one",
      "\nPrints the prompt and its continuation as it grows, then rates and memory on the standard "
      "error. Ends at a token that ends a text, at --tokens, or where the context is full. The "
      "text "
      "depends on the model, the prompt, the sampling options and the kernel set, not on --threads "
      "or --chunk.\n"
      "\nExample:\n"
      "  arenite generate model.arn --prompt 'Once upon a time' --temperature 0.8\n");
  add_model(command, arguments.model);
  add_prompt_options(command, arguments);
  add_sampler_options(command, arguments);
  add_number(command, "--context", arguments.context, "Most positions; the model's by default");
  add_number(command, "--chunk", arguments.chunk, "Most tokens of the prompt in one call")
      ->capture_default_str();
  CLI::Option* stop = command
                          .add_option("--stop", arguments.stops,
                                      "End before this text; may be given more than once")
                          ->allow_extra_args(false);
  command.add_flag("--ids", arguments.ids, "Print ids of tokens instead of text")->excludes(stop);
  command.add_flag("--no-prompt", arguments.hide_prompt, "Print the continuation alone");
  add_machine_options(command, arguments.kernels, arguments.threads);
  add_kv_option(command, arguments.kv_cache);
  add_profile_options(command, arguments.profile);
  command.add_flag("--skip-checksums", arguments.skip_checksums,
                   "Start at once: leave damaged weights unnoticed");
  add_json_option(command, arguments.json);
}

}  // namespace arenite::tool
