// SPDX-License-Identifier: Apache-2.0
// CRC-32C by instruction (SSE4.2, ARMv8 CRC) or by a table made at compile time.
#include "core/crc32c.h"

#include <array>
#include <cstring>

#include "core/targets.h"

#if defined(__x86_64__)
#include <nmmintrin.h>
#elif defined(__aarch64__)
#include <arm_acle.h>
#endif

namespace arenite {
namespace {

// The CRC of each value of kTableBits bits. A build for size uses four bits: a table of 64 bytes
// instead of 1 KB, at half the speed.
#if defined(__OPTIMIZE_SIZE__)
constexpr uint32_t kTableBits = 4;
#else
constexpr uint32_t kTableBits = 8;
#endif
constexpr uint32_t kTableMask = (1u << kTableBits) - 1;

constexpr std::array<uint32_t, 1u << kTableBits> make_table() {
  std::array<uint32_t, 1u << kTableBits> table{};
  for (uint32_t i = 0; i < table.size(); ++i) {
    uint32_t crc = i;
    for (uint32_t bit = 0; bit < kTableBits; ++bit) {
      crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0x82F63B78u : 0u);
    }
    table[i] = crc;
  }
  return table;
}
constexpr auto kTable = make_table();

#if defined(__x86_64__)
#define ARENITE_CRC_TARGET __attribute__((target("sse4.2")))
ARENITE_CRC_TARGET uint32_t crc_step(uint32_t crc, uint64_t word) {
  return static_cast<uint32_t>(_mm_crc32_u64(crc, word));
}
ARENITE_CRC_TARGET uint32_t crc_step(uint32_t crc, uint8_t byte) { return _mm_crc32_u8(crc, byte); }
bool has_instruction() { return cpu_features().sse42; }
#elif defined(__aarch64__) && defined(__GNUC__)
#define ARENITE_CRC_TARGET __attribute__((target("+crc")))
ARENITE_CRC_TARGET uint32_t crc_step(uint32_t crc, uint64_t word) {
  return __builtin_aarch64_crc32cx(crc, word);
}
ARENITE_CRC_TARGET uint32_t crc_step(uint32_t crc, uint8_t byte) {
  return __builtin_aarch64_crc32cb(crc, byte);
}
bool has_instruction() { return cpu_features().arm_crc32; }
#endif

#if defined(ARENITE_CRC_TARGET)
ARENITE_CRC_TARGET uint32_t crc32c_instruction(std::span<const std::byte> bytes) {
  uint32_t crc = ~0u;
  const std::byte* at = bytes.data();
  const std::byte* const end = at + bytes.size();
  for (; end - at >= 8; at += 8) {
    uint64_t word;
    std::memcpy(&word, at, sizeof(word));
    crc = crc_step(crc, word);
  }
  for (; at != end; ++at) crc = crc_step(crc, static_cast<uint8_t>(*at));
  return ~crc;
}
#endif

}  // namespace

uint32_t crc32c_of(const void* data, size_t count) {
  const std::span bytes(static_cast<const std::byte*>(data), count);
#if defined(ARENITE_CRC_TARGET)
  if (has_instruction()) return crc32c_instruction(bytes);
#endif
  return crc32c_portable(bytes);
}

uint32_t crc32c_portable(std::span<const std::byte> bytes) {
  uint32_t crc = ~0u;
  for (const std::byte byte : bytes) {
    crc ^= static_cast<uint32_t>(byte);
    for (uint32_t bits = 0; bits < 8; bits += kTableBits) {
      crc = (crc >> kTableBits) ^ kTable[crc & kTableMask];
    }
  }
  return ~crc;
}

}  // namespace arenite
