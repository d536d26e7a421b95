// SPDX-License-Identifier: Apache-2.0
// Limits of what the readers accept, by file format. They are far above real files and apply to a
// whole file, so that no file costs more than a small multiple of its own size.
// runtime/format/SECURITY.md lists the resulting time and memory.
#pragma once

#include <cstddef>
#include <cstdint>

namespace arenite::convert {

// Files that are read as a whole are refused by size, before any byte is read.
constexpr uint64_t kJsonBytesMax = uint64_t{64} << 20;        // tokenizer.json has up to 40 MB
constexpr uint64_t kVocabularyBytesMax = uint64_t{16} << 20;  // vocab.txt, tokenizer.model, ...
constexpr uint64_t kPromptBytesMax = uint64_t{8} << 20;       // more than a million tokens
constexpr uint64_t kTextFileBytesMax = uint64_t{64} << 20;    // texts to embed or to classify
constexpr size_t kTextsMax = size_t{1} << 20;                 // lines of such a file

// Limits of JSON. A value takes 16 bytes of memory, about 100 with an object key, but may be only
// two bytes in the file.
constexpr size_t kJsonValuesMax = size_t{1} << 22;
constexpr size_t kJsonDepthMax = 32;

// Limits of safetensors files. That of the header equals the reference implementation's.
constexpr uint64_t kSafetensorsHeaderBytesMax = 100'000'000;
constexpr size_t kTensorsMax = size_t{1} << 18;  // also for GGUF files
constexpr size_t kSafetensorsMetadataMax = size_t{1} << 12;

// Limits of GGUF metadata, not counting tokenizers. A real file has about 50 values.
constexpr uint64_t kGgufMetadataMax = uint64_t{1} << 12;
constexpr uint64_t kGgufElementsMax = uint64_t{1} << 16;

// Limits of torch.save's data.pkl and of meta.pkl.
constexpr uint64_t kPickleBytesMax = uint64_t{64} << 20;
constexpr size_t kPickleValuesMax = size_t{1} << 22;      // values and stack entries, each
constexpr size_t kPickleDepthMax = 100;                   // nesting of containers
constexpr size_t kPickleTensorsMax = size_t{1} << 16;     // tensors, and names given to them
constexpr size_t kPickleDimensionsMax = size_t{1} << 19;  // of all tensors together
constexpr size_t kPlainValuesMax = size_t{1} << 17;       // twice the characters of a vocabulary

// Containers and strings may be shared, so a walk can visit more values than the pickle has bytes.
constexpr uint64_t kWalkedValuesBase = uint64_t{1} << 16;
constexpr uint64_t kWalkedValuesPerByte = 2;
constexpr uint64_t kNameBytesBase = uint64_t{1} << 20;
constexpr uint64_t kNameBytesPerByte = 8;

// Tensors may be views of the same elements (torch.expand, tied weights). This limits the total
// bytes of all tensor names of a file. The base allows a bool mask of a context of 4096.
constexpr uint64_t kNamedBytesBase = uint64_t{1} << 24;
constexpr uint64_t kNamedPerStoredByte = 4;

// A tiny config can ask for a context of any length. Data computed per position (RoPE angles) is
// limited by this base plus a multiple of the number of weights: a context of a million positions
// takes at most 2^27 angles.
constexpr uint64_t kAnglesBase = uint64_t{1} << 23;
constexpr uint64_t kAnglesPerWeight = 16;
// The rotated part of a head has its own limit, as it is read before the number of weights is
// known. Real heads have up to 512 elements.
constexpr uint32_t kRotaryDimMax = 1u << 16;

// Limits of zip archives. torch.save stores members uncompressed, but other tools may deflate
// archives: weights hardly shrink, masks of zeros shrink a thousandfold. They apply to the inflated
// size of all members together, and of the pickle.
constexpr uint64_t kInflatedBytesBase = uint64_t{16} << 20;
constexpr uint64_t kInflatedPerFileByte = 16;
constexpr uint64_t kInflatedPickleBase = uint64_t{256} << 10;
constexpr uint64_t kInflatedPicklePerByte = 32;
constexpr uint64_t kZipMembersMax = uint64_t{1} << 14;

// Limits of torch.export programs. A node takes a few hundred bytes of JSON, so only files that
// repeat a subgraph or a tensor name again and again reach these limits.
constexpr size_t kExportedNodesMax = size_t{1} << 18;
constexpr size_t kExportedValuesMax = size_t{1} << 20;
constexpr size_t kExportedRankMax = 64;
constexpr size_t kExportedSubgraphDepthMax = 8;
// Limits the terms of one sum, whose number doubles when a value is added to itself. Models add one
// term per expert or table.
constexpr size_t kExportedSumPartsMax = size_t{1} << 10;
// Limits the declared elements of one value in the graph, small enough for the sum over all values
// not to overflow.
constexpr int64_t kExportedDeclaredMax = int64_t{1} << 40;
// Limits the nesting of ops within one traced formula.
constexpr size_t kExportedLevelsMax = 256;
constexpr int64_t kTracedRowsMax = int64_t{1} << 15;  // tokens of all sequences of an example
// Limits the traced elements of a program to at least the base, plus a multiple of the largest
// weight.
constexpr uint64_t kFollowedElementsBase = uint64_t{1} << 24;
constexpr uint64_t kFollowedPerWeight = 2;
// Limits of constant folding: elements of one array, of all arrays, and alive at a time;
// multiplications.
constexpr uint64_t kExportedElementsMax = uint64_t{1} << 27;
constexpr uint64_t kFoldedElementsMax = uint64_t{1} << 30;
constexpr uint64_t kFoldedLiveElementsMax = uint64_t{1} << 27;
constexpr uint64_t kFoldedMultiplicationsMax = uint64_t{1} << 33;
// Limits the work of reading a program, in steps of about one nanosecond, in addition to the work
// on weights for each token of the example.
constexpr uint64_t kReadingSteps = uint64_t{1} << 32;
constexpr uint64_t kReadingRounds = 16;

}  // namespace arenite::convert
