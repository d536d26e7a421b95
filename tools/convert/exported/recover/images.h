// SPDX-License-Identifier: Apache-2.0
// Images, patches and windows: rows that have other rows, or pixels, of a window side by side.
//
//   x [b, 3, 8, 8] cut into rows [b, 4, 48]  ->  windows of an 8 x 8 image, kernel 4, stride 4
//   x.unfold(1, 4, 2) of a series            ->  windows of tokens, kernel 4, stride 2
#pragma once

#include <cstddef>
#include <optional>

#include "convert/exported/recover/graph_builder.h"

namespace arenite::convert {

// [sequences, ...]; `layout` is nullopt while it is unknown.
LinearExprRef images_input(GraphBuilder& builder, Shape shape,
                           const std::optional<ImageLayout>& layout);
// Turns rows that have the pixels of a window side by side, such as patches, into rows of a windows
// node; returns any other value as it is. Throws NotRecognised for images of unknown layout, with
// the likely layout in builder.found.
LinearExprRef as_windows(GraphBuilder& builder, const LinearExprRef& value);
// Returns the maximum or mean of each column along `axis` if the pixels along it are a window, in
// any order; else nullopt.
std::optional<LinearExprRef> pooled_windows(GraphBuilder& builder, const LinearExprRef& value,
                                            size_t axis, SelectKind kind);
// Throws NotRecognised, with the layout in builder.found, if a convolution reads an image input as
// [sequences, channels, height, width]. Accepts all other values.
void find_image(GraphBuilder& builder, const LinearExpr& value);
// Turns rows that are windows over rows of the current row axis, but not of pixels, into rows of a
// windows node. Outside a sequence, a window has zeros or copies of any rows. Returns nullopt for
// any other value.
std::optional<LinearExprRef> windows_of_rows(GraphBuilder& builder, const LinearExprRef& value);

}  // namespace arenite::convert
