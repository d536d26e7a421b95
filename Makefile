# SPDX-License-Identifier: Apache-2.0
# Short names for the usual work. Everything a target needs is installed, fetched and built first.
#
#   make XNNPACK_SOURCE=DIR            uses another XNNPACK checkout, until `make clean`
#   make ARENITE_SKIP_PACKAGES=1       does not look at Debian packages

.DEFAULT_GOAL := build
.PHONY: build demo test test-arm64 test-armv7 test-riscv64 test-cortex-m7 test-cortex-m4f fuzz \
  bench size check tidy sanitize clean help
MAKEFLAGS += --no-print-directory
export ARENITE_SKIP_PACKAGES

JOBS ?= $(shell nproc)
FUZZ_SECONDS ?= 60
# Of 32 texts from 5 to 60 tokens, evenly spread on a logarithmic scale: many short, few long ones.
TEXT_LENGTHS := 40,20,12,11,47,5,7,7,9,18,10,23,55,14,29,5,$\
  27,51,8,13,25,32,15,17,6,60,6,34,37,44,21,9
INSTALL := tools/cmake/install_packages.sh

PACKAGES := cmake ninja-build g++ xz-utils python3 pkg-config \
  libflatbuffers-dev flatbuffers-compiler nlohmann-json3-dev libcli11-dev libfmt-dev libzip-dev \
  libutf8proc-dev libgtest-dev
PACKAGES_ARM64 := g++-aarch64-linux-gnu qemu-user googletest
PACKAGES_ARMV7 := g++-arm-linux-gnueabihf qemu-user googletest
PACKAGES_RISCV64 := g++-riscv64-linux-gnu qemu-user googletest
PACKAGES_CORTEX_M := gcc-arm-none-eabi libnewlib-arm-none-eabi libstdc++-arm-none-eabi-newlib \
  qemu-system-arm
PACKAGES_SANITIZE := clang libclang-rt-dev
PACKAGES_BENCH := libbenchmark-dev
PACKAGES_TIDY := clang-tidy

# $(call build,PRESET[,CMAKE ARGUMENTS[,TARGET]]) configures where that is needed, and builds all or
# the target. Ninja itself runs CMake again when a CMake file changes, so only the first run and
# arguments configure here.
XNNPACK_ARGUMENT := $(if $(XNNPACK_SOURCE),-DARENITE_XNNPACK_SOURCE=$(abspath $(XNNPACK_SOURCE)))
folder = build$(if $(filter-out default,$(1)),-$(1))
define build
	@if [ ! -f $(call folder,$(1))/build.ninja ] || [ -n "$(strip $(2) $(XNNPACK_ARGUMENT))" ]; then \
	  cmake --preset $(1) --log-level=WARNING $(2) $(XNNPACK_ARGUMENT); fi
	@cmake --build $(call folder,$(1)) -j $(JOBS) $(if $(3),--target $(3))
endef

# What a cross build takes from the build of this machine.
HOST_PROGRAMS := -DARENITE_HOST_TOOL=$(CURDIR)/build/arenite \
  -DARENITE_DEVICE_VECTORS=$(CURDIR)/build/tests/device/make_device_vectors
GOLDEN_CONVERTER := -DARENITE_GOLDEN_CONVERTER=$(CURDIR)/build/tests/golden/golden_converter

build: ## Build the runtime, the tools and the tests; the program is build/arenite
	@$(INSTALL) $(PACKAGES)
	$(call build,default)

demo: ## Convert a small trained model and run it
	@$(INSTALL) $(PACKAGES)
	$(call build,default,,arenite_cli example_hello example_sensor)
	@tools/cmake/demo.sh build

test: build ## Run all tests on this machine
	@ctest --preset default -j $(JOBS)

test-arm64: build ## Cross-build for 64-bit ARM and run the tests under QEMU
	@$(INSTALL) $(PACKAGES) $(PACKAGES_ARM64)
	$(call build,arm64,$(HOST_PROGRAMS) $(GOLDEN_CONVERTER))
	@ctest --preset arm64 -j $(JOBS)

# $(call device,PRESET) builds and runs the device tests alone.
define device
	$(call build,default,,make_device_vectors)
	$(call build,$(1),$(HOST_PROGRAMS),device_tests)
	@ctest --preset $(1) -R '^device_tests$$'
endef

test-armv7: ## Cross-build the runtime for 32-bit ARM and run its tests under QEMU
	@$(INSTALL) $(PACKAGES) $(PACKAGES_ARMV7)
	$(call build,default,,arenite_cli make_device_vectors golden_converter)
	$(call build,armv7,$(HOST_PROGRAMS) $(GOLDEN_CONVERTER))
	@ctest --preset armv7 -j $(JOBS)

test-riscv64: ## Run the device tests for 64-bit RISC-V under QEMU
	@$(INSTALL) $(PACKAGES) $(PACKAGES_RISCV64)
	$(call device,riscv64)

test-cortex-m7: ## Run the device tests on a Cortex-M7 without an operating system, as QEMU has it
	@$(INSTALL) $(PACKAGES) $(PACKAGES_CORTEX_M)
	$(call device,cortex-m7)

test-cortex-m4f: ## The same on a Cortex-M4F
	@$(INSTALL) $(PACKAGES) $(PACKAGES_CORTEX_M)
	$(call device,cortex-m4f)

sanitize: ## Run all tests with Clang's AddressSanitizer and UBSan
	@$(INSTALL) $(PACKAGES) $(PACKAGES_SANITIZE)
	$(call build,sanitize)
	@ctest --preset sanitize -j $(JOBS)

fuzz: ## Feed mutated model files to the runtime for a minute
	@$(INSTALL) $(PACKAGES) $(PACKAGES_SANITIZE)
	$(call build,fuzz,,fuzzers)
	@build-fuzz/tests/fuzz/make_corpus build-fuzz/corpus
	@build-fuzz/tests/fuzz/verify_fuzz -max_total_time=$(FUZZ_SECONDS) -rss_limit_mb=2048 \
	  -artifact_prefix=build-fuzz/ build-fuzz/corpus

bench: ## Time the models and the kernels, beside this machine's limits
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
	@build/tests/bench/kernels_bench --benchmark_min_time=0.1 2>/dev/null

size: build ## Print the code size of the runtime and compare it with its budget
	@python3 tests/style/size_report.py build

check: ## Check the style rules (clang-format where it is installed)
	@$(INSTALL) python3
	@python3 tests/style/check_style.py

tidy: ## Run clang-tidy over our own sources
	@$(INSTALL) $(PACKAGES) $(PACKAGES_TIDY)
	$(call build,default)
	@run-clang-tidy -quiet -p build -j $(JOBS) '$(CURDIR)/(runtime|tools|tests|examples)/.*'

clean: ## Remove all build folders (the fetched XNNPACK source stays in .cache)
	rm -rf build build-*

help: ## List the targets
	@sed -n 's/^\([a-z0-9-]*\):.*## /\1\t/p' $(firstword $(MAKEFILE_LIST)) | expand -t 17
