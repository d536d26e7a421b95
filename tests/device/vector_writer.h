// SPDX-License-Identifier: Apache-2.0
// Writes the data that vectors.h declares, as a C++ file and a binary file that it includes.
#ifndef ARENITE_TESTS_DEVICE_VECTOR_WRITER_H_
#define ARENITE_TESTS_DEVICE_VECTOR_WRITER_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "arenite/session.h"
#include "arenite/token.h"

namespace arenite::device {

// A ModelCase without what the runtime of the build machine is asked for.
struct NewModelCase {
  std::string name;
  std::string file;  // as VectorWriter::file named it
  std::span<const std::byte> bytes;
  Outputs outputs = Outputs::kAll;
  uint32_t sequences = 1;
  uint32_t tokens = 0;
  std::vector<uint32_t> lengths = {};
  std::vector<float> features = {};
  std::vector<TokenId> ids = {};
  std::vector<double> expected = {};
  bool rounds_rows = false;
  double tolerance = 0.0;
};

class VectorWriter {
 public:
  // Stores a model file; the result names it.
  std::string file(std::span<const std::byte> bytes);

  // Runs the model on the portable target for the digest and the size of the arena. Throws
  // std::runtime_error if that fails.
  void model_case(const NewModelCase& model_case);
  // A model of sound. Throws std::runtime_error.
  void sound_digest(std::span<const std::byte> bytes);
  void text_case(const std::string& file, std::string_view text, std::span<const TokenId> ids,
                 std::string_view decoded);
  void command_case(const std::string& file, std::string_view prompt,
                    std::span<const TokenId> prompt_ids, std::span<const TokenId> answer_ids,
                    std::string_view answer);
  // Makes the arena large enough for the commands to this model.
  void reserve_for_commands(std::span<const std::byte> bytes);
  void function_points(std::span<const double> points);
  void model_to_damage(std::span<const std::byte> bytes);

  // All model files, one after the other; and the C++ file, which finds them under that path.
  std::span<const std::byte> files() const { return files_; }
  std::string text(const std::string& files_path) const;

 private:
  template <typename T>
  std::string list(std::span<const T> values);

  std::vector<std::byte> files_;
  std::string arrays_;
  std::string models_;
  std::string texts_;
  std::string commands_;
  std::string points_;
  std::string damaged_;
  uint64_t sound_digest_ = 0;
  size_t copy_bytes_ = 0;
  size_t arena_bytes_ = 0;
  uint32_t names_ = 0;
};

}  // namespace arenite::device

#endif  // ARENITE_TESTS_DEVICE_VECTOR_WRITER_H_
