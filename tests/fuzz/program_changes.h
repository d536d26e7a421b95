// SPDX-License-Identifier: Apache-2.0
// Changes exported programs in small steps. Works on the parsed JSON of a graph, which the graph's
// reader takes, so that no time goes into zip and text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "convert/exported/read/pt2_archive.h"
#include "fuzz/seed_programs.h"

namespace arenite::fuzz {

// A change in the encoding of the input. The kind determines which fields apply.
struct ProgramChange {
  uint8_t kind = 0;
  uint8_t choice = 0;
  uint16_t node = 0;
  uint16_t place = 0;
  int16_t number = 0;
};
static_assert(sizeof(ProgramChange) == 8);

// Changes a program for as long as it lives.
class ChangedProgram {
 public:
  ChangedProgram(convert::Pt2Archive& program, const SeedPrograms& seeds);
  ~ChangedProgram();
  ChangedProgram(const ChangedProgram&) = delete;
  ChangedProgram& operator=(const ChangedProgram&) = delete;

  // Gives out what its first nodes make, without the others. REQUIRES: nothing was changed.
  void end_after(size_t nodes);
  size_t nodes() const { return nodes_.size(); }
  void apply(const ProgramChange& change);

 private:
  using Items = json::array_t;
  // An argument or an item of one, and its kind, such as "int" or "tensor".
  struct Leaf {
    std::string kind;
    json* value;
  };

  void change_argument(const ProgramChange& change);
  void insert_node(const ProgramChange& change);
  void remove_node(const ProgramChange& change);
  void change_target(const ProgramChange& change);
  void swap_arguments(const ProgramChange& change);
  void drop_argument(const ProgramChange& change);
  void change_sizes(const ProgramChange& change);
  void change_input(const ProgramChange& change);
  void change_output(const ProgramChange& change);
  void change_symbol(const ProgramChange& change);

  void change_leaf(const Leaf& leaf, size_t node, const ProgramChange& change);
  static std::vector<Leaf> leaves_of(json& node);
  // A value that the program has before a node.
  std::string earlier(size_t node, uint32_t number);
  std::string new_name();
  // Returns a part that the caller may change; undoing the changes restores it.
  json& node(size_t index);
  json& part(json& whole);
  void describe_as(const std::string& name, const std::string& like);

  convert::Pt2Archive& program_;
  const SeedPrograms& seeds_;
  json& graph_;
  json& signature_;
  Items& nodes_;
  size_t nodes_before_;
  std::vector<size_t> origins_;                // of nodes_; SIZE_MAX: inserted
  std::map<size_t, json> nodes_as_they_were_;  // by where they were
  std::vector<std::pair<json*, json>> parts_;  // as they were
  std::vector<std::string> described_;         // names that are new
  uint32_t names_ = 0;
};

}  // namespace arenite::fuzz
