// SPDX-License-Identifier: Apache-2.0
#include "convert/check/pack_model.h"

#include "convert/check/recorded_self_test.h"
#include "convert/files/error.h"
#include "convert/program/writer.h"

namespace arenite::convert {

void limit_context(uint32_t& positions_max, uint32_t context, const std::string& path) {
  if (context == 0) return;
  if (positions_max != 0 && context > positions_max) {
    throw InputError(
        "{}: --context: found {}, expected at most {}, which the model was trained for", path,
        context, positions_max);
  }
  positions_max = context;
}

AlignedBytes pack_model(const Program& program, const std::vector<Target>& targets,
                        const std::string& path) {
  try {
    check_format_limits(program);
    AlignedBytes file = write_model(program, targets, self_test_tokens(program));
    record_self_test(file, program);
    return file;
  } catch (const InputError& error) {
    throw InputError("{}: {}", path, error.what());
  }
}

}  // namespace arenite::convert
