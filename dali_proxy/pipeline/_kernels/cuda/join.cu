// Concatenates contiguous arrays; one source array per blockIdx.y. In the result, runs of `run`
// consecutive source elements begin every `pitch` elements.
//
// Macros from the launcher: VALUE (an unsigned type of the elements' size).

#include "common.cuh"

struct Part {
    const VALUE* src;
    VALUE* dst;  // destination of the first run
    uint64 count, run, pitch;
};

extern "C" __global__ void join(const Part* __restrict__ parts) {
    const Part& part = parts[blockIdx.y];
    const uint64 step = static_cast<uint64>(gridDim.x) * blockDim.x;
    for (uint64 element = static_cast<uint64>(blockIdx.x) * blockDim.x + threadIdx.x; element < part.count;
         element += step) {
        const uint64 row = element / part.run;
        part.dst[row * part.pitch + (element - row * part.run)] = part.src[element];
    }
}
