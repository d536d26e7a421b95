# SPDX-License-Identifier: Apache-2.0
# Turns plain comments of C++ into those that doxygen reads:
#
#     // Returns the rows.          /// Returns the rows.
#     uint32_t rows;  // of a batch  uint32_t rows;  /**< of a batch */
#
# The first comment of a file describes the file.
1s|.*|/// @file|
# These document nothing: comments in functions, ends of namespaces, titles of sections, notes to
# linters, operators that the compiler writes.
/^(constexpr|static inline) .*[{(,]$/,/^}/s| *//.*||
/^}/b
s|^// ---- .*||
s|// NOLINT.*||
s|.* operator==.*= default;||
# Examples are indented and stay as they are. In prose < begins no tag, and "e.g." ends no sentence.
/^ *\/\/     /!{
  /^ *\/\//s|([^"])<([a-z/])|\1\\<\2|g
  s|e\.g\. |e.g.\\ |g
}
s|^( *)//( \|$)|\1///\2|
/^ *\/\/\//b
s|^(.*[^ ]) *  // (.*)|\1  /**< \2 */|
