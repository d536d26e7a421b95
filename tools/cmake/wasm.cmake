# SPDX-License-Identifier: Apache-2.0
# Cross-compiles for WebAssembly with Debian's emscripten. Programs of tests run in Node.
set(EMSCRIPTEN_ROOT_PATH /usr/share/emscripten)
set(EMSCRIPTEN_SYSTEM_PROCESSOR wasm32)
# With `fetch` Node would pass for a browser.
set(CMAKE_CROSSCOMPILING_EMULATOR node --no-experimental-fetch)
set(CMAKE_CXX_FLAGS_INIT "-include ${CMAKE_CURRENT_LIST_DIR}/emscripten_std.h")
# What optimizes the script around a program needs modules that Node may lack.
set(CMAKE_EXE_LINKER_FLAGS_INIT "-O1")
include("${EMSCRIPTEN_ROOT_PATH}/cmake/Modules/Platform/Emscripten.cmake")
