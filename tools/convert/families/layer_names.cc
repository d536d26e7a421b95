// SPDX-License-Identifier: Apache-2.0
// Query, key, value or all in one go by their words; the attention's output is what stands beside
// them, and the MLP is what is left.
#include <algorithm>
#include <charconv>
#include <iterator>
#include <map>
#include <set>
#include <span>
#include <utility>

#include "convert/families/part_names.h"
#include "convert/families/words.h"
#include "convert/files/error.h"

namespace arenite::convert {
namespace {

constexpr size_t kComponentsMax = 16;  // of a name, so that no file makes one tensor count for many

constexpr size_t kListed = 12;  // names in a message

enum class Role { kNone, kQuery, kKey, kValue, kFused };

// Words of projections. Where a layer is a numbered list, as in The Annotated Transformer, its
// number is the word.
constexpr std::string_view kQueryWords[] = {"q", "query", "queries", "wq", "qlin", "tq"};
constexpr std::string_view kKeyWords[] = {"k", "key", "keys", "wk", "klin"};
constexpr std::string_view kValueWords[] = {"v", "value", "values", "wv", "vlin"};
constexpr std::string_view kOutputWords[] = {
    "o", "out", "output", "wo", "olin", "unifyheads", "proj", "outlin", "outproj", "projection"};
constexpr std::string_view kDownWords[] = {"down", "out", "output", "proj", "contract", "w2"};
constexpr std::string_view kGateWords[] = {"gate", "gating", "wg"};
constexpr std::string_view kNumberedLists[] = {"linears", "linear", "projections", "layers"};

// "qkv" of "Wqkv", "in_proj" and "query_key_value"; empty: this is no fused projection.
std::string fused_order(const std::vector<std::string>& words) {
  std::string letters;
  for (const std::string& word : words) {
    std::string rest = word.starts_with("w") && word.size() > 1 ? word.substr(1) : word;
    std::string sorted = rest;
    std::ranges::sort(sorted);
    if (sorted == "kqv") return rest;
    if (is_any(word, kQueryWords)) letters += 'q';
    if (is_any(word, kKeyWords)) letters += 'k';
    if (is_any(word, kValueWords)) letters += 'v';
  }
  if (letters.size() == 3) return letters;
  const bool is_in_proj = words.size() >= 2 && words[0] == "in" && words[1] == "proj";
  const bool is_c_attn = words.size() == 2 && words[0] == "c" && words[1] == "attn";
  return is_in_proj || is_c_attn ? "qkv" : "";
}

Role role_of(const TensorName& name) {
  const std::vector<std::string> words = words_of(name.components.back());
  if (!fused_order(words).empty()) return Role::kFused;
  if (has_any(words, kQueryWords)) return Role::kQuery;
  if (has_any(words, kKeyWords)) return Role::kKey;
  if (has_any(words, kValueWords)) return Role::kValue;
  return Role::kNone;
}

bool is_list_of_heads(std::string_view component) {
  return component.find("head") != std::string_view::npos;
}

// `components` without the number at their end and the list that it is in.
std::vector<std::string> module_of(std::vector<std::string> components) {
  components.pop_back();
  if (components.size() >= 2 && is_number(components.back()) &&
      is_list_of_heads(components[components.size() - 2])) {
    components.resize(components.size() - 2);
  }
  return components;
}

bool is_inside(const TensorName& name, const std::vector<std::string>& module) {
  return name.components.size() > module.size() &&
         std::equal(module.begin(), module.end(), name.components.begin());
}

// The four matrices of attention as a list of four linear layers.
bool is_in_list_of_four(const TensorName& name) {
  const size_t size = name.components.size();
  return size >= 3 && is_number(name.components.back()) && name.components.back().size() == 1 &&
         name.components.back() < "4" && is_any(name.components[size - 2], kNumberedLists) &&
         name.components[size - 3].find("att") != std::string::npos;
}

std::string dotted(std::span<const std::string> components) {
  std::string text;
  for (const std::string& component : components) text += component + ".";
  return text;
}

// The numbers that stand after `list` in names.
std::set<uint32_t> numbers_in(const TensorStore& store, const std::string& list) {
  std::set<uint32_t> numbers;
  for (const StoredTensor& tensor : store.tensors()) {
    if (!tensor.name.starts_with(list)) continue;
    uint32_t number = 0;
    const char* const begin = tensor.name.data() + list.size();
    const char* const end = tensor.name.data() + tensor.name.size();
    const auto result = std::from_chars(begin, end, number);
    if (result.ec == std::errc() && result.ptr != end && *result.ptr == '.') numbers.insert(number);
  }
  return numbers;
}

class LayerFinder {
 public:
  LayerFinder(const TensorStore& store, const std::string& list)
      : where_(quote(store.source())), prefix_(list + "0.") {
    names_.list = list;
    for (const StoredTensor& tensor : store.tensors()) {
      if (!tensor.is_real || !tensor.name.starts_with(prefix_) || is_mask_buffer(tensor)) continue;
      const TensorName name = take_apart(tensor, prefix_, store);
      if (name.is_weight && name.is_matrix()) matrices_.push_back(name);
      if (name.is_weight && name.elements != 0) vectors_.push_back(name);
    }
    const std::set<uint32_t> numbers = numbers_in(store, list);
    while (numbers.contains(names_.layers)) ++names_.layers;
  }

