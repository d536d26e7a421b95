// SPDX-License-Identifier: Apache-2.0
// arenite transcribe: writes down what is said in a sound file.
//
// An encoder-decoder such as Whisper hears a window of sound at a time and writes tokens:
//   <|startoftranscript|> <|en|> <|transcribe|> <|0.00|> Hello.<|1.20|> <|endoftext|>
// An encoder with a head of CTC such as wav2vec2's gives the logits of a token every 20 ms:
//   _ H H _ E L L _ L O O | | _  ->  HELLO

#include <cmath>
#include <limits>
#include <optional>

#include "cli/arguments.h"
#include "cli/generate_input.h"
#include "cli/kernel_check.h"
#include "cli/process.h"
#include "cli/sound_file.h"
#include "cli/texts.h"
#include "convert/check/model_input.h"
#include "convert/files/thread_pool.h"

namespace arenite::tool {
namespace {

// Names of Whisper's tokens. Source: Radford et al. 2022, "Robust Speech Recognition via
// Large-Scale Weak Supervision", and the tokenizers of its models.
constexpr const char* kStart = "<|startoftranscript|>";
constexpr const char* kTranscribe = "<|transcribe|>";
constexpr const char* kTranslate = "<|translate|>";
constexpr const char* kNoTimestamps = "<|notimestamps|>";
constexpr const char* kFirstTimestamp = "<|0.00|>";
constexpr double kTimestampSeconds = 0.02;
constexpr uint32_t kFirstTimestampMax = 50;  // a window's first timestamp is at most one second
// Models of this vocabulary know English alone, though their tokenizers name all languages.
constexpr uint32_t kEnglishVocabulary = 51864;

struct TranscribeArguments {
  std::filesystem::path model;
  std::filesystem::path sound;
  std::string language;  // empty: the most probable one
  bool translate = false;
  bool timestamps = false;
  std::string kernels;
  uint32_t threads = 1;
  KvType kv_cache = KvType::kOfModel;
  bool json = false;
};

struct SegmentFacts {
  double begin = 0.0, end = 0.0;  // seconds
  std::string text;
};

struct TranscribeFacts {
  std::string text;
  std::optional<std::string> language{};
  std::vector<SegmentFacts> segments{};
  std::vector<TokenId> ids{};
  double sound_seconds = 0.0, seconds = 0.0;
  uint64_t arena_bytes = 0;
  const char* kernel_set = "";
};

TokenId find_token(const Tokenizer& tokenizer, std::string_view name) {
  for (TokenId id = 0; id < tokenizer.vocab_size(); ++id) {
    if (tokenizer.token_bytes(id) == name) return id;
  }
  return kNoToken;
}

TokenId most_probable(std::span<const float> logits) {
  return static_cast<TokenId>(std::ranges::max_element(logits) - logits.begin());
}

// Returns tokens [first, first + count) of a sound; those that a model of one length lacks are
// zeros.
convert::ModelInput window_of(const SoundFeatures& sound, uint32_t first, uint32_t count,
                              const InputInfo& input) {
  const auto begin = sound.rows.begin() + static_cast<ptrdiff_t>(size_t{first} * sound.width);
  convert::ModelInput window;
  window.tokens = std::max(count, input.tokens_min);
  window.features.assign(begin, begin + static_cast<ptrdiff_t>(size_t{count} * sound.width));
  window.features.resize(size_t{window.tokens} * sound.width);
  return window;
}

// ---- encoder-decoders ----

// The tokens that an encoder-decoder begins with, and those that tell times.
struct SpeechTokens {
  SpeechTokens(const ModelFile& file, const Tokenizer& names)
      : start(convert::start_token(file.model().file())),
        no_timestamps(find_token(names, kNoTimestamps)),
        first_timestamp(find_token(names, kFirstTimestamp)),
        transcribe(find_token(names, kTranscribe)),
        translate(find_token(names, kTranslate)) {
    if (start == kNoToken) start = find_token(names, kStart);
    if (start == kNoToken) {
      throw convert::InputError(
          "{}: the file does not say which token begins what the model writes: convert it with the "
          "config.json or generation_config.json that names decoder_start_token_id",
          convert::quote(file.name()));
    }
    // Tokens of languages follow the first one, up to those of the tasks.
    const TokenId end = std::min(transcribe, translate);
    const uint32_t vocabulary = Writer(file.model()).info.output_features;
    if (end == kNoToken || vocabulary == kEnglishVocabulary) return;
    for (TokenId id = start + 1; id < end; ++id) languages.push_back(id);
  }

