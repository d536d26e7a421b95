// SPDX-License-Identifier: Apache-2.0
// Switches between a source and its mutants: one mutant or none is chosen when the program starts.
// The mutated copy of each source includes this header.
#pragma once

#define ARENITE_MUTANTS_MAX 4096

extern "C" {
extern int arenite_mutant_chosen;
extern unsigned char arenite_mutants_reached[ARENITE_MUTANTS_MAX];
// The array, for a program: its own symbol would be another one. Lists test by test from now on.
unsigned char* arenite_list_mutants();
}

// Constant evaluation has no mutants. Code that the compiler removes has no entry in the section,
// which lists the mutants in the library.
[[gnu::always_inline]] constexpr inline bool arenite_mutant(int number) {
  if (__builtin_is_constant_evaluated()) return false;
  asm(".pushsection arenite_mutants, \"\"\n.long %c0\n.popsection" : : "i"(number));
  arenite_mutants_reached[number] = 1;
  return arenite_mutant_chosen == number;
}