  LayerNames run() {
    find_projections();
    find_output();
    find_mlp();
    find_norms();
    return std::move(names_);
  }

 private:
  std::string shown(const std::vector<TensorName>& names) const {
    std::string text;
    for (const TensorName& name : std::span(names).first(std::min(names.size(), kListed))) {
      text += fmt::format("\n  {}", quote(prefix_ + name.part.weight));
    }
    if (names.size() > kListed) text += fmt::format("\n  ... and {} more", names.size() - kListed);
    return text.empty() ? " nothing" : text;
  }

  // Removes the matrices for which `fits` and returns them.
  template <typename Fits>
  std::vector<TensorName> take(const Fits& fits) {
    std::vector<TensorName> taken;
    std::vector<TensorName> rest;
    for (TensorName& name : matrices_) (fits(name) ? taken : rest).push_back(std::move(name));
    matrices_ = std::move(rest);
    return taken;
  }

  static std::vector<PartNames> parts_of(const std::vector<TensorName>& names) {
    std::vector<PartNames> parts;
    for (const TensorName& name : names) parts.push_back(name.part);
    return parts;
  }

  void find_projections() {
    const auto fused = take([](const TensorName& name) { return role_of(name) == Role::kFused; });
    if (!fused.empty()) {
      if (fused.size() > 1) refuse_several("projections of query, key and value in one", fused);
      if (uint64_t{fused[0].columns} == uint64_t{3} * fused[0].rows) {
        throw InputError(
            "{}: {} has shape [{}, {}], as transformers' GPT-2 keeps its layers, whose "
            "config.json says what they compute: put that config.json beside the file",
            where_, quote(prefix_ + fused[0].part.weight), fused[0].rows, fused[0].columns);
      }
      names_.fused = fused[0].part;
      names_.fused_order = fused_order(words_of(fused[0].components.back()));
      return set_attention(fused[0], fused[0].columns);
    }
    auto query = take([](const TensorName& name) { return role_of(name) == Role::kQuery; });
    auto key = take([](const TensorName& name) { return role_of(name) == Role::kKey; });
    auto value = take([](const TensorName& name) { return role_of(name) == Role::kValue; });
    if (query.empty()) {
      auto four = take(is_in_list_of_four);
      std::ranges::sort(four, {}, [](const TensorName& name) { return name.components.back(); });
      if (four.size() == 4) {
        query = {four[0]}, key = {four[1]}, value = {four[2]};
        matrices_.push_back(four[3]);
      }
    }
    const bool is_alike = query.size() == key.size() && query.size() == value.size();
    const bool are_heads = query.size() > 1;
    if (query.empty() || !is_alike ||
        (are_heads && std::ranges::any_of(query, [](const TensorName& name) {
           return module_of(name.components).size() + 1 == name.components.size();
         }))) {
      std::ranges::copy(key, std::back_inserter(query));
      std::ranges::copy(value, std::back_inserter(query));
      throw InputError(
          "{}: expected one projection of queries, keys and values in a layer, or one for each "
          "head; by their names these are some:{}",
          where_, shown(query));
    }
    names_.query = parts_of(query);
    names_.key = parts_of(key);
    names_.value = parts_of(value);
    set_attention(query[0], query[0].columns);
  }

