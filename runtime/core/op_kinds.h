// SPDX-License-Identifier: Apache-2.0
// The kinds of norms, activations and selections, shared by ops, file format and converter. The
// values are ids of the file format; the names appear in `arenite inspect` and in names of needs.
#pragma once

#include <cfloat>
#include <cstdint>

namespace arenite {

enum class NormKind : uint8_t {
  kLayer,   // (x - mean) / sqrt(mean((x - mean)^2) + epsilon)
  kRms,     // x / sqrt(mean(x^2) + epsilon)
  kLength,  // x / max(sqrt(sum(x^2)), epsilon)
  // With epsilon outside the root, which differs for rows with little variation.
  kDeviation,   // (x - mean) / (sqrt(mean((x - mean)^2)) + epsilon)
  kRoot,        // x / (sqrt(mean(x^2)) + epsilon)
  kSoftmax,     // exp(x) / sum(exp(x))
  kLogSoftmax,  // x - log(sum(exp(x)))
};
inline constexpr NormKind kLastNormKind = NormKind::kLogSoftmax;
inline constexpr const char* kNormNames[] = {"layer", "rms",     "length",     "deviation",
                                             "root",  "softmax", "log_softmax"};

constexpr bool is_softmax(NormKind kind) {
  return kind == NormKind::kSoftmax || kind == NormKind::kLogSoftmax;
}

constexpr bool has_gain(NormKind kind) { return kind != NormKind::kLength && !is_softmax(kind); }

// Whether the mean of a row is subtracted.
constexpr bool is_centred(NormKind kind) {
  return kind == NormKind::kLayer || kind == NormKind::kDeviation;
}

constexpr bool adds_epsilon_to_root(NormKind kind) {
  return kind == NormKind::kDeviation || kind == NormKind::kRoot;
}

enum class Activation : uint8_t {
  kRelu,        // max(x, 0)
  kGeluErf,     // x (1 + erf(x / sqrt(2))) / 2
  kGeluTanh,    // x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2
  kSilu,        // x sigmoid(x)
  kSoftCap,     // parameter tanh(x / parameter)
  kTanh,        // tanh(x)
  kSigmoid,     // 1 / (1 + exp(-x))
  kScale,       // parameter x
  kLeakyRelu,   // x < 0 ? parameter x : x
  kElu,         // x < 0 ? parameter (exp(x) - 1) : x
  kSoftplus,    // log(1 + exp(x))
  kMish,        // x tanh(log(1 + exp(x)))
  kHardSwish,   // x min(max(x + 3, 0), 6) / 6
  kClamp,       // min(max(x, -parameter), parameter)
  kExp,         // exp(x)
  kSqrt,        // sqrt(x + parameter)
  kReciprocal,  // 1 / (x + parameter)
  kLog,         // log(x + parameter)
  kSin,         // sin(x)
  kAtMost,      // min(x, parameter)
};
inline constexpr const char* kActivationNames[] = {
    "relu",  "gelu_erf",   "gelu_tanh",  "silu",     "soft_cap", "tanh",       "sigmoid",
    "scale", "leaky_relu", "elu",        "softplus", "mish",     "hard_swish", "clamp",
    "exp",   "sqrt",       "reciprocal", "log",      "sin",      "at_most"};

constexpr bool has_parameter(Activation kind) {
  return kind == Activation::kSoftCap || kind == Activation::kScale ||
         kind == Activation::kLeakyRelu || kind == Activation::kElu || kind == Activation::kClamp ||
         kind == Activation::kSqrt || kind == Activation::kReciprocal || kind == Activation::kLog ||
         kind == Activation::kAtMost;
}

// The cap and its reciprocal are normal floats, since 32-bit ARM flushes subnormal ones to zero.
constexpr bool is_soft_cap(float cap) { return cap >= FLT_MIN && cap <= 1.0f / FLT_MIN; }

constexpr bool parameter_makes_sense(Activation kind, float parameter) {
  if (kind == Activation::kSoftCap) return is_soft_cap(parameter);
  return kind != Activation::kClamp || parameter > 0.0f;
}

// How attention biases, which are added to scores, are given.
enum class ScoreTerms : uint8_t {
  kSlopes,     // one slope per head, times the distance from query to key
  kDistances,  // one bias per head and distance
  kPairs,      // one bias per pair of positions, and per head or for all heads
  // Biases in the query's own row, per head and distance, with distance 0 in the middle. Beyond the
  // ends the first or last bias applies.
  kQueries,
  kQueriesBefore,  // as kQueries, with distance 0 last
  // Each key's row has biases, too, in the order of kQueries.
  kQueriesAndKeys,
};
inline constexpr ScoreTerms kLastScoreTerms = ScoreTerms::kQueriesAndKeys;
inline constexpr const char* kScoreTermsNames[] = {"slopes",  "distances",      "pairs",
                                                   "queries", "queries_before", "queries_and_keys"};
constexpr bool is_table(ScoreTerms kind) {
  return kind == ScoreTerms::kDistances || kind == ScoreTerms::kPairs;
}
constexpr bool is_of_queries(ScoreTerms kind) { return kind >= ScoreTerms::kQueries; }

// How rows are selected or pooled: the requested rows, one row per sequence, a reshape between wide
// and narrow rows, a transpose, or a list of rows.
enum class SelectKind : uint8_t {
  kAsAsked,
  kFirst,
  kMean,
  kMax,             // per column
  kMeanSqrtLength,  // sum / sqrt(number of rows)
  kWeightedMean,    // weighted by position, counted from 1
  kLast,
  kSum,
  kTurns,  // splits each row into k rows, or joins k rows into one
  // Transposes the rows of each sequence, [rows, columns] to [columns, rows]. All sequences must
  // have the same number of rows. A linear op between two transposes mixes rows.
  kTransposed,
  kTaken,  // rows by a list: row i of the output is row list[i] of the same sequence
};
inline constexpr const char* kSelectNames[] = {
    "as_asked", "first", "mean",       "max",  "mean_sqrt_length", "weighted_mean", "last",
    "sum",      "turns", "transposed", "taken"};

constexpr bool makes_a_row_of_several(SelectKind kind) {
  return (kind >= SelectKind::kMean && kind <= SelectKind::kWeightedMean) ||
         kind == SelectKind::kSum;
}

// REQUIRES: a valid kind.
constexpr const char* name(NormKind kind) { return kNormNames[static_cast<uint32_t>(kind)]; }
constexpr const char* name(Activation kind) {
  return kActivationNames[static_cast<uint32_t>(kind)];
}
constexpr const char* name(SelectKind kind) { return kSelectNames[static_cast<uint32_t>(kind)]; }
constexpr const char* name(ScoreTerms kind) {
  return kScoreTermsNames[static_cast<uint32_t>(kind)];
}

}  // namespace arenite
