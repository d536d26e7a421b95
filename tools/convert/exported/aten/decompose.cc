// SPDX-License-Identifier: Apache-2.0
// Ops that are computed by other ops: a function and a row for each.
//
//    addmm(b, x, w)  ->  add(mm(x, w), b)
#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "convert/exported/aten/op_rules.h"

namespace arenite::convert {
namespace {

constexpr double kHidden = -std::numeric_limits<double>::infinity();

// Ops that compute beta * self + alpha * product(first, second).
struct ProductOp {
  std::string_view op, first, second;
  const char* product;
  const char* right;  // name of the product's second argument
};
constexpr ProductOp kProductOps[] = {{"addmm", "mat1", "mat2", "mm", "mat2"},
                                     {"addmv", "mat", "vec", "mv", "vec"},
                                     {"baddbmm", "batch1", "batch2", "bmm", "mat2"},
                                     {"addr", "vec1", "vec2", "outer", "vec2"}};

Argument add_product(const Call& call, const Parts& parts) {
  const ProductOp& row = *std::ranges::find(kProductOps, call.op, &ProductOp::op);
  Argument product = parts(
      row.product, {{"self", call.argument(row.first)}, {row.right, call.argument(row.second)}});
  const double alpha = call.real("alpha", 1.0), beta = call.real("beta", 1.0);
  if (alpha != 1.0) product = parts.times(product, alpha);
  if (beta == 0.0) return product;  // self may hold NaN
  return parts("add", {{"self", product}, {"other", call.argument("self")}, {"alpha", beta}});
}

// Computes a * sigmoid(b) for the halves a, b of a dimension.
Argument glu(const Call& call, const Parts& parts) {
  const Argument& self = call.argument("self");
  const Shape shape = parts.shape(self);
  const size_t dim = call.dimension("dim", -1, shape.size());
  if (shape.empty() || shape[dim] % 2 != 0)
    call.refuse("cannot split an odd dimension in half: expected an even extent");
  const auto half = [&](int64_t number) {
    return parts("slice", {{"self", self},
                           {"dim", static_cast<int64_t>(dim)},
                           {"start", number * shape[dim] / 2},
                           {"end", (number + 1) * shape[dim] / 2}});
  };
  return parts.times(parts("sigmoid", {{"self", half(1)}}), half(0));
}

// Reshapes per-channel values (dimension 1) so that they broadcast to `shape`.
Argument per_channel(const Parts& parts, const Argument& numbers, const Shape& shape) {
  if (shape.size() < 3) return numbers;
  Shape sizes(shape.size(), 1);
  sizes[1] = shape[1];
  return parts.view(numbers, sizes);
}

// Computes (x - mean) / sqrt(variance + epsilon) of each channel over the tokens of a sequence.
Argument instance_norm(const Call& call, const Parts& parts) {
  if (call.has("running_mean") && !call.flag("use_input_stats", true)) {
    call.refuse("found running statistics: expected those of the input, use_input_stats=True");
  }
  const Argument& input = call.argument("input");
  const Shape shape = parts.shape(input);
  if (shape.size() != 3) call.refuse("expected an input [sequences, channels, tokens]");
  const auto over_tokens = [&](const char* op, const Argument& of) {
    return parts(op, {{"self", of}, {"dim", Parts::list({2})}, {"keepdim", true}});
  };
  const Argument distance = parts("sub", {{"self", input}, {"other", over_tokens("mean", input)}});
  const Argument variance = over_tokens("mean", parts.times(distance, distance));
  const Argument deviation =
      parts("sqrt", {{"self", parts.plus(variance, call.real("eps", 1e-5))}});
  Argument result = parts("div", {{"self", distance}, {"other", deviation}});
  if (call.has("weight")) {
    result = parts.times(result, per_channel(parts, call.argument("weight"), shape));
  }
  if (!call.has("bias")) return result;
  return parts.plus(result, per_channel(parts, call.argument("bias"), shape));
}

// Computes sum(x1 / |x1| * x2 / |x2|) along a dimension.
Argument cosine_similarity(const Call& call, const Parts& parts) {
  const int64_t dim = call.integer("dim", 1);
  const auto of_length_one = [&](const char* name) {
    const Argument& rows = call.argument(name);
    const Argument length = parts("linalg_vector_norm",
                                  {{"self", rows}, {"dim", Parts::list({dim})}, {"keepdim", true}});
    const Argument divisor = parts("clamp", {{"self", length}, {"min", call.real("eps", 1e-8)}});
    return parts("div", {{"self", rows}, {"other", divisor}});
  };
  return parts("sum", {{"self", parts.times(of_length_one("x1"), of_length_one("x2"))},
                       {"dim", Parts::list({dim})}});
}

// Normalizes with running statistics. Batch statistics, which training uses, are refused.
Argument batch_norm(const Call& call, const Parts& parts) {
  if (call.flag("training", false)) {
    call.refuse(
        "batch norm uses statistics of the batch: call model.eval() before torch.export.export");
  }
  if (!call.has("running_mean") || !call.has("running_var")) {
    call.refuse("running statistics are missing: expected track_running_stats=True");
  }
  const Argument& input = call.argument("input");
  const Shape shape = parts.shape(input);
  if (shape.size() < 2)
    call.refuse("found an input without channels: expected [sequences, channels, ..]");
  for (const char* name : {"weight", "bias", "running_mean", "running_var"}) {
    if (call.has(name) && parts.shape(call.argument(name)) != Shape{shape[1]}) {
      call.refuse("weights and statistics differ in length: expected a value for each channel");
    }
  }
  const Argument deviation =
      parts("sqrt", {{"self", parts.plus(call.argument("running_var"), call.real("eps", 1e-5))}});
  const Argument factor =
      call.has("weight") ? parts("div", {{"self", call.argument("weight")}, {"other", deviation}})
                         : parts("reciprocal", {{"self", deviation}});
  const Argument mean = parts.times(call.argument("running_mean"), factor);
  const Argument bias = call.has("bias") ? call.argument("bias") : Argument(0.0);
  const Argument offset = parts("rsub", {{"self", mean}, {"other", bias}});
  return parts.plus(parts.times(input, per_channel(parts, factor, shape)),
                    per_channel(parts, offset, shape));
}

// Normalizes over the tokens and each group of channels. A matrix product computes the group means.
Argument norm_over_tokens(const Call& call, const Parts& parts, int64_t groups) {
  const Argument& input = call.argument("input");
  const Shape shape = parts.shape(input);
  const int64_t width = shape[1] / groups;
  Shape tokens, each = shape;
  for (size_t d = 2; d < shape.size(); ++d) {
    tokens.push_back(static_cast<int64_t>(d));
    each[d] = 1;
  }
  const auto repeated = [&](const Argument& matrix, int64_t dim) {
    return parts("repeat_interleave", {{"self", matrix}, {"repeats", width}, {"dim", dim}},
                 "self_int");
  };
  const auto mean_of = [&](const Argument& of) {
    Argument mean = parts("mean", {{"self", of}, {"dim", Parts::list(tokens)}});
    if (width > 1) {
      const Argument ones = repeated(repeated(parts("eye", {{"n", groups}}), 0), 1);
      mean = parts("matmul", {{"self", mean},
                              {"other", parts.times(ones, 1.0 / static_cast<double>(width))}});
    }
    return parts.view(mean, each);
  };
  const Argument distance = parts("sub", {{"self", input}, {"other", mean_of(input)}});
  const Argument variance = mean_of(parts.times(distance, distance));
  const Argument deviation =
      parts("sqrt", {{"self", parts.plus(variance, call.real("eps", 1e-5))}});
  return parts("div", {{"self", distance}, {"other", deviation}});
}

// Normalizes groups of channels: as a layer norm if there is one token, else over the tokens, too.
Argument group_norm(const Call& call, const Parts& parts) {
  const Argument& input = call.argument("input");
  const int64_t groups = call.integer(call.has("group") ? "group" : "num_groups");
  const Shape shape = parts.shape(input);
  if (shape.size() < 2 || groups < 1 || shape[1] % groups != 0 || shape[1] == 0) {
    call.refuse("{} groups do not divide the channels of {}: expected a divisor", groups,
                shape_text(shape));
  }
  int64_t width = shape[1] / groups;
  for (size_t d = 2; d < shape.size(); ++d) width *= shape[d];
  Argument result;
  if (width == shape[1] / groups) {
    result = parts("layer_norm", {{"input", parts.view(input, {shape[0], groups, width})},
                                  {"normalized_shape", Parts::list({width})},
                                  {"eps", call.real("eps", 1e-5)}});
    result = parts.view(result, shape);
  } else {
    result = norm_over_tokens(call, parts, groups);
  }
  if (call.has("weight")) {
    result = parts.times(result, per_channel(parts, call.argument("weight"), shape));
  }
  if (!call.has("bias")) return result;
  return parts.plus(result, per_channel(parts, call.argument("bias"), shape));
}

// Computes v * g / |v|, where the norm is over all dimensions but one.
Argument weight_norm(const Call& call, const Parts& parts) {
  const Argument& v = call.argument("v");
  const Shape shape = parts.shape(v);
  // Dimension -1 stands for the norm over all elements.
  const bool is_of_all = call.integer("dim", 0) == -1;
  const size_t dim = is_of_all ? shape.size() : call.dimension("dim", 0, shape.size());
  Shape sizes(shape.size(), 1);
  if (dim < shape.size()) sizes[dim] = shape[dim];
  std::vector<int64_t> others;
  for (size_t d = 0; d < shape.size(); ++d) {
    if (d != dim) others.push_back(static_cast<int64_t>(d));
  }
  if (others.empty()) call.refuse("found a weight with one dimension: expected rows");
  const Argument lengths =
      parts("linalg_vector_norm", {{"self", v}, {"dim", Parts::list(others)}, {"keepdim", true}});
  const Argument factor =
      parts("div", {{"self", parts.view(call.argument("g"), sizes)}, {"other", lengths}});
  return parts.times(v, factor);
}

struct Pool {
  Shape kernel, stride, padding;
};

// Averages windows by a depthwise convolution with equal weights. If padding is excluded, divides
// by the share of each window that lies inside.
Argument mean_over_windows(const Parts& parts, const Argument& input, const Pool& pool,
                           bool counts_zeros) {
  const size_t count = pool.kernel.size();
  const Shape shape = parts.shape(input);
  const int64_t channels = shape[shape.size() - count - 1];
  int64_t size = 1;
  for (const int64_t extent : pool.kernel) size *= extent;
  const auto convolved = [&](const Argument& of, int64_t groups, double weight) {
    Shape kernel = {groups, 1};
    kernel.insert(kernel.end(), pool.kernel.begin(), pool.kernel.end());
    return parts("convolution",
                 {{"input", of},
                  {"weight", parts.times(parts("ones", {{"size", Parts::list(kernel)}}), weight)},
                  {"stride", Parts::list(pool.stride)},
                  {"padding", Parts::list(pool.padding)},
                  {"groups", groups}});
  };
  const Argument mean = convolved(input, channels, 1.0 / static_cast<double>(size));
  if (counts_zeros || std::ranges::count(pool.padding, 0) == std::ssize(pool.padding)) return mean;
  Shape places = {1, 1};
  places.insert(places.end(), shape.end() - static_cast<ptrdiff_t>(count), shape.end());
  const Argument share =
      convolved(parts("ones", {{"size", Parts::list(places)}}), 1, 1.0 / static_cast<double>(size));
  return parts("div", {{"self", mean}, {"other", share}});
}

Argument avg_pool(const Call& call, const Parts& parts) {
  const size_t count = call.op == "avg_pool1d" ? 1 : 2;
  const Argument& input = call.argument("self");
  const Shape shape = parts.shape(input);
  if (shape.size() <= count)
    call.refuse("found an input {}: expected channels before the pooled dimensions",
                shape_text(shape));
  Pool pool;
  pool.kernel = each_of(call, "kernel_size", count, {});
  pool.stride = each_of(call, "stride", count, pool.kernel);
  pool.padding = each_of(call, "padding", count, {0});
  for (size_t d = 0; d < count; ++d) {
    const int64_t left = shape[shape.size() - count + d] + 2 * pool.padding[d] - pool.kernel[d];
    const bool is_sound = pool.kernel[d] >= 1 && pool.stride[d] >= 1 && left >= 0;
    if (!is_sound || (call.flag("ceil_mode", false) && left % pool.stride[d] != 0)) {
      call.refuse("the windows do not end with the input: pad the input, or drop ceil_mode");
    }
  }
  if (call.has("divisor_override"))
    call.refuse("divisor_override is not supported: scale the result instead");
  return mean_over_windows(parts, input, pool, call.flag("count_include_pad", true));
}

// Averages whole dimensions if the output size is 1, else adjacent windows.
Argument adaptive_avg_pool(const Call& call, const Parts& parts) {
  const size_t count = call.op == "adaptive_avg_pool1d" ? 1 : 2;
  const Argument& input = call.argument("self");
  const Shape shape = parts.shape(input);
  const Shape wanted = each_of(call, "output_size", count, {});
  if (shape.size() <= count)
    call.refuse("found an input {}: expected channels before the pooled dimensions",
                shape_text(shape));
  if (std::ranges::count(wanted, 1) == std::ssize(wanted)) {
    Shape dims = {-1};
    if (count == 2) dims = {-2, -1};
    return parts("mean", {{"self", input}, {"dim", Parts::list(dims)}, {"keepdim", true}});
  }
  Pool pool;
  for (size_t d = 0; d < count; ++d) {
    const int64_t extent = shape[shape.size() - count + d];
    if (wanted[d] < 1 || extent % wanted[d] != 0) {
      call.refuse(
          "windows from {} to {} differ in size: expected output sizes that divide the input's",
          shape_text(shape), shape_text(wanted));
    }
    pool.kernel.push_back(extent / wanted[d]);
  }
  pool.stride = pool.kernel;
  pool.padding = Shape(count, 0);
  return mean_over_windows(parts, input, pool, true);
}

// Takes differences of neighbours, n times.
Argument diff(const Call& call, const Parts& parts) {
  Argument array = call.argument("self");
  const auto dim = static_cast<int64_t>(call.dimension("dim", -1, parts.shape(array).size()));
  Argument::List joined;
  if (call.has("prepend")) joined.push_back(call.argument("prepend"));
  joined.push_back(array);
  if (call.has("append")) joined.push_back(call.argument("append"));
  if (joined.size() > 1) array = parts("cat", {{"tensors", joined}, {"dim", dim}});
  const int64_t extent = parts.shape(array)[static_cast<size_t>(dim)];
  for (int64_t i = 0; i < std::min(call.integer("n", 1), extent); ++i) {
    const Argument later = parts("slice", {{"self", array}, {"dim", dim}, {"start", int64_t{1}}});
    const Argument sooner = parts("slice", {{"self", array}, {"dim", dim}, {"end", int64_t{-1}}});
    array =
        parts(parts.is_bool(array) ? "logical_xor" : "sub", {{"self", later}, {"other", sooner}});
  }
  return array;
}

// Multiplies rows by a matrix: the last dimension of self is contracted.
Argument tensordot(const Call& call, const Parts& parts) {
  const std::vector<int64_t> dims = call.integers("dims_self"), other = call.integers("dims_other");
  const size_t rank = parts.shape(call.argument("self")).size();
  const bool fits = parts.shape(call.argument("other")).size() == 2 && dims.size() == 1 &&
                    other.size() == 1 && rank > 0 && call.dimension(dims[0], rank) + 1 == rank;
  if (!fits) call.refuse("expected rows times a matrix, tensordot(x, matrix, ([-1], [0]))");
  const Argument& matrix = call.argument("other");
  return parts(
      "matmul",
      {{"self", call.argument("self")},
       {"other", call.dimension(other[0], 2) == 0 ? matrix : parts("t", {{"self", matrix}})}});
}

// Computes self + weight * (end - self).
Argument lerp(const Call& call, const Parts& parts) {
  const Argument& self = call.argument("self");
  const Argument way = parts("sub", {{"self", call.argument("end")}, {"other", self}});
  return parts.plus(self, parts.times(way, call.argument("weight")));
}

// Computes self + value * tensor1 * tensor2, or / tensor2.
Argument add_scaled_product(const Call& call, const Parts& parts) {
  const char* const op = call.op == "addcmul" ? "mul" : "div";
  const Argument part =
      parts(op, {{"self", call.argument("tensor1")}, {"other", call.argument("tensor2")}});
  return parts.plus(call.argument("self"), parts.times(part, call.real("value", 1.0)));
}

// Computes relu(x) - slope * relu(-x), with a slope for each channel.
Argument prelu_of_channels(const Call& call, const Parts& parts) {
  const Argument& self = call.argument("self");
  const Argument below = parts("relu", {{"self", parts("neg", {{"self", self}})}});
  const Argument slopes = per_channel(parts, call.argument("weight"), parts.shape(self));
  return parts("sub",
               {{"self", parts("relu", {{"self", self}})}, {"other", parts.times(slopes, below)}});
}

// Computes prefix sums as a product with a triangle of ones.
Argument cumulative(const Call& call, const Parts& parts) {
  const Argument& self = call.argument("self");
  const Shape shape = parts.shape(self);
  const auto dim = static_cast<int64_t>(call.dimension("dim", -1, shape.size()));
  const auto transposed = [&](const Argument& value) {
    return parts("transpose", {{"self", value}, {"dim0", dim}, {"dim1", int64_t{-1}}});
  };
  const int64_t extent = shape[static_cast<size_t>(dim)];
  const Argument ones =
      parts("triu", {{"self", parts("ones", {{"size", Parts::list({extent, extent})}})}});
  return transposed(parts("matmul", {{"self", transposed(self)}, {"other", ones}}));
}

// Pads with a value other than 0.
Argument padded(const Call& call, const Parts& parts) {
  const Argument &self = call.argument("self"), &pad = call.argument("pad");
  const std::vector<int64_t> around = call.integers("pad");
  if (std::ranges::count(around, 0) == std::ssize(around)) return self;
  if (call.text("mode", "constant") != "constant")
    call.refuse("the padding mode is not supported with these sizes: pad with a constant");
  const auto with_zeros = [&](const Argument& value) {
    return parts("constant_pad_nd", {{"self", value}, {"pad", pad}});
  };
  const Argument ones = parts("ones", {{"size", Parts::list(parts.shape(self))}});
  const Argument is_new = parts("logical_not", {{"self", with_zeros(ones)}});
  return parts("masked_fill",
               {{"self", with_zeros(self)}, {"mask", is_new}, {"value", call.real("value")}});
}

// Reduces the elementwise loss: 0 none, 1 mean, 2 sum.
Argument loss(const Call& call, const Parts& parts) {
  const Argument difference =
      parts("sub", {{"self", call.argument("self")}, {"other", call.argument("target")}});
  const bool is_square = call.op == "mse_loss";
  const Argument each = is_square ? parts("pow", {{"self", difference}, {"exponent", int64_t{2}}})
                                  : parts("abs", {{"self", difference}});
  const int64_t reduction = call.integer("reduction", 1);
  return reduction == 0 ? each : parts(reduction == 1 ? "mean" : "sum", {{"self", each}});
}

// ---- attention ----

// Repeats each key or value head for the query heads that share it.
Argument repeated_heads(const Call& call, const Parts& parts, const Argument& tensor,
                        int64_t heads) {
  const Shape shape = parts.shape(tensor);
  const int64_t own = shape[shape.size() - 3];
  if (own < 1 || heads % own != 0)
    call.refuse("{} query heads cannot share {} key heads: expected a multiple", heads, own);
  if (own == heads) return tensor;
  return parts("repeat_interleave",
               {{"self", tensor}, {"repeats", heads / own}, {"dim", int64_t{-3}}}, "self_int");
}

Argument hide(const Parts& parts, const Argument& scores, const Argument& mask) {
  return parts("masked_fill", {{"self", scores}, {"mask", mask}, {"value", kHidden}});
}

Argument attention(const Call& call, const Parts& parts) {
  const Argument& query = call.argument("query");
  Argument key = call.argument("key"), value = call.argument("value");
  const Shape queries = parts.shape(query), keys = parts.shape(key);
  const size_t rank = std::min({queries.size(), keys.size(), parts.shape(value).size()});
  if (rank < 2) call.refuse("expected queries, keys and values with at least two dimensions");
  if (call.real("dropout_p", 0.0) != 0.0) {
    call.refuse(
        "dropout is active: call model.eval() before torch.export.export, and pass dropout_p as "
        "self.p if self.training else 0.0");
  }
  if (call.flag("enable_gqa", false)) {
    if (rank < 3) call.refuse("enable_gqa needs heads: expected [.., heads, tokens, features]");
    const int64_t heads = queries[queries.size() - 3];
    key = repeated_heads(call, parts, key, heads);
    value = repeated_heads(call, parts, value, heads);
  }
  const double scale = call.real("scale", 1.0 / std::sqrt(static_cast<double>(queries.back())));
  const Argument turned =
      parts("transpose", {{"self", key}, {"dim0", int64_t{-2}}, {"dim1", int64_t{-1}}});
  Argument scores = parts.times(parts("matmul", {{"self", query}, {"other", turned}}), scale);
  if (call.flag("is_causal", false)) {
    if (call.has("attn_mask"))
      call.refuse("found both attn_mask and is_causal: expected one of them");
    const Argument all = parts(
        "ones", {{"size", Parts::list({queries[queries.size() - 2], keys[keys.size() - 2]})}});
    scores = hide(parts, scores, parts("triu", {{"self", all}, {"diagonal", int64_t{1}}}));
  }
  if (call.has("attn_mask")) {
    const Argument& mask = call.argument("attn_mask");
    scores = parts.is_bool(mask) ? hide(parts, scores, parts("logical_not", {{"self", mask}}))
                                 : parts.plus(scores, mask);
  }
  const Argument weights = parts("_safe_softmax", {{"self", scores}, {"dim", int64_t{-1}}});
  return parts("matmul", {{"self", weights}, {"other", value}});
}

// Whether each element equals one of `test_elements`.
Argument is_in(const Call& call, const Parts& parts) {
  const bool is_one = call.find("test_element") != nullptr;
  Argument found = call.argument("elements");
  if (!is_one) found = parts("unsqueeze", {{"self", found}, {"dim", int64_t{-1}}});
  Argument others = call.argument(is_one ? "test_element" : "test_elements");
  if (!is_one) others = parts("flatten", {{"self", others}});
  found = parts("eq", {{"self", found}, {"other", others}});
  if (!is_one) found = parts("any", {{"self", found}, {"dim", int64_t{-1}}}, "dim");
  return call.flag("invert", false) ? parts("logical_not", {{"self", found}}) : found;
}

struct Decomposition {
  std::string_view op;
  Argument (*run)(const Call& call, const Parts& parts);
};

constexpr Decomposition kDecompositions[] = {
    {"addmm", add_product},
    {"addmv", add_product},
    {"baddbmm", add_product},
    {"addr", add_product},
    {"glu", glu},
    {"batch_norm", batch_norm},
    {"_native_batch_norm_legit_no_training", batch_norm},
    {"instance_norm", instance_norm},
    {"group_norm", group_norm},
    {"native_group_norm", group_norm},
    {"cosine_similarity", cosine_similarity},
    {"_weight_norm", weight_norm},
    {"avg_pool1d", avg_pool},
    {"avg_pool2d", avg_pool},
    {"adaptive_avg_pool1d", adaptive_avg_pool},
    {"adaptive_avg_pool2d", adaptive_avg_pool},
    {"_adaptive_avg_pool2d", adaptive_avg_pool},
    {"diff", diff},
    {"tensordot", tensordot},
    {"lerp", lerp},
    {"addcmul", add_scaled_product},
    {"addcdiv", add_scaled_product},
    {"isin", is_in},
    {"prelu", prelu_of_channels},
    {"cumsum", cumulative},
    {"pad", padded},
    {"constant_pad_nd", padded},
    {"mse_loss", loss},
    {"l1_loss", loss},
    {"scaled_dot_product_attention", attention},
    {"einsum", einsum},
    {"conv_transpose1d", transposed_convolution},
    {"conv3d", convolution_over_frames},
};

const Decomposition* find_row(std::string_view op) {
  const auto* row = std::ranges::find(kDecompositions, op, &Decomposition::op);
  return row == std::end(kDecompositions) ? nullptr : row;
}

}  // namespace

Argument decomposed(const Call& call, OpRunner& runner) {
  const Decomposition* row = find_row(call.op);
  return row == nullptr ? Argument() : row->run(call, Parts(call, runner));
}

bool is_decomposed(std::string_view op) { return find_row(op) != nullptr; }

}  // namespace arenite::convert
