// SPDX-License-Identifier: Apache-2.0
// Folders quantized by GPTQ, AWQ, compressed-tensors or bitsandbytes: a row for each layout of a
// layer's tensors, one reader of integers and scales, and the supported settings of each scheme's
// config.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "convert/families/hf_models.h"
#include "convert/files/error.h"
#include "convert/files/json_file.h"
#include "convert/files/memory.h"
#include "convert/spec/quantized_weights.h"

namespace arenite::convert {
namespace {

// Advice in messages about weights whose quantization is not supported.
constexpr const char* kConvertOriginal = "convert the original weights, with --weights q4 or q8";

using Types = std::initializer_list<const char*>;

// How a scheme stores the linear layers of a model. A part is the suffix after a layer's name and a
// dot.
struct Layout {
  const char* by_row;     // for people, where each output has one scale
  const char* in_groups;  // and where each of its groups of neighbouring inputs has one
  // The first part has the integers, the second the scales; a layer may lack the others.
  const char* parts[5];
  // I8, or I32: words of 4- or 8-bit integers, the first in the lowest bits, with the middle of the
  // range as zero.
  const char* type;
  // Integers are [inputs, outputs] and scales [groups, outputs]. Otherwise outputs come first in
  // both. Words hold neighbouring inputs.
  bool has_inputs_first = false;
  float scale_divisor = 1.0f;  // of the stored scales
  const char* order = "";      // the part that has the group of each input
  // Words hold eight outputs of an input instead, in this order. The part `zeros` holds the zero
  // points, [groups, outputs / 8], in the same order.
  const char* zeros = "";
};
// AutoAWQ's kernels multiply two outputs at a time.
constexpr uint32_t kAwqOrder[] = {0, 2, 4, 6, 1, 3, 5, 7};

// AutoGPTQ, GPTQModel and optimum. qzeros [groups, outputs / 8] has the zero points; in the first
// version of the format they are 1 less.
constexpr Layout kGptq = {.by_row = "GPTQ, a scale for each row",
                          .in_groups = "GPTQ, groups of {group}",
                          .parts = {"qweight", "scales", "qzeros", "g_idx"},
                          .type = "I32",
                          .has_inputs_first = true,
                          .order = "g_idx"};
// AutoAWQ, version gemm.
constexpr Layout kAwq = {.by_row = "AWQ, a scale and a zero for each row",
                         .in_groups = "AWQ, groups of {group} with zeros",
                         .parts = {"qweight", "scales", "qzeros"},
                         .type = "I32",
                         .has_inputs_first = true,
                         .zeros = "qzeros"};
// The library compressed-tensors: int-quantized, and pack-quantized, which stores the weight's
// shape since the last word of a row may not be full.
constexpr Layout kPacked = {
    .by_row = "compressed-tensors, int{bits} by row",
    .in_groups = "compressed-tensors, int{bits} in groups of {group}",
    .parts = {"weight_packed", "weight_scale", "weight_shape", "weight_zero_point", "weight_g_idx"},
    .type = "I32",
    .order = "weight_g_idx"};
constexpr Layout kBytes = {
    .by_row = kPacked.by_row,
    .in_groups = kPacked.in_groups,
    .parts = {"weight", "weight_scale", "weight_shape", "weight_zero_point", "weight_g_idx"},
    .type = "I8",
    .order = "weight_g_idx"};
// SCB [outputs] is the largest magnitude of each row, stored as 127.
constexpr Layout kBitsAndBytes = {.by_row = "bitsandbytes, int8 by row",
                                  .in_groups = "",
                                  .parts = {"weight", "SCB", "weight_format"},
                                  .type = "I8",
                                  .scale_divisor = 127.0f};

struct Layer {
  const Layout& layout;
  std::string name;
  StoredTensor integers, scales;
  StoredTensor zeros{};           // where groups have their own zero points
  uint32_t zero_offset = 0;       // added to stored zero points
  std::vector<uint32_t> order{};  // the group of each column; empty: groups of neighbours
  uint32_t rows = 0;              // outputs
  uint32_t columns = 0;
  uint32_t bits = 8;
  uint32_t group = 0;  // columns that share a scale; divides `columns`

