// SPDX-License-Identifier: Apache-2.0
// Memory next to inaccessible pages: any access beyond it faults, also in SIMD kernels, for which
// sanitizers are off.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <span>

namespace arenite::test {

// Ends the program, where the system refuses what a test is made with.
inline void require(bool condition) {
  if (!condition) std::abort();
}

enum class Guard {
  kBehind,  // an inaccessible page follows the buffer and its slack
  kBefore,  // an inaccessible page precedes the buffer, which then starts on a page
};

// `bytes` of memory that starts at a multiple of `alignment`, followed by `slack_bytes` that may be
// read. With Guard::kBehind the guard page follows immediately where bytes + slack_bytes is a
// multiple of the alignment; else less than `alignment` bytes lie between. Everything is filled
// with 0xFF, which as a float is not a number. REQUIRES: alignment is a power of two, at most a
// page.
class GuardedBuffer {
 public:
  explicit GuardedBuffer(size_t bytes, size_t alignment = 1, size_t slack_bytes = 0,
                         Guard guard = Guard::kBehind);
  ~GuardedBuffer();
  GuardedBuffer(GuardedBuffer&& other) noexcept;
  GuardedBuffer(const GuardedBuffer&) = delete;
  GuardedBuffer& operator=(const GuardedBuffer&) = delete;

  std::byte* data() const { return data_; }
  size_t size() const { return bytes_; }
  std::span<std::byte> span() const { return {data_, bytes_}; }

  // Fills buffer and surroundings with 0xFF again.
  void refill();

  // Whether the accessible bytes around the buffer, slack included, are as they were: what may be
  // read there must still not be written.
  bool surroundings_intact() const;

 private:
  std::byte* mapping_;
  size_t mapping_bytes_;
  std::span<std::byte> accessible_;
  std::byte* data_;
  size_t bytes_;
};

// A guarded buffer of `count` floats.
class GuardedFloats {
 public:
  explicit GuardedFloats(size_t count, size_t slack_bytes = 0, size_t alignment = sizeof(float),
                         Guard guard = Guard::kBehind)
      : buffer_(count * sizeof(float), alignment, slack_bytes, guard) {}

  float* data() const { return reinterpret_cast<float*>(buffer_.data()); }
  size_t size() const { return buffer_.size() / sizeof(float); }
  std::span<float> span() const { return {data(), size()}; }
  float& operator[](size_t index) const { return data()[index]; }
  void refill() { buffer_.refill(); }
  bool surroundings_intact() const { return buffer_.surroundings_intact(); }

 private:
  GuardedBuffer buffer_;
};

}  // namespace arenite::test
