// Wide search over the words of a node: AVX-512 where the machine has it, AVX2 elsewhere, and a
// scalar twin that tests compare them with.
#pragma once

#include <cstdint>

namespace lodgekv {

// Bit i of `less`: words[i] < word. Bit i of `equal`: words[i] == word.
struct WordMasks {
  uint32_t less;
  uint32_t equal;
};

// `words` is 64-byte aligned and has 32 elements.
using CompareWordsFunction = WordMasks (*)(const uint64_t* words, uint64_t word);
// Bit i: words[i] <= word. Half the work, for nodes whose words never tie.
using NotAboveFunction = uint32_t (*)(const uint64_t* words, uint64_t word);

WordMasks CompareWordsScalar(const uint64_t* words, uint64_t word);
WordMasks CompareWordsAvx2(const uint64_t* words, uint64_t word);
WordMasks CompareWordsAvx512(const uint64_t* words, uint64_t word);
uint32_t NotAboveScalar(const uint64_t* words, uint64_t word);
uint32_t NotAboveAvx2(const uint64_t* words, uint64_t word);
uint32_t NotAboveAvx512(const uint64_t* words, uint64_t word);

// The widest of them that this processor runs; chosen once, before main.
extern const CompareWordsFunction CompareWords;
extern const NotAboveFunction NotAbove;

}  // namespace lodgekv
