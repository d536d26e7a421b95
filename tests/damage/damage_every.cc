// SPDX-License-Identifier: Apache-2.0
// Loads every N-th damaged variant, from the I-th on, of the models FOLDER/*.arn. The counts are
// stored in FOLDER/shard-I-of-N.json, where an interrupted run resumes.
//
// Usage: damage_every FOLDER I/N
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "arenite/model.h"
#include "core/crc32c.h"
#include "damage/sweep.h"
#include "support/guarded_buffer.h"

namespace arenite::test {
namespace {

using Json = nlohmann::json;
using std::filesystem::path;

#if defined(__clang__)
constexpr const char* kCompiler = "";
#else
constexpr const char* kCompiler = "GCC ";
#endif
constexpr uint64_t kBetweenLooks = 64;  // variants, at the clock
constexpr double kBetweenSaves = 2.0;   // seconds

double now() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

std::string contents(const path& file) {
  std::ifstream stream(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

uint32_t crc_of(const path& file) {
  const std::string bytes = contents(file);
  return crc32c(std::as_bytes(std::span(bytes)));
}

// Counts of one shard, for as long as program and models are the same.
class State {
 public:
  State(path file, uint32_t program) : file_(std::move(file)) {
    const Json stored = Json::parse(contents(file_), nullptr, false);
    const std::string compiler = std::string(kCompiler) + __VERSION__ + ARENITE_SANITIZERS;
    if (!stored.is_discarded() && stored.value("program", 0u) == program) {
      json_ = stored;
    } else {
      json_ = {{"program", program}, {"compiler", compiler}, {"seconds", 0.0}};
    }
    seconds_before_ = json_["seconds"];
  }

  // The variants of a model that are done, and what became of them.
  uint64_t load(const std::string& model, uint32_t crc, Sweep& sweep) {
    Json& entry = json_["models"][model];
    const Variants& variants = sweep.variants();
    if (entry.is_null() || entry.value("crc", 0u) != crc ||
        entry.value("variants", uint64_t{0}) != variants.count()) {
      entry = {{"crc", crc}, {"variants", variants.count()}, {"next", 0}};
      return 0;
    }
    DamageCounts counts{};
    for (size_t i = 0; i < counts.size(); ++i) {
      for (size_t k = 0; k < kFates; ++k)
        counts[i][k] = entry["counts"][row_name(i)][kFateNames[k]];
    }
    sweep.set_counts(counts);
    return entry["next"];
  }

  // Whatever happens, the file is an old or a new one.
  void save(const std::string& model, uint64_t next, const DamageCounts& counts) {
    Json& entry = json_["models"][model];
    entry["next"] = next;
    for (size_t i = 0; i < counts.size(); ++i) {
      for (size_t k = 0; k < kFates; ++k)
        entry["counts"][row_name(i)][kFateNames[k]] = counts[i][k];
    }
    json_["seconds"] = seconds_before_ + now();
    const path temporary = file_.string() + ".new";
    std::ofstream(temporary) << json_.dump(1) << "\n";
    std::filesystem::rename(temporary, file_);
  }

 private:
  static std::string row_name(size_t row) {
    return row == kRepaired ? "checksums and formulas right" : kDamageNames[row];
  }

  path file_;
  Json json_;
  double seconds_before_ = 0.0;
};

void sweep_model(const path& file, uint64_t shard, uint64_t shards, State& state) {
  const std::string bytes = contents(file);
  const GuardedBuffer memory(bytes.size(), kModelAlignment);
  std::ranges::copy(std::as_bytes(std::span(bytes)), memory.data());
  const std::string name = file.stem().string();
  Sweep sweep(name, memory.span());
  const uint64_t count = sweep.variants().count();
  uint64_t next = std::max(state.load(name, crc_of(file), sweep), shard);
  double saved = now();
  for (; next < count; next += shards) {
    if ((next / shards) % kBetweenLooks == 0 && now() > saved + kBetweenSaves) {
      state.save(name, next, sweep.counts());
      saved = now();
    }
    sweep.take(next);
  }
  state.save(name, next, sweep.counts());
  std::printf("%s: shard %llu of %llu is through\n", name.c_str(),
              static_cast<unsigned long long>(shard), static_cast<unsigned long long>(shards));
}

int run(const path& folder, uint64_t shard, uint64_t shards) {
  std::vector<path> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() == ".arn") files.push_back(entry.path());
  }
  std::ranges::sort(files);
  if (files.empty()) {
    std::fprintf(stderr, "damage_every: no .arn files in %s\n", folder.c_str());
    return 1;
  }
  State state(folder / fmt::format("shard-{}-of-{}.json", shard, shards), crc_of("/proc/self/exe"));
  for (const path& file : files) sweep_model(file, shard, shards, state);
  return 0;
}

}  // namespace
}  // namespace arenite::test

int main(int argc, char** argv) {
  unsigned long long shard = 0;
  unsigned long long shards = 1;
  if (argc != 3 || std::sscanf(argv[2], "%llu/%llu", &shard, &shards) != 2 || shard >= shards) {
    std::fprintf(stderr, "usage: damage_every FOLDER I/N, with I < N\n");
    return 2;
  }
  return arenite::test::run(argv[1], shard, shards);
}
