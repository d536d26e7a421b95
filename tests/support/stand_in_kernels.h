// SPDX-License-Identifier: Apache-2.0
// Kernel sets in plain C++ for every target, to run files of targets that this CPU lacks through
// the code around kernels. They read and write as much as any kernel may: of each tile kRowsMax
// rows, those that are missing as the last one again, which they store again; inputs to the end of
// their group; and all rows of a list.
//
// The linker puts them in the place of the runtime's (-Wl,--wrap), which is the one that is
// shipped.
#pragma once

#include "kernels/kernel_set.h"

namespace arenite::test {

const KernelSet& stand_in_kernels(Target target);

// From here on kernel_set gives these for their target; null: its own again. REQUIRES: a program
// that is linked with --wrap for kernel_set, here and below.
void force_kernels(const KernelSet* kernels);
// The same of stand-ins, for all targets.
void force_stand_ins(bool are_forced);

}  // namespace arenite::test
