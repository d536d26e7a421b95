// SPDX-License-Identifier: Apache-2.0
// Tells what a conversion made: what was recognised, the arena, the check, the file.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "cli/report_facts.h"
#include "convert/check/author_check.h"
#include "convert/convert.h"

namespace arenite::tool {

struct WrittenFile {
  std::filesystem::path path;
  std::vector<convert::AuthorCheck> expect;  // comparisons that were asked for
};

// Lines for a person. `facts` are those of the file that was made.
void print_conversion(const convert::Conversion& conversion, const WrittenFile& written,
                      const ReportFacts& facts);

// Of these, what few bits cost each matrix and each layer, and what did not go as asked.
void print_few_bits(const ConversionFacts& facts);

// And for each target the CPUs that it serves, its kernels, and the bytes that a token reads.
void print_kernels(const ReportFacts& facts);

// A list after a title, a few parts to a line.
void print_list(const char* title, const std::vector<std::string>& parts);

// The same as one JSON object; `arenite convert --help` names its keys.
std::string conversion_as_json(const convert::Conversion& conversion, const WrittenFile& written,
                               const ReportFacts& facts);

// Numbers in the weights and tables of a program that were trained.
uint64_t parameters_of(const convert::Program& program);

}  // namespace arenite::tool