  bool is_timestamp(TokenId id) const { return id >= first_timestamp; }

  TokenId start, no_timestamps, first_timestamp, transcribe, translate;
  std::vector<TokenId> languages;
};

std::string language_of(const Tokenizer& names, TokenId id) {
  const std::string_view name = names.token_bytes(id);
  return name.size() > 4 ? std::string(name.substr(2, name.size() - 4)) : std::string(name);
}

// Forbids tokens that would make no sense after `written`, as Whisper's own decoding does: times
// come in pairs that do not decrease, and if all of them together are more probable than any text,
// one of them is next.
void constrain_timestamps(const SpeechTokens& tokens, std::span<const TokenId> written,
                          TokenId end_token, std::vector<float>& logits) {
  constexpr float kNever = -std::numeric_limits<float>::infinity();
  const auto forbid = [&](size_t begin, size_t end) {
    for (size_t i = begin; i < std::min(end, logits.size()); ++i) logits[i] = kNever;
  };
  if (tokens.no_timestamps < logits.size()) logits[tokens.no_timestamps] = kNever;
  const size_t count = written.size();
  const bool is_after_time = count > 0 && tokens.is_timestamp(written[count - 1]);
  const bool is_after_pair =
      is_after_time && (count < 2 || tokens.is_timestamp(written[count - 2]));
  if (is_after_pair) {
    forbid(tokens.first_timestamp, logits.size());
  } else if (is_after_time) {
    forbid(0, end_token);
  }
  const auto last = std::find_if(written.rbegin(), written.rend(),
                                 [&](TokenId id) { return tokens.is_timestamp(id); });
  if (last != written.rend()) {
    forbid(tokens.first_timestamp, *last + (is_after_time && !is_after_pair ? 0 : 1));
  }
  if (count == 0) {
    forbid(0, tokens.first_timestamp);
    forbid(size_t{tokens.first_timestamp} + kFirstTimestampMax + 1, logits.size());
  }
  const auto texts = std::span(logits).first(tokens.first_timestamp);
  const auto times = std::span(logits).subspan(tokens.first_timestamp);
  const double largest = *std::ranges::max_element(times);
  double sum = 0.0;
  for (const float time : times) sum += std::exp(time - largest);
  if (largest + std::log(sum) > *std::ranges::max_element(texts)) {
    forbid(0, tokens.first_timestamp);
  }
}

class Transcriber {
 public:
  Transcriber(const ModelFile& file, const Tokenizer& tokenizer,
              const TranscribeArguments& arguments, ParallelFor parallel)
      : file_(file),
        tokenizer_(tokenizer),
        arguments_(arguments),
        tokens_(file, tokenizer),
        writer_(writer_of(file)),
        sound_(read_whole_sound(arguments.sound, file.model())) {
    if (!arguments.language.empty()) {
      language_ = find_token(tokenizer, "<|" + arguments.language + "|>");
      if (std::ranges::count(tokens_.languages, language_) == 0) {
        throw convert::InputError("{}: --language: found {}, expected {}",
                                  convert::quote(file.name()), convert::quote(arguments.language),
                                  tokens_.languages.empty()
                                      ? "none, as the model knows one language alone"
                                      : "a language of the tokenizer, such as " +
                                            language_of(tokenizer, tokens_.languages.front()));
      }
    }
    if (arguments.translate && tokens_.languages.empty()) {
      throw convert::InputError("{}: --translate: the model knows one language alone",
                                convert::quote(file.name()));
    }
    if (arguments.timestamps && tokens_.first_timestamp == kNoToken) {
      throw convert::InputError("{}: --timestamps: the tokenizer has no token {}",
                                convert::quote(file.name()), convert::quote(kFirstTimestamp));
    }
    context_ = writer_.takes.positions_max != 0 ? writer_.takes.positions_max : kDefaultPositions;
    InputTokens sizes;
    sizes.of[0] = file.model().input(0).positions_max;
    sizes.of[writer_.input] = context_;
    options_ = convert::options_for_functions(file.model(), sizes, kDefaultTokens);
    options_.kv_cache = arguments.kv_cache;
    options_.parallel = parallel;
  }

