# SPDX-License-Identifier: Apache-2.0
# Short names for the usual work. Everything a target needs is installed, fetched and built first.
#
#   make XNNPACK_SOURCE=DIR            uses another XNNPACK checkout, until `make clean`
#   make ARENITE_SKIP_PACKAGES=1       does not look at Debian packages
#   make bench FIGURES=1               writes speeds to tests/figures and README.md, too
#   make bench-cortex-m CMSIS_NN=DIR   counts layers of CMSIS-NN, too, a checkout of which is in DIR

.DEFAULT_GOAL := build
.PHONY: build demo test test-x86-64-levels test-kernel-sets test-faults test-bits test-tsan \
  test-tsan-cli test-arm64 test-armv7 test-riscv64 test-riscv64-vector with-clang-19 test-riscv32 \
  test-riscv32-soft wasm test-wasm test-cortex-m7 test-cortex-m4f test-no-fpu test-integer-rows \
  demo-cortex-m7 demo-wake wheel first-hour reproducible bounds fuzz fuzz-all damage coverage \
  mutation bench bench-cortex-m size check tidy tokenizers api-docs sanitize clean help
MAKEFLAGS += --no-print-directory
export ARENITE_SKIP_PACKAGES

JOBS ?= $(shell nproc)
FUZZ_SECONDS ?= 60
HOURS ?= 1
# Of 32 texts from 5 to 60 tokens, evenly spread on a logarithmic scale: many short, few long ones.
TEXT_LENGTHS := 40,20,12,11,47,5,7,7,9,18,10,23,55,14,29,5,$\
  27,51,8,13,25,32,15,17,6,60,6,34,37,44,21,9
INSTALL := tools/cmake/install_packages.sh

PACKAGES := cmake ninja-build g++ xz-utils python3 pkg-config \
  libflatbuffers-dev flatbuffers-compiler nlohmann-json3-dev libcli11-dev libfmt-dev libzip-dev \
  libeigen3-dev libutf8proc-dev libgtest-dev python3-jsonschema \
  python3-numpy parallel
PACKAGES_ARM64 := g++-aarch64-linux-gnu qemu-user googletest
PACKAGES_ARMV7 := g++-arm-linux-gnueabihf qemu-user googletest
PACKAGES_RISCV64 := g++-riscv64-linux-gnu qemu-user googletest
PACKAGES_RISCV64_VECTOR := $(PACKAGES_RISCV64) clang-19 gcc libc6-dev
# Headers of C++ come with the compiler for ARM: tools/cmake/riscv32.cmake.
PACKAGES_RISCV32 := gcc-riscv64-unknown-elf picolibc-riscv64-unknown-elf \
  libstdc++-arm-none-eabi-dev qemu-system-misc
PACKAGES_WASM := emscripten nodejs
PACKAGES_WASM_TESTS := chromium
PACKAGES_CORTEX_M := gcc-arm-none-eabi libnewlib-arm-none-eabi libstdc++-arm-none-eabi-newlib \
  qemu-system-arm
# The compilers of the above alone, and what runs a program of Cortex-M7.
PACKAGES_SIZE := g++-aarch64-linux-gnu g++-arm-linux-gnueabihf g++-riscv64-linux-gnu \
  $(PACKAGES_CORTEX_M)
PACKAGES_X86_64_LEVELS := qemu-user
PACKAGES_SANITIZE := clang libclang-rt-dev libc++-dev libc++abi-dev
PACKAGES_BENCH := libbenchmark-dev
PACKAGES_TIDY := clang-tidy
PACKAGES_WHEEL := python3-setuptools python3-wheel
PACKAGES_COVERAGE := clang-19 llvm-19 libclang-rt-19-dev
PACKAGES_MUTATION := python3-clang-19

