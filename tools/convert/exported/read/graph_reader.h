// SPDX-License-Identifier: Apache-2.0
// Builds a program from the JSON of its graph.
#pragma once

#include <nlohmann/json.hpp>

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "convert/exported/read/exported_program.h"
#include "convert/exported/read/pt2_archive.h"

namespace arenite::convert {
// What of a program shares elements, so that a change in place of one shows in the others.
// Values are those that the file names; `current` is what a name means after changes.
class Aliases {
 public:
  explicit Aliases(ExportedProgram& program) : program_(program) {}

  // `call` made `value`, its output number `part`, as a view of `parent`.
  void add_view(uint32_t value, uint32_t parent, OpCall call, int64_t part);
  // What readers of `value` read now. Appends nodes where a view is to be taken anew.
  uint32_t current(uint32_t value);
  // `value` is `changed` from now on, and whatever it shares elements with changes, too.
  void change(uint32_t value, uint32_t changed);

 private:
  struct View {
    uint32_t parent;
    OpCall call;
    int64_t part;
    size_t depth;  // of views of views
  };
  struct State {
    uint32_t value;
    uint64_t version;
  };
  uint32_t root(uint32_t value) const;
  void take_copy(const OpCall& call);
  uint32_t append(OpCall call, uint32_t like, int64_t part);

  ExportedProgram& program_;
  std::map<uint32_t, View> views_;
  std::map<uint32_t, uint32_t> roots_;     // of views
  uint64_t copied_ = 0;                    // parts of calls
  std::map<uint32_t, uint64_t> versions_;  // of roots that were changed
  std::map<uint32_t, State> states_;
};

class GraphReader {
 public:
  // REQUIRES: the archive outlives it.
  GraphReader(const Pt2Archive& archive, const std::string& file_name);
  ExportedProgram run();

 private:
  using json = nlohmann::json;
  struct Scope {
    const json* graph = nullptr;
    std::map<std::string, Argument, std::less<>> names{};
    size_t depth = 0;
  };
  struct Output {
    std::string name;
    ValueKind kind;
  };

  void read_symbols();
  void read_input(const json& spec, Scope& scope);
  void read_outputs(const json& signature, const Scope& scope);
  void read_nodes(Scope& scope);
  void read_node(const json& node, Scope& scope);
  void inline_subgraph(const OpCall& call, const json& node, Scope& scope);
  void add_change(OpCall call, const std::vector<std::string>& outputs, Scope& scope);
  void note_view(const ExportedNode& node);

  Argument read_argument(const json& argument, const Scope& scope);
  Argument read_one(const std::string& kind, const json& value, const Scope& scope);
  Argument named(const std::string& name, const Scope& scope);
  Argument original(const Argument& argument) const;
  double real(const json& value) const;
  bool flag(const json& value) const;
  std::vector<Output> outputs_of(const json& node) const;
  static std::string innermost_module(const std::string& stack);
  static Extent extent(const json& size, const std::string& where);

  uint32_t add_value(const std::string& name, ValueKind kind, const Scope& scope);
  void grow();  // the lists beside the values
  void define(Scope& scope, const std::string& name, Argument value) const;
  bool depends_on_input(const OpCall& call) const;

  const Pt2Archive& archive_;
  std::string where_;  // for messages
  ExportedProgram program_;
  Aliases aliases_;
  std::map<uint32_t, uint32_t> originals_;  // what a value is now, to what the file names
  std::vector<bool> depends_;               // of each value: on what the user gives
  std::vector<bool> is_contiguous_;         // as it was traced
};

}  // namespace arenite::convert
