// SPDX-License-Identifier: Apache-2.0
// The switch between a source and its mutants: one is chosen when the program starts, or none. Put
// into the mutated copy of each source.
#pragma once

#define ARENITE_MUTANTS_MAX 4096

extern "C" {
extern int arenite_mutant_chosen;
extern unsigned char arenite_mutants_reached[ARENITE_MUTANTS_MAX];
// The array, for a program: its own symbol would be another one. Lists test by test from now on.
unsigned char* arenite_list_mutants();
}

// What the compiler computes has no mutants. What it leaves out is not in the section, which lists
// the mutants that are in the library.
[[gnu::always_inline]] constexpr inline bool arenite_mutant(int number) {
  if (__builtin_is_constant_evaluated()) return false;
  asm(".pushsection arenite_mutants, \"\"\n.long %c0\n.popsection" : : "i"(number));
  arenite_mutants_reached[number] = 1;
  return arenite_mutant_chosen == number;
}
