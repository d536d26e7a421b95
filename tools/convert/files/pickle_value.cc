// SPDX-License-Identifier: Apache-2.0
// The table of values that unpickling fills, and their names in messages.
#include "convert/files/pickle_value.h"

#include <utility>

#include "convert/files/error.h"

namespace arenite::convert {

ValueIndex add_value(Pickle& pickle, PickleValue value, const std::string& where) {
  if (pickle.values.size() == kPickleValuesMax) {
    throw InputError(
        "{}: more than {} Python values: save the weights alone, with "
        "torch.save(model.state_dict(), path)",
        where, kPickleValuesMax);
  }
  pickle.values.push_back(std::move(value));
  return static_cast<ValueIndex>(pickle.values.size() - 1);
}

const char* describe(PickleValue::Kind kind) {
  using Kind = PickleValue::Kind;
  switch (kind) {
    case Kind::kNone:
      return "None";
    case Kind::kBool:
      return "a bool";
    case Kind::kInt:
      return "an integer";
    case Kind::kFloat:
      return "a float";
    case Kind::kOpaque:
      return "bytes or a large integer";
    case Kind::kString:
      return "a string";
    case Kind::kList:
      return "a list";
    case Kind::kTuple:
      return "a tuple";
    case Kind::kDict:
      return "a dict";
    case Kind::kGlobal:
      return "a class or function";
    case Kind::kStorage:
      return "a storage";
    case Kind::kTensor:
      return "a tensor";
  }
  return "unknown";
}

}  // namespace arenite::convert