  void run(TranscribeFacts& facts) {
    const uint32_t tokens = static_cast<uint32_t>(sound_.rows.size() / sound_.width);
    const InputInfo input = file_.model().input(0);
    const uint32_t window = input.positions_max != 0 ? input.positions_max : tokens;
    options_.positions_max = window;
    options_.tokens_max = std::min(options_.tokens_max, window);
    ModelSession session(file_, options_);
    facts.arena_bytes = session.plan().total_bytes;
    const bool tells_times =
        arguments_.timestamps || (tokens > window && tokens_.first_timestamp != kNoToken);
    for (uint32_t first = 0; first * sound_.seconds_of_token < sound_.seconds;) {
      const uint32_t count = std::min(window, tokens - first);
      std::vector<TokenId> ids =
          write(window_of(sound_, first, count, input), tells_times, session.session());
      const double begin = first * sound_.seconds_of_token;
      const double length = count * sound_.seconds_of_token;
      if (tells_times) {
        first += add_segments(ids, begin, length, facts);
      } else {
        add_segment(ids, begin, begin + length, facts);
        first += count;
      }
      facts.ids.insert(facts.ids.end(), ids.begin(), ids.end());
    }
    facts.sound_seconds = sound_.seconds;
    if (language_ != kNoToken) facts.language = language_of(tokenizer_, language_);
  }

 private:
  // Returns the tokens that the model writes for one window.
  std::vector<TokenId> write(const convert::ModelInput& window, bool tells_times,
                             Session& session) {
    std::vector<convert::ModelInput> inputs(file_.model().inputs());
    inputs[0] = window;
    if (!tokens_.languages.empty() && language_ == kNoToken) {
      session.reset();
      WriterSession asked(file_, session);
      asked.suppress_nothing();
      const std::vector<float> logits = begin(asked, inputs, {tokens_.start});
      language_ =
          *std::ranges::max_element(tokens_.languages, {}, [&](TokenId id) { return logits[id]; });
    }
    WriterSession writing(file_, session);
    std::vector<TokenId> start = {tokens_.start};
    if (!tokens_.languages.empty()) {
      start.push_back(language_);
      start.push_back(arguments_.translate ? tokens_.translate : tokens_.transcribe);
    }
    if (!tells_times && tokens_.no_timestamps != kNoToken) start.push_back(tokens_.no_timestamps);
    session.reset();
    std::vector<float> logits = begin(writing, inputs, start);
    std::vector<TokenId> written;
    while (true) {
      if (tells_times) constrain_timestamps(tokens_, written, tokenizer_.end(), logits);
      const TokenId id = most_probable(logits);
      if (tokenizer_.is_end(id)) break;
      written.push_back(id);
      if (writing.positions() + 1 == context_) break;  // as many tokens as positions
      logits = writing.step(id);
    }
    return written;
  }

  std::vector<float> begin(WriterSession& writing, std::vector<convert::ModelInput>& inputs,
                           const std::vector<TokenId>& start) const {
    convert::ModelInput& written = inputs[writer_.input];
    written.ids = start;
    written.tokens = static_cast<uint32_t>(start.size());
    return writing.begin(inputs, kDefaultTokens);
  }

  // Adds the text of the tokens, less those that tell times.
  void add_segment(std::span<const TokenId> ids, double begin, double end,
                   TranscribeFacts& facts) const {
    std::vector<TokenId> words;
    for (const TokenId id : ids) {
      if (!tokens_.is_timestamp(id)) words.push_back(id);
    }
    if (words.empty()) return;
    facts.segments.push_back({begin, std::min(end, sound_.seconds), text_of(tokenizer_, words)});
    facts.text += facts.segments.back().text;
  }