# $(call build,PRESET[,CMAKE ARGUMENTS[,TARGET]]) configures where that is needed, and builds all or
# the target. Ninja itself runs CMake again when a CMake file changes, so only the first run and
# arguments configure here. Progress is a line that moves on a terminal, and nothing in a log.
XNNPACK_ARGUMENT := $(if $(XNNPACK_SOURCE),-DARENITE_XNNPACK_SOURCE=$(abspath $(XNNPACK_SOURCE)))
folder = build$(if $(filter-out default,$(1)),-$(1))
define build
	@if [ ! -f $(call folder,$(1))/build.ninja ] || [ -n "$(strip $(2) $(XNNPACK_ARGUMENT))" ]; then \
	  cmake --preset $(1) --log-level=WARNING $(2) $(XNNPACK_ARGUMENT); fi
	@if [ -t 1 ]; then progress=; else progress='-- --quiet'; echo 'Building $(or $(3),all) in \
	  $(call folder,$(1))/'; fi; \
	  cmake --build $(call folder,$(1)) -j $(JOBS) $(if $(3),--target $(3)) $$progress
endef

# What a cross build takes from the build of this machine.
HOST_PROGRAMS := -DARENITE_HOST_TOOL=$(CURDIR)/build/arenite \
  -DARENITE_DEVICE_VECTORS=$(CURDIR)/build/tests/device/make_device_vectors
GOLDEN_CONVERTER := -DARENITE_GOLDEN_CONVERTER=$(CURDIR)/build/tests/golden/golden_converter

# The model of tests/footprint, as the build of cortex-m7 makes it.
IMAGE_MODEL := $(CURDIR)/build-cortex-m7/tests/footprint/recall_8.arn

# $(call few_bits_image,TYPE) builds the program of tests/footprint with what models/vibration needs
# besides, whose weights are of the type.
vibration = $(CURDIR)/build/footprint/vibration-$(1).arn
define few_bits_image
	@mkdir -p build/footprint
	@build/arenite convert models/vibration -o $(call vibration,$(1)) --target portable \
	  --weights $(1) >build/footprint/vibration-$(1).txt
	$(call build,$(1)-cortex-m7,$(HOST_PROGRAMS) \
	  '-DARENITE_MODEL=$(IMAGE_MODEL);$(call vibration,$(1))',attention_image)
endef

demo: ## Build the program and run three models: begin here
	@$(INSTALL) $(PACKAGES)
	$(call build,default,,arenite_cli example_hello example_sensor)
	@tools/cmake/demo.sh build

build: ## Build runtime, tools and tests; the program: build/arenite
	@$(INSTALL) $(PACKAGES)
	$(call build,default)

test: build ## Run all tests on this machine
	@ctest --preset default -j $(JOBS)

# $(call run_tests,PRESET[,CTEST ARGUMENTS]) runs the tests of a cross or a sanitized build. CTest
# knows of programs alone there, so what these say of their own tests is counted afterwards.
define run_tests
	@ctest --preset $(1) -j $(JOBS) $(2)
	@awk '/^\[  PASSED  \] [0-9]+ test/ { passed += $$4; ++programs } \
	  /^\[  SKIPPED \] [0-9]+ test/ { skipped += $$4 } \
	  /^[0-9]+ passed, [0-9]+ failed$$/ { passed += $$1; ++programs } \
	  END { printf "%d tests passed and %d skipped inside %d programs\n", \
	    passed, skipped, programs }' \
	  $(call folder,$(1))/Testing/Temporary/LastTest.log
endef

# PROGRAMS='A B' builds and runs these alone, under a sanitizer or on 32-bit ARM.
empty :=
chosen_programs = $(if $(PROGRAMS),-R '^($(subst $(empty) ,|,$(strip $(PROGRAMS))))$$')

# QEMU has no AVX-512, so those kernels run on a CPU that has it or not at all.
test-x86-64-levels: ## Run kernels and models on emulated CPUs up to AVX2
	@$(INSTALL) $(PACKAGES) $(PACKAGES_X86_64_LEVELS)
	$(call build,default,-DARENITE_TEST_X86_64_LEVELS=ON,core_tests kernels_tests session_tests \
	  forced_kernels_tests)
	@ctest --preset default -L '^x86_64_levels$$' -j $(JOBS)

test-arm64: build ## Cross-build for 64-bit ARM and run the tests under QEMU
	@$(INSTALL) $(PACKAGES) $(PACKAGES_ARM64)
	$(call build,arm64,$(HOST_PROGRAMS) $(GOLDEN_CONVERTER))
	$(call run_tests,arm64)

