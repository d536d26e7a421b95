// SPDX-License-Identifier: Apache-2.0
// Kernel sets in plain C++ for every target, to run files for targets that this CPU lacks through
// the code around the kernels. They read and write as much as any kernel may: kRowsMax rows of each
// tile, where the last row stands in for missing ones and is stored again; inputs to the end of
// their group; and all rows of a list.
//
// The linker (-Wl,--wrap) replaces the kernel sets of the shipped runtime by them.
#pragma once

#include "kernels/kernel_set.h"

namespace arenite::test {

const KernelSet& stand_in_kernels(Target target);

// From here on kernel_set gives these for their target; null: its own again. REQUIRES: a program
// that is linked with --wrap for kernel_set, here and below.
void force_kernels(const KernelSet* kernels);
// Makes kernel_set return the stand-ins for all targets; false: its own sets again.
void force_stand_ins(bool are_forced);

}  // namespace arenite::test