  [[noreturn]] void refuse_several(const char* what, const std::vector<TensorName>& names) const {
    throw InputError("{}: expected one of the {} in a layer, found:{}", where_, what, shown(names));
  }

  void set_attention(const TensorName& projection, uint32_t model_dim) {
    names_.model_dim = model_dim;
    attention_ = module_of(projection.components);
    if (!attention_.empty() && is_number(attention_.back())) attention_.pop_back();
    if (!attention_.empty() && is_any(attention_.back(), kNumberedLists)) attention_.pop_back();
  }

  // What else is in the attention's module, or, where that holds the projections alone, in the one
  // around it; of several the one with a word for it.
  void find_output() {
    std::vector<TensorName> found;
    for (std::vector<std::string> module = attention_;; module.pop_back()) {
      found.clear();
      for (const TensorName& name : matrices_) {
        if (is_inside(name, module) && name.rows == names_.model_dim) found.push_back(name);
      }
      if (!found.empty() || module.empty()) break;
    }
    if (found.size() > 1) {
      std::erase_if(found, [](const TensorName& name) {
        std::vector<std::string> words;
        for (const std::string& component : name.components) {
          for (std::string& word : words_of(component)) words.push_back(std::move(word));
        }
        const bool is_mlp = std::ranges::any_of(words, [](const std::string& word) {
          return word == "mlp" || word == "ff" || word == "ffn" || word.starts_with("feed") ||
                 word.starts_with("ffw");
        });
        return is_mlp || !has_any(words, kOutputWords);
      });
    }
    if (found.size() != 1) {
      throw InputError("{}: expected one matrix of the attention's output beside {}, found:{}",
                       where_, quote(prefix_ + dotted(attention_)), shown(found));
    }
    names_.output = found[0].part;
    take([&](const TensorName& name) { return name.part.weight == names_.output.weight; });
  }

  static bool has_word(const TensorName& name, std::span<const std::string_view> words) {
    return has_any(words_of(name.components.back()), words);
  }

  void find_mlp() {
    if (matrices_.size() != 2 && matrices_.size() != 3) {
      throw InputError("{}: expected an MLP of two or three matrices in a layer, found:{}", where_,
                       shown(matrices_));
    }
    std::ranges::sort(matrices_, {}, [](const TensorName& name) { return name.part.weight; });
    const uint32_t width = names_.model_dim;
    const bool is_square = std::ranges::all_of(
        matrices_, [&](const TensorName& name) { return name.rows == name.columns; });
    const auto down = std::ranges::find_if(matrices_, [&](const TensorName& name) {
      return is_square ? has_word(name, kDownWords) : name.rows == width && name.columns != width;
    });
    auto place = down;
    if (place == matrices_.end() && is_square && matrices_.size() == 2) {
      place = matrices_.begin() + 1;
    }
    if (place == matrices_.end()) {
      throw InputError("{}: expected a matrix back to the {} features in an MLP of:{}", where_,
                       width, shown(matrices_));
    }
    names_.down = place->part;
    matrices_.erase(place);
    if (matrices_.size() == 1) {
      names_.up = matrices_[0].part;
      return;
    }
    const bool second = has_word(matrices_[1], kGateWords);
    names_.gate_is_named = second != has_word(matrices_[0], kGateWords);
    names_.gate = matrices_[second ? 1 : 0].part;
    names_.up = matrices_[second ? 0 : 1].part;
  }