  bool has_zeros() const { return !zeros.name.empty(); }
  size_t group_of(size_t column) const { return order.empty() ? column / group : order[column]; }
};

// ---- integers and scales ----

// Unpacks unsigned integers of `bits` bits from 32-bit words, the lowest bits first.
std::vector<uint8_t> unpack_words(const StoredTensor& words, uint32_t bits) {
  const std::vector<double> numbers = words.load_f64();  // exact, as they have 32 bits
  std::vector<uint8_t> integers;
  integers.reserve(numbers.size() * (32 / bits));
  const uint32_t mask = (1u << bits) - 1;
  for (const double number : numbers) {
    const auto word = static_cast<uint32_t>(static_cast<int64_t>(number));
    for (uint32_t shift = 0; shift < 32; shift += bits) {
      integers.push_back(static_cast<uint8_t>(word >> shift & mask));
    }
  }
  return integers;
}

// Unpacks AWQ's 4-bit words [inputs or groups, rows / 8] to [inputs or groups, rows].
std::vector<uint8_t> unpack_awq(const StoredTensor& words) {
  const std::vector<uint8_t> stored = unpack_words(words, 4);
  std::vector<uint8_t> integers(stored.size());
  for (size_t i = 0; i < stored.size(); ++i) integers[i - i % 8 + kAwqOrder[i % 8]] = stored[i];
  return integers;
}

// Returns integers minus the zero points of their groups, [rows, columns].
std::vector<int8_t> load_centred_integers(const Layer& layer) {
  const std::vector<uint8_t> stored = unpack_awq(layer.integers), zeros = unpack_awq(layer.zeros);
  std::vector<int8_t> values(stored.size());
  for (size_t i = 0; i < stored.size(); ++i) {
    const size_t row = i % layer.rows, column = i / layer.rows;
    const uint8_t zero = zeros[column / layer.group * layer.rows + row];
    values[row * layer.columns + column] = static_cast<int8_t>(int{stored[i]} - int{zero});
  }
  return values;
}

// Returns integers [rows, columns].
std::vector<int8_t> load_integers(const Layer& layer) {
  if (*layer.layout.zeros != '\0') return load_centred_integers(layer);
  const std::vector<uint8_t> zeros =
      layer.has_zeros() ? unpack_words(layer.zeros, layer.bits) : std::vector<uint8_t>{};
  const size_t stored_outputs = zeros.size() / (layer.columns / layer.group);
  if (layer.integers.type == "I8") {
    const Floats values = layer.integers.load();
    return {values.begin(), values.end()};
  }
  const std::vector<uint8_t> stored = unpack_words(layer.integers, layer.bits);
  const int middle = 1 << (layer.bits - 1);
  const size_t in_word = 32 / layer.bits;
  const size_t stored_columns = stored.size() / layer.rows;  // the last word may not be full
  std::vector<int8_t> values(size_t{layer.rows} * layer.columns);
  for (size_t row = 0; row < layer.rows; ++row) {
    for (size_t column = 0; column < layer.columns; ++column) {
      const size_t place = layer.layout.has_inputs_first
                               ? (column / in_word * layer.rows + row) * in_word + column % in_word
                               : row * stored_columns + column;
      const int zero = zeros.empty() ? middle
                                     : zeros[layer.group_of(column) * stored_outputs + row] +
                                           static_cast<int>(layer.zero_offset);
      values[row * layer.columns + column] = static_cast<int8_t>(int{stored[place]} - zero);
    }
  }
  return values;
}

// Returns scales [rows, groups]. Throws InputError unless all are finite and at least 0.
std::vector<float> load_scales(const Layer& layer) {
  const Floats stored = layer.scales.load();
  const size_t groups = stored.size() / layer.rows;
  std::vector<float> scales(stored.size());
  for (size_t i = 0; i < stored.size(); ++i) {
    if (!std::isfinite(stored[i]) || stored[i] < 0.0f) {
      throw InputError(
          "{} has the value {} at index {}: expected finite scales of at least 0; the file is "
          "damaged, or quantizing failed: {}",
          place_of(layer.scales), stored[i], i, kConvertOriginal);
    }
    const size_t place =
        layer.layout.has_inputs_first ? i % layer.rows * groups + i / layer.rows : i;
    scales[place] = stored[i] / layer.layout.scale_divisor;
  }
  return scales;
}

// Reads integers and scales. Also throws InputError if nonzero integers have a scale of zero, since
// their weights are lost.
ScaledIntegers read_layer(const Layer& layer) {
  ScaledIntegers integers{.rows = layer.rows,
                          .columns = layer.columns,
                          .group = layer.group,
                          .values = load_integers(layer),
                          .scales = load_scales(layer)};
  if (!layer.order.empty()) {  // then each column has its own copy of the scale
    const std::vector<float> of_groups = std::exchange(integers.scales, {});
    const size_t groups = of_groups.size() / layer.rows;
    for (size_t row = 0; row < layer.rows; ++row) {
      for (const uint32_t group : layer.order) {
        integers.scales.push_back(of_groups[row * groups + group]);
      }
    }
    integers.group = 1;
  }
  const size_t group = integers.group;
  const size_t groups = layer.columns / group;
  for (size_t i = 0; i < integers.scales.size(); ++i) {
    const auto values = std::span(integers.values).subspan(i * group, group);
    if (integers.scales[i] != 0.0f ||
        std::ranges::all_of(values, [](int8_t value) { return value == 0; })) {
      continue;
    }
    throw InputError(
        "{}: the scale of output {}, inputs {} to {}, is 0, but their integers are not: the "
        "weights are lost; {}",
        place_of(layer.scales), i / groups, i % groups * group, (i % groups + 1) * group - 1,
        kConvertOriginal);
  }
  return integers;
}

void expect_shape(const StoredTensor& tensor, const std::vector<uint64_t>& shape) {
  if (tensor.shape == shape) return;
  throw InputError("{} has shape {}: expected {}", place_of(tensor), shape_text(tensor.shape),
                   shape_text(shape));
}

// Returns the group of each column, empty if column i is in group i / group. An order of only -1
// means that it was not set. Throws InputError unless all groups are of the same size.
std::vector<uint32_t> read_group_order(const StoredTensor& order, const Layer& layer) {
  expect_shape(order, {layer.columns});
  const Floats stored = order.load();
  if (std::ranges::all_of(stored, [](float number) { return number == -1.0f; })) return {};
  const uint32_t groups = layer.columns / layer.group;
  std::vector<uint32_t> found, inputs(groups, 0);
  bool is_sequential = true;
  for (size_t i = 0; i < stored.size(); ++i) {
    if (!(stored[i] >= 0.0f && stored[i] < static_cast<float>(groups))) {
      throw InputError("{} puts input {} into group {}: expected 0 to {}", place_of(order), i,
                       stored[i], groups - 1);
    }
    found.push_back(static_cast<uint32_t>(stored[i]));
    ++inputs[found.back()];
    is_sequential = is_sequential && found.back() == i / layer.group;
  }
  for (uint32_t group = 0; group < groups; ++group) {
    if (inputs[group] == layer.group) continue;
    throw InputError("{} puts {} inputs into group {}: expected {}", place_of(order), inputs[group],
                     group, layer.group);
  }
  return is_sequential ? std::vector<uint32_t>{} : found;
}

// Replaces the tensors of quantized layers by one matrix each, `<layer>.weight`. REQUIRES: the
// store outlives it.
class QuantizedLayers {
 public:
  explicit QuantizedLayers(const TensorStore& store) : store_(store) {}

