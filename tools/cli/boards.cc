// SPDX-License-Identifier: Apache-2.0
// The table of boards, and the check whether a bundle fits into one. Sources of addresses and
// sizes: the chips' data sheets (STM32F446RE, STM32H743ZI, RP2040, RP2350, ESP32-S3, ESP32-C3,
// nRF52840), and ARM's application notes AN385, AN500 and AN547. Microwatts per MHz are rounded
// typical currents from the data sheets, with programs in flash; for pico2, of the whole board.
#include "cli/boards.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "cli/text_table.h"
#include "convert/files/error.h"
#include "convert/quantize/quantizers.h"
#include "core/weight_types.h"
#include "format/reader.h"

namespace arenite::tool {
namespace {

constexpr const char* kArm = "arm-none-eabi-";

constexpr uint32_t kPlain = bit(Target::kPortable);
constexpr uint32_t kDsp = kPlain | bit(Target::kCortexMDsp);
constexpr uint32_t kMve = kDsp | bit(Target::kCortexMMve);

constexpr Cpu kAnyCpu = {"", "", kBundledTargets, ""};
constexpr Cpu kM0Plus = {kArm, "-mcpu=cortex-m0plus -mthumb", kPlain, "Cortex-M0+"};
constexpr Cpu kM3 = {kArm, "-mcpu=cortex-m3 -mthumb", kPlain, "Cortex-M3"};
constexpr Cpu kM4 = {kArm, "-mcpu=cortex-m4 -mfpu=fpv4-sp-d16 -mfloat-abi=hard -mthumb", kDsp,
                     "Cortex-M4F"};
constexpr Cpu kM4SoftCalls = {kArm, "-mcpu=cortex-m4 -mfpu=fpv4-sp-d16 -mfloat-abi=softfp -mthumb",
                              kDsp, "Cortex-M4F"};
constexpr Cpu kM7 = {kArm, "-mcpu=cortex-m7 -mfpu=fpv5-d16 -mfloat-abi=hard -mthumb", kDsp,
                     "Cortex-M7"};
constexpr Cpu kM33 = {kArm, "-mcpu=cortex-m33 -mfpu=fpv5-sp-d16 -mfloat-abi=hard -mthumb", kDsp,
                      "Cortex-M33"};
constexpr Cpu kM55 = {kArm, "-mcpu=cortex-m55 -mfloat-abi=hard -mthumb", kMve, "Cortex-M55"};
constexpr Cpu kLx7 = {"xtensa-esp32s3-elf-", "-mlongcalls", kPlain, ""};
constexpr Cpu kRiscv32 = {"riscv32-esp-elf-", "-march=rv32imc -mabi=ilp32", kPlain, ""};

constexpr Memory kib(uint32_t at, uint32_t count) { return {at, count << 10}; }
constexpr Memory mib(uint32_t at, uint32_t count) { return {at, count << 20}; }

constexpr Board kBoards[] = {
    {kAnyCpu, "generic", "any CPU that your build names", {}, {}, false, 0},
    {kM4, "nucleo-f446", "STM32F446RE, Cortex-M4 with an FPU", kib(0x08000000, 512),
     kib(0x20000000, 128), true, 180},
    {kM7, "nucleo-h743", "STM32H743ZI, Cortex-M7 with an FPU, its AXI SRAM", mib(0x08000000, 2),
     kib(0x24000000, 512), true, 480},
    {kM4SoftCalls, "nano33ble", "Arduino Nano 33 BLE, nRF52840, Cortex-M4 with an FPU",
     kib(0x00010000, 960), kib(0x20000000, 256), false, 64},
    {kM0Plus, "pico", "RP2040, Cortex-M0+ without an FPU", mib(0x10000000, 2), kib(0x20000000, 264),
     false, 133},
    {kM33, "pico2", "RP2350, Cortex-M33 with an FPU", mib(0x10000000, 4), kib(0x20000000, 520),
     false, 150},
    {kLx7, "esp32s3", "ESP32-S3, Xtensa LX7 with an FPU", mib(0x42000000, 8), kib(0x3FC88000, 480),
     false, 240},
    {kRiscv32, "esp32c3", "ESP32-C3, RISC-V without an FPU", mib(0x42000000, 4),
     kib(0x3FC80000, 384), false, 160},
    {kM3, "mps2-an385", "ARM MPS2, Cortex-M3 without an FPU, in QEMU", mib(0x00000000, 4),
     mib(0x20000000, 4), true, 25},
    {kM7, "mps2-an500", "ARM MPS2, Cortex-M7 with an FPU, in QEMU", mib(0x00000000, 4),
     mib(0x20000000, 4), true, 25},
    {kM55, "mps3-an547", "ARM MPS3, Cortex-M55, in QEMU", kib(0x00000000, 512), mib(0x21000000, 4),
     true, 32},
};

uint64_t bytes_of(std::span<const BundledModel> models) {
  uint64_t bytes = 0;
  for (const BundledModel& model : models) bytes += model.file.bytes().size();
  return bytes;
}

const BundledModel& hungriest(std::span<const BundledModel> models) {
  return *std::ranges::max_element(models, {}, &BundledModel::arena_bytes);
}

// Proposes the next smaller weight type for the linear layers, with the size that it gives.
std::string smaller_weights(std::span<const BundledModel> models) {
  for (const TensorType type : convert::kWeightTypes) {
    const TensorType smaller = convert::use_of(type).smaller;
    const uint64_t saved_bits = uint64_t{weight_type(type).bits} - weight_type(smaller).bits;
    uint64_t saved = 0;
    for (const BundledModel& model : models) {
      const format::ModelReader reader = model.file.reader();
      for (uint32_t i = 0; i < reader.tensors(); ++i) {
        const format::TensorShape& shape = reader.tensor(i);
        if (shape.type != type || shape.layout != format::Layout::kGemm) continue;
        saved += shape.outputs * saved_bits * shape.inputs / 8;
      }
    }
    if (saved == 0) continue;
    return fmt::format("; with arenite convert --weights {} the models take some {}", name(smaller),
                       grouped(bytes_of(models) - saved));
  }
  return "";
}

// Proposes the first smaller arena that fits: shorter calls, int8 caches, then fewer positions.
std::string smaller_arena(const BundledModel& model, uint64_t room) {
  const format::ModelReader reader = model.file.reader();
  const bool in_one_call = why_whole_sequences(reader) != nullptr;
  const uint32_t least = std::max(1u, reader.tokens_min());
  const auto arena = [&](const SizeOptions& sizes) {
    return plan_targets(model.file, sizes).front().plan.total_bytes;
  };
  for (uint32_t positions = model.sizes.positions; positions >= least; positions /= 2) {
    SizeOptions sizes = model.sizes;
    sizes.positions = positions;
    sizes.tokens = in_one_call ? positions * sizes.sequences : least;
    const std::string few = in_one_call ? "" : fmt::format(" --tokens {}", least);
    const std::string fewer =
        positions < model.sizes.positions ? fmt::format(" --positions {}", positions) : "";
    if (const uint64_t bytes = arena(sizes); bytes <= room) {
      return fmt::format("; with{}{} it takes {}", fewer, few, grouped(bytes));
    }
    sizes.kv_cache = KvType::kInt8;
    if (const uint64_t bytes = arena(sizes); bytes <= room) {
      return fmt::format("; with{}{}, of a file by arenite convert --kv int8, it takes {}", fewer,
                         few, grouped(bytes));
    }
  }
  return "";
}

}  // namespace

std::span<const Board> boards() { return kBoards; }

const Board& board_named(const std::string& name) {
  std::string known;
  for (const Board& board : kBoards) {
    if (name == board.name) return board;
    known += fmt::format("{}{}", known.empty() ? "" : ", ", board.name);
  }
  throw convert::InputError("--board {}: expected one of {}", convert::quote(name), known);
}

std::string memory_text(const Board& board, std::span<const BundledModel> models) {
  if (board.ram.bytes == 0) return "";
  return fmt::format(
      "{}: {}\n"
      "  flash  {} of {} bytes by models, the others for code, which takes {} at least\n"
      "  RAM    {} of {} bytes by the arena, {} by the stack, the others for your own data\n",
      board.name, board.chip, grouped(bytes_of(models)), grouped(board.flash.bytes),
      grouped(kCodeBytesMin), grouped(hungriest(models).arena_bytes), grouped(board.ram.bytes),
      grouped(kStackBytes));
}

void require_fitting(const Board& board, std::span<const BundledModel> models) {
  for (const BundledModel& model : models) {
    const uint32_t missing = model.file.reader().file_targets() & ~board.targets;
    if (missing == 0) continue;
    const Target best =
        (board.targets & bit(Target::kCortexMDsp)) != 0 ? Target::kCortexMDsp : Target::kPortable;
    throw convert::InputError(
        "--board {} ({}): found {} packed for {}, which its CPU lacks, expected target {}: "
        "arenite repack {} -o NEW.arn --target {}",
        board.name, board.chip, convert::quote(model.file.name()),
        name(static_cast<Target>(std::countr_zero(missing))), name(best),
        convert::printable(model.file.name()), name(best));
  }
  if (board.ram.bytes == 0) return;
  if (bytes_of(models) + kCodeBytesMin > board.flash.bytes) {
    throw convert::InputError(
        "--board {}: found {} bytes of models and at least {} of code, expected at most {} of "
        "flash{}",
        board.name, grouped(bytes_of(models)), grouped(kCodeBytesMin), grouped(board.flash.bytes),
        smaller_weights(models));
  }
  const BundledModel& model = hungriest(models);
  if (model.arena_bytes + kStackBytes > board.ram.bytes) {
    throw convert::InputError(
        "--board {}: found an arena of {} bytes for {} and a stack of {}, expected at most {} of "
        "RAM{}",
        board.name, grouped(model.arena_bytes), convert::quote(model.file.name()),
        grouped(kStackBytes), grouped(board.ram.bytes),
        smaller_arena(model, board.ram.bytes - kStackBytes));
  }
}

}  // namespace arenite::tool
