// SPDX-License-Identifier: Apache-2.0
// Layers as the library compressed-tensors saves them: int-quantized has weight [outputs, inputs]
// as int8, pack-quantized has weight_packed [outputs, inputs / 8] with 8 integers of 4 bits in a
// word (4 of 8 bits), stored from 0 up, and weight_shape [2]. weight_scale is [outputs, groups].
#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include "convert/families/quantized_layers.h"
#include "convert/files/error.h"

namespace arenite::convert {
namespace {

constexpr const char* kInt8[] = {"I8"};
constexpr const char* kIntegers[] = {"I64", "I32"};

// How scales and zeros were found, and what was left out or came out.
constexpr const char* kHarmlessOfCompressed[] = {
    "actorder",  // groups that it changed are stored as weight_g_idx
    "block_structure", "observer", "observer_kwargs", "scale_dtype", "zp_dtype",
};

// What a group of the config says of its layers' weights.
struct Settings {
  uint32_t bits = 0;
  uint32_t group_size = 0;  // 0: all inputs
};

void expect_format(ConfigFields& config) {
  const std::string format = config.text("format", "mixed-precision");
  if (format == "int-quantized" || format == "pack-quantized" || format == "naive-quantized" ||
      format == "mixed-precision") {
    return;
  }
  config.refuse("format", fmt::format("expected int-quantized or pack-quantized, other layouts and "
                                      "other numbers than integers are not read: {}",
                                      kConvertOriginal));
}

Settings read_weights(ConfigFields& weights) {
  for (const char* field : kHarmlessOfCompressed) weights.pass_over(field);
  const auto refuse = [&](const char* field, const char* expected) {
    weights.refuse(field, fmt::format("expected {}; {}", expected, kConvertOriginal));
  };
  Settings settings{.bits = weights.count("num_bits", 8)};
  if (settings.bits != 4 && settings.bits != 8) refuse("num_bits", "4 or 8");
  if (weights.text("type", "int") != "int") refuse("type", "int: integers");
  if (!weights.flag("symmetric", true)) {
    refuse("symmetric", "true: zeros of their own are not supported");
  }
  if (weights.flag("dynamic", false)) refuse("dynamic", "false: scales that are stored");
  const std::string strategy = weights.text("strategy");
  if (strategy == "group") {
    settings.group_size = weights.count("group_size");
    if (settings.bits == 8) refuse("strategy", "channel with 8 bits: a scale for each row");
    if (settings.group_size % kQ4Block != 0) refuse("group_size", "a multiple of 32");
  } else if (strategy == "channel") {
    weights.pass_over("group_size");
  } else {
    refuse("strategy", "channel, or group with 4 bits");
  }
  weights.finish();
  return settings;
}

// The runtime quantizes activations row by row, too, or not at all.
void check_activations(ConfigFields& group) {
  std::optional<ConfigFields> inputs = group.object("input_activations");
  if (inputs && !inputs->equals("dynamic", true)) {
    inputs->refuse("dynamic", fmt::format("expected true: activations with fixed scales are not "
                                          "supported; {}",
                                          kConvertOriginal));
  }
  group.expect("output_activations", nullptr, "quantized results are not supported");
}

std::vector<Settings> read_settings(ConfigFields& config) {
  std::vector<Settings> all;
  std::optional<ConfigFields> groups = config.object("config_groups");
  if (!groups) config.refuse("config_groups", "expected an object");
  for (const std::string& name : groups->names()) {
    ConfigFields group = *groups->object(name);
    for (const std::string& target : group.texts("targets")) {
      if (target == "Conv1D") group.refuse("targets", "layers of class Conv1D are not read");
    }
    if (group.has("format")) expect_format(group);
    check_activations(group);
    if (std::optional<ConfigFields> weights = group.object("weights")) {
      all.push_back(read_weights(*weights));
    }
    group.finish();
  }
  return all;
}

// Integers that lie in bytes, or in words, and what they make.
struct Layer {
  const StoredTensor& stored;
  uint32_t rows = 0;
  uint32_t columns = 0;
  uint32_t bits = 8;
  bool is_packed = false;
};

ScaledIntegers read_layer(const StoredTensor& stored, const StoredTensor& scales,
                          const IntegerWeight& weight, bool is_packed) {
  ScaledIntegers integers{.rows = weight.rows, .columns = weight.columns, .group = weight.group};
  if (!is_packed) {
    const std::vector<float> values = stored.load();
    integers.values.assign(values.begin(), values.end());
  } else {
    const std::vector<uint8_t> values = unpack_words(stored, weight.bits);
    const size_t stored_columns = values.size() / weight.rows;  // the last word may not be full
    const int middle = 1 << (weight.bits - 1);
    integers.values.resize(size_t{weight.rows} * weight.columns);
    for (size_t i = 0; i < integers.values.size(); ++i) {
      const size_t place = i / weight.columns * stored_columns + i % weight.columns;
      integers.values[i] = static_cast<int8_t>(int{values[place]} - middle);
    }
  }
  integers.scales = load_scales(scales);
  check_zero_scales(integers, scales);
  return integers;
}

class LayerReader {
 public:
  LayerReader(const std::vector<Settings>& settings, QuantizedLayers& layers)
      : settings_(settings), layers_(layers) {}