  // Returns the names of layers that have this part, of this type or, if that is empty, of any.
  std::vector<std::string> with(std::string_view part, std::string_view type = {}) const {
    std::vector<std::string> layers;
    const std::string ending = "." + std::string(part);
    for (const StoredTensor& tensor : store_.tensors()) {
      if (!tensor.name.ends_with(ending) || (!type.empty() && tensor.type != type)) continue;
      layers.push_back(tensor.name.substr(0, tensor.name.size() - ending.size()));
    }
    return layers;
  }

  // Returns nullptr if absent.
  const StoredTensor* find(const std::string& layer, const char* part) const {
    return store_.find(layer + "." + part);
  }

  const StoredTensor& require(const std::string& layer, const char* part, Types types) const {
    const StoredTensor* tensor = find(layer, part);
    if (tensor == nullptr) {
      throw InputError(
          "{}: tensor {} is missing: the weights of layer {} cannot be read without it; fetch or "
          "save the model again",
          quote(store_.source()), quote(layer + "." + part), quote(layer));
    }
    if (std::ranges::none_of(types, [&](const char* type) { return tensor->type == type; })) {
      throw InputError("{} is of type {}: expected {}", place_of(*tensor), tensor->type,
                       fmt::join(types, ", "));
    }
    return *tensor;
  }

  // Returns an 8-bit layer with the shape of its integers, without groups.
  Layer layer(const Layout& layout, const std::string& name) const {
    const StoredTensor& integers = require(name, layout.parts[0], {layout.type});
    const Sides sides = sides_of(integers);
    return {.layout = layout,
            .name = name,
            .integers = integers,
            .scales = require(name, layout.parts[1], {"F32", "F16", "BF16"}),
            .rows = sides.rows,
            .columns = sides.columns,
            .group = sides.columns};
  }

