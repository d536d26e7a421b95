# SPDX-License-Identifier: Apache-2.0
# The XNNPACK microkernels that the kernel sets use, by instruction set, and the flags of each.
#
# Of each instruction set `I` ARENITE_KERNEL_FLAGS_I are its flags, ARENITE_KERNEL_HEADER_I is what
# its kernels include first, and ARENITE_KERNELS_I are its kernels in C: those that begin with src/
# are XNNPACK's, others are our own, from the top of this repository on.
# The flags are those of XNNPACK's own build, which switches off what a CPU of that level lacks.
# Which kernel suits which CPU: src/configs/ of XNNPACK. No kernel here needs a lookup table.

# The instruction sets whose kernels each kernel set of runtime/core/targets.h takes.
set(ARENITE_SET_scalar scalar)
set(ARENITE_SET_dsp scalar)  # and runtime/kernels/cortex_m_dsp.cc
set(ARENITE_SET_mve scalar)  # and runtime/kernels/cortex_m_mve.cc
set(ARENITE_SET_rvv128 scalar rvv)  # and runtime/kernels/rvv_products.cc
set(ARENITE_SET_rvv256 scalar rvv)
set(ARENITE_SET_simd128 scalar simd128)  # runtime/kernels/simd128_products.cc
set(ARENITE_SET_sse41 sse sse2 sse41)
set(ARENITE_SET_avx2 avx fma3 avx2 avxvnni)
set(ARENITE_SET_avx512 avx avx2 avx512f avx512skx)
set(ARENITE_SET_avx512vnni avx avx512f avx512skx avx512vnni)
set(ARENITE_SET_neon neon neonfma_aarch64)
set(ARENITE_SET_neondot neon neonfma_aarch64 neondot)
set(ARENITE_SET_neoni8mm neon neonfma_aarch64 neoni8mm)
set(ARENITE_SET_neon32 neon neon_aarch32)

# Compiled for every architecture, and with the same results: XNNPACK would fuse multiplications and
# additions where the CPU can, and round once instead of twice. It asks the compiler for that by
# name, with Clang on RISC-V unconditionally. GCC's vectorizer fuses in spite of -ffp-contract=off
# (GCC 15, RISC-V), and makes more instructions of these kernels than there were (MVE).
set(ARENITE_KERNEL_FLAGS_scalar "-D__builtin_fmaf(x,y,sum)=((x)*(y)+(sum))" -fno-tree-vectorize)
set(ARENITE_KERNEL_HEADER_scalar "${PROJECT_SOURCE_DIR}/runtime/kernels/soft_floats.h")
set(ARENITE_KERNELS_scalar
  src/f32-gemm/gen/f32-gemm-1x4-scalar.c
  src/f32-igemm/gen/f32-igemm-1x4-scalar.c
  src/f32-gemm/gen/f32-gemm-2x4-scalar.c
  src/f32-igemm/gen/f32-igemm-2x4-scalar.c
  src/f32-gemm/gen/f32-gemm-4x4-scalar.c
  src/f32-igemm/gen/f32-igemm-4x4-scalar.c
  src/f32-raddstoreexpminusmax/gen/f32-raddstoreexpminusmax-scalar-rr2-p5-u4-acc2.c
  src/f32-rminmax/gen/f32-rminmax-scalar-u4-acc4.c
  src/f32-rsum/gen/f32-rsum-scalar-u4-acc4.c
  src/f32-vbinary/gen/f32-vadd-scalar-u8.c
  src/f32-vbinary/gen/f32-vmulc-scalar-u8.c
  src/x32-transposec/gen/x32-transposec-2x4-scalar-int.c
  src/f32-vbinary/gen/f32-vmul-scalar-u8.c
  src/f32-vbinary/gen/f32-vaddc-scalar-u8.c
  src/f32-vcmul/gen/f32-vcmul-scalar-u4.c
  src/f32-vgelu/gen/f32-vgelu-scalar-rational-12-10-div.c
  src/f32-vsigmoid/gen/f32-vsigmoid-scalar-rr2-p5-div-u2.c
  src/f32-vtanh/gen/f32-vtanh-scalar-rational-9-8-div.c
  src/f32-qc8w-gemm/gen/f32-qc8w-gemm-1x4-scalar.c
  src/f32-qc8w-gemm/gen/f32-qc8w-gemm-2x4-scalar.c
  src/f32-qc8w-gemm/gen/f32-qc8w-gemm-4x4-scalar.c
  src/qd8-f32-qc8w-gemm/gen/qd8-f32-qc8w-gemm-1x4-minmax-scalar.c
  src/qd8-f32-qc8w-gemm/gen/qd8-f32-qc8w-gemm-2x4-minmax-scalar.c
  src/qd8-f32-qb4w-gemm/gen/qd8-f32-qb4w-gemm-1x4-minmax-scalar.c
  src/qd8-f32-qb4w-gemm/gen/qd8-f32-qb4w-gemm-2x4-minmax-scalar.c
  src/qd8-f32-qb4w-gemm/gen/qd8-f32-qb4w-gemm-4x4-minmax-scalar.c
  src/f32-qs8-vcvt/gen/f32-qs8-vcvt-scalar-imagic-u4.c)

