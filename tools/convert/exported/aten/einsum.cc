// SPDX-License-Identifier: Apache-2.0
// Decomposes torch.einsum into sums and matrix products. Each dimension is named by its letter.
//
//   bqhd,bkhd->bhqk  ->  matmul of [b, h, q, d] and [b, h, d, k]
#include <algorithm>
#include <cctype>
#include <iterator>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "convert/exported/aten/op_rules.h"

namespace arenite::convert {
namespace {

// A tensor whose dimensions are named by letters.
struct Lettered {
  Argument tensor;
  std::string letters;
};

bool has(const std::string& text, char c) { return text.find(c) != std::string::npos; }

std::string only_those(const std::string& letters, const auto& is_wanted) {
  std::string wanted;
  std::ranges::copy_if(letters, std::back_inserter(wanted), is_wanted);
  return wanted;
}

std::vector<std::string> one_by_one(const std::string& letters) {
  std::vector<std::string> groups;
  for (const char c : letters) groups.emplace_back(1, c);
  return groups;
}

class Einsum {
 public:
  Einsum(const Call& call, const Parts& parts) : call_(call), parts_(parts) {}

  Argument run() {
    read_equation();
    for (Lettered& operand : operands_) operand = without_repeated(operand);
    Lettered made = operands_.at(0);
    for (size_t i = 1; i < operands_.size(); ++i) {
      // Sum over letters that neither later tensors nor the result have.
      std::string later = result_;
      for (size_t k = i + 1; k < operands_.size(); ++k) later += operands_[k].letters;
      std::string wanted = result_;
      if (i + 1 < operands_.size()) {
        wanted = only_those(made.letters, [&](char c) { return has(later, c); });
        wanted += only_those(operands_[i].letters,
                             [&](char c) { return has(later, c) && !has(made.letters, c); });
      }
      made = product(made, operands_[i], wanted);
    }
    return arranged(summed(made, result_), one_by_one(result_));
  }

 private:
  // Replaces an ellipsis by digits, one for each leading dimension, aligned at the last.
  std::string with_dots(std::string letters, size_t dimensions) const {
    const size_t place = letters.find("...");
    if (place == std::string::npos) return letters;
    constexpr std::string_view kAll = "01234567";
    if (dimensions > kAll.size())
      call_.refuse("the equation has too many leading dimensions: expected at most 8");
    return letters.replace(place, 3, kAll.substr(kAll.size() - dimensions));
  }

  void read_equation() {
    std::string text = call_.text("equation", "");
    std::erase(text, ' ');
    const auto* tensors = call_.argument("tensors").as<Argument::List>();
    if (tensors == nullptr || tensors->empty())
      call_.refuse("found no operands: expected at least one");
    const size_t arrow = text.find("->");
    std::string rest = text.substr(0, arrow), all;
    size_t dots = 0;
    for (const Argument& tensor : *tensors) {
      const size_t comma = rest.find(',');
      std::string letters = rest.substr(0, comma);
      rest = comma == std::string::npos ? "" : rest.substr(comma + 1);
      const size_t rank = parts_.shape(tensor).size();
      const bool has_dots = letters.find("...") != std::string::npos;
      const size_t named = letters.size() - (has_dots ? 3 : 0);
      if (has_dots ? rank < named : rank != named) {
        call_.refuse("the equation does not fit a tensor {}", shape_text(parts_.shape(tensor)));
      }
      if (has_dots) dots = std::max(dots, rank - named);
      operands_.push_back({tensor, with_dots(std::move(letters), rank - named)});
      all += operands_.back().letters;
    }
    if (!rest.empty())
      call_.refuse("the equation has the wrong number of operands: expected one term for each");
    if (arrow != std::string::npos) {
      result_ = with_dots(text.substr(arrow + 2), dots);
    } else {
      std::ranges::sort(all);
      result_ =
          with_dots("...", dots) + only_those(all, [&](char c) {
            return !std::isdigit(static_cast<unsigned char>(c)) && std::ranges::count(all, c) == 1;
          });
    }
    if (!std::ranges::all_of(result_, [&](char c) { return has(all, c); })) {
      call_.refuse("the result has a letter that no operand has");
    }
  }

  int64_t extent(const Lettered& operand, char letter) const {
    return parts_.shape(operand.tensor)[operand.letters.find(letter)];
  }