  // Replaces the parts by the weight. If no type can hold its integers unchanged, the weight only
  // loads the dequantized products.
  void add(Layer layer, bool is_by_row) {
    const Layout& layout = layer.layout;
    if (find(layer.name, layout.order) != nullptr) {
      layer.order = read_group_order(require(layer.name, layout.order, {"I32", "I64"}), layer);
    }
    for (const char* part : layout.parts) {
      if (part != nullptr) replaced_.insert(layer.name + "." + part);
    }
    std::string scheme = fmt::format(fmt::runtime(is_by_row ? layout.by_row : layout.in_groups),
                                     fmt::arg("bits", layer.bits), fmt::arg("group", layer.group));
    if (!layer.order.empty()) scheme += ", act-order";
    if (layer.has_zeros() && *layout.zeros == '\0') scheme += ", with zeros";
    StoredTensor stored{.name = layer.name + ".weight",
                        .type = scheme,
                        .shape = {layer.rows, layer.columns},
                        .load = [layer] { return products(read_layer(layer)); },
                        .file = layer.integers.file,
                        .is_by_outputs = true};
    // Integers relative to zero points take a bit more, and act-order has no blocks.
    const uint32_t bits = layer.has_zeros() ? 8 : layer.bits;
    for (const TensorType type : kIntegerTypes) {
      if (!layer.order.empty() || !can_hold(type, bits, layer.columns, layer.group)) continue;
      stored.quantized = {type, stored.type};
      stored.load_quantized = [layer, type, where = place_of(stored)] {
        return keep_integers(read_layer(layer), type, where);
      };
    }
    weights_.push_back(std::move(stored));
  }

  // Returns all tensors, with whole weights in place of quantized layers' tensors.
  TensorStore result() const {
    TensorStore store(store_.source());
    for (const StoredTensor& tensor : store_.tensors()) {
      if (!replaced_.contains(tensor.name)) store.add(tensor);
    }
    for (const StoredTensor& weight : weights_) store.add(weight);
    return store;
  }

