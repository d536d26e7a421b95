// SPDX-License-Identifier: Apache-2.0
// Float arithmetic on a Cortex-M without an FPU. C or C++ sources that include this header call the
// functions of soft_floats.cc instead of the compiler library's, with the same bits in fewer
// instructions. The names are our own, since a vendor may have replaced the library's functions by
// functions with other bits.
#pragma once

#if defined(__arm__) && defined(__thumb__) && defined(__ARM_ARCH_PROFILE) && !defined(__ARM_FP)
#if __ARM_ARCH_PROFILE == 'M'
#define ARENITE_SOFT_FLOATS
#if __ARM_ARCH == 6 || !defined(__thumb2__)
#define ARENITE_THUMB_1  // lacks an instruction for products of 64 bits
__asm__(
    ".set __aeabi_fadd, arenite_fadd\n"
    ".set __aeabi_fsub, arenite_fsub\n"
    ".set __aeabi_fmul, arenite_fmul\n"
    ".set __aeabi_i2f, arenite_i2f\n");
#endif
__asm__(
    ".set __aeabi_fdiv, arenite_fdiv\n"
    ".set __aeabi_fcmpeq, arenite_fcmpeq\n"
    ".set __aeabi_fcmplt, arenite_fcmplt\n"
    ".set __aeabi_fcmple, arenite_fcmple\n"
    ".set __aeabi_fcmpgt, arenite_fcmpgt\n"
    ".set __aeabi_fcmpge, arenite_fcmpge\n");
#endif
#endif