  // The norm of attention comes first, by its number or its name.
  void find_norms() {
    std::vector<TensorName> norms;
    for (const TensorName& vector : vectors_) {
      const std::vector<std::string> words = words_of(vector.components.back());
      if (vector.elements != names_.model_dim || has_any(words, kQueryWords) ||
          has_any(words, kKeyWords)) {
        if (has_any(words, kQueryWords)) names_.query_norm = vector.part;
        if (has_any(words, kKeyWords)) names_.key_norm = vector.part;
        continue;
      }
      norms.push_back(vector);
    }
    if (norms.size() != 2) {
      throw InputError("{}: expected two norms in a layer, of attention and of the MLP; found:{}",
                       where_, shown(norms));
    }
    std::ranges::sort(norms, {}, [](const TensorName& name) { return name.part.weight; });
    const bool swaps = rank_of(norms[0]) > rank_of(norms[1]);
    names_.attention_norm = norms[swaps ? 1 : 0].part;
    names_.mlp_norm = norms[swaps ? 0 : 1].part;
  }

  // 0: the attention's, 2: the MLP's, 1: the name does not say.
  int rank_of(const TensorName& norm) const {
    if (!attention_.empty() && norm.components[0] == attention_[0] && norm.components.size() > 1) {
      return 0;
    }
    const std::string path = dotted(norm.components);
    for (const char* word : {"post", "mlp", "ff", "feed", "output"}) {
      if (path.find(word) != std::string::npos) return 2;
    }
    for (const char* word : {"att", "sa_", "sa.", "input"}) {
      if (path.find(word) != std::string::npos) return 0;
    }
    return 1;
  }

  const std::string where_;
  const std::string prefix_;
  std::vector<TensorName> matrices_;    // that have no role yet
  std::vector<TensorName> vectors_;     // gains of norms
  std::vector<std::string> attention_;  // the module that attention is in
  LayerNames names_;
};

// The tensors of a store in the order of their names, so that those of a module lie together.
using SortedTensors = std::map<std::string_view, const StoredTensor*>;

// Whether there is attention and an MLP among the parts of layer 0.
bool is_layer(const SortedTensors& sorted, const TensorStore& store, const std::string& prefix) {
  std::set<Role> roles;
  size_t matrices = 0;
  size_t in_list = 0;
  for (auto at = sorted.lower_bound(prefix); at != sorted.end(); ++at) {
    if (!at->first.starts_with(prefix)) break;
    if (!at->second->is_real || is_mask_buffer(*at->second)) continue;
    const TensorName name = take_apart(*at->second, prefix, store);
    if (!name.is_weight || !name.is_matrix()) continue;
    if (is_in_list_of_four(name)) ++in_list;
    const Role role = role_of(name);
    roles.insert(role);
    if (role == Role::kNone) ++matrices;
  }
  const bool has_three =
      roles.contains(Role::kQuery) && roles.contains(Role::kKey) && roles.contains(Role::kValue);
  if (in_list == 4) return matrices >= 6;
  return (has_three || roles.contains(Role::kFused)) && matrices >= 3;
}

}  // namespace

std::vector<std::string> find_layer_lists(const TensorStore& store) {
  SortedTensors sorted;
  for (const StoredTensor& tensor : store.tensors()) sorted[tensor.name] = &tensor;
  std::set<std::string> lists;
  std::map<std::string, bool> known;
  for (const StoredTensor& tensor : store.tensors()) {
    if (!tensor.is_real || is_mask_buffer(tensor)) continue;
    const TensorName name = take_apart(tensor, "", store);
    if (!name.is_weight || !name.is_matrix() || name.components.size() > kComponentsMax ||
        (role_of(name) == Role::kNone && !is_in_list_of_four(name))) {
      continue;
    }
    for (size_t i = name.components.size() - 1; i-- > 0;) {
      if (name.components[i] != "0" || (i > 0 && is_list_of_heads(name.components[i - 1]))) {
        continue;
      }
      const std::string list = tensor.name.substr(0, name.offsets[i]);
      const auto [place, is_new] = known.try_emplace(list, false);
      if (is_new) place->second = is_layer(sorted, store, list + "0.");
      if (!place->second) continue;
      lists.insert(list);
      break;
    }
  }
  return {lists.begin(), lists.end()};
}

LayerNames find_layer_names(const TensorStore& store, const std::string& list) {
  return LayerFinder(store, list).run();
}

}  // namespace arenite::convert