test-armv7: ## Cross-build for 32-bit ARM and run the tests under QEMU
	@$(INSTALL) $(PACKAGES) $(PACKAGES_ARMV7)
	$(call build,default,,arenite_cli make_device_vectors golden_converter)
	$(call build,armv7,$(HOST_PROGRAMS) $(GOLDEN_CONVERTER),$(PROGRAMS))
	$(call run_tests,armv7,$(chosen_programs))

test-riscv64: ## Run the device tests for 64-bit RISC-V under QEMU
	@$(INSTALL) $(PACKAGES) $(PACKAGES_RISCV64)
	$(call build,default,,make_device_vectors)
	$(call build,riscv64,$(HOST_PROGRAMS),device_tests)
	$(call run_tests,riscv64,-R '^device_tests$$')

# Where packages are not looked at, Clang may be missing.
test-riscv64-vector: ## The same with vectors, and count instructions of products
	@$(INSTALL) $(PACKAGES) $(PACKAGES_RISCV64_VECTOR)
	@if command -v clang++-19 >/dev/null; then $(MAKE) with-clang-19; else \
	  echo 'Skipped: clang-19 is missing, and kernels for vectors of RISC-V need its intrinsics'; fi

with-clang-19:
	$(call build,default,,make_device_vectors)
	$(call build,riscv64-vector,$(HOST_PROGRAMS),device_tests kernels_tests vector_counts)
	$(call run_tests,riscv64-vector,-R '^(device_tests|kernels_tests|Bench.vectors)')

define test_riscv32
	@$(INSTALL) $(PACKAGES) $(PACKAGES_RISCV32)
	$(call build,default,,make_device_vectors)
	$(call build,$(1),$(HOST_PROGRAMS),device_tests)
	$(call run_tests,$(1),-R '^device_tests$$')
endef

test-riscv32: ## Run the device tests on 32-bit RISC-V without a system
	$(call test_riscv32,riscv32)

test-riscv32-soft: ## The same without an FPU
	$(call test_riscv32,riscv32-soft)

WEB_PAGE := build-wasm/examples/web/page
wasm: ## Build a page that understands commands, for browsers
	@$(INSTALL) $(PACKAGES) $(PACKAGES_WASM)
	$(call build,default,,arenite_cli make_device_vectors)
	$(call build,wasm,$(HOST_PROGRAMS),web)
	@cd $(WEB_PAGE) && wc -c arenite.wasm arenite.js index.html intent.arn wake.arn

test-wasm: wasm ## Run the device tests in Node, and the page in Chromium
	@$(INSTALL) $(PACKAGES_WASM_TESTS)
	$(call build,wasm,,device_tests wasm_products)
	$(call run_tests,wasm,-V -R '^(device_tests|Wasm)')

# $(call run_beside,PRESET...) runs the tests of several builds at a time, since those on a device
# take one core.
run_beside = @$(MAKE) -j $(JOBS) --output-sync=target $(addprefix run-,$(1))
run-cortex-%: tests = ^(device_tests|Bench.board_estimate)$$
run-cortex-m4f run-cortex-m7: tests = .
run-cortex-m33: tests = ^Bench.board_estimate$$
run-cortex-m0plus-int: tests = ^device_tests$$
run-cortex-m3-int: tests = ^Examples.wake$$
run-cortex-%:
	$(call run_tests,cortex-$*,-R '$(tests)')

test-cortex-m7: ## Run the device tests on a Cortex-M7 and M55 in QEMU
	@$(INSTALL) $(PACKAGES) $(PACKAGES_CORTEX_M)
	$(call build,default,,make_device_vectors arenite_cli)
	$(call build,cortex-m7,$(HOST_PROGRAMS))
	$(call build,cortex-m55,$(HOST_PROGRAMS),device_tests cortex_m_bench)
	$(call build,cortex-m33,$(HOST_PROGRAMS),cortex_m_bench)
	$(call run_beside,cortex-m7 cortex-m55 cortex-m33)

test-cortex-m4f: ## The same on a Cortex-M4F
	@$(INSTALL) $(PACKAGES) $(PACKAGES_CORTEX_M)
	$(call build,default,,make_device_vectors arenite_cli)
	$(call build,cortex-m4f,$(HOST_PROGRAMS))
	$(call run_beside,cortex-m4f)