# SSE's minimum and maximum give their second operand where one is NaN, which in XNNPACK's products
# is the limit to clamp to: the header exchanges operands, so that NaN stays. Other kernels and
# other instruction sets have them in the right order, or give NaN.
set(ARENITE_KERNEL_FLAGS_sse -msse -mno-sse2)
set(ARENITE_KERNEL_HEADER_sse "${CMAKE_CURRENT_LIST_DIR}/sse_keeps_nan.h")
set(ARENITE_KERNELS_sse
  src/f32-gemm/gen/f32-gemm-1x8-minmax-sse-load1.c
  src/f32-igemm/gen/f32-igemm-1x8-minmax-sse-load1.c
  src/f32-gemm/gen/f32-gemm-3x8-minmax-sse-load1.c
  src/f32-igemm/gen/f32-igemm-3x8-minmax-sse-load1.c
  src/f32-gemm/gen/f32-gemm-4x8-minmax-sse-load1.c
  src/f32-igemm/gen/f32-igemm-4x8-minmax-sse-load1.c
  src/f32-rminmax/gen/f32-rminmax-sse-u16-acc4.c
  src/f32-rsum/gen/f32-rsum-sse-u16-acc4.c
  src/f32-vbinary/gen/f32-vadd-sse-u8.c
  src/f32-vbinary/gen/f32-vmulc-sse-u8.c
  src/x32-transposec/x32-transposec-4x4-sse.c
  src/f32-vbinary/gen/f32-vmul-sse-u8.c
  src/f32-vbinary/gen/f32-vaddc-sse-u8.c
  src/f32-vcmul/gen/f32-vcmul-sse-u8.c)

set(ARENITE_KERNEL_FLAGS_sse2 -msse2 -mno-sse3)
set(ARENITE_KERNELS_sse2
  src/f32-raddstoreexpminusmax/gen/f32-raddstoreexpminusmax-sse2-rr2-p5-u16-acc2.c
  src/f32-vgelu/gen/f32-vgelu-sse2-rational-12-10-div.c
  src/f32-vtanh/gen/f32-vtanh-sse2-rational-9-8-div.c)

