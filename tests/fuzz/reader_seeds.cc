// SPDX-License-Identifier: Apache-2.0
// Writes files that the converter reads: fixtures of the tests, and a small file of each format.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "convert/files/checkpoint.h"
#include "convert/gguf/gguf_builder.h"
#include "fuzz/bundle.h"
#include "fuzz/seeds.h"
#include "support/checkpoint_builder.h"
#include "support/pickle_builder.h"
#include "support/temp_folder.h"
#include "support/zip_builder.h"

namespace arenite::test {
namespace {

namespace fs = std::filesystem;
using namespace arenite::testing;
using convert::DType;
using convert::GgufType;
using fuzz::BundleFile;

constexpr uintmax_t kSeedBytesMax = 16'000;  // of a fixture
constexpr uint16_t kProgramSeeds = 400;

const fs::path kFixtures = ARENITE_READER_FIXTURES;

// The fixtures with this ending that are small.
void copy_fixtures(const SeedFolder& seeds, const std::string& ending) {
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(kFixtures)) {
    const std::string name = entry.path().lexically_relative(kFixtures).string();
    if (!name.ends_with(ending) || entry.file_size() > kSeedBytesMax) continue;
    std::string flat = name;
    std::ranges::replace(flat, '/', '_');
    seeds.write(flat, read_bytes(entry.path()));
  }
}

void write_checkpoints(const fs::path& corpus) {
  const SeedFolder safetensors(corpus, "read_safetensors");
  copy_fixtures(safetensors, ".safetensors");
  CheckpointBuilder builder;
  builder.add_linear("attention.query", 4, 8).add_linear("attention.key", 4, 8);
  builder.add_linear("attention.value", 4, 8).add("attention.scale", {}, {1.0}, DType::kF64);
  builder.add("attention.ids", {3}, {0.0, 1.0, 2.0}, DType::kI64);
  safetensors.write("built", builder.safetensors());
  safetensors.write("half", builder.safetensors("module.", DType::kBF16));

  const SeedFolder pytorch(corpus, "read_pytorch");
  copy_fixtures(pytorch, ".pt");
  pytorch.write("small", ZipBuilder()
                             .add("m/data.pkl", small_state_dict_pickle())
                             .add("m/version", "3\n")
                             .add("m/data/0", std::string(16, '\1'))
                             .bytes());
  const SeedFolder exported(corpus, "read_exported");
  copy_fixtures(exported, ".pt2");
  // Unchanged programs, nearly all of them: two bytes choose one, and two what is done.
  const SeedFolder programs(corpus, "exported_program");
  for (uint16_t i = 0; i < kProgramSeeds; ++i) {
    programs.write(fmt::format("{}", i), bytes_of(std::vector<uint16_t>{i, i}));
  }
}

// A Llama of one layer: the sizes of the header, then all floats.
void write_llama2c(const fs::path& corpus) {
  constexpr int32_t kDim = 4, kFfn = 6, kHeads = 2, kVocab = 3, kPositions = 5;
  const std::vector<int32_t> sizes = {kDim, kFfn, 1, kHeads, kHeads, kVocab, kPositions};
  constexpr size_t kMatrices = 4 * kDim * kDim + 3 * kDim * kFfn + kVocab * kDim;
  constexpr size_t kNorms = 3 * kDim;
  const SeedFolder seeds(corpus, "read_llama2c");
  const std::string header = bytes_of(sizes);
  seeds.write("legacy", header + bytes_of(std::vector<float>(
                                     kMatrices + kNorms + kPositions * kDim / kHeads, 0.5f)));
  for (const int32_t version : {1, 2}) {
    constexpr uint32_t kGroup = 4;
    std::string file = "24ka" + bytes_of(version) + header + '\1';
    if (version == 2) file += bytes_of(kGroup);
    file.resize(256, '\0');
    file += bytes_of(std::vector<float>(kNorms, 1.0f));
    if (version == 1) {
      file += bytes_of(std::vector<float>(kMatrices, 0.5f));
    } else {  // integers and scales, matrix by matrix
      for (const int32_t matrix : {kVocab * kDim, kDim * kDim, kDim * kDim, kDim * kDim,
                                   kDim * kDim, kDim * kFfn, kDim * kFfn, kDim * kFfn}) {
        const auto elements = static_cast<size_t>(matrix);
        file += std::string(elements, '\3') + bytes_of(std::vector<float>(elements / kGroup, 0.1f));
      }
    }
    seeds.write(fmt::format("version{}", version), file);
  }
}

// A GPT-2 of one layer.
std::string gguf_of_gpt2() {
  constexpr uint64_t kDim = 4;
  GgufBuilder file;
  file.text("general.architecture", "gpt2").count("gpt2.block_count", 1);
  file.count("gpt2.context_length", 6).count("gpt2.embedding_length", kDim);
  file.count("gpt2.feed_forward_length", kDim).count("gpt2.attention.head_count", 2);
  file.real("gpt2.attention.layer_norm_epsilon", 1e-5f);
  const auto add = [&](const std::string& name, const std::vector<uint64_t>& shape) {
    const uint64_t elements = shape.size() == 1 ? shape[0] : shape[0] * shape[1];
    file.tensor(name, shape, 0, bytes_of(std::vector<float>(static_cast<size_t>(elements), 0.5f)));
  };
  add("token_embd.weight", {kDim, 3});
  add("position_embd.weight", {kDim, 6});
  for (const char* norm : {"blk.0.attn_norm", "blk.0.ffn_norm", "output_norm"}) {
    add(fmt::format("{}.weight", norm), {kDim});
    add(fmt::format("{}.bias", norm), {kDim});
  }
  for (const char* layer : {"attn_qkv", "attn_output", "ffn_up", "ffn_down"}) {
    const uint64_t rows = layer == std::string("attn_qkv") ? 3 * kDim : kDim;
    add(fmt::format("blk.0.{}.weight", layer), {kDim, rows});
    add(fmt::format("blk.0.{}.bias", layer), {rows});
  }
  return file.bytes();
}

std::string gguf_of(const std::string& architecture, uint32_t dim, uint32_t type) {
  GgufBuilder file;
  const auto key = [&](const char* name) { return architecture + "." + name; };
  file.text("general.architecture", architecture)
      .count(key("block_count"), 1)
      .count(key("context_length"), 8)
      .count(key("embedding_length"), dim)
      .count(key("feed_forward_length"), dim)
      .count(key("attention.head_count"), 2)
      .count(key("attention.head_count_kv"), 2)
      .real(key("attention.layer_norm_rms_epsilon"), 0x1p-17f)
      .real(key("rope.freq_base"), 10000.0f);
  std::string tokens;
  for (const char* token : {"<unk>", "<s>", "</s>", "a"}) tokens += gguf_text(token);
  file.text("tokenizer.ggml.model", "llama")
      .array("tokenizer.ggml.tokens", GgufType::kString, 4, tokens)
      .array("tokenizer.ggml.scores", GgufType::kF32, 4, std::string(16, '\0'))
      .array("tokenizer.ggml.token_type", GgufType::kI32, 4,
             bytes_of(std::vector<int32_t>{2, 3, 3, 1}))
      .count("tokenizer.ggml.bos_token_id", 1)
      .count("tokenizer.ggml.eos_token_id", 2);
  // 0: float, 1: half, 2: blocks of 18 bytes, 8: blocks of 34
  const auto matrix = [&](const std::string& name, uint64_t rows) {
    const uint64_t elements = rows * dim;
    const uint64_t bytes = type == 0   ? 4 * elements
                           : type == 1 ? 2 * elements
                           : type == 2 ? elements / 32 * 18
                                       : elements / 32 * 34;
    file.tensor(name, {dim, rows}, type, std::string(static_cast<size_t>(bytes), '\x21'));
  };
  const auto vector = [&](const std::string& name) {
    file.tensor(name, {dim}, 0, bytes_of(std::vector<float>(dim, 1.0f)));
  };
  matrix("token_embd.weight", 4);
  vector("blk.0.attn_norm.weight");
  for (const char* part : {"attn_q", "attn_k", "attn_v", "attn_output"}) {
    matrix(fmt::format("blk.0.{}.weight", part), dim);
    if (architecture == "qwen2" && part[5] != 'o') vector(fmt::format("blk.0.{}.bias", part));
  }
  vector("blk.0.ffn_norm.weight");
  for (const char* part : {"ffn_gate", "ffn_up", "ffn_down"}) {
    matrix(fmt::format("blk.0.{}.weight", part), dim);
  }
  if (architecture == "qwen3") {
    for (const char* norm : {"blk.0.attn_q_norm.weight", "blk.0.attn_k_norm.weight"}) {
      file.tensor(norm, {dim / 2}, 0, bytes_of(std::vector<float>(dim / 2, 1.0f)));
    }
  }
  vector("output_norm.weight");
  matrix("output.weight", 4);
  return file.bytes();
}

void write_gguf(const fs::path& corpus) {
  const SeedFolder seeds(corpus, "read_gguf");
  seeds.write("llama", gguf_of("llama", 8, 0));
  seeds.write("llama_half", gguf_of("llama", 8, 1));
  seeds.write("llama_q4", gguf_of("llama", 32, 2));
  seeds.write("llama_q8", gguf_of("llama", 32, 8));
  seeds.write("qwen2", gguf_of("qwen2", 8, 0));
  seeds.write("qwen3", gguf_of("qwen3", 8, 0));
  seeds.write("gpt2", gguf_of_gpt2());
}

void write_npy(const fs::path& corpus) {
  const SeedFolder seeds(corpus, "read_npy");
  copy_fixtures(seeds, "alibi_input.npy");
  constexpr const char* kTypes[] = {"<f8", "<f4", "<i8", "<i4", "<u4", "|i1", "|u1", "|b1"};
  for (const char* type : kTypes) {
    const size_t bytes = static_cast<size_t>(type[2] - '0');
    for (const std::string version : {"\x01", "\x02"}) {
      std::string header =
          fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': (2, 3), }}", type);
      header.resize(117, ' ');
      header += '\n';
      const std::string length = version == "\x01" ? bytes_of(static_cast<uint16_t>(header.size()))
                                                   : bytes_of(static_cast<uint32_t>(header.size()));
      seeds.write(fmt::format("{}_{}", type + 1, version == "\x01" ? 1 : 2),
                  "\x93NUMPY" + version + '\0' + length + header + std::string(6 * bytes, '\1'));
    }
  }
}

// Returns how a tensor list describes the tensor's values. Integers are listed if they are few or
// all equal.
std::string fill_of(const convert::CheckpointTensor& tensor) {
  if (tensor.name.ends_with("g_idx") || tensor.name.ends_with("position_ids")) return " iota";
  if (tensor.name.ends_with("mask") || tensor.shape.size() == 4) return " tril";
  if (convert::is_real(tensor.dtype)) return "";
  std::vector<int64_t> values = tensor.to_i64();
  if (values.empty()) return "";
  const bool is_same = std::ranges::all_of(values, [&](int64_t v) { return v == values[0]; });
  if (is_same) values.resize(1);
  if (values.size() > 8) return "";
  std::string fill = " =";
  for (const int64_t value : values) {
    fill += fmt::format("{}{}", fill.size() == 2 ? "" : ",", static_cast<uint64_t>(value));
  }
  return fill;
}

// Returns the list of a checkpoint's tensors.
std::string tensor_list(const fs::path& file) {
  std::string list;
  const convert::Checkpoint checkpoint = convert::Checkpoint::read(file);
  for (const convert::CheckpointTensor& tensor : checkpoint.tensors()) {
    list += fmt::format("{} {}", tensor.name, convert::name(tensor.dtype));
    for (const uint64_t extent : tensor.shape) list += fmt::format(" {}", extent);
    list += fill_of(tensor) + "\n";
  }
  return list;
}

void add_file(std::vector<BundleFile>& files, const std::string& name, std::string bytes) {
  const auto names = fuzz::bundle_names();
  const bool is_known = std::ranges::any_of(names, [&](const auto& n) { return n.name == name; });
  if (is_known) files.push_back({fuzz::bundle_name(name), std::move(bytes)});
}

// Folders of fixtures with all that a bundle may have, the weights as a list.
void write_folders(const fs::path& corpus) {
  const SeedFolder seeds(corpus, "read_config");
  const std::string said("\4\2\1\2\1", 5);  // of state dicts: heads, activation, norm first, ...
  for (const char* group : {"decoders", "encoders", "named", "quantized", "state_dicts"}) {
    for (const fs::directory_entry& entry : fs::directory_iterator(kFixtures / group)) {
      if (!entry.is_directory()) continue;
      std::vector<BundleFile> files;
      for (const fs::directory_entry& part : fs::recursive_directory_iterator(entry.path())) {
        std::string name = part.path().lexically_relative(entry.path()).string();
        if (name.ends_with("model.safetensors")) {
          name.replace(name.size() - 17, 17, "tensors.txt");
          add_file(files, name, tensor_list(part.path()));
        } else if (part.is_regular_file() && part.file_size() <= kSeedBytesMax) {
          add_file(files, name, read_bytes(part.path()));
        }
      }
      const bool has_config = fs::exists(entry.path() / "config.json");
      if (!has_config) add_file(files, "options", said);
      seeds.write(fmt::format("{}_{}", group, entry.path().filename().string()),
                  fuzz::write_bundle(files));
    }
  }
}

}  // namespace

void write_reader_seeds(const fs::path& corpus) {
  write_checkpoints(corpus);
  write_llama2c(corpus);
  write_gguf(corpus);
  write_npy(corpus);
  write_folders(corpus);
  write_tokenizer_seeds(corpus);
}

}  // namespace arenite::test
