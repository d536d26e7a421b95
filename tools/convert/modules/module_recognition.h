// SPDX-License-Identifier: Apache-2.0
// Recognises attention modules by the names of their parameters.
#pragma once

#include "convert/files/tensor_store.h"
#include "convert/modules/module_options.h"
#include "convert/spec/attention_module.h"

namespace arenite::convert {

// Reads the one attention module of a file. Throws InputError if there is none or several,
// if tensors are left over that belong to no module, if heads do not divide, shapes do not fit,
// values are not finite, or the mask cannot be read.
AttentionModule read_attention_module(const TensorStore& store, const ModuleOptions& options);

// One line per known module: its name and its parameters. For help texts and messages.
std::string known_modules();

}  // namespace arenite::convert