set(ARENITE_KERNEL_FLAGS_avx -mavx -mno-avx2 -mno-fma -mno-f16c)
set(ARENITE_KERNEL_FLAGS_sse41 -msse4.1 -mno-sse4.2)
set(ARENITE_KERNEL_HEADER_sse41 "${CMAKE_CURRENT_LIST_DIR}/sse41_kernels.h")
set(ARENITE_KERNELS_sse41
  src/f32-vsigmoid/gen/f32-vsigmoid-sse41-rr2-p5-div-u8.c
  src/f32-qc8w-gemm/gen/f32-qc8w-gemm-1x8-minmax-sse41-load1.c
  src/f32-qc8w-gemm/gen/f32-qc8w-gemm-3x8-minmax-sse41-load1.c
  src/f32-qc8w-gemm/gen/f32-qc8w-gemm-4x8-minmax-sse41-load1.c
  src/qd8-f32-qc8w-gemm/gen/qd8-f32-qc8w-gemm-1x4c8-minmax-sse41-ld64.c
  src/qd8-f32-qc8w-gemm/gen/qd8-f32-qc8w-gemm-2x4c8-minmax-sse41-ld64.c
  src/qd8-f32-qc8w-gemm/gen/qd8-f32-qc8w-gemm-3x4c8-minmax-sse41-ld64.c
  src/qd8-f32-qc8w-gemm/gen/qd8-f32-qc8w-gemm-4x4c8-minmax-sse41-ld64.c
  src/qd8-f32-qb4w-gemm/gen/qd8-f32-qb4w-gemm-1x4c8-minmax-sse41-ld64.c
  src/qd8-f32-qb4w-gemm/gen/qd8-f32-qb4w-gemm-2x4c8-minmax-sse41-ld64.c
  src/qd8-f32-qb4w-gemm/gen/qd8-f32-qb4w-gemm-3x4c8-minmax-sse41-ld64.c
  src/qd8-f32-qb4w-gemm/gen/qd8-f32-qb4w-gemm-4x4c8-minmax-sse41-ld64.c
  src/f32-qs8-vcvt/gen/f32-qs8-vcvt-sse41-u32.c)

set(ARENITE_KERNELS_avx
  src/f32-rminmax/gen/f32-rminmax-avx-u32-acc4.c
  src/f32-rsum/gen/f32-rsum-avx-u32-acc4.c
  src/f32-vbinary/gen/f32-vadd-avx-u16.c
  src/f32-vbinary/gen/f32-vmulc-avx-u16.c
  src/x32-transposec/gen/x32-transposec-8x8-reuse-multi-avx.c
  src/f32-vbinary/gen/f32-vmul-avx-u16.c
  src/f32-vbinary/gen/f32-vaddc-avx-u16.c)

# Otherwise GCC computes four addresses anew for every number of f32-igemm, which loses a tenth.
set(ARENITE_KERNEL_FLAGS_fma3 -mf16c -mfma -mno-avx2 -fno-ivopts)
set(ARENITE_KERNELS_fma3
  src/f32-gemm/gen/f32-gemm-1x16-minmax-fma3-broadcast.c
  src/f32-igemm/gen/f32-igemm-1x16-minmax-fma3-broadcast.c
  src/f32-gemm/gen/f32-gemm-3x16-minmax-fma3-broadcast.c
  src/f32-igemm/gen/f32-igemm-3x16-minmax-fma3-broadcast.c
  src/f32-gemm/gen/f32-gemm-4x16-minmax-fma3-broadcast.c
  src/f32-igemm/gen/f32-igemm-4x16-minmax-fma3-broadcast.c
  src/f32-vcmul/gen/f32-vcmul-fma3-u16.c
  src/f32-vgelu/gen/f32-vgelu-fma3-rational-12-10-div.c
  src/f32-vtanh/gen/f32-vtanh-fma3-rational-9-8-div.c)

