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

// Throws InputError that names `file` and says everything in `why`.
[[noreturn]] void throw_status(const std::string& file, Status status, const Diagnostic& why);

// Throws InputError if `output`, which `source` led to, is not finite: what is chosen or compared
// by NaN means nothing.
void require_finite(const std::string& source, const Output& output);
[[noreturn]] void refuse_results(const std::string& source);  // what it throws

// The target whose kernel set is called `kernels`, or is named so itself. Empty: the one in the
// environment variable ARENITE_KERNELS, if any. Throws InputError for an unknown name.
std::optional<Target> forced_target(const std::string& kernels);

// One such name. Throws InputError for an unknown one.
Target target_named(const std::string& kernels);

// Why the last function of a model cannot be fed step by step, as half a sentence. Null: it can.
const char* why_whole_sequences(const format::ModelReader& model);
const char* why_whole_sequences(const Model& model);

class ModelFile {
 public:
  // Maps and loads. Throws InputError.
  ModelFile(const std::filesystem::path& file, const std::string& kernels,
            Checksums checksums = Checksums::kVerify);

  const std::string& name() const { return name_; }  // of the file
  const Model& model() const { return model_; }
  size_t file_bytes() const { return map_.bytes().size(); }

 private:
  std::string name_;
  convert::FileMap map_;
  Model model_;
};

// Throws InputError for a model of several inputs or functions, which `command` does not feed.
void require_one_input(const ModelFile& file, const char* command);

// A file that may be meant for another CPU: verified, but not loaded.
class VerifiedFile {
 public:
  // Throws InputError with the verifier's reason.
  explicit VerifiedFile(const std::filesystem::path& file);
  // The same of a file that is not written yet; `name` is for messages. The bytes must outlive
  // this.
  VerifiedFile(std::string name, std::span<const std::byte> bytes);

  const std::string& name() const { return name_; }  // of the file
  std::span<const std::byte> bytes() const { return bytes_; }
  format::ModelReader reader() const { return format::ModelReader(bytes_); }

 private:
  std::string name_;
  std::optional<convert::FileMap> map_;
  std::span<const std::byte> bytes_;
};

// A session and the arena it lives in.
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
