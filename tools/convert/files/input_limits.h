// SPDX-License-Identifier: Apache-2.0
// What the readers accept at most, file by file. Limits are far above real files and hold for a
// file as a whole, so that no file costs more than a small multiple of its own size.
// runtime/format/SECURITY.md lists what they come to in seconds and bytes of memory.
#pragma once

#include <cstddef>
#include <cstdint>

namespace arenite::convert {

// Files that are read whole are refused by their size, before a byte is read.
constexpr uint64_t kJsonBytesMax = uint64_t{64} << 20;        // tokenizer.json has up to 40 MB
constexpr uint64_t kVocabularyBytesMax = uint64_t{16} << 20;  // vocab.txt, tokenizer.model, ...
constexpr uint64_t kPromptBytesMax = uint64_t{8} << 20;       // a million tokens, and more
constexpr uint64_t kTextFileBytesMax = uint64_t{64} << 20;    // texts to embed or to classify
constexpr size_t kTextsMax = size_t{1} << 20;                 // lines of such a file

// JSON: a value takes 16 bytes of memory, or about 100 with the key of an object, and as few as
// two bytes of a file.
constexpr size_t kJsonValuesMax = size_t{1} << 22;
constexpr size_t kJsonDepthMax = 32;

// safetensors
constexpr uint64_t kSafetensorsHeaderBytesMax = 100'000'000;  // the reference implementation's
constexpr size_t kTensorsMax = size_t{1} << 18;               // and those of a GGUF file
constexpr size_t kSafetensorsMetadataMax = size_t{1} << 12;

// GGUF: of metadata, tokenizers aside. A real file has about 50 values.
constexpr uint64_t kGgufMetadataMax = uint64_t{1} << 12;
constexpr uint64_t kGgufElementsMax = uint64_t{1} << 16;

// data.pkl of torch.save, and meta.pkl.
constexpr uint64_t kPickleBytesMax = uint64_t{64} << 20;
constexpr size_t kPickleValuesMax = size_t{1} << 22;      // values and stack entries, each
constexpr size_t kPickleDepthMax = 100;                   // of containers in containers
constexpr size_t kPickleTensorsMax = size_t{1} << 16;     // tensors built, and names given to them
constexpr size_t kPickleDimensionsMax = size_t{1} << 19;  // of all tensors together
constexpr size_t kPlainValuesMax = size_t{1} << 17;       // characters of a vocabulary, twice

// Containers and strings may be shared, so that walking them meets more than the pickle has bytes.
constexpr uint64_t kWalkedValuesBase = uint64_t{1} << 16;
constexpr uint64_t kWalkedValuesPerByte = 2;
constexpr uint64_t kNameBytesBase = uint64_t{1} << 20;
constexpr uint64_t kNameBytesPerByte = 8;

// Tensors may be views of the same elements (torch.expand, tied weights). All names of a file
// together stand for at most so many bytes. The base allows a mask of flags of a context of 4096.
constexpr uint64_t kNamedBytesBase = uint64_t{1} << 24;
constexpr uint64_t kNamedPerStoredByte = 4;

// A config of a few bytes may ask for any context. What is computed for each position, the angles
// of RoPE, stays in proportion to the weights: a context of a million takes 2^27 angles at most.
constexpr uint64_t kAnglesBase = uint64_t{1} << 23;
constexpr uint64_t kAnglesPerWeight = 16;
// And so may what says how much of a head is rotated, before there are weights to compare it with.
// Real heads have up to 512 elements.
constexpr uint32_t kRotaryDimMax = 1u << 16;

// Zip archives. torch.save stores members uncompressed. Archives packed again by other tools may be
// deflated: weights hardly shrink, but masks of zeros do, a thousandfold. All members together may
// inflate to this, and the pickle to less.
constexpr uint64_t kInflatedBytesBase = uint64_t{16} << 20;
constexpr uint64_t kInflatedPerFileByte = 16;
constexpr uint64_t kInflatedPickleBase = uint64_t{256} << 10;
constexpr uint64_t kInflatedPicklePerByte = 32;
constexpr uint64_t kZipMembersMax = uint64_t{1} << 14;

// Programs of torch.export. A node takes a few hundred bytes of JSON, so that these are reached
// only by files that repeat one subgraph or name one tensor again and again.
constexpr size_t kExportedNodesMax = size_t{1} << 18;
constexpr size_t kExportedValuesMax = size_t{1} << 20;
constexpr size_t kExportedRankMax = 64;
constexpr size_t kExportedSubgraphDepthMax = 8;
// Of one sum, which a value added to itself doubles. Models add a term for each expert, or table.
constexpr size_t kExportedSumPartsMax = size_t{1} << 10;
// Elements that the graph says of one value: those of all values can be added up.
constexpr int64_t kExportedDeclaredMax = int64_t{1} << 40;
// Ops of a formula that are looked into from within each other.
constexpr size_t kExportedLevelsMax = 256;
constexpr int64_t kTracedRowsMax = int64_t{1} << 15;  // tokens of all sequences of an example
// Numbers of elements that a program is followed by: an array of them, at least, and in proportion
// to the largest of its weights.
constexpr uint64_t kFollowedElementsBase = uint64_t{1} << 24;
constexpr uint64_t kFollowedPerWeight = 2;
// What its ops may make of constants: all of them together, and one array.
constexpr uint64_t kExportedElementsMax = uint64_t{1} << 27;
constexpr uint64_t kFoldedElementsMax = uint64_t{1} << 30;
constexpr uint64_t kFoldedLiveElementsMax = uint64_t{1} << 27;
constexpr uint64_t kFoldedMultiplicationsMax = uint64_t{1} << 33;
// What all of this together may take, in steps of about a nanosecond, beside what the weights take
// for each token of the example.
constexpr uint64_t kReadingSteps = uint64_t{1} << 32;
constexpr uint64_t kReadingRounds = 16;

}  // namespace arenite::convert