set(ARENITE_KERNEL_FLAGS_avx2 -mf16c -mfma -mavx2)
set(ARENITE_KERNELS_avx2
  src/f32-raddstoreexpminusmax/gen/f32-raddstoreexpminusmax-avx2-rr2-p5-u32-acc2.c
  src/f32-vsigmoid/gen/f32-vsigmoid-avx2-rr1-p5-div-u40.c
  src/f32-qc8w-gemm/gen/f32-qc8w-gemm-1x16-minmax-avx2-broadcast.c
  src/f32-qc8w-gemm/gen/f32-qc8w-gemm-3x16-minmax-avx2-broadcast.c
  src/f32-qc8w-gemm/gen/f32-qc8w-gemm-4x16-minmax-avx2-broadcast.c
  src/qd8-f32-qc8w-gemm/gen/qd8-f32-qc8w-gemm-1x8c8-minmax-avx2.c
  src/qd8-f32-qc8w-gemm/gen/qd8-f32-qc8w-gemm-2x8c8-minmax-avx2.c
  src/qd8-f32-qc8w-gemm/gen/qd8-f32-qc8w-gemm-3x8c8-minmax-avx2.c
  src/qd8-f32-qc8w-gemm/gen/qd8-f32-qc8w-gemm-4x8c8-minmax-avx2.c
  src/qd8-f32-qb4w-gemm/gen/qd8-f32-qb4w-gemm-1x8c8-minmax-avx2.c
  src/qd8-f32-qb4w-gemm/gen/qd8-f32-qb4w-gemm-2x8c8-minmax-avx2.c
  src/qd8-f32-qb4w-gemm/gen/qd8-f32-qb4w-gemm-3x8c8-minmax-avx2.c
  src/qd8-f32-qb4w-gemm/gen/qd8-f32-qb4w-gemm-4x8c8-minmax-avx2.c
  src/f32-qs8-vcvt/gen/f32-qs8-vcvt-avx2-u64.c
  src/f32-qu8-vcvt/gen/f32-qu8-vcvt-avx2-u64.c)

# What is multiplied with these is stored unsigned, once for each row; XNNPACK would turn it in the
# loop over the weights, for each block of rows.
set(ARENITE_KERNEL_FLAGS_avxvnni -mf16c -mfma -mavx2 -mavxvnni)
set(ARENITE_KERNEL_HEADER_avxvnni "${CMAKE_CURRENT_LIST_DIR}/vnni_kernels.h")
set(ARENITE_KERNELS_avxvnni
  src/qd8-f32-qc8w-gemm/gen/qd8-f32-qc8w-gemm-1x8c8-minmax-avxvnni-prfm.c
  src/qd8-f32-qc8w-gemm/gen/qd8-f32-qc8w-gemm-5x8c8-minmax-avxvnni.c)

set(ARENITE_KERNEL_FLAGS_avx512f -mavx512f)
set(ARENITE_KERNELS_avx512f
  src/f32-gemm/gen/f32-gemm-1x32-minmax-avx512f-broadcast.c
  src/f32-igemm/gen/f32-igemm-1x32-minmax-avx512f-broadcast.c
  src/f32-gemm/gen/f32-gemm-4x32-minmax-avx512f-broadcast.c
  src/f32-igemm/gen/f32-igemm-4x32-minmax-avx512f-broadcast.c
  src/f32-gemm/gen/f32-gemm-5x32-minmax-avx512f-broadcast.c
  src/f32-igemm/gen/f32-igemm-5x32-minmax-avx512f-broadcast.c
  src/f32-gemm/gen/f32-gemm-6x32-minmax-avx512f-broadcast.c
  src/f32-igemm/gen/f32-igemm-6x32-minmax-avx512f-broadcast.c
  src/f32-gemm/gen/f32-gemm-7x32-minmax-avx512f-broadcast.c
  src/f32-igemm/gen/f32-igemm-7x32-minmax-avx512f-broadcast.c
  src/f32-gemm/gen/f32-gemm-8x32-minmax-avx512f-broadcast.c
  src/f32-igemm/gen/f32-igemm-8x32-minmax-avx512f-broadcast.c
  src/f32-raddstoreexpminusmax/gen/f32-raddstoreexpminusmax-avx512f-rr2-p5-u64-acc2.c
  src/f32-rminmax/gen/f32-rminmax-avx512f-u64-acc4.c
  src/f32-rsum/gen/f32-rsum-avx512f-u64-acc4.c
  src/f32-vbinary/gen/f32-vadd-avx512f-u32.c
  src/f32-vbinary/gen/f32-vmulc-avx512f-u32.c
  src/f32-vbinary/gen/f32-vmul-avx512f-u32.c
  src/f32-vbinary/gen/f32-vaddc-avx512f-u32.c
  src/f32-vcmul/gen/f32-vcmul-avx512f-u32.c
  src/f32-vgelu/gen/f32-vgelu-avx512f-rational-12-10-div.c
  src/f32-vsigmoid/gen/f32-vsigmoid-avx512f-rr1-p5-scalef-div-u64.c
  src/f32-vtanh/gen/f32-vtanh-avx512f-rational-9-8-div.c)

