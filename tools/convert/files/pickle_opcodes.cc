// SPDX-License-Identifier: Apache-2.0
// Names of the pickle opcodes that are refused.
#include "convert/files/pickle_opcodes.h"

#include <fmt/format.h>

namespace arenite::convert {
namespace {

struct OpcodeName {
  uint8_t opcode;
  const char* name;
};

constexpr OpcodeName kRefused[] = {
    {'i', "INST"},
    {'o', "OBJ"},
    {0x81, "NEWOBJ"},
    {0x92, "NEWOBJ_EX"},
    {0x82, "EXT1"},
    {0x83, "EXT2"},
    {0x84, "EXT4"},
    {'P', "PERSID"},
    {'g', "GET"},
    {'p', "PUT"},
    {'2', "DUP"},
    {'I', "INT"},
    {'L', "LONG"},
    {'F', "FLOAT"},
    {'S', "STRING"},
    {'T', "BINSTRING"},
    {'U', "SHORT_BINSTRING"},
    {'V', "UNICODE"},
    {'d', "DICT"},
    {'l', "LIST"},
    {0x8f, "EMPTY_SET"},
    {0x90, "ADDITEMS"},
    {0x91, "FROZENSET"},
    {0x96, "BYTEARRAY8"},
    {0x97, "NEXT_BUFFER"},
    {0x98, "READONLY_BUFFER"},
    {0x80, "PROTO"},
};

}  // namespace

std::string opcode_name(uint8_t opcode) {
  for (const OpcodeName& refused : kRefused) {
    if (refused.opcode == opcode) return refused.name;
  }
  return fmt::format("0x{:02x}", opcode);
}

}  // namespace arenite::convert