  // Adds the segments of a window of `length` seconds: those that pairs of times divide or, without
  // a pair, one from the begin of the window to the last time. Returns the tokens of sound after
  // which the next window begins: where a pair of times ends the last whole segment, unless a time
  // ends the text. Words after that pair are dropped, as the window may have cut them off.
  uint32_t add_segments(std::vector<TokenId>& ids, double begin, double length,
                        TranscribeFacts& facts) const {
    const auto time_of = [&](size_t i) {
      return (ids[i] - tokens_.first_timestamp) * kTimestampSeconds;
    };
    size_t whole = 0;  // tokens up to the last pair
    for (size_t i = 1; i < ids.size(); ++i) {
      if (tokens_.is_timestamp(ids[i - 1]) && tokens_.is_timestamp(ids[i])) whole = i;
    }
    const bool ends_in_time =
        !ids.empty() && tokens_.is_timestamp(ids.back()) && whole + 1 != ids.size();
    const double next = whole == 0 || ends_in_time ? length : time_of(whole - 1);
    const size_t kept = whole == 0 || ends_in_time ? ids.size() : whole;
    const auto last = std::find_if(ids.rbegin(), ids.rend(),
                                   [&](TokenId id) { return id > tokens_.first_timestamp; });
    if (whole == 0) {
      const auto place = static_cast<size_t>(ids.rend() - last);
      add_segment(ids, begin, begin + (last == ids.rend() ? length : time_of(place - 1)), facts);
    }
    double from = 0.0;
    for (size_t first = 0, i = 0; whole != 0 && i < kept; ++i) {
      const bool is_last = i + 1 == kept;
      if (!tokens_.is_timestamp(ids[i]) && !is_last) continue;
      const double to = tokens_.is_timestamp(ids[i]) ? time_of(i) : length;
      add_segment(std::span(ids).subspan(first, i + 1 - first), begin + from, begin + to, facts);
      from = to;
      first = i + 1;
    }
    ids.resize(std::min(kept + 1, ids.size()));  // with the second time of the pair
    return std::max(1u, static_cast<uint32_t>(std::lround(next / sound_.seconds_of_token)));
  }

  const ModelFile& file_;
  const Tokenizer& tokenizer_;
  const TranscribeArguments& arguments_;
  SpeechTokens tokens_;
  Writer writer_;
  SoundFeatures sound_;
  TokenId language_ = kNoToken;
  uint32_t context_ = 0;
  SessionOptions options_;
};

// ---- encoders with a head of CTC ----

class CtcTranscriber {
 public:
  CtcTranscriber(const ModelFile& file, const Tokenizer& tokenizer,
                 const TranscribeArguments& arguments, ParallelFor parallel)
      : file_(file),
        tokenizer_(tokenizer),
        sound_(read_whole_sound(arguments.sound, file.model())) {
    if (!arguments.language.empty() || arguments.translate) {
      throw convert::InputError("{}: {}: the model knows one language alone: drop the option",
                                convert::quote(file.name()),
                                arguments.translate ? "--translate" : "--language");
    }
    const auto tokens = static_cast<uint32_t>(sound_.rows.size() / sound_.width);
    const uint32_t most = file.model().input(0).positions_max;
    window_ = most == 0 ? tokens : std::min(most, tokens);
    options_ = convert::options_for_functions(file.model(), InputTokens(window_), window_);
    options_.kv_cache = arguments.kv_cache;
    options_.parallel = parallel;
  }