set(ARENITE_KERNEL_FLAGS_avx512skx -mavx512f -mavx512cd -mavx512bw -mavx512dq -mavx512vl)
set(ARENITE_KERNELS_avx512skx
  src/f32-qc8w-gemm/gen/f32-qc8w-gemm-1x32-minmax-avx512skx-broadcast.c
  src/f32-qc8w-gemm/gen/f32-qc8w-gemm-4x32-minmax-avx512skx-broadcast.c
  src/f32-qc8w-gemm/gen/f32-qc8w-gemm-5x32-minmax-avx512skx-broadcast.c
  src/f32-qc8w-gemm/gen/f32-qc8w-gemm-6x32-minmax-avx512skx-broadcast.c
  src/f32-qc8w-gemm/gen/f32-qc8w-gemm-7x32-minmax-avx512skx-broadcast.c
  src/f32-qc8w-gemm/gen/f32-qc8w-gemm-8x32-minmax-avx512skx-broadcast.c
  src/qd8-f32-qc8w-gemm/gen/qd8-f32-qc8w-gemm-1x16c8-minmax-avx512skx-prfm.c
  src/qd8-f32-qc8w-gemm/gen/qd8-f32-qc8w-gemm-5x16c8-minmax-avx512skx.c
  src/qd8-f32-qc8w-gemm/gen/qd8-f32-qc8w-gemm-7x16c8-minmax-avx512skx.c
  src/qd8-f32-qc8w-gemm/gen/qd8-f32-qc8w-gemm-8x16c8-minmax-avx512skx.c
  src/f32-qs8-vcvt/gen/f32-qs8-vcvt-avx512skx-u128.c
  src/f32-qu8-vcvt/gen/f32-qu8-vcvt-avx512skx-u128.c)

set(ARENITE_KERNEL_FLAGS_avx512vnni ${ARENITE_KERNEL_FLAGS_avx512skx} -mavx512vnni)
set(ARENITE_KERNEL_HEADER_avx512vnni "${CMAKE_CURRENT_LIST_DIR}/vnni_kernels.h")
set(ARENITE_KERNELS_avx512vnni
  src/qd8-f32-qc8w-gemm/gen/qd8-f32-qc8w-gemm-1x16c8-minmax-avx512vnni-prfm.c
  src/qd8-f32-qc8w-gemm/gen/qd8-f32-qc8w-gemm-5x16c8-minmax-avx512vnni.c
  src/qd8-f32-qc8w-gemm/gen/qd8-f32-qc8w-gemm-7x16c8-minmax-avx512vnni.c
  src/qd8-f32-qc8w-gemm/gen/qd8-f32-qc8w-gemm-8x16c8-minmax-avx512vnni.c
  src/qd8-f32-qb4w-gemm/gen/qd8-f32-qb4w-gemm-1x16c8-minmax-avx512vnni-prfm.c
  src/qd8-f32-qb4w-gemm/gen/qd8-f32-qb4w-gemm-5x16c8-minmax-avx512vnni.c
  src/qd8-f32-qb4w-gemm/gen/qd8-f32-qb4w-gemm-7x16c8-minmax-avx512vnni.c
  src/qd8-f32-qb4w-gemm/gen/qd8-f32-qb4w-gemm-8x16c8-minmax-avx512vnni.c)

