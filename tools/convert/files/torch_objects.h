// SPDX-License-Identifier: Apache-2.0
// The few Python globals that a pickled state dict needs, and the tensors that calling them makes.
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "convert/files/pickle_value.h"

namespace arenite::convert {

// A class or function that a pickle may name; the DType of storages and dtypes is in the table.
struct TorchGlobal {
  enum class Role {
    kOrderedDict,
    kRebuildTensorV2,
    kRebuildTensorV3,
    kRebuildParameter,
    kSize,
    kStorageClass,
    kUntypedStorage,
    kDType,
  };
  std::string_view name;  // "torch._utils._rebuild_tensor_v2"
  Role role;
  DType dtype = DType::kU8;
};

// Makes the values of calls and persistent ids. Keeps a reference to `pickle` and `where`.
class TorchObjects {
 public:
  TorchObjects(Pickle& pickle, const std::string& where) : pickle_(pickle), where_(where) {}

  // Each returns the index of its result in Pickle::values and throws InputError when refused.

  // The class or function `module`.`attribute`, refused by name unless it is one of the few known.
  ValueIndex global(std::string_view module, std::string_view attribute);

  // The result of calling `function` with the tuple `arguments`.
  ValueIndex call(const PickleValue& function, const PickleValue& arguments);

  // The storage of the persistent id ('storage', class, key, location, number of elements).
  ValueIndex storage(const PickleValue& persistent_id);

 private:
  ValueIndex add(PickleValue value) { return add_value(pickle_, std::move(value), where_); }
  const PickleValue& item(const PickleValue& tuple, size_t position) const;
  const TorchGlobal& global_of(const PickleValue& value, std::string_view expected) const;
  std::vector<uint64_t> sizes(const PickleValue& tuple, std::string_view field) const;
  ValueIndex tensor(const PickleValue& arguments, bool is_v3);
  void check_inside_storage(const PickledTensor& tensor) const;

  Pickle& pickle_;
  const std::string& where_;
  std::map<std::string, size_t> storage_indexes_;
  size_t dimensions_ = 0;  // of all tensors
};

}  // namespace arenite::convert
