// SPDX-License-Identifier: Apache-2.0
// Handles footers and padding.
#include "support/model_surgery.h"

#include "support/repair.h"

namespace arenite::test {

void ModelSurgery::assign(std::span<const std::byte> file) {
  bytes_ = convert::AlignedBytes(file.size());
  std::memcpy(bytes_.data(), file.data(), file.size());
}

format::Footer ModelSurgery::footer() const {
  format::Footer footer;
  std::memcpy(&footer, bytes_.span().last(sizeof(footer)).data(), sizeof(footer));
  return footer;
}

void ModelSurgery::set_footer(const format::Footer& footer) {
  std::memcpy(bytes_.span().last(sizeof(footer)).data(), &footer, sizeof(footer));
}

void ModelSurgery::pad_to(size_t unit) {
  format::Footer footer = this->footer();
  const size_t content = bytes_.size() - sizeof(footer);
  const size_t padded = (bytes_.size() + unit - 1) / unit * unit;
  footer.file_bytes = padded;
  const convert::AlignedBytes old = std::move(bytes_);
  bytes_ = convert::AlignedBytes(padded);
  std::memcpy(bytes_.data(), old.span().data(), content);
  set_footer(footer);
}

void ModelSurgery::repair() { repair_checksums(bytes_.span()); }

}  // namespace arenite::test