  void run(TranscribeFacts& facts) {
    ModelSession session(file_, options_);
    facts.arena_bytes = session.plan().total_bytes;
    facts.sound_seconds = sound_.seconds;
    const std::vector<TokenId> frames = hear(session.session());
    facts.text = text_of_frames(frames, facts.ids);
    const auto is_blank = [&](TokenId id) { return this->is_blank(id); };
    for (auto begin = frames.begin(); begin != frames.end();) {
      const auto end = std::find_if(begin, frames.end(),
                                    [&](TokenId id) { return tokenizer_.token_bytes(id) == " "; });
      std::vector<TokenId> ids;
      const std::string word = text_of_frames({begin, end}, ids);
      if (!word.empty()) {
        const auto first = std::find_if_not(begin, end, is_blank);
        const auto last =
            std::find_if_not(std::reverse_iterator(end), std::reverse_iterator(begin), is_blank);
        facts.segments.push_back(
            {static_cast<double>(first - frames.begin()) * seconds_of_frame_,
             static_cast<double>(last.base() - frames.begin()) * seconds_of_frame_, word});
      }
      begin = end == frames.end() ? end : end + 1;
    }
  }

 private:
  bool is_blank(TokenId id) const {
    return tokenizer_.is_special(id) || tokenizer_.token_bytes(id).empty();
  }

  // Returns the most probable token of each frame. Sound that is longer than a window is heard in
  // windows that overlap, as frames at their ends lack what comes before or after: a sixth of each
  // is dropped.
  std::vector<TokenId> hear(Session& session) {
    std::vector<TokenId> frames;
    const auto tokens = static_cast<uint32_t>(sound_.rows.size() / sound_.width);
    const uint32_t width = file_.model().function(0).output_features;
    for (uint32_t begin = 0;;) {
      const std::vector<float> logits = convert::run_functions(
          session, file_.model(), window_of(sound_, begin, window_, file_.model().input(0)),
          window_, convert::quote(file_.name()));
      const auto count = static_cast<uint32_t>(logits.size() / width);
      if (count == 0) return frames;
      const uint32_t step = window_ / count;  // tokens from one frame to the next
      const uint32_t edge = count / 6;
      const uint32_t last = (tokens - window_) / step * step;
      seconds_of_frame_ = step * sound_.seconds_of_token;
      const uint32_t kept = begin == last ? count : count - edge;
      for (auto i = static_cast<uint32_t>(frames.size()) - begin / step; i < kept; ++i) {
        frames.push_back(most_probable(std::span(logits).subspan(size_t{i} * width, width)));
      }
      if (begin == last) return frames;
      begin = std::min(last, begin + (count - 2 * edge) * step);
    }
  }

  // Writes each run of a token once, and no blanks. Adds the tokens to `ids`.
  std::string text_of_frames(std::span<const TokenId> frames, std::vector<TokenId>& ids) const {
    std::string text;
    std::vector<TokenId> run;  // without repeats, which the tokenizer would join
    const auto flush = [&] {
      text += text_of(tokenizer_, run, {.is_continuation = true});
      run.clear();
    };
    for (size_t i = 0; i < frames.size(); ++i) {
      if ((i != 0 && frames[i] == frames[i - 1]) || is_blank(frames[i])) continue;
      if (!run.empty() && run.back() == frames[i]) flush();
      run.push_back(frames[i]);
      ids.push_back(frames[i]);
    }
    flush();
    text.erase(0, text.find_first_not_of(' '));
    text.erase(text.find_last_not_of(' ') + 1);
    return text;
  }

