// SPDX-License-Identifier: Apache-2.0
// What a program does to its inputs before its layers: it cuts images, and puts rows of constants
// before tokens.

#include <algorithm>
#include <optional>

#include "convert/exported/recover/graph_builder.h"
#include "convert/exported/recover/refusals.h"

namespace arenite::convert {
// Images that are cut into patches, by whatever ops: seen by which elements stand in a row.

namespace {

constexpr const char* kNoPatches =
    "it cuts the input into something else than blocks of one size that lie side by side, read "
    "line by line: not supported are blocks that overlap or leave some out. Where the model "
    "transposes its input first, export it for a transposed example, and without that";

// The element of an image that is number `column` of patch `patch`.
int64_t element_of(const ImagePatches& cut, size_t patch, size_t column) {
  const size_t x = column % cut.patch_width;
  const size_t y = column / cut.patch_width % cut.patch_height;
  const size_t c = column / cut.patch_width / cut.patch_height;
  const size_t top = patch / cut.columns() * cut.patch_height;
  const size_t left = patch % cut.columns() * cut.patch_width;
  return static_cast<int64_t>((c * cut.height + top + y) * cut.width + left + x);
}

// The patches of an image seen as [channels, height, width], the first of which reads `offsets`, in
// order; `firsts` are the least elements of all of them. Nothing where it has none such.
std::optional<ImagePatches> patches_in(const ImagePatches& image,
                                       const std::vector<int64_t>& offsets,
                                       const std::vector<int64_t>& firsts) {
  ImagePatches cut = image;
  size_t run = 1;
  while (run < offsets.size() && run < image.width &&
         offsets[run] == offsets[0] + static_cast<int64_t>(run)) {
    ++run;
  }
  const size_t lines = offsets.size() / run / image.channels;
  if (lines == 0 || lines > image.height || run > image.width) return std::nullopt;
  cut.patch_width = static_cast<uint32_t>(run);
  cut.patch_height = static_cast<uint32_t>(lines);
  if (cut.row_width().saturated() != offsets.size() || cut.patches().value() != firsts.size()) {
    return std::nullopt;
  }
  for (size_t c = 0; c < offsets.size(); ++c) {
    if (offsets[c] != element_of(cut, 0, c)) return std::nullopt;
  }
  for (size_t p = 0; p < firsts.size(); ++p) {
    if (firsts[p] != element_of(cut, p, 0)) return std::nullopt;
  }
  return cut;
}

// An image may have its channels first or last, and may be a series of numbers.
ImagePatches patches_of(const Shape& image, const std::vector<int64_t>& offsets,
                        const std::vector<int64_t>& firsts) {
  const auto product = [&](size_t begin, size_t end) {
    int64_t extent = 1;
    for (size_t d = begin; d < end; ++d) extent *= image[d];
    return static_cast<uint32_t>(extent);
  };
  const size_t rank = image.size();
  const ImagePatches views[] = {
      {product(0, rank < 3 ? rank - 1 : rank - 2), rank < 3 ? 1 : product(rank - 2, rank - 1),
       product(rank - 1, rank)},
      {1, product(0, 1), product(1, rank)},
      {1, 1, product(0, rank)}};
  for (const ImagePatches& view : views) {
    if (const auto found = patches_in(view, offsets, firsts)) return *found;
  }
  throw InputNotRecognised(kNoPatches);
}

}  // namespace

std::vector<uint32_t> GraphBuilder::order_of(const std::vector<Column>& columns) const {
  constexpr size_t kRunsMax = 8;  // fewer are slices
  const Source& from = sources_[columns[0].first];
  if (from.kind != Source::Kind::kNode || columns.size() != from.width) return {};
  std::vector<uint32_t> order;
  std::vector<bool> is_there(columns.size(), false);
  size_t runs = 1;
  for (const Column& column : columns) {
    if (column.first != columns[0].first || is_there[column.second]) return {};
    is_there[column.second] = true;
    runs += order.empty() || column.second == order.back() + 1 ? 0 : 1;
    order.push_back(column.second);
  }
  return runs > kRunsMax ? order : std::vector<uint32_t>{};
}

ElementSumRef GraphBuilder::images_input(Shape shape, const std::optional<ImagePatches>& patches) {
  const size_t elements = elements_of(shape) / sizes_.sequences;
  images_ =
      add_source({Source::Kind::kImages, 0, sizes_.sequences, static_cast<uint32_t>(elements), {}});
  images_shape_ = Shape(shape.begin() + 1, shape.end());
  if (patches) {
    image_ = *patches;
    const ValueId node = graph_.add_features(static_cast<uint32_t>(image_.row_width().value()));
    graph_.as<FeaturesNode>(node)->patches = image_;
    patches_ = source_of_node(node, sizes_.rows());
  }
  return whole_source(images_, std::move(shape));
}

ElementSumRef GraphBuilder::as_patches(const ElementSumRef& value) {
  if (images_ == 0 || value->shape.empty() || value->elements() == 0) return value;
  const auto is_of_images = [&](const Term& term) {
    const int64_t number = term.places.at(0);
    return number != kNoElement && source_of(number) == images_;
  };
  if (std::ranges::none_of(value->terms, is_of_images)) return value;
  const auto width = static_cast<size_t>(value->shape.back());
  const size_t rows = value->elements() / width;
  ElementSum result = *value;
  for (Term& term : result.terms) {
    if (!is_of_images(term)) continue;
    std::vector<int64_t> numbers(value->elements());
    for (size_t i = 0; i < numbers.size(); ++i) {
      numbers[i] = term.places.at(i);
      if (source_of(numbers[i]) != images_) throw InputNotRecognised(kNoPatches);
      numbers[i] = index_of(numbers[i]);
    }
    if (patches_ == 0) {
      std::vector<int64_t> firsts;
      for (size_t row = 0; row < rows / sizes_.sequences; ++row) {
        const auto begin = numbers.begin() + static_cast<ptrdiff_t>(row * width);
        firsts.push_back(*std::min_element(begin, begin + static_cast<ptrdiff_t>(width)));
      }
      std::vector<int64_t> offsets(numbers.begin(),
                                   numbers.begin() + static_cast<ptrdiff_t>(width));
      std::ranges::sort(offsets);
      throw PatchesFound{patches_of(images_shape_, offsets, firsts)};
    }
    const size_t patches = sizes_.tokens - sizes_.prefix;
    if (width != sources_[patches_].width || rows != patches * sizes_.sequences) {
      throw InputNotRecognised(kNoPatches);
    }
    // The order of the columns may be any, the same in each row.
    const size_t pixels = sources_[images_].width;
    std::vector<uint32_t> column_at(pixels, 0);
    for (size_t c = 0; c < width; ++c) {
      column_at[static_cast<size_t>(element_of(image_, 0, c))] = static_cast<uint32_t>(c);
    }
    std::vector<uint32_t> columns(width);
    for (size_t c = 0; c < width; ++c)
      columns[c] = column_at[static_cast<size_t>(numbers[c]) % pixels];
    for (size_t i = 0; i < numbers.size(); ++i) {
      const size_t sequence = i / width / patches;
      const size_t patch = i / width % patches;
      const uint32_t column = columns[i % width];
      if (numbers[i] !=
          static_cast<int64_t>(sequence * pixels) + element_of(image_, patch, column)) {
        throw InputNotRecognised(kNoPatches);
      }
      const size_t row = sequence * sizes_.tokens + sizes_.prefix + patch;
      numbers[i] = int64_t{patches_} * kSourceElements + static_cast<int64_t>(row * width + column);
    }
    term.places = {0, std::make_shared<const std::vector<int64_t>>(std::move(numbers))};
  }
  return make_sum(std::move(result));
}

// Rows of constants that a program puts before those of each sequence's tokens, by whatever op.

// What a value has before the rows of each sequence's tokens, the same in all sequences.
struct GraphBuilder::Prefix {
  uint32_t rows = 0;                           // of each sequence, before its tokens
  std::vector<std::vector<double>> constants;  // [rows, width], or none
  std::vector<uint32_t> node_rows;             // [rows]: of the node, where it is no constant
  std::vector<Column> columns;                 // of the rows that are no constants
  std::string name;                            // of the constants
};

namespace {

enum class RowKind { kConstants, kNode, kMixed };

template <typename IsTable>
RowKind kind_of(const Places& places, size_t begin, size_t width, const IsTable& is_table) {
  size_t constants = 0;
  for (size_t i = begin; i < begin + width; ++i) {
    const int64_t number = places.at(i);
    constants += number == kNoElement || is_table(number) ? 1 : 0;
  }
  if (constants == 0) return RowKind::kNode;
  return constants == width ? RowKind::kConstants : RowKind::kMixed;
}

}  // namespace

bool GraphBuilder::has_all_tokens(const std::vector<uint32_t>& rows) const {
  if (sizes_.prefix == 0) return false;
  size_t next = 0;
  for (uint32_t row = 0; row < sizes_.rows(); ++row) {
    if (next < rows.size() && rows[next] == row) {
      ++next;
    } else if (!is_of_prefix(row)) {
      return false;
    }
  }
  return next == rows.size();
}

// False for a value that is anything else.
bool GraphBuilder::read_prefix(const ElementSumRef& value, Prefix& prefix) const {
  const Places& places = value->terms[0].places;
  const auto width = static_cast<size_t>(value->shape.back());
  const size_t rows = value->elements() / width;
  const size_t tokens = sizes_.tokens - sizes_.prefix;
  if (rows % sizes_.sequences != 0 || rows / sizes_.sequences <= tokens) return false;
  const size_t each = rows / sizes_.sequences;
  prefix.rows = static_cast<uint32_t>(each - tokens);
  const auto is_table = [&](int64_t number) { return source(number).kind == Source::Kind::kTable; };
  ConstantRef read;
  Array::Reals values;  // of what was read last
  for (size_t row = 0; row < rows; ++row) {
    const size_t place = row % each;
    const size_t begin = row * width;
    const RowKind kind = kind_of(places, begin, width, is_table);
    if (kind == RowKind::kMixed || (kind == RowKind::kConstants && place >= prefix.rows)) {
      return false;
    }
    std::vector<double> constants;
    uint32_t node_row = 0;
    if (kind == RowKind::kConstants) {
      for (size_t i = begin; i < begin + width; ++i) {
        const int64_t number = places.at(i);
        if (number == kNoElement) {
          constants.push_back(0.0);
          continue;
        }
        const ConstantRef& constant = source(number).table;
        if (constant != read) values = (read = constant)->array().to_reals();
        constants.push_back(values.at(static_cast<size_t>(index_of(number))));
      }
    } else {
      for (size_t i = begin; i < begin + width; ++i) {
        const int64_t number = places.at(i);
        if (source(number).kind != Source::Kind::kNode || source(number).rows != sizes_.rows()) {
          return false;
        }
        if (prefix.columns.size() < width) prefix.columns.push_back(column_of(number));
        if (i == begin) node_row = row_of(number);
        if (row_of(number) != node_row || column_of(number) != prefix.columns[i - begin]) {
          return false;
        }
      }
      const size_t first = row / each * sizes_.tokens;
      if (node_row < first || node_row >= first + sizes_.tokens) return false;
      node_row -= static_cast<uint32_t>(first);
      if (place >= prefix.rows && node_row != sizes_.prefix + place - prefix.rows) return false;
    }
    if (place >= prefix.rows) continue;
    if (row < each) {
      prefix.constants.push_back(std::move(constants));
      prefix.node_rows.push_back(node_row);
    } else if (prefix.constants[place] != constants || prefix.node_rows[place] != node_row) {
      return false;
    }
  }
  if (read) prefix.name = program_->values[read->value()].name;
  return !prefix.columns.empty();
}

ElementSumRef GraphBuilder::prefixed(const ElementSumRef& value) {
  if (!value->is_plain() || value->terms[0].places.is_whole() || value->shape.empty() ||
      value->elements() == 0) {
    return nullptr;
  }
  Prefix prefix;
  if (!read_prefix(value, prefix)) return nullptr;
  const auto is_constant = [](const std::vector<double>& row) { return !row.empty(); };
  if (std::ranges::none_of(prefix.constants, is_constant)) return nullptr;
  if (prefix.rows > sizes_.prefix) throw PrefixFound{prefix.rows};
  // Where more rows will be put later, these are the first or the last.
  const uint32_t first = sizes_.puts_last_first ? sizes_.prefix - prefix.rows : 0;
  for (uint32_t i = 0; i < prefix.rows; ++i) {
    if (!is_constant(prefix.constants[i]) && prefix.node_rows[i] != first + i) {
      throw NotRecognised("it puts rows of constants between those that were put before");
    }
  }
  const auto width = static_cast<uint32_t>(value->shape.back());
  ValueId node = gather(prefix.columns);
  for (uint32_t i = 0; i < prefix.rows; ++i) {
    if (!is_constant(prefix.constants[i])) continue;
    std::vector<double> rows;
    const uint32_t begin = i;
    for (; i < prefix.rows && is_constant(prefix.constants[i]); ++i) {
      rows.insert(rows.end(), prefix.constants[i].begin(), prefix.constants[i].end());
    }
    PrefixNode body;
    body.first_row = first + begin;
    body.rows.name = prefix.name.empty() ? name_ : prefix.name;
    body.rows.rows = i - begin;
    body.rows.columns = width;
    set_exact(body.rows, [rows] { return rows; });
    node = graph_.add(name_, body, {node});
  }
  const uint32_t to = source_of_node(node, sizes_.rows());
  if (prefix.rows == sizes_.prefix) return whole_source(to, value->shape);
  std::vector<int64_t> numbers;
  for (uint32_t row = 0; row < sizes_.rows(); ++row) {
    const uint32_t place = row % sizes_.tokens;
    if (place < sizes_.prefix && (place < first || place >= first + prefix.rows)) continue;
    for (uint32_t c = 0; c < width; ++c) {
      numbers.push_back(int64_t{to} * kSourceElements + int64_t{row} * width + c);
    }
  }
  return plain(value->shape, std::move(numbers));
}

}  // namespace arenite::convert
