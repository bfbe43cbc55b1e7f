// Replaces integers by their entries in a table: out = table[in]. One sample per blockIdx.y.
//
// Macros from the launcher: IN, OUT (types).

#include "common.cuh"

struct Sample {
    const char* src;  // contiguous
    OUT* dst;         // contiguous
    uint64 count;
};

// The last entry of the table is the value for all other keys.
extern "C" __global__ void lookup(const Sample* __restrict__ samples, const OUT* __restrict__ table, int length) {
    const Sample& sample = samples[blockIdx.y];
    const uint64 step = static_cast<uint64>(gridDim.x) * blockDim.x;
    for (uint64 element = static_cast<uint64>(blockIdx.x) * blockDim.x + threadIdx.x; element < sample.count;
         element += step) {
        const IN key = load<IN>(sample.src + element * sizeof(IN));
        const uint64 index = static_cast<uint64>(key);  // negative keys become large indices
        sample.dst[element] = table[index < static_cast<uint64>(length) ? index : length];
    }
}
