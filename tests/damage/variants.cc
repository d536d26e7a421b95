// SPDX-License-Identifier: Apache-2.0
// Between two variants only the metadata and the footer are restored, except after a cut.
#include "damage/variants.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "arenite/model.h"
#include "core/crc32c.h"
#include "damage/offset_places.h"
#include "support/repair.h"

namespace arenite::test {
namespace {

constexpr uint32_t kOtherValues = 255;  // of a byte

template <typename T>
T number_at(std::span<const std::byte> file, uint32_t place) {
  T value;
  std::memcpy(&value, file.data() + place, sizeof(value));
  return value;
}

template <typename T>
void put_number(std::span<std::byte> file, uint32_t place, T value) {
  std::memcpy(file.data() + place, &value, sizeof(value));
}

}  // namespace

Variants::Variants(std::span<const std::byte> file)
    : file_(file),
      footer_(number_at<format::Footer>(
          file, static_cast<uint32_t>(file.size() - sizeof(format::Footer)))),
      metadata_bytes_(static_cast<size_t>(footer_.metadata_bytes)),
      memory_(file.size(), kModelAlignment),
      before_repair_(metadata_bytes_) {
  add_pairs();
  const uint64_t lengths = file.size() - sizeof(footer_);
  const std::array<uint64_t, kDamages> counts = {metadata_bytes_ * kOtherValues,
                                                 sizeof(footer_) * kOtherValues,
                                                 file.size(),
                                                 lengths,
                                                 lengths,
                                                 pairs_[5].size(),
                                                 pairs_[6].size(),
                                                 pairs_[7].size()};
  uint64_t end = 0;
  for (size_t i = 0; i < kDamages; ++i) ends_[i] = end += counts[i];
}

// Pairs of equal numbers are left out: to swap them is no damage.
void Variants::add_pairs() {
  const OffsetPlaces places = find_offsets(file_.first(metadata_bytes_));
  const auto add = [&](const std::vector<uint32_t>& list, Damage kind, auto number_of) {
    for (size_t i = 0; i < list.size(); ++i) {
      for (size_t k = i + 1; k < list.size(); ++k) {
        if (number_of(list[i]) == number_of(list[k])) continue;
        pairs_[static_cast<size_t>(kind)].push_back({list[i], list[k]});
      }
    }
  };
  const auto offset = [&](uint32_t place) { return number_at<uint32_t>(file_, place); };
  add(places.offsets, Damage::kTargets, [&](uint32_t place) { return place + offset(place); });
  add(places.offsets, Damage::kOffsets, offset);
  for (const std::vector<uint32_t>& fields : places.fields) {
    add(fields, Damage::kFields, [&](uint32_t place) { return number_at<uint16_t>(file_, place); });
  }
}

uint64_t Variants::first(Damage kind) const {
  return kind == Damage{} ? 0 : ends_[static_cast<size_t>(kind) - 1];
}

Damage Variants::kind(uint64_t number) const {
  return static_cast<Damage>(std::ranges::upper_bound(ends_, number) - ends_.begin());
}

const Variants::Pair& Variants::pair(uint64_t number, Damage kind) const {
  return pairs_[static_cast<size_t>(kind)][static_cast<size_t>(number - first(kind))];
}

std::string Variants::name(uint64_t number) const {
  const Damage kind = this->kind(number);
  const uint64_t place = number - first(kind);
  const std::string name = kDamageNames[static_cast<size_t>(kind)];
  switch (kind) {
    case Damage::kByte:
    case Damage::kFooterByte:
      return fmt::format("{} {}, {} more", name, place / kOtherValues, place % kOtherValues + 1);
    case Damage::kCut:
    case Damage::kCutWithFooter:
    case Damage::kMetadataLength:
      return fmt::format("{} {}", name, place);
    default:
      return fmt::format("{} at {} and {}", name, pair(number, kind).one, pair(number, kind).other);
  }
}

// The first bytes of the sound file, as near to the guard page as alignment allows.
std::span<std::byte> Variants::restored(size_t bytes) {
  const size_t start = (file_.size() - bytes) / kModelAlignment * kModelAlignment;
  const std::span<std::byte> file = memory_.span().subspan(start, bytes);
  if (all_is_damaged_ || bytes != file_.size()) {
    std::memcpy(file.data(), file_.data(), bytes);
  } else {
    std::memcpy(file.data(), file_.data(), metadata_bytes_);
    put_number(file, static_cast<uint32_t>(bytes - sizeof(footer_)), footer_);
  }
  all_is_damaged_ = bytes != file_.size();
  return file;
}

void Variants::put_footer(std::span<std::byte> file, uint64_t metadata_bytes) {
  format::Footer footer = footer_;
  footer.file_bytes = file.size();
  footer.metadata_bytes = metadata_bytes;
  footer.metadata_crc32c = crc32c(file.first(static_cast<size_t>(metadata_bytes)));
  put_number(file, static_cast<uint32_t>(file.size() - sizeof(footer)), footer);
}

void Variants::swap(Damage kind, Pair pair) {
  const std::span<std::byte> file = memory_.span();
  const auto swap_numbers = [&]<typename T>(T distance) {
    const T one = number_at<T>(file, pair.one);
    const T other = number_at<T>(file, pair.other);
    put_number(file, pair.one, static_cast<T>(other + distance));
    put_number(file, pair.other, static_cast<T>(one - distance));
  };
  if (kind == Damage::kFields) {
    swap_numbers(uint16_t{0});
  } else {
    swap_numbers(kind == Damage::kTargets ? pair.other - pair.one : 0u);
  }
}

std::span<std::byte> Variants::make(uint64_t number) {
  const Damage kind = this->kind(number);
  const auto place = static_cast<size_t>(number - first(kind));
  if (kind == Damage::kCut) return restored(place);
  if (kind == Damage::kCutWithFooter) {
    const std::span<std::byte> file = restored(place + sizeof(footer_));
    put_footer(file, std::min(metadata_bytes_, place));
    return file;
  }
  const std::span<std::byte> file = restored(file_.size());
  const auto more = static_cast<uint8_t>(place % kOtherValues + 1);
  const auto add = [more](std::byte& byte) {
    byte = static_cast<std::byte>(static_cast<uint8_t>(byte) + more);
  };
  switch (kind) {
    case Damage::kByte:
      add(file[place / kOtherValues]);
      put_footer(file, metadata_bytes_);
      break;
    case Damage::kFooterByte:
      add(file.last(sizeof(footer_))[place / kOtherValues]);
      break;
    case Damage::kMetadataLength:
      put_footer(file, place < metadata_bytes_ ? place : place + 1);
      break;
    default:
      swap(kind, pair(number, kind));
      put_footer(file, metadata_bytes_);
  }
  return file;
}

bool Variants::repair() {
  const std::span<std::byte> metadata = memory_.span().first(metadata_bytes_);
  std::memcpy(before_repair_.data(), metadata.data(), metadata.size());
  repair_checksums_and_formulas(memory_.span());
  return !std::ranges::equal(metadata, before_repair_) &&
         !std::ranges::equal(metadata, file_.first(metadata_bytes_));
}

}  // namespace arenite::test