# Every AArch64 CPU has these two, so no flags are needed; 32-bit ones may lack NEON.
if(ARENITE_IS_ARM)
  set(ARENITE_KERNEL_FLAGS_neon -march=armv7-a -mfpu=neon)
  set(ARENITE_KERNEL_FLAGS_neon_aarch32 ${ARENITE_KERNEL_FLAGS_neon})
endif()
set(ARENITE_KERNELS_neon
  src/f32-rminmax/gen/f32-rminmax-neon-u16-acc4.c
  src/f32-rsum/gen/f32-rsum-neon-u16-acc4.c
  src/f32-vbinary/gen/f32-vadd-neon-u8.c
  src/f32-vbinary/gen/f32-vmulc-neon-u8.c
  src/f32-vbinary/gen/f32-vmul-neon-u8.c
  src/f32-vbinary/gen/f32-vaddc-neon-u8.c
  src/f32-vcmul/gen/f32-vcmul-neon-u8.c
  src/f32-vgelu/gen/f32-vgelu-neon-rational-12-10-div.c
  src/f32-vtanh/gen/f32-vtanh-neon-rational-9-8-div.c
  src/f32-qs8-vcvt/gen/f32-qs8-vcvt-neon-u32.c
  src/qd8-f32-qb4w-gemm/gen/qd8-f32-qb4w-gemm-1x16-minmax-neon-mlal-lane.c
  src/qd8-f32-qb4w-gemm/gen/qd8-f32-qb4w-gemm-2x16-minmax-neon-mlal-lane.c
  src/qd8-f32-qb4w-gemm/gen/qd8-f32-qb4w-gemm-3x16-minmax-neon-mlal-lane.c
  src/qd8-f32-qb4w-gemm/gen/qd8-f32-qb4w-gemm-4x16-minmax-neon-mlal-lane.c)
# The p5 variants of the exponential are taken because XNNPACK's own choice for these CPUs reads a
# lookup table outside the kernel.
set(ARENITE_KERNELS_neonfma_aarch64
  src/f32-gemm/gen/f32-gemm-1x8-minmax-aarch64-neonfma-lane-ld128.c
  src/f32-igemm/gen/f32-igemm-1x8-minmax-aarch64-neonfma-lane-ld128.c
  src/f32-gemm/gen/f32-gemm-4x8-minmax-aarch64-neonfma-lane-ld128.c
  src/f32-igemm/gen/f32-igemm-4x8-minmax-aarch64-neonfma-lane-ld128.c
  src/f32-gemm/gen/f32-gemm-6x8-minmax-aarch64-neonfma-lane-ld128.c
  src/f32-igemm/gen/f32-igemm-6x8-minmax-aarch64-neonfma-lane-ld128.c
  src/f32-raddstoreexpminusmax/gen/f32-raddstoreexpminusmax-neonfma-rr1-p5-u16-acc2.c
  src/f32-vsigmoid/gen/f32-vsigmoid-aarch64-neonfma-rr1-p5-div-u16.c
  src/x32-transposec/x32-transposec-4x4-aarch64-neon-tbl128.c
  src/f32-qc8w-gemm/gen/f32-qc8w-gemm-1x8-minmax-aarch64-neonfma-lane-ld128.c
  src/f32-qc8w-gemm/gen/f32-qc8w-gemm-4x8-minmax-aarch64-neonfma-lane-ld128.c
  src/f32-qc8w-gemm/gen/f32-qc8w-gemm-6x8-minmax-aarch64-neonfma-lane-ld128.c
  src/qd8-f32-qc8w-gemm/gen/qd8-f32-qc8w-gemm-1x16-minmax-neon-mlal-lane.c
  src/qd8-f32-qc8w-gemm/gen/qd8-f32-qc8w-gemm-2x16-minmax-neon-mlal-lane.c
  src/qd8-f32-qc8w-gemm/gen/qd8-f32-qc8w-gemm-3x16-minmax-neon-mlal-lane.c
  src/qd8-f32-qc8w-gemm/gen/qd8-f32-qc8w-gemm-4x16-minmax-neon-mlal-lane.c
  src/qd8-f32-qc8w-gemm/gen/qd8-f32-qc8w-gemm-6x16-minmax-neon-mlal-lane.c
  src/qd8-f32-qb4w-gemm/gen/qd8-f32-qb4w-gemm-6x16-minmax-neon-mlal-lane.c)
