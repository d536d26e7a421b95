// SPDX-License-Identifier: Apache-2.0
// Finds out what a state dict does not say, from what the author's own model gives.
#pragma once

#include <string>
#include <vector>

#include "convert/check/author_check.h"
#include "convert/open/opened.h"
#include "convert/spec/model_options.h"
#include "convert/spec/model_spec.h"

namespace arenite::convert {

// Tries the answers that are possible, all combinations of those that have to be given and up to
// two other ones than are assumed, and adds those that fit to `options`. What fits gives the
// outputs of the first sequence within kAuthorDifferenceMax, and anything else that has to be
// answered differently is clearly worse. Returns the answers that were added, as options: "--norm
// rms". Nothing is tried where nothing is open, or all that is assumed fits. Throws InputError for
// arrays that do not fit, where no combination does (it says how far the best one is off) or
// several do, and where there are too many for a model of this size.
std::vector<std::string> answer_by_comparison(const Opened& model, const AuthorFiles& files,
                                              ModelOptions& options);

}  // namespace arenite::convert
