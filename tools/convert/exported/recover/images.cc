// SPDX-License-Identifier: Apache-2.0
// Finds the layout of images in their array, and the windows of pixels that the rows of a value
// read. Depends on element ids only, so any ops may have cut out the windows.
//
//   x [b, 3, 8, 8] cut into rows [b, 4, 48]  ->  windows of an 8 x 8 image, kernel 4, stride 4
//   x [b, 3, 8, 8] reshaped to [b, 3, 64]    ->  image with channels first
//   x.unfold(1, 4, 2) of a series            ->  windows of tokens, kernel 4, stride 2

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "convert/exported/recover/images.h"
#include "convert/exported/recover/row_view.h"

namespace arenite::convert {

namespace {

constexpr const char* kNoWindows =
    "rows read pixels that do not form windows of equal size and stride; if the model transposes "
    "its input first, export it for a transposed example";

// The windows that the rows of a value read, and the index of each element of the value in a node
// of these windows.
struct FoundWindows {
  Windows windows;
  std::vector<int64_t> places;
  std::vector<uint32_t> taken{};  // pixels of all windows, if they must be gathered first
};

constexpr int64_t kNowhere = -1;    // place of a zero, outside the image
constexpr size_t kOriginsMax = 64;  // elements of a row that are tried for its origin

// Returns the step of an arithmetic progression; 1 for a single number, 0 for uneven steps.
int64_t step_of(const std::set<int64_t>& numbers) {
  int64_t step = 0, last = *numbers.begin();
  for (const int64_t number : numbers) {
    if (number != *numbers.begin()) {
      if (step != 0 && number - last != step) return 0;
      step = number - last;
    }
    last = number;
  }
  return step == 0 ? 1 : step;
}

struct Pixel {
  int64_t sequence, line, column;
};
Pixel pixel_of(const ImageLayout& image, int64_t place) {
  const int64_t row = place / image.channels;
  return {row / image.pixels(), row % image.pixels() / image.width, row % image.width};
}

// Finds windows in rows of `width` elements. `places` are their indices in an image [lines,
// columns, channels], kNowhere for zeros. Columns may be permuted, if all rows have the same order;
// rows may be permuted too.
class WindowFinder {
 public:
  WindowFinder(const ImageLayout& image, const std::vector<int64_t>& places, size_t width)
      : image_(image), places_(places), width_(width) {}

  // Returns nullopt if the rows are not such windows.
  std::optional<FoundWindows> find() {
    if (!read_window() || !read_origins()) return {};
    FoundWindows found;
    WindowAxis& lines = found.windows.lines;
    WindowAxis& columns = found.windows.columns;
    found.windows.width = image_.width;
    lines = axis_of(lines_, tops_, image_.height);
    columns = axis_of(columns_, lefts_, image_.width);
    if (!takes_all(lines, tops_, image_.height) || !takes_all(columns, lefts_, image_.width)) {
      return {};
    }
    const auto per_line = static_cast<int64_t>(lefts_.size());
    const int64_t windows = per_line * static_cast<int64_t>(tops_.size());
    std::set<int64_t> rows;
    for (const Pixel& origin : origins_) {
      const int64_t window = (origin.line - *tops_.begin()) / lines.stride * per_line +
                             (origin.column - *lefts_.begin()) / columns.stride;
      rows.insert(origin.sequence * windows + window);
      const auto first = (origin.sequence * windows + window) * static_cast<int64_t>(width_);
      for (const uint32_t column : columns_of_) found.places.push_back(first + column);
    }
    return rows.size() == origins_.size() ? std::optional(std::move(found)) : std::nullopt;
  }

