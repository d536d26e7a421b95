// SPDX-License-Identifier: Apache-2.0
#include "support/test_data.h"

namespace arenite::testing {

std::filesystem::path project_folder() { return ARENITE_SOURCE_DIR; }

}  // namespace arenite::testing
