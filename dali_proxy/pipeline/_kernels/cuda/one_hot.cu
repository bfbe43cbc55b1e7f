// One-hot encoding along a new axis: out[outer, class, inner] = (class == in[outer, inner]). One sample per blockIdx.y.
//
// Macros from the launcher: IN, OUT (types).

#include "common.cuh"

struct Sample {
    const char* src;  // contiguous
    OUT* dst;         // contiguous
    uint64 count, inner;  // elements of the output, and of the dimensions after the new axis
    uint64 classes;
    float64 on, off;
};

extern "C" __global__ void one_hot(const Sample* __restrict__ samples) {
    const Sample& sample = samples[blockIdx.y];
    const OUT on = convert<OUT>(sample.on), off = convert<OUT>(sample.off);
    const uint64 step = static_cast<uint64>(gridDim.x) * blockDim.x;
    for (uint64 element = static_cast<uint64>(blockIdx.x) * blockDim.x + threadIdx.x; element < sample.count;
         element += step) {
        const uint64 row = element / sample.inner;
        const uint64 outer = row / sample.classes;
        const uint64 source = outer * sample.inner + (element - row * sample.inner);
        const IN value = load<IN>(sample.src + source * sizeof(IN));
        sample.dst[element] = static_cast<uint64>(static_cast<int64>(value)) == row - outer * sample.classes ? on : off;
    }
}