test-no-fpu: ## Run the device tests for a Cortex-M3 and a Cortex-M0+
	@$(INSTALL) $(PACKAGES) $(PACKAGES_CORTEX_M)
	$(call build,default,,make_device_vectors arenite_cli)
	$(call build,cortex-m3,$(HOST_PROGRAMS),device_tests cortex_m_bench)
	$(call build,cortex-m0plus,$(HOST_PROGRAMS),device_tests cortex_m_bench)
	$(call build,cortex-m0plus-int,$(HOST_PROGRAMS),device_tests)
	$(call build,cortex-m3-int,$(HOST_PROGRAMS),example_wake)
	$(call run_beside,cortex-m0plus cortex-m3 cortex-m0plus-int cortex-m3-int)

# A compiler that sees all sources finds what breaks the aliasing rule.
test-integer-rows: ## Run the device tests on rows of integers, by -O3 -flto
	@$(INSTALL) $(PACKAGES) $(PACKAGES_SANITIZE)
	$(call build,default,,make_device_vectors)
	$(call build,integers-gcc,$(HOST_PROGRAMS),device_tests)
	$(call run_tests,integers-gcc,-R '^device_tests$$')
	$(call build,integers-clang,$(HOST_PROGRAMS),device_tests)
	$(call run_tests,integers-clang,-R '^device_tests$$')

demo-cortex-m7: ## Run household commands on a Cortex-M7, as QEMU has it
	@$(INSTALL) $(PACKAGES) $(PACKAGES_CORTEX_M)
	$(call build,default,,arenite_cli)
	$(call build,cortex-m7,$(HOST_PROGRAMS),example_bare_metal)
	@printf 'dim the bedroom lamp to thirty percent\norder some pizza\n?tokens\n' | \
	  qemu-system-arm -machine mps2-an500 -nographic -monitor none -serial none -icount shift=0 \
	  -semihosting-config enable=on,target=native \
	  -kernel build-cortex-m7/examples/bare_metal/bare_metal

demo-wake: ## Hear spoken commands here and on a Cortex-M7 in QEMU
	@$(INSTALL) $(PACKAGES) $(PACKAGES_CORTEX_M)
	$(call build,default,,arenite_cli example_wake)
	$(call build,cortex-m7,$(HOST_PROGRAMS),example_wake)
	@echo '# On this machine'
	@build/examples/wake/wake <models/wake/heard.wav
	@echo '# On a Cortex-M7'
	@qemu-system-arm -machine mps2-an500 -nographic -monitor none -serial none -icount shift=0 \
	  -semihosting-config enable=on,target=native \
	  -kernel build-cortex-m7/examples/wake/wake <models/wake/heard.wav

