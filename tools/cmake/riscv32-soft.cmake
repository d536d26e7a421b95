# SPDX-License-Identifier: Apache-2.0
# The same without an FPU, as an ESP32-C3 is.
set(arenite_cpu "-march=rv32imac -mabi=ilp32")
include("${CMAKE_CURRENT_LIST_DIR}/riscv32.cmake")
