// SPDX-License-Identifier: Apache-2.0
// What a bundle holds of its models: one header of C, and a file with the bytes of each.
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "arenite/model.h"
#include "cli/bundle.h"
#include "cli/embed_data.h"
#include "cli/embed_header.h"

namespace arenite::tool {
namespace {

uint32_t input_features(const format::ModelReader& reader) {
  return reader.vocab_size() == 0 ? reader.slot(reader.input_slot()).width : 0;
}

// What the program has to know to give the model its input.
std::string features_of(const BundledModel& model) {
  const format::ModelReader reader = model.file.reader();
  return fmt::format(
      "\n// Floats of a token going in, or 0 and how many tokens there are; floats of a row "
      "coming\n"
      "// out.\n"
      "#define {0}_INPUT_FEATURES {1}u\n"
      "#define {0}_VOCAB_SIZE {2}u\n"
      "#define {0}_OUTPUT_FEATURES {3}u\n\n",
      upper(model.identifier), input_features(reader), reader.vocab_size(),
      reader.slot(reader.output_slot()).width);
}

std::string header(std::span<const BundledModel> models) {
  std::string text =
      "// The models of this bundle: where they are, and what they take. An arena has the bytes "
      "of\n"
      "// NAME_ARENA_BYTES_MAX; models that never run at once may share one.\n" +
      c_preamble() + "#include \"arenite/arenite.h\"\n\n";
  size_t arena_bytes = 0;
  uint32_t features = 1;
  std::string each;
  for (const BundledModel& model : models) {
    text += c_declarations(model.file, model.identifier, model.sizes) + features_of(model);
    each += fmt::format(" EACH({}, {})", model.identifier, upper(model.identifier));
    arena_bytes = std::max(arena_bytes, model.arena_bytes);
    features = std::max(features, input_features(model.file.reader()));
  }
  return text + fmt::format(
                    "// EACH(name, NAME) for each model.\n"
                    "#define ARENITE_MODELS(EACH){}\n\n"
                    "// The most that one of them takes.\n"
                    "#define ARENITE_MODELS_ARENA_BYTES_MAX ((size_t){}u)\n"
                    "#define ARENITE_MODELS_INPUT_FEATURES_MAX {}u\n"
                    "// NOLINTEND\n",
                    each, arena_bytes, features);
}

std::string array_source(const BundledModel& model) {
  std::string text = fmt::format(
      "// The bytes of a model, for flash; made by arenite bundle.\n"
      "#include \"arenite_model.h\"\n\n"
      "// NOLINTBEGIN\n"
      "ARENITE_ALIGNED const uint64_t {}_words[] = {{",
      model.identifier);
  write_words(model.file.bytes(), [&text](std::string_view piece) { text += piece; });
  return text + "\n};\n// NOLINTEND\n";
}

// C that has the assembler include the file, which is looked for in the folders of -I.
std::string file_source(const BundledModel& model) {
  return fmt::format(
      "// The bytes of a model, for flash: those of {0}.arn beside this file, which the assembler\n"
      "// includes. Compile in this folder, or with -I for it; made by arenite bundle.\n"
      "__asm__(\n"
      "    \".pushsection {1}, \\\"a\\\", %progbits\\n\"\n"
      "    \".balign {2}\\n\"\n"
      "    \".global {0}_words\\n\"\n"
      "    \".type {0}_words, %object\\n\"\n"
      "    \".size {0}_words, {3}\\n\"\n"
      "    \"{0}_words:\\n\"\n"
      "    \".incbin \\\"{0}.arn\\\"\\n\"\n"
      "    \".popsection\\n\");\n"
      "typedef int arenite_not_empty;\n",
      model.identifier, kDefaultSection, kModelAlignment, model.file.bytes().size());
}

}  // namespace

std::vector<FolderFile> model_files(std::span<const BundledModel> models, ModelBytes bytes) {
  std::vector<FolderFile> files = {{"arenite_model.h", header(models)}};
  for (const BundledModel& model : models) {
    const std::string source = fmt::format("arenite_model_{}.c", model.identifier);
    if (bytes == ModelBytes::kArray) {
      files.push_back({source, array_source(model)});
    } else {
      const std::span<const std::byte> data = model.file.bytes();
      files.push_back({source, file_source(model)});
      files.push_back({model.identifier + ".arn",
                       std::string(reinterpret_cast<const char*>(data.data()), data.size())});
    }
  }
  return files;
}

}  // namespace arenite::tool