 private:
  // Reads the kernel from a row without zeros: its lines and columns, with all channels of each
  // pixel.
  bool read_window() {
    for (size_t begin = 0; begin < places_.size() && columns_of_.empty(); begin += width_) {
      std::set<int64_t> different(places_.begin() + static_cast<ptrdiff_t>(begin),
                                  places_.begin() + static_cast<ptrdiff_t>(begin + width_));
      if (different.contains(kNowhere) || different.size() != width_) continue;
      lines_.clear();
      columns_.clear();
      for (size_t c = begin; c < begin + width_; ++c) {
        const Pixel pixel = pixel_of(image_, places_[c]);
        lines_.insert(pixel.line);
        columns_.insert(pixel.column);
      }
      const bool is_window = lines_.size() * columns_.size() * image_.channels == width_ &&
                             step_of(lines_) != 0 && step_of(columns_) != 0;
      if (!is_window) return false;
      const Pixel origin = {0, *lines_.begin(), *columns_.begin()};
      const int64_t down = step_of(lines_), right = step_of(columns_);
      for (size_t c = begin; c < begin + width_; ++c) {
        const Pixel pixel = pixel_of(image_, places_[c]);
        const Pixel tap = {0, pixel.line - origin.line, pixel.column - origin.column};
        taps_.push_back(tap);
        columns_of_.push_back(static_cast<uint32_t>(
            (tap.line / down * std::ssize(columns_) + tap.column / right) * image_.channels +
            places_[c] % image_.channels));
      }
    }
    return !columns_of_.empty();
  }

  // Reads the origin of each row's window: all rows have the same window at different origins.
  bool read_origins() {
    for (size_t begin = 0; begin < places_.size(); begin += width_) {
      bool is_found = false;
      // An element outside the padding is tried from both ends.
      for (size_t i = 0; i < std::min(width_, kOriginsMax) && !is_found; ++i) {
        is_found = read_origin(begin, i % 2 == 0 ? i / 2 : width_ - 1 - i / 2);
      }
      if (!is_found) return false;
      tops_.insert(origins_.back().line);
      lefts_.insert(origins_.back().column);
    }
    return step_of(tops_) != 0 && step_of(lefts_) != 0;
  }

  // Reads the origin from element `by` of a row. Returns false if that is a zero, or other elements
  // disagree.
  bool read_origin(size_t begin, size_t by) {
    if (places_[begin + by] == kNowhere) return false;
    Pixel origin = pixel_of(image_, places_[begin + by]);
    origin.line -= taps_[by].line;
    origin.column -= taps_[by].column;
    for (size_t c = 0; c < width_; ++c) {
      const int64_t place = places_[begin + c];
      const int64_t line = origin.line + taps_[c].line, column = origin.column + taps_[c].column;
      const bool is_inside =
          line >= 0 && line < image_.height && column >= 0 && column < image_.width;
      const int64_t channel = columns_of_[c] % image_.channels;
      const int64_t wanted =
          (origin.sequence * image_.pixels() + line * image_.width + column) * image_.channels +
          channel;
      if (place != (is_inside ? wanted : kNowhere)) return false;
    }
    origins_.push_back(origin);
    return true;
  }

  static WindowAxis axis_of(const std::set<int64_t>& seen, const std::set<int64_t>& begins,
                            uint32_t extent) {
    WindowAxis axis;
    axis.kernel = static_cast<uint32_t>(seen.size());
    axis.dilation = static_cast<uint32_t>(step_of(seen));
    axis.stride = static_cast<uint32_t>(step_of(begins));
    axis.before = static_cast<uint32_t>(std::max<int64_t>(0, -*begins.begin()));
    const int64_t after = *begins.rbegin() + axis.span() - extent;
    axis.after = static_cast<uint32_t>(std::max<int64_t>(0, after));
    return axis;
  }

  // Whether the windows cover the whole extent, from its first line or column on.
  static bool takes_all(WindowAxis& window, const std::set<int64_t>& begins, uint32_t extent) {
    if (*begins.begin() > 0) return false;
    if (begins.size() == 1) window.stride = window.span();
    return window.count(extent) == begins.size();
  }

