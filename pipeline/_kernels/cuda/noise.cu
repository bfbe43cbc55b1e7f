// Adds noise; one sample per blockIdx.y.
//
// Macros from the launcher: T (type), SUM (type of sums), NOISE (0 Gaussian, 1 salt and pepper, 2 shot).

#include "common.cuh"
#include "philox.cuh"
#include "rounding.cuh"
#include "noise.cuh"

struct Sample {
    const T* src;
    T* dst;
    uint64 count;
    uint64 seed;
    uint64 channels, inner;  // elements along the channels share a draw; 1 and 1 if each has a separate draw
    double first, second;    // Gaussian: mean, deviation. Salt and pepper: probability of salt, of both. Shot: factor
    T salt, pepper;
};

extern "C" __global__ void add_noise(const Sample* __restrict__ samples) {
    const Sample& sample = samples[blockIdx.y];
    const uint64 step = static_cast<uint64>(gridDim.x) * blockDim.x;
    for (uint64 element = static_cast<uint64>(blockIdx.x) * blockDim.x + threadIdx.x; element < sample.count;
         element += step) {
        uint64 draw = element;
        if (NOISE == 1) draw = element / (sample.channels * sample.inner) * sample.inner + element % sample.inner;
        sample.dst[element] = noisy<NOISE, SUM>(sample.src[element], sample.seed, draw, sample.first, sample.second,
                                                sample.salt, sample.pepper);
    }
}
