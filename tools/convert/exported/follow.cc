// SPDX-License-Identifier: Apache-2.0
#include "convert/exported/follow.h"

#include <algorithm>
#include <exception>
#include <vector>

#include "convert/files/error.h"

namespace arenite::convert {
namespace {

constexpr uint32_t kPrefixStepsMax = 5;

Followed follow_once(const std::shared_ptr<const ExportedProgram>& program, const Lengths& lengths,
                     size_t output) {
  Followed followed;
  followed.reducer = std::make_unique<Reducer>(program, lengths);
  followed.reducer->run(output);
  followed.graph = followed.reducer->builder().graph();
  followed.graph.remove_unread();
  followed.positions_max = followed.reducer->builder().positions_max();
  return followed;
}

}  // namespace

ExportedProgram needed_part(const ExportedProgram& program, size_t output) {
  ExportedProgram part = program;
  std::vector<bool> is_needed(program.values.size(), false);
  const auto need = [&](uint32_t value) -> Argument {
    is_needed[value] = true;
    return {};
  };
  need(program.outputs[output].as<ValueRef>()->value);
  for (size_t i = 0; i < part.outputs.size(); ++i) {
    if (i != output) part.outputs[i] = Argument();
  }
  part.nodes.clear();
  for (auto node = program.nodes.rbegin(); node != program.nodes.rend(); ++node) {
    const bool is_read = std::ranges::any_of(
        node->outputs, [&](uint32_t value) { return static_cast<bool>(is_needed[value]); });
    if (!is_read) continue;
    bind(node->call, need);
    part.nodes.push_back(*node);
  }
  std::ranges::reverse(part.nodes);
  return part;
}

// How many rows of constants the program puts before each sequence is seen when it does. Where it
// does so in several steps, those that are put first may be the first of all, or the last.
Followed follow(const std::shared_ptr<const ExportedProgram>& program, Lengths& lengths,
                size_t output) {
  for (uint32_t steps = 0; steps < kPrefixStepsMax; ++steps) {
    try {
      return follow_once(program, lengths, output);
    } catch (const PrefixFound& found) {
      lengths = lengths.with_prefix(found.rows, false);
    } catch (const PatchesFound& found) {
      lengths = lengths.with_patches(found.patches);
    } catch (const InputError&) {
      if (lengths.sizes().prefix < 2) throw;
      const std::exception_ptr first = std::current_exception();
      Lengths other = lengths.with_prefix(lengths.sizes().prefix, true);
      try {
        Followed followed = follow_once(program, other, output);
        lengths = other;
        return followed;
      } catch (const PrefixFound&) {
        std::rethrow_exception(first);
      } catch (const PatchesFound&) {
        std::rethrow_exception(first);
      } catch (const InputError&) {
        std::rethrow_exception(first);
      }
    }
  }
  throw InputError(
      "{}: it puts rows of constants before the tokens in too many steps: expected at "
      "most {}",
      quote(program->source), kPrefixStepsMax);
}

}  // namespace arenite::convert