  // Takes the diagonal of two dimensions with the same letter.
  Lettered without_repeated(Lettered operand) const {
    for (size_t d = 0; d < operand.letters.size(); ++d) {
      const char letter = operand.letters[d];
      const size_t second = operand.letters.find(letter, d + 1);
      if (second == std::string::npos) continue;
      operand.tensor = parts_("diagonal", {{"self", operand.tensor},
                                           {"dim1", static_cast<int64_t>(d)},
                                           {"dim2", static_cast<int64_t>(second)}});
      std::erase(operand.letters, letter);
      operand.letters += letter;
      return without_repeated(operand);
    }
    return operand;
  }

  // Sums over all letters that are not wanted.
  Lettered summed(const Lettered& operand, const std::string& wanted) const {
    std::vector<int64_t> dims;
    for (size_t d = 0; d < operand.letters.size(); ++d) {
      if (!has(wanted, operand.letters[d])) dims.push_back(static_cast<int64_t>(d));
    }
    if (dims.empty()) return operand;
    return {parts_("sum", {{"self", operand.tensor}, {"dim", Parts::list(dims)}}),
            only_those(operand.letters, [&](char c) { return has(wanted, c); })};
  }

  // Permutes dimensions to the order of `groups` and merges each group into one dimension. A group
  // that the operand lacks gets extent 1.
  Argument arranged(const Lettered& operand, const std::vector<std::string>& groups) const {
    std::vector<int64_t> order, sizes;
    for (const std::string& group : groups) {
      sizes.push_back(1);
      for (const char c : group) {
        if (!has(operand.letters, c)) continue;
        order.push_back(static_cast<int64_t>(operand.letters.find(c)));
        sizes.back() *= extent(operand, c);
      }
    }
    Argument turned = operand.tensor;
    if (!std::ranges::is_sorted(order)) {
      turned = parts_("permute", {{"self", turned}, {"dims", Parts::list(order)}});
    }
    return sizes == parts_.shape(turned) ? turned : parts_.view(turned, sizes);
  }

  // Expands dimensions of extent 1 to those of the other tensor with the same letter.
  Lettered stretched_to(const Lettered& operand, const Lettered& other) const {
    std::vector<int64_t> sizes = parts_.shape(operand.tensor);
    bool is_other = false;
    for (size_t d = 0; d < sizes.size(); ++d) {
      const char letter = operand.letters[d];
      if (sizes[d] != 1 || !has(other.letters, letter) || extent(other, letter) == 1) continue;
      sizes[d] = extent(other, letter);
      is_other = true;
    }
    if (!is_other) return operand;
    return {parts_("expand", {{"self", operand.tensor}, {"size", Parts::list(sizes)}}),
            operand.letters};
  }

  // Multiplies pairs of features by constant 2x2 matrices, as rotations are often written: two
  // products and a sum for each result. Returns nullopt for other operands.
  std::optional<Lettered> transposed_pairs(const Lettered& pairs, const Lettered& matrices,
                                           const std::string& result) const {
    const std::string inner = only_those(matrices.letters, [&](char c) { return !has(result, c); });
    const std::string own =
        only_those(matrices.letters, [&](char c) { return !has(pairs.letters, c); });
    if (!parts_.is_constant(matrices.tensor) || inner.size() != 1 || own.size() != 1 ||
        inner == own || matrices.letters.size() < 3 || extent(matrices, inner[0]) != 2 ||
        extent(matrices, own[0]) != 2) {
      return std::nullopt;
    }
    const auto part_of = [&](const Lettered& of, char letter, int64_t index) -> Lettered {
      const auto dim = static_cast<int64_t>(of.letters.find(letter));
      return {parts_("select", {{"self", of.tensor}, {"dim", dim}, {"index", index}}),
              only_those(of.letters, [&](char c) { return c != letter; })};
    };
    const std::string letters = part_of(pairs, inner[0], 0).letters;
    Argument::List results;
    for (int64_t row = 0; row < 2; ++row) {
      const auto times = [&](int64_t index) {
        const Lettered factors = part_of(part_of(matrices, own[0], row), inner[0], index);
        return parts_.times(part_of(pairs, inner[0], index).tensor,
                            arranged(factors, one_by_one(letters)));
      };
      results.push_back(parts_.plus(times(0), times(1)));
    }
    return Lettered{parts_("stack", {{"tensors", results}, {"dim", int64_t{-1}}}), letters + own};
  }