# The library is found beside the module, so that both are the folder of a package. The packages
# that make a wheel are those of Debian's own Python.
wheel: ## Build a Python wheel: the shared library and arenite.py
	@$(INSTALL) $(PACKAGES) $(PACKAGES_WHEEL)
	$(call build,default,,arenite_shared)
	@rm -rf build/wheel && mkdir -p build/wheel/arenite
	@cp tools/python/arenite.py build/wheel/arenite/__init__.py
	@cp build/runtime/libarenite.so build/wheel/arenite/
	@cp tools/python/pyproject.toml build/wheel/
	@cd build/wheel && /usr/bin/python3 -c 'import setuptools; setuptools.setup()' -q bdist_wheel \
	  --plat-name linux_$$(uname -m)
	@ls build/wheel/dist/*.whl

first-hour: ## Walk the first hour of a newcomer in a clean folder
	@tests/package/first_hour.sh

reproducible: ## Build and install twice, and compare every byte
	@$(INSTALL) $(PACKAGES)
	@tests/figures/counted.py builds build

bounds: ## Measure stack and steps beside what `inspect` prints
	@$(INSTALL) $(PACKAGES)
	$(call build,default,,session_tests load_cost_tests cost_tests device_tests)
	@tests/figures/bounds.py build

sanitize: ## Run the tests with AddressSanitizer and UBSan
	@$(INSTALL) $(PACKAGES) $(PACKAGES_SANITIZE)
	$(call build,sanitize,,$(PROGRAMS))
	$(call run_tests,sanitize,$(chosen_programs))

test-faults: ## Let every call on a file fail, in every command
	@$(INSTALL) $(PACKAGES)
	$(call build,default,,commands_tests)
	@tests/figures/counted.py faults build

test-bits: ## Feed every kind of model in every way, and compare bits
	@$(INSTALL) $(PACKAGES)
	$(call build,default,,session_tests)
	@tests/figures/counted.py bits build

test-kernel-sets: ## Run whole models on every kernel set of this CPU
	@$(INSTALL) $(PACKAGES)
	$(call build,default,,forced_kernels_tests)
	@tests/figures/counted.py kernels build

# Races do not depend on the kernels of a CPU, and most of the time was spent on compiling those.
test-tsan: ## Search ops and sessions on several threads for races
	@$(INSTALL) $(PACKAGES) $(PACKAGES_SANITIZE)
	$(call build,tsan,,attention_tests ops_tests session_tests)
	@ctest --preset tsan -L '^(attention|ops|session)_tests$$' -j $(JOBS)

test-tsan-cli: ## The same on all kernel sets, and commands of the program
	@$(INSTALL) $(PACKAGES) $(PACKAGES_SANITIZE)
	$(call build,tsan,-DARENITE_KERNELS=all,attention_tests ops_tests session_tests commands_tests)
	@tests/figures/counted.py races build-tsan

fuzz: ## Feed mutated inputs to all that reads bytes, for a minute
	@$(INSTALL) $(PACKAGES) $(PACKAGES_SANITIZE)
	$(call build,fuzz,,fuzzers)
	@python3 tests/fuzz/fuzz.py turns build-fuzz --seconds $(FUZZ_SECONDS) --jobs $(JOBS)

fuzz-all: ## The same for HOURS hours, added to tests/fuzz/FIGURES.md
	@$(INSTALL) $(PACKAGES) $(PACKAGES_SANITIZE)
	$(call build,fuzz,,fuzzers)
	@python3 tests/fuzz/fuzz.py turns build-fuzz --hours $(HOURS) --jobs $(JOBS) --ledger

# Shards are no cores, so that a run may go on with other JOBS. SHARD=I/N runs that one alone.
DAMAGE_SHARDS := 16
damage: ## Try every small damage of five models, or go on with it
	@$(INSTALL) $(PACKAGES) $(PACKAGES_SANITIZE)
	$(call build,default,,make_damaged_models)
	$(call build,sanitize,,damage_every)
	@build/tests/damage/make_damaged_models build-sanitize/damage
	@for i in $$(seq 0 $$(($(DAMAGE_SHARDS) - 1))); do \
	  echo $(or $(SHARD),$$i/$(DAMAGE_SHARDS)); done | uniq | \
	  xargs -P $(JOBS) -n 1 build-sanitize/tests/damage/damage_every build-sanitize/damage
	@$(if $(SHARD),,python3 tests/damage/add_shards.py build-sanitize/damage \
	  $(DAMAGE_SHARDS) tests/figures/damage.json)

coverage: build ## Count lines, branches and conditions that the tests run
	@$(INSTALL) $(PACKAGES_COVERAGE)
	@python3 tests/coverage/measure_coverage.py

# AREA=exported does so in the reader of exported programs.
mutation: build ## Show faults in the runtime to the tests, one by one
	@$(INSTALL) $(PACKAGES_MUTATION)
	@python3 tests/mutation/run_mutants.py --area $(or $(AREA),runtime)

bench: ## Time models and kernels, beside this machine's limits
	@$(INSTALL) $(PACKAGES) $(PACKAGES_BENCH)
	$(call build,default,-DARENITE_BUILD_BENCHMARKS=ON)
	@build/tests/bench/make_bench_models build/bench
	@build/arenite bench build/bench/gpt2-attention.arn --tokens 6,128,512,1024
	@echo
	@build/arenite bench build/bench/tiny-attention.arn --tokens 8
	@echo
	@build/arenite bench build/bench/minilm-l6.arn --tokens 16,128,512 --lengths $(TEXT_LENGTHS)
	@echo
	@build/arenite bench build/bench/gpt2-small.arn --context 1024 --chunk 512 --profile
	@echo
	@build/arenite bench build/bench/gpt2-small.arn --context 4096 --chunk 512 --prompt 512
	@echo
	@build/arenite bench build/bench/gpt2-small.arn --context 1024 --chunk 512 --threads 2
	@echo
	@python3 tests/bench/compare_weights.py build/arenite build/bench $(TEXT_LENGTHS) \
	  $(if $(FIGURES),--figures)
	@echo
	@build/tests/bench/kernels_bench --benchmark_min_time=0.1 2>/dev/null

CMSIS_NN_ARGUMENT := -DARENITE_CMSIS_NN=$(if $(CMSIS_NN),$(abspath $(CMSIS_NN)))
bench-cortex-m: ## Count instructions of kernels and models on Cortex-M
	@$(INSTALL) $(PACKAGES) $(PACKAGES_CORTEX_M)
	$(call build,default,,arenite_cli make_device_vectors)
	$(call build,cortex-m7,$(HOST_PROGRAMS) $(CMSIS_NN_ARGUMENT),cortex_m_bench)
	$(call build,cortex-m4f,$(HOST_PROGRAMS) $(CMSIS_NN_ARGUMENT),cortex_m_bench)
	$(call build,cortex-m33,$(HOST_PROGRAMS) $(CMSIS_NN_ARGUMENT),cortex_m_bench)
	$(call build,cortex-m55,$(HOST_PROGRAMS) $(CMSIS_NN_ARGUMENT),cortex_m_bench)
	$(call build,cortex-m3,$(HOST_PROGRAMS) $(CMSIS_NN_ARGUMENT),cortex_m_bench)
	$(call build,cortex-m0plus,$(HOST_PROGRAMS) $(CMSIS_NN_ARGUMENT),cortex_m_bench)
	@python3 tests/bench/count_cortex_m.py . build/bench-cortex-m.json

size: ## Print the flash and RAM of each target, and its budgets
	@$(INSTALL) $(PACKAGES) $(PACKAGES_SIZE)
	$(call build,default,,arenite_cli make_device_vectors)
	$(call build,size-x86-64,,arenite)
	$(call build,size-aarch64,,arenite)
	$(call build,size-armv7,,arenite)
	$(call build,size-riscv64,,arenite)
	$(call build,cortex-m7,$(HOST_PROGRAMS),arenite attention_image device_tests)
	$(call build,terse-aarch64,,arenite)
	$(call build,terse-cortex-m7,$(HOST_PROGRAMS),arenite attention_image)
	$(call build,model-cortex-m7,$(HOST_PROGRAMS) -DARENITE_MODEL=$(IMAGE_MODEL),attention_image)
	$(call few_bits_image,f32)
	$(call few_bits_image,q8)
	$(call few_bits_image,q4)
	@python3 tests/style/footprint.py .

check: ## Check the style rules (clang-format where it is installed)
	@$(INSTALL) python3
	@python3 tests/style/check_style.py

tidy: ## Run clang-tidy over our own sources
	@$(INSTALL) $(PACKAGES) $(PACKAGES_TIDY)
	@cmake --preset default -B build-tidy --log-level=WARNING -DARENITE_BY_FOLDER=OFF
	@cmake --build build-tidy -j $(JOBS)
	@run-clang-tidy -quiet -p build-tidy -j $(JOBS) '$(CURDIR)/(runtime|tools|tests|examples)/.*'

api-docs: ## Write HTML of the public headers' comments
	@$(INSTALL) doxygen
	@mkdir -p build
	@doxygen tools/cmake/Doxyfile
	@echo 'build/api-docs/index.html'

tokenizers: ## Compare tokenizers of 150 kinds with Hugging Face's library and SentencePiece
	@$(INSTALL) $(PACKAGES)
	@python3 -c 'import tokenizers, sentencepiece' 2>/dev/null || { \
	  echo 'Expected the Python packages tokenizers, 0.23, and sentencepiece, 0.2' >&2; exit 1; }
	$(call build,default,,arenite_cli)
	@python3 tests/tokenizers/make_kinds.py build/tokenizers
	@python3 tests/tokenizers/compare_kinds.py build/tokenizers build/arenite

clean: ## Remove all build folders; the source of XNNPACK stays
	rm -rf build build-*

help: ## List the targets
	@sed -n 's/^\([a-z0-9-]*\):.*## /\1\t/p' $(firstword $(MAKEFILE_LIST)) | expand -t 22