 private:
  const TensorStore& store_;
  std::set<std::string> replaced_;
  std::vector<StoredTensor> weights_;
};

// Throws UnsupportedError: "expected <what>; convert the original weights ...".
[[noreturn]] void refuse(const ConfigFields& config, const char* field, const std::string& what) {
  config.refuse(field, fmt::format("expected {}; {}", what, kConvertOriginal));
}

// Returns 4 or 8.
uint32_t read_bits(ConfigFields& config, const char* field, std::optional<uint32_t> fallback = {}) {
  const uint32_t bits = config.count(field, fallback);
  if (bits != 4 && bits != 8) refuse(config, field, "4 or 8");
  return bits;
}

// ---- GPTQ ----

constexpr const char* kHarmlessOfGptq[] = {
    // Settings of the quantization, whose results are in the tensors.
    "act_group_aware", "auto_mixed_precision", "batch_size", "block_name_to_quantize",
    "cache_block_outputs", "damp_auto_increment", "damp_percent", "dataset", "lm_head",
    "max_input_length", "model_name_or_path", "model_seqlen", "module_name_preceding_first_block",
    "modules_in_block_to_quantize", "mse", "pad_token_id", "static_groups", "tokenizer",
    "true_sequential",
    // Names and versions of quantizers and backends.
    "autogptq_version", "backend", "disable_exllama", "exllama_config", "meta",
    "model_file_base_name", "quantizer", "use_cuda_fp16", "use_exllama", "version"};

struct GptqFormat {
  uint32_t bits = 4;
  uint32_t group_size = 0;  // 0: all inputs
  uint32_t stored_zero = 0;
  bool is_symmetric = true;
  bool is_in_order = true;  // unless g_idx says so, too
};

GptqFormat read_gptq_format(ConfigFields& config) {
  config.pass_over(kHarmlessOfGptq);
  GptqFormat format;
  format.bits = read_bits(config, "bits");
  if (config.equals("group_size", -1)) {
    config.pass_over("group_size");
  } else {
    format.group_size = config.count("group_size", 128);
    if (format.bits == 4 && format.group_size % kQ4Block != 0) {
      refuse(config, "group_size", fmt::format("a multiple of {}, or -1 for all inputs", kQ4Block));
    }
  }
  format.is_symmetric = config.flag("sym", true);
  if (!format.is_symmetric && format.bits == 8) {
    refuse(config, "sym", "true for 8 bits: these are int8, without zero points");
  }
  bool is_second_version = false;
  for (const char* field : {"checkpoint_format", "format"}) {
    const std::string layout = config.text(field, "gptq");
    is_second_version = is_second_version || layout == "gptq_v2";
    if (layout == "gptq" || layout == "gptq_v2") continue;
    refuse(config, field,
           "gptq or gptq_v2: layouts of other kernels, such as marlin, are not supported");
  }
  config.expect("is_marlin_format", false, "the layout of marlin is not supported");
  config.expect("method", "gptq", "other methods have other formats");
  config.expect("pack_dtype", "int32", "other word sizes are not supported");
  if (const std::optional<ConfigFields> dynamic = config.object("dynamic")) {
    for (const std::string& pattern : dynamic->names()) {
      if (pattern.starts_with('-')) continue;  // layers that are not quantized
      config.refuse("dynamic", "per-layer settings are not supported");
    }
  }
  config.expect("adapter", nullptr, "adapters are not applied: merge them before quantizing");
  config.expect("rotation", nullptr, "rotated weights are not supported");
  format.is_in_order = !config.flag("desc_act", false);
  format.stored_zero = (1u << (format.bits - 1)) - (is_second_version ? 0 : 1);
  return format;
}

// Sets the zero points of a layer if any is not the middle of the range. Throws InputError if the
// format is symmetric, and for the zero point 0 in the first version, which stores it as -1.
void read_gptq_zeros(const StoredTensor& zeros, Layer& layer, const GptqFormat& format) {
  const uint32_t words = (layer.rows * layer.bits + 31) / 32;
  const uint32_t stored_zero = format.stored_zero;
  expect_shape(zeros, {layer.columns / layer.group, words});
  const std::vector<uint8_t> found = unpack_words(zeros, layer.bits);
  const size_t stored_outputs = size_t{words} * (32 / layer.bits);
  layer.zero_offset = (1u << (layer.bits - 1)) - stored_zero;
  for (size_t i = 0; i < found.size(); ++i) {
    if (i % stored_outputs >= layer.rows || found[i] == stored_zero) continue;
    layer.zeros = zeros;
    if (!format.is_symmetric && found[i] + layer.zero_offset < (1u << layer.bits)) continue;
    throw InputError(
        "{} has {} for group {} of output {}: expected {}, the middle as checkpoint_format {} "
        "stores it, as sym is true, or another zero point that fits {} bits; a checkpoint_format "
        "other than the config's is not supported: {}",
        place_of(zeros), found[i], i / stored_outputs, i % stored_outputs, stored_zero,
        stored_zero % 2 != 0 ? "gptq" : "gptq_v2", layer.bits, kConvertOriginal);
  }
}

void read_gptq(ConfigFields& config, QuantizedLayers& layers) {
  const GptqFormat format = read_gptq_format(config);
  for (const std::string& name : layers.with("qweight")) {
    Layer layer = layers.layer(kGptq, name);
    layer.bits = format.bits;
    layer.columns = std::exchange(layer.rows, layer.columns) * (32 / format.bits);
    layer.group = format.group_size == 0 ? layer.columns : format.group_size;
    if (layer.columns % layer.group != 0) {
      throw InputError("{} has {} inputs: groups of {} do not divide them: {}",
                       place_of(layer.integers), layer.columns, layer.group, kConvertOriginal);
    }
    if (format.bits == 8 && layer.group != layer.columns) {
      throw InputError(
          "{} has 8 bits and a scale for every {} of {} inputs: expected one for each output "
          "(group_size -1); {}",
          place_of(layer.integers), layer.group, layer.columns, kConvertOriginal);
    }
    expect_shape(layer.scales, {layer.columns / layer.group, layer.rows});
    read_gptq_zeros(layers.require(name, "qzeros", {"I32"}), layer, format);
    if (!format.is_in_order) layers.require(name, kGptq.order, {"I32"});
    layers.add(layer, format.group_size == 0);
  }
}

// ---- AWQ ----

void read_awq(ConfigFields& config, QuantizedLayers& layers) {
  config.pass_over({"backend", "do_fuse", "exllama_config", "fuse_max_seq_len", "modules_to_fuse",
                    "modules_to_not_convert"});
  if (config.count("bits") != 4) refuse(config, "bits", "4");
  config.expect("zero_point", true, "groups without zero points have another layout");
  config.expect("version", "gemm", "layouts of other kernels are not supported");
  const bool is_by_row = config.equals("group_size", -1);
  if (is_by_row) config.pass_over("group_size");
  const uint32_t group_size = is_by_row ? 0 : config.count("group_size");
  for (const std::string& name : layers.with("qweight")) {
    Layer layer = layers.layer(kAwq, name);
    layer.zeros = layers.require(name, kAwq.zeros, {"I32"});
    const uint32_t words = std::exchange(layer.columns, layer.rows);
    layer.rows = words * 8;
    layer.group = is_by_row ? layer.columns : group_size;
    if (layer.group == 0 || layer.columns % layer.group != 0) {
      throw InputError("{} has {} inputs: groups of {} do not divide them: {}",
                       place_of(layer.integers), layer.columns, layer.group, kConvertOriginal);
    }
    expect_shape(layer.scales, {layer.columns / layer.group, layer.rows});
    expect_shape(layer.zeros, {layer.columns / layer.group, words});
    layers.add(layer, is_by_row);
  }
}

// ---- compressed-tensors ----

// Weight settings of a config group.
struct Settings {
  uint32_t bits = 0;
  uint32_t group_size = 0;  // 0: all inputs
};

void expect_format(ConfigFields& config) {
  const std::string format = config.text("format", "mixed-precision");
  for (const char* known :
       {"int-quantized", "pack-quantized", "naive-quantized", "mixed-precision"}) {
    if (format == known) return;
  }
  refuse(config, "format",
         "int-quantized or pack-quantized: other layouts, and elements that are not integers, are "
         "not supported");
}

Settings read_weights(ConfigFields& weights) {
  // Settings of how scales and zero points were found, and of the layers left out. If actorder
  // permuted the groups, weight_g_idx is stored.
  weights.pass_over(
      {"actorder", "block_structure", "observer", "observer_kwargs", "scale_dtype", "zp_dtype"});
  Settings settings{.bits = read_bits(weights, "num_bits", 8)};
  if (weights.text("type", "int") != "int") refuse(weights, "type", "int: integers");
  if (!weights.flag("symmetric", true)) {
    refuse(weights, "symmetric", "true: zero points are not supported");
  }
  if (weights.flag("dynamic", false))
    refuse(weights, "dynamic", "false: dynamic scales are not supported");
  const std::string strategy = weights.text("strategy");
  if (strategy == "group") {
    settings.group_size = weights.count("group_size");
    if (settings.bits == 8) {
      refuse(weights, "strategy", "channel with 8 bits: a scale for each row");
    }
    if (settings.group_size % kQ4Block != 0) refuse(weights, "group_size", "a multiple of 32");
  } else if (strategy == "channel") {
    weights.pass_over("group_size");
  } else {
    refuse(weights, "strategy", "channel, or group with 4 bits");
  }
  weights.finish();
  return settings;
}

std::vector<Settings> read_settings(ConfigFields& config) {
  std::vector<Settings> all;
  std::optional<ConfigFields> groups = config.object("config_groups");
  if (!groups) config.refuse("config_groups", "expected an object");
  for (const std::string& name : groups->names()) {
    ConfigFields group = *groups->object(name);
    for (const std::string& target : group.texts("targets")) {
      if (target == "Conv1D") group.refuse("targets", "layers of class Conv1D are not supported");
    }
    if (group.has("format")) expect_format(group);
    // The runtime quantizes activations by row or not at all.
    const std::optional<ConfigFields> inputs = group.object("input_activations");
    if (inputs && !inputs->equals("dynamic", true)) {
      refuse(*inputs, "dynamic", "true: activations with fixed scales are not supported");
    }
    group.expect("output_activations", nullptr, "quantized results are not supported");
    if (std::optional<ConfigFields> weights = group.object("weights")) {
      all.push_back(read_weights(*weights));
    }
    group.finish();
  }
  return all;
}

// Sets the bits and columns of a layer whose last words may not be full.
void read_packed_shape(const QuantizedLayers& layers, const std::vector<Settings>& settings,
                       Layer& layer) {
  const StoredTensor& shape = layers.require(layer.name, "weight_shape", {"I64", "I32"});
  expect_shape(shape, {2});
  const std::vector<double> sides = shape.load_f64();
  for (const Settings& each : settings) {
    const double in_word = 32.0 / each.bits;
    const double columns_max = layer.columns * in_word;
    if (sides[0] == layer.rows && sides[1] <= columns_max && sides[1] > columns_max - in_word) {
      layer.bits = each.bits;
      layer.columns = static_cast<uint32_t>(sides[1]);
      return;
    }
  }
  throw InputError(
      "{} is [{}, {}], but {} has shape {}: expected as many rows, and 8 columns of 4 bits or 4 "
      "of 8 bits in a word, as the config says",
      place_of(shape), sides[0], sides[1], quote(layer.integers.name),
      shape_text(layer.integers.shape));
}

// Settings do not name layers here, so any with the same bits and group size may apply.
void add_compressed(QuantizedLayers& layers, const std::vector<Settings>& settings, Layer layer) {
  const Sides sides = sides_of(layer.scales);
  layer.group = layer.columns / sides.columns;
  const bool is_expected = std::ranges::any_of(settings, [&](const Settings& each) {
    const uint32_t size = each.group_size == 0 ? layer.columns : each.group_size;
    return each.bits == layer.bits && size == layer.group;
  });
  if (sides.rows != layer.rows || layer.group * sides.columns != layer.columns || !is_expected) {
    throw InputError(
        "{} has shape {} for weights of {} bits [{}, {}]: expected [{}, 1], or columns for groups "
        "of 4 bits, as the config says",
        place_of(layer.scales), shape_text(layer.scales.shape), layer.bits, layer.rows,
        layer.columns, layer.rows);
  }
  if (const StoredTensor* zeros = layers.find(layer.name, "weight_zero_point")) {
    if (std::ranges::any_of(zeros->load(), [](float zero) { return zero != 0.0f; })) {
      throw InputError("{} has a value that is not 0: zero points are not supported: {}",
                       place_of(*zeros), kConvertOriginal);
    }
  }
  layers.add(layer, layer.group == layer.columns);
}

void read_compressed_tensors(ConfigFields& config, QuantizedLayers& layers) {
  config.pass_over(
      {"global_compression_ratio", "ignore", "quantization_status", "run_compressed", "version"});
  expect_format(config);
  config.expect("kv_cache_scheme", nullptr, "scales of a quantized cache are not supported");
  config.expect("transform_config", nlohmann::json::object(), "rotated weights are not supported");
  std::optional<ConfigFields> sparsity = config.object("sparsity_config");
  if (sparsity && sparsity->size() > 0 && sparsity->text("format", "dense") != "dense") {
    refuse(*sparsity, "format", "dense");
  }
  const std::vector<Settings> settings = read_settings(config);
  for (const std::string& name : layers.with("weight_packed")) {
    Layer layer = layers.layer(kPacked, name);
    read_packed_shape(layers, settings, layer);
    add_compressed(layers, settings, std::move(layer));
  }
  for (const std::string& name : layers.with("weight", "I8")) {
    add_compressed(layers, settings, layers.layer(kBytes, name));
  }
}

// ---- bitsandbytes ----

constexpr const char* kHarmlessOfBitsAndBytes[] = {
    // Settings of 4-bit weights, which are not used here.
    "_load_in_4bit", "bnb_4bit_compute_dtype", "bnb_4bit_quant_storage", "bnb_4bit_quant_type",
    "bnb_4bit_use_double_quant",
    // Settings of how int8 layers run: which activations are multiplied in 16 bits.
    "_load_in_8bit", "llm_int8_enable_fp32_cpu_offload", "llm_int8_has_fp16_weight",
    "llm_int8_skip_modules", "llm_int8_threshold", "load_in_8bit"};

void read_bitsandbytes(ConfigFields& config, QuantizedLayers& layers) {
  config.pass_over(kHarmlessOfBitsAndBytes);
  if (config.flag("load_in_4bit", false)) {
    config.refuse("load_in_4bit",
                  fmt::format("the non-uniform levels of {} are not supported: {}",
                              config.text("bnb_4bit_quant_type", "fp4"), kConvertOriginal));
  }
  for (const std::string& name : layers.with("weight", "I8")) {
    const Layer layer = layers.layer(kBitsAndBytes, name);
    expect_shape(layer.scales, {layer.rows});
    if (layers.find(name, "weight_format") != nullptr) {
      const StoredTensor& format = layers.require(name, "weight_format", {"U8"});
      const Floats number = format.load();
      if (number.size() != 1 || number[0] != 0.0f) {  // the layouts of single kernels
        throw InputError(
            "{} is {}: expected 0, the layout by rows; save the model again with a newer version "
            "of bitsandbytes",
            place_of(format), number.empty() ? 0.0f : number[0]);
      }
    }
    layers.add(layer, true);
  }
}

// ---- detecting the scheme ----

struct Scheme {
  const char* method;
  void (*read)(ConfigFields& config, QuantizedLayers& layers);  // nullptr: it is not read
  const char* reason = "";                                      // why not
};
constexpr Scheme kSchemes[] = {
    {"gptq", read_gptq},
    {"awq", read_awq},
    {"compressed-tensors", read_compressed_tensors},
    {"bitsandbytes", read_bitsandbytes},
    {"aqlm", nullptr, "its weights are sums of rows of codebooks"},
    {"auto-round", nullptr, "its packed layouts are not supported"},
    {"bitnet", nullptr, "its weights of two bits are not supported"},
    {"eetq", nullptr, "its layout is made for one kernel"},
    {"fbgemm_fp8", nullptr, "8-bit floats are not supported"},
    {"fp8", nullptr, "8-bit floats are not supported"},
    {"higgs", nullptr, "its weights are lattice points"},
    {"hqq", nullptr, "its groups have their own zero points"},
    {"marlin", nullptr, "its layout is made for one kernel"},
    {"modelopt", nullptr, "its packed layouts are not supported"},
    {"mxfp4", nullptr, "4-bit floats are not supported"},
    {"quanto", nullptr, "its packed layouts are not supported"},
    {"quark", nullptr, "its packed layouts are not supported"},
    {"quip", nullptr, "its weights are rotated lattice points"},
    {"spqr", nullptr, "its scales are quantized, too"},
    {"torchao", nullptr, "its packed layouts are not supported"},
    {"vptq", nullptr, "its weights are rows of codebooks"},
    {"", nullptr, "it is not known"},
};

// Returns the quantization settings; nullopt if there are none, or if they are empty.
std::optional<ConfigFields> quantization_of(ConfigFields& config, const Opened& model) {
  std::optional<ConfigFields> fields = config.object("quantization_config");
  if (fields) return fields->size() > 0 ? fields : std::nullopt;
  const std::filesystem::path own = model.folder / "quantize_config.json";  // AutoGPTQ's first
  if (!is_there(own)) return std::nullopt;
  nlohmann::json object = read_json_object(own);
  object.emplace("quant_method", "gptq");
  return ConfigFields(std::move(object), quote(own.string()));
}

}  // namespace

TensorStore with_whole_weights(const Opened& model) {
  ConfigFields config = model.config_fields();
  std::optional<ConfigFields> fields = quantization_of(config, model);
  if (!fields) return model.tensors;
  const bool is_early_bitsandbytes = fields->has("load_in_8bit") || fields->has("load_in_4bit");
  const std::string method =
      fields->text("quant_method", is_early_bitsandbytes ? "bitsandbytes" : "");
  std::string expected = "expected ";
  for (const Scheme& scheme : kSchemes) {
    const bool is_this = method == scheme.method || *scheme.method == '\0';
    if (is_this && scheme.read != nullptr) {
      QuantizedLayers layers(model.tensors);
      scheme.read(*fields, layers);
      fields->finish();
      return layers.result();
    }
    if (scheme.read != nullptr) expected += fmt::format("{}, ", scheme.method);
    if (!is_this) continue;
    expected += fmt::format("or another checkpoint: {}", kConvertOriginal);
    if (!method.empty()) {
      fields->refuse("quant_method", fmt::format("this quantization is not supported, as {}; {}",
                                                 scheme.reason, expected));
    }
  }
  config.refuse("quantization_config",
                "quant_method is missing, so the quantization is unknown; " + expected);
}

void pass_over_zero_biases(ModelTensors& tensors) {
  constexpr std::string_view kBias = ".bias";
  std::map<std::string_view, const StoredTensor*> stored;
  for (const StoredTensor& tensor : tensors.stored()) stored.emplace(tensor.name, &tensor);
  for (const std::string& name : tensors.rest()) {
    if (!name.ends_with(kBias)) continue;
    const auto weight = stored.find(name.substr(0, name.size() - kBias.size()) + ".weight");
    if (weight == stored.end() || !weight->second->is_by_outputs) continue;
    const Floats values = stored.at(name)->load();
    if (std::ranges::all_of(values, [](float value) { return value == 0.0f; })) {
      tensors.pass_over(name);
    }
  }
}

}  // namespace arenite::convert