set(ARENITE_KERNELS_neon_aarch32
  src/f32-gemm/gen/f32-gemm-1x8-minmax-neon-lane-ld64.c
  src/f32-igemm/gen/f32-igemm-1x8-minmax-neon-lane-ld64.c
  src/f32-gemm/gen/f32-gemm-4x8-minmax-neon-lane-ld64.c
  src/f32-igemm/gen/f32-igemm-4x8-minmax-neon-lane-ld64.c
  src/f32-raddstoreexpminusmax/gen/f32-raddstoreexpminusmax-neon-rr2-p5-u16-acc2.c
  src/f32-vsigmoid/gen/f32-vsigmoid-neon-rr2-p5-nr2recps-u8.c
  src/x32-transposec/gen/x32-transposec-4x4-reuse-dec-zip-neon.c
  src/f32-qc8w-gemm/gen/f32-qc8w-gemm-1x8-minmax-neon-lane-ld64.c
  src/f32-qc8w-gemm/gen/f32-qc8w-gemm-4x8-minmax-neon-lane-ld64.c
  src/qd8-f32-qc8w-gemm/gen/qd8-f32-qc8w-gemm-1x8-minmax-neon-mlal-lane.c
  src/qd8-f32-qc8w-gemm/gen/qd8-f32-qc8w-gemm-2x8-minmax-neon-mlal-lane.c
  src/qd8-f32-qc8w-gemm/gen/qd8-f32-qc8w-gemm-3x8-minmax-neon-mlal-lane.c
  src/qd8-f32-qc8w-gemm/gen/qd8-f32-qc8w-gemm-4x8-minmax-neon-mlal-lane.c)

set(ARENITE_KERNEL_FLAGS_neondot -march=armv8.2-a+dotprod)
set(ARENITE_KERNELS_neondot
  src/qd8-f32-qc8w-gemm/gen/qd8-f32-qc8w-gemm-1x16c4-minmax-neondot.c
  src/qd8-f32-qc8w-gemm/gen/qd8-f32-qc8w-gemm-2x16c4-minmax-neondot.c
  src/qd8-f32-qc8w-gemm/gen/qd8-f32-qc8w-gemm-3x16c4-minmax-neondot.c
  src/qd8-f32-qc8w-gemm/gen/qd8-f32-qc8w-gemm-4x16c4-minmax-neondot.c
  src/qd8-f32-qc8w-gemm/gen/qd8-f32-qc8w-gemm-5x16c4-minmax-neondot.c
  src/qd8-f32-qc8w-gemm/gen/qd8-f32-qc8w-gemm-6x16c4-minmax-neondot.c
  src/qd8-f32-qb4w-gemm/gen/qd8-f32-qb4w-gemm-1x16c4-minmax-neondot.c
  src/qd8-f32-qb4w-gemm/gen/qd8-f32-qb4w-gemm-2x16c4-minmax-neondot.c
  src/qd8-f32-qb4w-gemm/gen/qd8-f32-qb4w-gemm-3x16c4-minmax-neondot.c
  src/qd8-f32-qb4w-gemm/gen/qd8-f32-qb4w-gemm-4x16c4-minmax-neondot.c
  src/qd8-f32-qb4w-gemm/gen/qd8-f32-qb4w-gemm-5x16c4-minmax-neondot.c
  src/qd8-f32-qb4w-gemm/gen/qd8-f32-qb4w-gemm-6x16c4-minmax-neondot.c)