  // Multiplies matrices for each index of the letters that both tensors and the result have.
  Lettered product(Lettered a, Lettered b, const std::string& result) const {
    a = summed(stretched_to(a, b), result + b.letters);
    b = summed(stretched_to(b, a), result + a.letters);
    if (const auto turned = transposed_pairs(a, b, result)) return *turned;
    if (const auto turned = transposed_pairs(b, a, result)) return *turned;
    const auto first_in_result = [&](const Lettered& own, const Lettered& other) {
      return result.find_first_of(
          only_those(own.letters, [&](char c) { return !has(other.letters, c); }));
    };
    const bool is_turned =
        parts_.is_fixed(b.tensor) ||
        (!parts_.is_fixed(a.tensor) && first_in_result(b, a) < first_in_result(a, b));
    if (is_turned) std::swap(a, b);
    if (parts_.is_fixed(a.tensor)) a = with_matrices_last(a, b, result);
    const auto in = [](const std::string& text) { return [&](char c) { return has(text, c); }; };
    const bool is_fixed = parts_.is_fixed(a.tensor);
    const std::string& order = is_fixed ? a.letters : result;
    const std::string common = only_those(a.letters, in(b.letters));
    const std::string inner = only_those(common, [&](char c) { return !has(result, c); });
    std::string batch = only_those(order, [&](char c) { return has(common, c) && !has(inner, c); });
    std::string rows = only_those(a.letters, [&](char c) { return !has(b.letters, c); });
    std::string columns = only_those(b.letters, [&](char c) { return !has(a.letters, c); });
    if (is_fixed && (rows.empty() || inner.size() != 1 ||
                     !a.letters.ends_with(std::string{rows.back(), inner[0]}))) {
      call_.refuse(
          "einsum mixes attention weights of several heads, or sums them over queries: expected "
          "weights times the values of one head");
    }
    const bool is_constant = parts_.is_constant(a.tensor) || parts_.is_constant(b.tensor);
    if (rows.empty() && columns.empty() && !is_fixed && !is_constant) {
      // With all letters common, this is an elementwise product.
      const std::vector<std::string> letters = one_by_one(batch + inner);
      return summed({parts_.times(arranged(a, letters), arranged(b, letters)), batch + inner},
                    batch);
    }
    if (!batch.empty() && !parts_.is_constant(b.tensor)) {
      // The other tensor broadcasts along all of these dimensions but the last.
      const std::string more_rows = take_all_but_last(rows, order);
      const std::string more_columns = is_fixed ? "" : take_all_but_last(columns, order);
      batch = only_those(order, in(batch + more_rows + more_columns));
    }
    std::vector<std::string> left = one_by_one(batch), right = left;
    if (batch.empty()) {
      left = one_by_one(rows);
    } else {
      left.push_back(rows);
    }
    left.push_back(inner);
    right.push_back(inner);
    right.push_back(columns);
    const Argument made =
        parts_("matmul", {{"self", arranged(a, left)}, {"other", arranged(b, right)}});
    const std::string letters = batch + rows + columns;
    std::vector<int64_t> sizes;
    for (const char c : letters) sizes.push_back(extent(has(a.letters, c) ? a : b, c));
    return {parts_.view(made, sizes), letters};
  }

  // Moves the letters of queries and keys to the end.
  Lettered with_matrices_last(const Lettered& scores, const Lettered& values,
                              const std::string& result) const {
    const std::string queries =
        only_those(scores.letters, [&](char c) { return !has(values.letters, c); });
    const std::string keys = only_those(
        scores.letters, [&](char c) { return has(values.letters, c) && !has(result, c); });
    const std::string last = queries + keys;
    if (queries.size() != 1 || keys.size() != 1 || scores.letters.ends_with(last)) return scores;
    const std::string letters =
        only_those(scores.letters, [&](char c) { return !has(last, c); }) + last;
    return {arranged(scores, one_by_one(letters)), letters};
  }

  // Removes all letters but the one that is last in `order`, and returns those removed.
  static std::string take_all_but_last(std::string& letters, const std::string& order) {
    std::string others = only_those(order, [&](char c) { return has(letters, c); });
    if (others.empty()) return others;
    letters = others.back();
    others.pop_back();
    return others;
  }

  const Call& call_;
  const Parts& parts_;
  std::vector<Lettered> operands_;
  std::string result_;
};

}  // namespace

Argument einsum(const Call& call, const Parts& parts) { return Einsum(call, parts).run(); }

}  // namespace arenite::convert
