// SPDX-License-Identifier: Apache-2.0
// Uses the tokenizer of a model of unknown origin like an application.
#ifndef ARENITE_TESTS_SUPPORT_HOSTILE_TOKENIZER_H_
#define ARENITE_TESTS_SUPPORT_HOSTILE_TOKENIZER_H_

#include "arenite/model.h"

namespace arenite::test {

// Encodes texts in guarded spans of exactly the promised size, decodes what comes out and every
// token. A result that breaks the interface's promises ends the process. Returns false if the
// model has no tokenizer.
bool use_tokenizer(const Model& model);

}  // namespace arenite::test

#endif  // ARENITE_TESTS_SUPPORT_HOSTILE_TOKENIZER_H_