  const ModelFile& file_;
  const Tokenizer& tokenizer_;
  SoundFeatures sound_;
  uint32_t window_ = 0;  // tokens
  double seconds_of_frame_ = 0.0;
  SessionOptions options_;
};

// ---- the command ----

std::string clock_of(double seconds) {
  const auto hundredths = static_cast<uint64_t>(std::llround(seconds * 100.0));
  return fmt::format("{:02}:{:02}.{:02}", hundredths / 6000, hundredths / 100 % 60,
                     hundredths % 100);
}

void run_transcribe(const TranscribeArguments& arguments) {
  const convert::OutputGuard guard({});
  const ModelFile file(arguments.model, arguments.kernels);
  const Model& model = file.model();
  if (!is_sound_file(arguments.sound)) {
    throw convert::InputError("--sound: found {}: expected a .wav file, or .raw 16-bit samples",
                              convert::quote(arguments.sound.string()));
  }
  const Result<Tokenizer> tokenizer = Tokenizer::of(model);
  if (!tokenizer.ok()) {
    throw convert::InputError(
        "{}: the file has no tokenizer: convert the model again with its tokenizer",
        convert::quote(file.name()));
  }
  const bool is_ctc =
      model.functions() == 1 && format::tokenizer_view(model.file()).has(format::kDropRepeats);
  if (model.functions() == 1 && !is_ctc) {
    throw convert::InputError(
        "{}: the model has no encoder that hears and decoder that writes, as Whisper has, nor a "
        "tokenizer of CTC, as wav2vec2 has: see 'arenite run'",
        convert::quote(file.name()));
  }
  require_right_kernels(file, arguments.kv_cache, arguments.threads);
  convert::ThreadPool pool(arguments.threads);
  TranscribeFacts facts;
  facts.kernel_set = kernel_set_name(model.target());
  const Clock::time_point start = Clock::now();
  if (is_ctc) {
    CtcTranscriber(file, *tokenizer, arguments, pool.parallel_for()).run(facts);
  } else {
    Transcriber(file, *tokenizer, arguments, pool.parallel_for()).run(facts);
  }
  facts.seconds = seconds_since(start);
  if (arguments.json) return print_json(facts);
  if (!arguments.timestamps) {
    print_output("{}\n", facts.text);
  } else {
    for (const SegmentFacts& segment : facts.segments) {
      print_output("[{} --> {}] {}\n", clock_of(segment.begin), clock_of(segment.end),
                   segment.text);
    }
  }
  print_error("\nsound      {:.2f} s{}\ntime       {:.2f} s, {}\narena      {} bytes\n",
              facts.sound_seconds, facts.language ? ", language " + *facts.language : "",
              facts.seconds, counted(arguments.threads, "thread"), grouped(facts.arena_bytes));
}

}  // namespace

template <>
constexpr auto kFacts<SegmentFacts> = std::tuple(Fact("begin", "Seconds", &SegmentFacts::begin),
                                                 Fact("end", &SegmentFacts::end),
                                                 Fact("text", &SegmentFacts::text));

template <>
constexpr auto kFacts<TranscribeFacts> =
    std::tuple(Fact("text", &TranscribeFacts::text),
               Fact("language", "null: the model knows one alone", &TranscribeFacts::language),
               Fact("segments", "One per window without times; of CTC one per word",
                    &TranscribeFacts::segments),
               Fact("ids", "Tokens of all windows", &TranscribeFacts::ids),
               Fact("sound_seconds", &TranscribeFacts::sound_seconds),
               Fact("seconds", "Time that it took", &TranscribeFacts::seconds),
               Fact("arena_bytes", &TranscribeFacts::arena_bytes),
               Fact("kernel_set", &TranscribeFacts::kernel_set));

Json transcribe_facts() { return schema_of<TranscribeFacts>(); }

void add_transcribe(CLI::App& app) {
  const auto [command, arguments] =
      add_command(app, run_transcribe, "transcribe", "Write down what is said in a sound file",
                  "\nFor models of an encoder that hears and a decoder that writes, such as "
                  "Whisper, and for encoders with a head of CTC, such as wav2vec2. Sound longer "
                  "than the model's window is read window by window.\n"
                  "\nExamples:\n"
                  "  arenite transcribe whisper.arn --sound talk.wav\n"
                  "  arenite transcribe whisper.arn --sound talk.wav --language de --timestamps\n");
  add_model(command, arguments.model);
  add_file(command, "--sound", arguments.sound, "The sound: .wav, or .raw 16-bit samples")
      ->required();
  command.add_option("--language", arguments.language,
                     "Language of the sound, as the tokenizer has it: en; else the most probable");
  command.add_flag("--translate", arguments.translate, "Write in English, whatever the language");
  command.add_flag("--timestamps", arguments.timestamps, "Write when each segment is said");
  add_machine_options(command, arguments.kernels, arguments.threads);
  add_kv_option(command, arguments.kv_cache);
  add_json_option(command, arguments.json);
}

}  // namespace arenite::tool