set(ARENITE_KERNEL_FLAGS_neoni8mm -march=armv8.2-a+i8mm+fp16)
set(ARENITE_KERNELS_neoni8mm
  src/qd8-f32-qc8w-gemm/gen/qd8-f32-qc8w-gemm-1x16c8-minmax-neoni8mm.c
  src/qd8-f32-qc8w-gemm/gen/qd8-f32-qc8w-gemm-2x16c8-minmax-neoni8mm.c
  src/qd8-f32-qc8w-gemm/gen/qd8-f32-qc8w-gemm-3x16c8-minmax-neoni8mm.c
  src/qd8-f32-qc8w-gemm/gen/qd8-f32-qc8w-gemm-4x16c8-minmax-neoni8mm.c
  src/qd8-f32-qc8w-gemm/gen/qd8-f32-qc8w-gemm-5x16c8-minmax-neoni8mm.c
  src/qd8-f32-qc8w-gemm/gen/qd8-f32-qc8w-gemm-6x16c8-minmax-neoni8mm.c
  src/qd8-f32-qc8w-gemm/gen/qd8-f32-qc8w-gemm-7x16c8-minmax-neoni8mm.c
  src/qd8-f32-qc8w-gemm/gen/qd8-f32-qc8w-gemm-8x16c8-minmax-neoni8mm.c
  src/qd8-f32-qb4w-gemm/gen/qd8-f32-qb4w-gemm-1x16c8-minmax-neoni8mm.c
  src/qd8-f32-qb4w-gemm/gen/qd8-f32-qb4w-gemm-2x16c8-minmax-neoni8mm.c
  src/qd8-f32-qb4w-gemm/gen/qd8-f32-qb4w-gemm-3x16c8-minmax-neoni8mm.c
  src/qd8-f32-qb4w-gemm/gen/qd8-f32-qb4w-gemm-4x16c8-minmax-neoni8mm.c
  src/qd8-f32-qb4w-gemm/gen/qd8-f32-qb4w-gemm-5x16c8-minmax-neoni8mm.c
  src/qd8-f32-qb4w-gemm/gen/qd8-f32-qb4w-gemm-6x16c8-minmax-neoni8mm.c
  src/qd8-f32-qb4w-gemm/gen/qd8-f32-qb4w-gemm-7x16c8-minmax-neoni8mm.c
  src/qd8-f32-qb4w-gemm/gen/qd8-f32-qb4w-gemm-8x16c8-minmax-neoni8mm.c)

# Unrolled in builds for size, too.
set(ARENITE_KERNEL_FLAGS_simd128 -msimd128 -O2)
set(ARENITE_KERNEL_TEST_simd128 "#include <wasm_simd128.h>")

# These take vectors of any length; what is left out here (exponential, GELU, sigmoid, tanh) XNNPACK
# has not, or makes a number of -infinity that is not 0. Segments in registers came with GCC 14 and
# Clang 17, after the other intrinsics.
set(ARENITE_KERNEL_FLAGS_rvv -march=rv64gcv)
set(ARENITE_KERNEL_TEST_rvv
  "#include <riscv_vector.h>
   vuint32m1_t first(vuint32m1x4_t all) { return __riscv_vget_v_u32m1x4_u32m1(all, 0); }")
set(ARENITE_KERNELS_rvv
  src/f32-qs8-vcvt/gen/f32-qs8-vcvt-rvv-u8v.c
  src/f32-rminmax/gen/f32-rminmax-rvv-u8v.c
  src/f32-rsum/f32-rsum-rvv-u1v.c
  src/f32-vbinary/gen/f32-vadd-rvv-u8v.c
  src/f32-vbinary/gen/f32-vaddc-rvv-u8v.c
  src/f32-vbinary/gen/f32-vmul-rvv-u8v.c
  src/f32-vbinary/gen/f32-vmulc-rvv-u8v.c
  src/f32-vcmul/gen/f32-vcmul-rvv-u2v.c
  src/x32-transposec/gen/x32-transposec-4x4-rvv.c)
