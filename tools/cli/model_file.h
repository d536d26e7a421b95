// SPDX-License-Identifier: Apache-2.0
// A model file as the subcommands use it: mapped, loaded, and run in an arena of the right size.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "arenite/session.h"
#include "convert/files/memory.h"
#include "format/reader.h"

namespace arenite::tool {

// Throws an InputError that names `file` and contains all of `why`.
[[noreturn]] void throw_status(const std::string& file, Status status, const Diagnostic& why);

// Throws InputError if `output`, computed from `source`, is not finite, as comparing NaN is
// meaningless.
void require_finite(const std::string& source, const Output& output);
[[noreturn]] void refuse_results(const std::string& source);  // throws the error of require_finite

// Returns the target of this name, or whose kernel set has it; empty: of ARENITE_KERNELS in the
// environment, if set. Throws InputError for an unknown name.
std::optional<Target> forced_target(const std::string& kernels);

// Returns the target of a nonempty name. Throws InputError if it is unknown.
Target target_named(const std::string& kernels);

// Says in half a sentence why the last function cannot be fed step by step. Returns null if it can.
const char* why_whole_sequences(const format::ModelReader& model);
const char* why_whole_sequences(const Model& model);

class ModelFile {
 public:
  // Maps and loads the file. Throws InputError.
  ModelFile(const std::filesystem::path& file, const std::string& kernels,
            Checksums checksums = Checksums::kVerify);

  const std::string& name() const { return name_; }  // the file's
  const Model& model() const { return model_; }
  size_t file_bytes() const { return map_.bytes().size(); }

 private:
  std::string name_;
  convert::FileMap map_;
  Model model_;
};

// Throws InputError for a model of several inputs or functions, which `command` does not support.
void require_one_input(const ModelFile& file, const char* command);

// A verified file that is not loaded, as it may be packed for another CPU.
class VerifiedFile {
 public:
  // Throws an InputError with the verifier's reason.
  explicit VerifiedFile(const std::filesystem::path& file);
  // Verifies bytes that are not in a file yet and must outlive this object. `name` is for messages.
  VerifiedFile(std::string name, std::span<const std::byte> bytes);

  const std::string& name() const { return name_; }  // the file's
  std::span<const std::byte> bytes() const { return bytes_; }
  format::ModelReader reader() const { return format::ModelReader(bytes_); }

 private:
  std::string name_;
  std::optional<convert::FileMap> map_;
  std::span<const std::byte> bytes_;
};

// A session with its arena.
class ModelSession {
 public:
  // Throws InputError if the model cannot serve the options.
  ModelSession(const ModelFile& file, const SessionOptions& options);

  Session& session() { return *session_; }
  const ArenaPlan& plan() const { return plan_; }

 private:
  ArenaPlan plan_ = {};
  convert::AlignedBytes arena_;
  Session* session_ = nullptr;
};

}  // namespace arenite::tool
