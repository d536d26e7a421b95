// SPDX-License-Identifier: Apache-2.0
// Files of torch.save, and pickles in which a few bytes stand for many values.
#include <fmt/format.h>

#include "convert/files/checkpoint.h"
#include "convert/scaling/reader_cases.h"
#include "convert/tokenizers/tokenizer_source.h"
#include "support/pickle_builder.h"
#include "support/zip_builder.h"

namespace arenite::testing {
namespace {

using convert::Checkpoint;

const PickledView kOne{.storage_elements = 1, .shape = {1}, .strides = {1}};

// An archive of `pickle` with the storage "0" of `floats` numbers.
InputFiles pickle_archive(const std::string& pickle, size_t floats = 1) {
  ZipBuilder zip;
  zip.add("m/data.pkl", pickle).add("m/version", "3\n");
  zip.add("m/data/0", std::string(4 * floats, '\0'));
  return {{"x.pt", zip.bytes()}};
}

// `code` with the place of the memo after it.
void memo(PickleBuilder& pickle, uint8_t code, uint32_t place) {
  pickle.code(code).raw(bytes_of(place));
}
void get(PickleBuilder& pickle, uint32_t place) { memo(pickle, op::kLongBinGet, place); }

// Moves the top of the stack to the memo.
void keep(PickleBuilder& pickle, uint32_t place) {
  memo(pickle, op::kLongBinPut, place);
  pickle.code(op::kPop);
}

InputFiles many_pickled_tensors(size_t size) {
  PickleBuilder pickle;
  pickle.code(op::kEmptyDict);
  for (size_t i = 0; i < size; ++i) {
    pickle.text(fmt::format("layers.{}.weight", i)).tensor(kOne).code(op::kSetItem);
  }
  return pickle_archive(pickle.stop());
}

InputFiles many_storages(size_t size) {
  PickleBuilder pickle;
  ZipBuilder zip;
  pickle.code(op::kEmptyDict);
  for (size_t i = 0; i < size; ++i) {
    PickledView view = kOne;
    view.key = fmt::format("{}", i);
    pickle.text(view.key).tensor(view).code(op::kSetItem);
    zip.add("m/data/" + view.key, "1234");
  }
  zip.add("m/data.pkl", pickle.stop()).add("m/version", "3\n");
  return {{"x.pt", zip.bytes()}};
}

InputFiles members_over_the_limit(size_t size) {
  ZipBuilder zip;
  for (size_t i = 0; i < size; ++i) zip.add(fmt::format("m/{}", i), "");
  return {{"x.pt", zip.bytes()}};
}

// All names have the same hash under 33 * hash + character.
InputFiles members_of_one_hash(size_t size) {
  ZipBuilder zip;
  for (size_t i = 0; i < size; ++i) {
    std::string name = "m/";
    for (int bit = 0; bit < 16; ++bit) name += (i >> bit & 1) != 0 ? "Ez" : "FY";
    zip.add(name, "");
  }
  return {{"x.pt", zip.bytes()}};
}

// The end of the archive many times over, each with an empty comment.
InputFiles many_pickle_ends(size_t size) {
  InputFiles files = many_storages(size);
  const std::string end = files[0].second.substr(files[0].second.size() - 22);
  for (size_t i = 0; i < size; ++i) files[0].second += end;
  return files;
}

// The outermost dict maps "model" many times to one dict without tensors.
InputFiles one_dict_many_times(size_t size) {
  PickleBuilder pickle;
  pickle.text("model");
  keep(pickle, 0);
  pickle.number(1);
  keep(pickle, 1);
  pickle.code(op::kEmptyDict).code(op::kMark);
  for (size_t i = 0; i < 2 * size; ++i) get(pickle, 1);
  pickle.code(op::kSetItems);
  keep(pickle, 2);
  pickle.code(op::kEmptyDict).code(op::kMark);
  for (size_t i = 0; i < size; ++i) {
    get(pickle, 0);
    get(pickle, 2);
  }
  return pickle_archive(pickle.code(op::kSetItems).stop());
}

// Repeats one dict as the training arguments in a file with one tensor.
InputFiles one_dict_as_arguments(size_t size) {
  PickleBuilder pickle;
  pickle.text("k");
  keep(pickle, 0);
  pickle.code(op::kNone);
  keep(pickle, 1);
  pickle.code(op::kEmptyDict).code(op::kMark);
  for (size_t i = 0; i < 2 * size; ++i) get(pickle, i % 2);
  pickle.code(op::kSetItems);
  keep(pickle, 2);
  pickle.code(op::kEmptyDict).text("model").code(op::kEmptyDict).text("w").tensor(kOne);
  pickle.code(op::kSetItem).code(op::kSetItem).code(op::kMark);
  for (size_t i = 0; i < size; ++i) {
    get(pickle, 0);
    get(pickle, 2);
  }
  return pickle_archive(pickle.code(op::kSetItems).stop());
}

// A list in which each element is the same list of tensors.
InputFiles one_list_many_times(size_t size) {
  PickleBuilder pickle;
  pickle.tensor(kOne);
  keep(pickle, 0);
  pickle.code(op::kEmptyList).code(op::kMark);
  for (size_t i = 0; i < size; ++i) get(pickle, 0);
  pickle.code(op::kAppends);
  keep(pickle, 1);
  pickle.code(op::kEmptyList).code(op::kMark);
  for (size_t i = 0; i < size; ++i) get(pickle, 1);
  return pickle_archive(pickle.code(op::kAppends).stop());
}

// Many tensors in a dict with a long name.
InputFiles long_names(size_t size) {
  PickleBuilder pickle;
  pickle.tensor(kOne);
  keep(pickle, 0);
  pickle.code(op::kEmptyDict).text(std::string(4000, 'x')).code(op::kEmptyDict).code(op::kMark);
  for (size_t i = 0; i < size; ++i) {
    pickle.number(static_cast<int32_t>(i));
    get(pickle, 0);
  }
  return pickle_archive(pickle.code(op::kSetItems).code(op::kSetItem).stop());
}

// Many views of one storage, together far more elements than it has.
InputFiles repeated_elements(size_t size) {
  PickleBuilder pickle;
  pickle.code(op::kEmptyDict);
  for (size_t i = 0; i < size; ++i) {
    pickle.number(static_cast<int32_t>(i));
    pickle.tensor({.storage_elements = 1, .shape = {256, 256}, .strides = {0, 0}});
    pickle.code(op::kSetItem);
  }
  return pickle_archive(pickle.stop());
}

// Each name is a tensor that views the whole storage.
InputFiles one_storage_many_names(size_t size) {
  PickleBuilder pickle;
  const auto floats = static_cast<int32_t>(100 * size);
  pickle.tensor({.storage_elements = floats, .shape = {floats}, .strides = {1}});
  keep(pickle, 0);
  pickle.code(op::kEmptyDict);
  for (size_t i = 0; i < size; ++i) {
    pickle.number(static_cast<int32_t>(i));
    get(pickle, 0);
    pickle.code(op::kSetItem);
  }
  return pickle_archive(pickle.stop(), static_cast<size_t>(floats));
}

InputFiles many_dimensions(size_t size) {
  PickleBuilder pickle;
  const std::vector<int32_t> ones(64, 1);
  pickle.global("torch._utils", "_rebuild_tensor_v2");
  keep(pickle, 0);
  pickle.code(op::kMark).storage(kOne).number(0).numbers(ones).numbers(ones).code(op::kNewFalse);
  pickle.ordered_dict().code(op::kTuple);
  keep(pickle, 1);
  pickle.code(op::kEmptyDict);
  for (size_t i = 0; i < size; ++i) {
    pickle.number(static_cast<int32_t>(i));
    get(pickle, 0);
    get(pickle, 1);
    pickle.code(op::kReduce).code(op::kSetItem);
  }
  return pickle_archive(pickle.stop());
}

InputFiles many_values(size_t size) {
  PickleBuilder pickle;
  pickle.code(op::kEmptyDict).text("w").tensor(kOne).code(op::kSetItem).text("a").code(op::kMark);
  pickle.raw(std::string(size, static_cast<char>(op::kEmptyList))).code(op::kTuple);
  return pickle_archive(pickle.code(op::kSetItem).stop());
}

InputFiles far_memo(size_t size) {
  PickleBuilder pickle;
  pickle.code(op::kEmptyDict);
  memo(pickle, op::kLongBinPut, static_cast<uint32_t>(100 * size));
  return pickle_archive(pickle.text("w").tensor(kOne).code(op::kSetItem).stop());
}

void read_all(const std::filesystem::path& file) {
  const Checkpoint checkpoint = Checkpoint::read(file);
  for (const convert::CheckpointTensor& tensor : checkpoint.tensors()) tensor.to_f32();
}

InputFiles meta(size_t size) {
  PickleBuilder pickle;
  pickle.code(op::kEmptyDict).text("stoi").code(op::kEmptyDict);
  for (size_t i = 0; i < size; ++i) {
    const auto tens = static_cast<uint32_t>(0x4E00 + i);
    const char character[] = {static_cast<char>(0xE0 | tens >> 12),
                              static_cast<char>(0x80 | (tens >> 6 & 0x3F)),
                              static_cast<char>(0x80 | (tens & 0x3F))};
    pickle.text({character, 3}).number(static_cast<int32_t>(i)).code(op::kSetItem);
  }
  return {{"meta.pkl", pickle.code(op::kSetItem).stop()}};
}

// One long text as the key of many entries.
InputFiles long_key(size_t size) {
  PickleBuilder pickle;
  pickle.text(std::string(10 * size, 'x'));
  keep(pickle, 0);
  pickle.code(op::kEmptyDict).text("stoi").code(op::kEmptyDict);
  for (size_t i = 0; i < size; ++i) {
    get(pickle, 0);
    pickle.number(static_cast<int32_t>(i)).code(op::kSetItem);
  }
  return {{"meta.pkl", pickle.code(op::kSetItem).stop()}};
}

}  // namespace

std::vector<ReaderCase> pickle_cases() {
  const auto read_meta = [](const std::filesystem::path& file) { convert::read_tokenizer(file); };
  return {
      {".pt", "many tensors", 1000, many_pickled_tensors, read_all},
      {".pt", "many storages", 500, many_storages, read_all},
      {".pt", "members over the limit", 17'000, members_over_the_limit, read_all},
      {".pt", "members of one hash", 17'000, members_of_one_hash, read_all},
      {".pt", "many ends of the archive", 500, many_pickle_ends, read_all},
      {".pt", "one dict many times", 10'000, one_dict_many_times, read_all},
      {".pt", "one dict as many arguments", 10'000, one_dict_as_arguments, read_all},
      {".pt", "one list many times", 10'000, one_list_many_times, read_all},
      {".pt", "long nested names", 1000, long_names, read_all},
      {".pt", "many views that repeat elements", 100, repeated_elements, read_all},
      {".pt", "one storage under many names", 500, one_storage_many_names, read_all},
      {".pt", "many dimensions", 9000, many_dimensions, read_all},
      {".pt", "many values", 50'000, many_values, read_all},
      {".pt", "a far place of the memo", 20'000, far_memo, read_all},
      {"meta.pkl", "many characters", 2000, meta, read_meta},
      {"meta.pkl", "one long key many times", 2000, long_key, read_meta},
  };
}

}  // namespace arenite::testing
