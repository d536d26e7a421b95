// SPDX-License-Identifier: Apache-2.0
// Recognises images, patches and windows: rows that concatenate the pixels, or the token rows, of a
// window.
//
//   x [b, 3, 8, 8] cut into rows [b, 4, 48]  ->  windows of an 8 x 8 image, kernel 4, stride 4
//   x.unfold(1, 4, 2) of a series            ->  windows of tokens, kernel 4, stride 2
#pragma once

#include <cstddef>
#include <optional>

#include "convert/exported/recover/graph_builder.h"

namespace arenite::convert {

// Adds an image input of shape [sequences, ...]. `layout` is nullopt while it is unknown.
LinearExprRef images_input(GraphBuilder& builder, Shape shape,
                           const std::optional<ImageLayout>& layout);
// Adds a windows node for rows that concatenate the pixels of a window, such as patches. Returns
// any other value unchanged. Throws NotRecognised for images of unknown layout, with the likely
// layout in builder.found.
LinearExprRef as_windows(GraphBuilder& builder, const LinearExprRef& value);
// Returns the maximum or mean of each column along `axis`, if it steps through the pixels of a
// window, in any order; else nullopt.
std::optional<LinearExprRef> pooled_windows(GraphBuilder& builder, const LinearExprRef& value,
                                            size_t axis, SelectKind kind);
// Throws NotRecognised, with the layout in builder.found, if `value` reads an image input of
// unknown layout as [sequences, channels, height, width]. Accepts all other values.
void find_image(GraphBuilder& builder, const LinearExpr& value);
// Adds a windows node for rows that are windows over token rows, with zeros, or with copies of
// rows, outside the sequence. Returns nullopt for any other value.
std::optional<LinearExprRef> windows_of_rows(GraphBuilder& builder, const LinearExprRef& value);

}  // namespace arenite::convert