  const ImageLayout image_;
  const std::vector<int64_t>& places_;
  const size_t width_;
  std::set<int64_t> lines_, columns_;  // of the row that the kernel is read from
  std::vector<Pixel> taps_;            // offset of each element from the origin
  std::vector<uint32_t> columns_of_;   // column of each element in a windows node
  std::set<int64_t> tops_, lefts_;     // lines and columns of origins
  std::vector<Pixel> origins_;         // of rows
};

// Finds windows whose pixels must be gathered first: any pixels of one column of the image, such as
// patches of a series with replicate padding. Channels may be permuted, too.
std::optional<FoundWindows> gathered_windows(const ImageLayout& image,
                                             const std::vector<int64_t>& places, size_t width,
                                             size_t sequences) {
  const size_t each = places.size() / sequences, kernel = width / image.channels;
  if (width % image.channels != 0 || kernel < 2 || kernel > kWindowRowsMax || each < 2 * width) {
    return {};
  }
  constexpr uint32_t kNone = UINT32_MAX;
  FoundWindows found;
  found.windows.lines.kernel = found.windows.lines.stride = static_cast<uint32_t>(kernel);
  found.taken.assign(each / image.channels, kNone);
  std::vector<size_t> seen;  // count of elements in the row, by channel
  for (size_t i = 0; i < places.size(); ++i) {
    if (i % width == 0) seen.assign(image.channels, 0);
    if (places[i] == kNowhere) return {};
    const Pixel pixel = pixel_of(image, places[i]);
    const size_t channel = static_cast<size_t>(places[i]) % image.channels;
    const size_t tap = seen[channel]++;
    if (tap >= kernel || pixel.sequence != static_cast<int64_t>(i / each) ||
        pixel.column != pixel_of(image, places[i - i % width]).column) {
      return {};
    }
    uint32_t& known = found.taken[i % each / width * kernel + tap];
    const auto own = static_cast<uint32_t>(pixel.line * image.width + pixel.column);
    if (known != kNone && known != own) return {};
    known = own;
    found.places.push_back(
        static_cast<int64_t>(i / width * width + tap * image.channels + channel));
  }
  return found;
}

std::optional<FoundWindows> find_windows(const ImageLayout& image,
                                         const std::vector<int64_t>& places, size_t width,
                                         size_t sequences) {
  auto found = WindowFinder(image, places, width).find();
  return found ? found : gathered_windows(image, places, width, sequences);
}

// Returns the layouts that a shape allows, most likely first: channels first, channels last,
// series.
std::vector<ImageLayout> possible_layouts(const Shape& shape) {
  const auto extent = [&](size_t d) { return static_cast<uint32_t>(shape[d]); };
  const ImageLayout line = {1, 1, static_cast<uint32_t>(elements_of(shape)), true, false};
  if (shape.size() == 3) {
    return {{extent(0), extent(1), extent(2), true, false},
            {extent(2), extent(0), extent(1), false, false},
            {1, extent(0), extent(1) * extent(2), true, false},
            line};
  }
  if (shape.size() != 2) return {line};
  return {{extent(0), 1, extent(1), true, false},
          {1, extent(0), extent(1), true, false},
          {extent(1), 1, extent(0), false, false},
          line};
}

// Returns the index of each element in the producer, or kNowhere for zeros. Throws NotRecognised
// for elements of other producers.
std::vector<int64_t> producer_indices(const Term& term, size_t count, uint32_t producer) {
  std::vector<int64_t> element_ids(count, kNowhere);
  for (size_t i = 0; i < count; ++i) {
    const int64_t number = term.places.at(i);
    if (number == kNoElement) continue;
    refuse_op_if<Cause::kInput>(producer_of(number) != producer, kNoWindows);
    element_ids[i] = index_of(number);
  }
  return element_ids;
}

// Returns the first nonzero element; kNoElement if all are zero.
int64_t first_nonzero(const Term& term, size_t count) {
  int64_t number = kNoElement;
  for (size_t i = 0; i < count && number == kNoElement; ++i) number = term.places.at(i);
  return number;
}

// Whether rows span several pixels. Checks the first row whose first and last elements differ.
bool has_several_pixels(const GraphBuilder& builder, const LinearExpr& value, size_t width) {
  for (size_t i = 0, count = value.elements(); i < count; i += width) {
    const int64_t first = value.at(i), last = value.at(i + width - 1);
    if (first == kNoElement || last == kNoElement || first == last) continue;
    return builder.is_node(first) && builder.is_node(last) &&
           builder.row_of(first) != builder.row_of(last);
  }
  return false;
}

// Adds the windows found over `input`, and returns them as a value of `shape`.
LinearExprRef rows_of_windows(GraphBuilder& builder, const FoundWindows& found, ValueId input,
                              uint32_t places, const Shape& shape) {
  const std::string name = builder.name + ".windows";
  if (!found.taken.empty()) {
    places = static_cast<uint32_t>(found.taken.size());
    Axis axis = {.kind = AxisKind::kConstants, .rows = places};
    if (const uint32_t of = builder.graph.axis(input); builder.graph.axes[of].is_image()) {
      axis = {AxisKind::kPixels, of, 1, places, 0x10001, 0};
    }
    input = builder.graph.add_taken(builder.name + ".rows", input, found.taken,
                                    builder.graph.add_axis(axis));
  }
  const LinearExprRef made =
      builder.windows_expr({.windows = found.windows,
                            .input = input,
                            .places = places,
                            .add = [&](const Windows& windows, ValueId of) {
                              return builder.graph.add_windows(name, windows, of);
                            }});
  std::vector<int64_t> element_ids;
  for (const int64_t place : found.places) {
    element_ids.push_back(made->at(static_cast<size_t>(place)));
  }
  return plain(shape, std::move(element_ids));
}

[[noreturn]] void restart_with(GraphBuilder& builder, const ImageLayout& image) {
  builder.found = {.row_axis = builder.row_axis(), .layout = image};
  throw NotRecognised("the input is images");
}

// Finds the layout of an image from the rows of a value, and restarts the trace with it.
[[noreturn]] void find_rows_of_image(GraphBuilder& builder, const Term& term, size_t count,
                                     size_t width) {
  std::vector<int64_t> elements = producer_indices(term, count, builder.images);
  // If each row repeats one element, a row counts as a single element.
  const auto is_one_number = [&](size_t i) { return elements[i] == elements[i - i % width]; };
  bool is_repeated = true;
  for (size_t i = 0; i < count && is_repeated; ++i) is_repeated = is_one_number(i);
  if (is_repeated) {
    for (size_t i = 0; i * width < count; ++i) elements[i] = elements[i * width];
    elements.resize(count / width);
    width = 1;
  }
  // A single row of the whole array is no window of an image. A part of a series is.
  const bool is_part =
      builder.images_shape.size() == 1 && width < static_cast<size_t>(builder.images_shape[0]);
  refuse_op_if<Cause::kInput>(elements.size() / width <= builder.sizes.sequences && !is_part, "{}",
                              kNoWindows);
  if (builder.images_shape.size() == 1 && (is_repeated || is_part)) {
    restart_with(builder, {1, static_cast<uint32_t>(builder.images_shape[0]), 1});
  }
  for (const ImageLayout& image : possible_layouts(builder.images_shape)) {
    std::vector<int64_t> places = elements;
    const auto each = static_cast<int64_t>(image.elements());
    for (int64_t& place : places) {
      if (place == kNowhere) continue;
      place = place / each * each +
              static_cast<int64_t>(image.place(static_cast<size_t>(place % each)));
    }
    if (find_windows(image, places, width, builder.sizes.sequences)) restart_with(builder, image);
  }
  // Pixelwise ops may precede the windows, so channels first is tried.
  if (builder.images_shape.size() == 3) {
    restart_with(builder, possible_layouts(builder.images_shape)[0]);
  }
  throw NotRecognised(kNoWindows, Cause::kInput);
}

}  // namespace

LinearExprRef images_input(GraphBuilder& builder, Shape shape,
                           const std::optional<ImageLayout>& layout) {
  const TraceSizes& sizes = builder.sizes;
  const auto elements = static_cast<uint32_t>(elements_of(shape) / sizes.sequences);
  if (!layout) {
    builder.images =
        builder.add_producer({Producer::Kind::kImages, 0, sizes.sequences, elements, {}, 0});
    builder.images_shape = Shape(shape.begin() + 1, shape.end());
    return whole_producer(builder.images, std::move(shape));
  }
  const ValueId node = builder.graph.add_features(layout->channels, builder.row_axis());
  Axis& axis = builder.graph.axes[builder.graph.axis(node)];
  axis.rows = layout->pixels();
  axis.other = layout->width;
  const uint32_t producer = builder.producer_of_node(node, sizes.rows());
  std::vector<int64_t> element_ids(elements_of(shape));
  for (size_t i = 0; i < element_ids.size(); ++i) {
    const size_t before = i / elements * sizes.tokens * layout->channels;
    element_ids[i] = element_id(producer, before + layout->place(i % elements));
  }
  return plain(std::move(shape), std::move(element_ids));
}

void find_image(GraphBuilder& builder, const LinearExpr& value) {
  const Shape strides = strides_of(value.shape);
  // Returns the index of element k along one dimension, at the middle of the others, in sequence 0.
  const auto place = [&](size_t dimension, int64_t k) {
    int64_t at = 0;
    for (size_t d = 1; d < value.shape.size(); ++d) {
      at += strides[d] * (d == dimension ? k : value.shape[d] / 2);
    }
    return static_cast<size_t>(at);
  };
  const auto found = std::ranges::find_if(value.terms, [&](const Term& term) {
    const int64_t number = term.places.at(place(0, 0));
    return number != kNoElement && producer_of(number) == builder.images;
  });
  if (found == value.terms.end()) return;
  // The extents without zero padding, and the strides in the array.
  int64_t extent[4] = {1, 1, 1, 1}, step[4] = {};
  for (size_t d = 1; d < 4; ++d) {
    std::set<int64_t> seen;
    for (int64_t k = 0; k < value.shape[d]; ++k) {
      const int64_t number = found->places.at(place(d, k));
      if (number != kNoElement) seen.insert(index_of(number));
    }
    extent[d] = static_cast<int64_t>(seen.size());
    step[d] = seen.size() < 2 ? 0 : step_of(seen);
  }
  ImageLayout image = {static_cast<uint32_t>(extent[1]), static_cast<uint32_t>(extent[2]),
                       static_cast<uint32_t>(extent[3])};
  image.channels_first = extent[1] == 1 || step[1] > std::max(step[2], step[3]);
  image.columns_first = step[2] != 0 && step[3] > step[2];
  if (image.elements() == builder.producer_at(builder.images).width) restart_with(builder, image);
  throw NotRecognised(kNoWindows, Cause::kInput);
}

LinearExprRef as_windows(GraphBuilder& builder, const LinearExprRef& value) {
  if (!builder.reads_images() || value->shape.empty() || value->elements() == 0) return value;
  const ScopedAxis on(builder, *value);
  const auto width = static_cast<size_t>(value->shape.back());
  for (const Term& term : value->terms) {
    if (builder.images == 0) break;
    const int64_t number = first_nonzero(term, value->elements());
    if (number != kNoElement && producer_of(number) == builder.images) {
      find_rows_of_image(builder, term, value->elements(), width);
    }
  }
  const size_t rows = value->elements() / width;
  const int64_t number = first_nonzero(value->terms[0], value->elements());
  if (!value->is_plain() || !builder.is_node(number)) return value;
  const uint32_t from = producer_of(number);
  const Producer producer = builder.producer_at(from);
  // Rows concatenate several pixels, or are a subset of the pixels, such as every second one.
  const bool has_other_rows = !value->terms[0].places.is_whole() || producer.width != width;
  const bool may_be = has_other_rows && (has_several_pixels(builder, *value, width) ||
                                         (builder.is_node(value->at(width - 1)) &&
                                          rows > builder.sizes.sequences && rows < producer.rows));
  if (!may_be) return value;
  const Axis axis = builder.graph.axes[builder.graph.axis(producer.node)];
  if (!axis.is_image()) return value;
  const ImageLayout image = {producer.width, axis.rows / axis.other, axis.other, false, false};
  const uint32_t sequences = builder.sizes.sequences;
  const std::vector<int64_t> places = producer_indices(value->terms[0], value->elements(), from);
  const auto found = find_windows(image, places, width, sequences);
  if (!found) return value;
  return rows_of_windows(builder, *found, producer.node, producer.rows / sequences, value->shape);
}

std::optional<LinearExprRef> windows_of_rows(GraphBuilder& builder, const LinearExprRef& value) {
  const TraceSizes sizes = builder.sizes;
  const auto width = static_cast<size_t>(value->shape.back());
  const size_t count = value->elements();
  if (!value->is_plain() || count < 2 * width * sizes.sequences) return {};
  std::map<Column, uint32_t> columns;
  for (size_t i = 0; i < count; ++i) {
    const int64_t number = value->at(i);
    if (number == kNoElement) continue;
    if (!builder.is_node(number) || builder.producer(number).rows != sizes.rows()) return {};
    columns.try_emplace(builder.column_of(number), columns.size());
  }
  const auto channels = static_cast<uint32_t>(columns.size());
  std::vector<int64_t> places(count, kNowhere);
  for (size_t i = 0; i < count; ++i) {
    const int64_t number = value->at(i);
    if (number == kNoElement) continue;
    places[i] = int64_t{builder.row_of(number)} * channels + columns.at(builder.column_of(number));
  }
  if (channels == 0) return {};
  const auto found =
      find_windows({channels, sizes.tokens, 1, false}, places, width, sizes.sequences);
  if (!found || found->windows.lines.kernel < 2) return {};
  std::vector<Column> all(channels);
  for (const auto& [column, index] : columns) all[index] = column;
  return rows_of_windows(builder, *found, builder.gather(all), sizes.tokens, value->shape);
}

namespace {

// Adds a node for the maximum or the mean of each column over a window.
ValueId add_pool(GraphBuilder& builder, const Windows& windows, ValueId input, SelectKind kind) {
  Graph& graph = builder.graph;
  if (kind == SelectKind::kMax) return graph.add_max_pool(builder.name, windows, input);
  DepthwiseNode mean;
  mean.windows = windows;
  mean.kernel.name = builder.name + ".mean";
  mean.kernel.rows = windows.kernel();
  mean.kernel.columns = graph.width(input);
  set_exact(mean.kernel, [rows = mean.kernel.rows, columns = mean.kernel.columns] {
    return std::vector<double>(size_t{rows} * columns, 1.0 / rows);
  });
  return graph.add_depthwise(builder.name, mean, input);
}

// Returns an order of dimensions: those along pixels, then `axis`, then those along columns.
std::vector<size_t> pixels_first(const GraphBuilder& builder, const LinearExpr& value,
                                 size_t axis) {
  std::vector<size_t> order, columns;
  for (size_t d = 0; d < value.shape.size(); ++d) {
    if (d == axis) continue;
    const bool is_of_rows = value.shape[d] == 1 || is_along_tokens(builder, value, d);
    (is_of_rows ? order : columns).push_back(d);
  }
  order.push_back(axis);
  order.insert(order.end(), columns.begin(), columns.end());
  return order;
}

}  // namespace

std::optional<LinearExprRef> pooled_windows(GraphBuilder& builder, const LinearExprRef& given,
                                            size_t axis, SelectKind kind) {
  const bool is_pool = kind == SelectKind::kMax || kind == SelectKind::kMean;
  if (!is_pool || !builder.is_node(given->front())) return std::nullopt;
  const ScopedAxis on(builder, *given);
  const bool is_part = given->shape[axis] < builder.sizes.tokens;
  if (!is_part || builder.producer(given->front()).rows != builder.sizes.rows())
    return std::nullopt;
  const LinearExprRef value = on_one_producer(builder, given);
  const uint32_t from = producer_of(value->front());
  const Producer producer = builder.producer_at(from);
  const Axis image_axis = builder.graph.axes[builder.graph.axis(producer.node)];
  if (!image_axis.is_image() || producer.rows != builder.sizes.sequences * image_axis.rows) {
    return std::nullopt;
  }
  const std::vector<size_t> order = pixels_first(builder, *value, axis);
  const LinearExprRef rows = permuted(value, order);
  const size_t width = producer.width * static_cast<size_t>(value->shape[axis]);
  std::vector<int64_t> places(rows->elements());
  for (size_t i = 0; i < places.size(); ++i) places[i] = index_of(rows->at(i));
  const ImageLayout image = {producer.width, image_axis.rows / image_axis.other, image_axis.other,
                             false, false};
  if (places.size() % width != 0) return std::nullopt;
  const auto found = WindowFinder(image, places, width).find();
  // Dilated windows interleave; only their maximum is supported.
  const bool is_apart =
      !found || found->windows.lines.dilation > 1 || found->windows.columns.dilation > 1;
  if (is_apart && (!found || kind == SelectKind::kMean)) return std::nullopt;
  const LinearExprRef made =
      builder.windows_expr({.windows = found->windows,
                            .input = producer.node,
                            .places = image_axis.rows,
                            .add = [&](const Windows& windows, ValueId input) {
                              return add_pool(builder, windows, input, kind);
                            }});
  std::vector<int64_t> element_ids;
  for (size_t row = 0; row < places.size(); row += width) {
    const auto window = static_cast<size_t>(found->places[row]) / width;
    for (size_t c = 0; c < producer.width; ++c) {
      const auto column = static_cast<size_t>(places[row + c]) % producer.width;
      element_ids.push_back(made->at(window * producer.width + column));
    }
  }
  Shape shape = rows->shape;
  std::vector<size_t> left = order;
  const auto place = std::ranges::find(left, axis) - left.begin();
  shape.erase(shape.begin() + place);
  left.erase(left.begin() + place);
  for (size_t& d : left) d -= d > axis ? 1 : 0;
  return permuted(plain(std::move(shape), std::move(element_ids)), inverse_order(left));
}

}  // namespace arenite::convert
