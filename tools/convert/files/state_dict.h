// SPDX-License-Identifier: Apache-2.0
// Finds the tensors in an unpickled checkpoint and gives each its name.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "convert/files/pickle_value.h"

namespace arenite::convert {

struct NamedTensor {
  std::string name;     // dotted path of dict keys and list positions: "encoder.0.weight"
  size_t tensor_index;  // into Pickle::tensors
};

// The tensors in the order of the pickle, with unique names. Where the outermost dict is a training
// checkpoint, that is, exactly one of its keys `model_state_dict`, `state_dict` and `model` holds a
// dict with tensors, only that dict counts and names start there. Other values are passed over.
// Containers may share parts, and tensors elements; what all names together stand for is bounded by
// the size of the pickle and of the storages. Throws InputError; `where` says in its messages which
// file this is.
std::vector<NamedTensor> named_tensors(const Pickle& pickle, const std::string& where);

// Integers, floats, booleans ("true") and strings of the outermost dict by their key, and those of
// the dicts directly inside it as "model_args.n_head": what training programs keep beside the
// weights. Floats are written so that they read back the same. Other values are left out. Throws
// InputError for more of them than a pickle of this size can hold.
std::map<std::string, std::string> plain_values(const Pickle& pickle, const std::string& where);

}  // namespace arenite::convert