  void add_bytes(const std::string& layer) {
    const StoredTensor& stored = layers_.require(layer, "weight", kInt8);
    const Sides sides = sides_of(stored);
    add(layer, {.stored = stored, .rows = sides.rows, .columns = sides.columns});
  }

  void add_packed(const std::string& layer) {
    const StoredTensor& stored = layers_.require(layer, "weight_packed", kInt32);
    const Sides packed = sides_of(stored);
    const StoredTensor& shape = layers_.require(layer, "weight_shape", kIntegers);
    expect_shape(shape, {2});
    const std::vector<double> sides = shape.load_f64();
    for (const Settings& settings : settings_) {
      const uint32_t in_word = 32 / settings.bits;
      const uint32_t columns_max = packed.columns * in_word;
      if (sides[0] != packed.rows || sides[1] > columns_max || sides[1] <= columns_max - in_word) {
        continue;
      }
      return add(layer, {.stored = stored,
                         .rows = packed.rows,
                         .columns = static_cast<uint32_t>(sides[1]),
                         .bits = settings.bits,
                         .is_packed = true});
    }
    throw InputError(
        "{} is [{}, {}], but {} has shape {}: expected as many rows, and 8 columns of 4 bits or 4 "
        "of 8 bits in a word, as the config says",
        place_of(shape), sides[0], sides[1], quote(stored.name), shape_text(stored.shape));
  }

 private:
  // Settings name no layers here, so any of those with so many bits may be meant.
  bool is_expected(const Layer& found, uint32_t group) const {
    return std::ranges::any_of(settings_, [&](const Settings& settings) {
      const uint32_t size = settings.group_size == 0 ? found.columns : settings.group_size;
      return settings.bits == found.bits && size == group;
    });
  }

  void check_zeros(const std::string& layer) const {
    const StoredTensor* zeros = layers_.find(layer, "weight_zero_point");
    if (zeros == nullptr) return;
    const std::vector<float> values = zeros->load();
    if (std::ranges::all_of(values, [](float zero) { return zero == 0.0f; })) return;
    throw InputError("{} has a value that is not 0: zeros of their own are not supported: {}",
                     place_of(*zeros), kConvertOriginal);
  }

  void add(const std::string& layer, const Layer& found) {
    const StoredTensor& scales = layers_.require(layer, "weight_scale", kReals);
    const Sides sides = sides_of(scales);
    const uint32_t group = found.columns / sides.columns;
    if (sides.rows != found.rows || group * sides.columns != found.columns ||
        !is_expected(found, group)) {
      throw InputError(
          "{} has shape {} for weights of {} bits [{}, {}]: expected [{}, 1], or columns for "
          "groups "
          "of 4 bits, as the config says",
          place_of(scales), shape_text(scales.shape), found.bits, found.rows, found.columns,
          found.rows);
    }
    check_zeros(layer);
    if (layers_.find(layer, "weight_g_idx") != nullptr) {
      check_group_order(layers_.require(layer, "weight_g_idx", kIntegers), found.columns, group);
    }
    const std::string width = fmt::format("compressed-tensors, int{}", found.bits);
    IntegerWeight weight{.scheme = group == found.columns
                                       ? width + " by row"
                                       : fmt::format("{} in groups of {}", width, group),
                         .rows = found.rows,
                         .columns = found.columns,
                         .bits = found.bits,
                         .group = group,
                         .read = {}};
    weight.read = [stored = found.stored, scales, weight, is_packed = found.is_packed] {
      return read_layer(stored, scales, weight, is_packed);
    };
    layers_.replace(layer,
                    {found.is_packed ? "weight_packed" : "weight", "weight_scale", "weight_shape",
                     "weight_zero_point", "weight_g_idx"},
                    weight);
  }

  const std::vector<Settings>& settings_;
  QuantizedLayers& layers_;
};

}  // namespace

void read_compressed_tensors(ConfigFields& config, QuantizedLayers& layers) {
  for (const char* field :
       {"global_compression_ratio", "ignore", "quantization_status", "run_compressed", "version"}) {
    config.pass_over(field);
  }
  expect_format(config);
  config.expect("kv_cache_scheme", nullptr, "scales of a quantized cache are not read");
  config.expect("transform_config", nlohmann::json::object(), "rotated weights are not supported");
  std::optional<ConfigFields> sparsity = config.object("sparsity_config");
  if (sparsity && sparsity->size() > 0 && sparsity->text("format", "dense") != "dense") {
    sparsity->refuse("format", fmt::format("expected dense: {}", kConvertOriginal));
  }
  const std::vector<Settings> settings = read_settings(config);
  LayerReader reader(settings, layers);
  for (const std::string& layer : layers.layers_with("weight_packed")) reader.add_packed(layer);
  for (const std::string& layer : layers.layers_with("weight", "I8")) reader.add_bytes(layer);
}

}  // namespace arenite::convert
