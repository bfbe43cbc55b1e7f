// Operations on the elements of signals; one sample per blockIdx.y.
//
// Macros from the launcher: IN, OUT (types), NUMBER (floating-point type of the computation), BORDER (predecessor of the
// first element: 0 zero, 1 itself, 2 the second element).

#include "common.cuh"

struct Sample {
    const char* src;
    OUT* dst;
    uint64 count;
    const char* reference;  // magnitude of 0 dB; null: the scalar
    NUMBER coefficient;
};

__device__ __forceinline__ NUMBER number(const Sample& sample, uint64 element) {
    return convert<NUMBER>(load<IN>(sample.src + element * sizeof(IN)));
}

// Each element minus its predecessor times the coefficient, which isn't fused, so that the result is that of the CPU.
extern "C" __global__ void preemphasize(const Sample* __restrict__ samples) {
    const Sample& sample = samples[blockIdx.y];
    const uint64 step = static_cast<uint64>(gridDim.x) * blockDim.x;
    for (uint64 element = static_cast<uint64>(blockIdx.x) * blockDim.x + threadIdx.x; element < sample.count;
         element += step) {
        NUMBER before = 0;
        if (element) before = number(sample, element - 1);
        else if (BORDER) before = number(sample, BORDER == 2 && sample.count > 1 ? 1 : 0);
        const NUMBER product = fma(before, sample.coefficient, static_cast<NUMBER>(0));
        sample.dst[element] = convert<OUT>(number(sample, element) - product);
    }
}

// `least` is the smallest logarithm; NaN and negative magnitudes count as silence.
extern "C" __global__ void to_decibels(const Sample* __restrict__ samples, float reference, float least, float factor) {
    const Sample& sample = samples[blockIdx.y];
    if (sample.reference) reference = convert<float>(load<IN>(sample.reference));
    if (sample.reference && !(reference > 0)) reference = 1;
    const uint64 step = static_cast<uint64>(gridDim.x) * blockDim.x;
    for (uint64 element = static_cast<uint64>(blockIdx.x) * blockDim.x + threadIdx.x; element < sample.count;
         element += step) {
        const float ratio = static_cast<float>(number(sample, element)) / reference;
        sample.dst[element] = convert<OUT>(fmaxf(logf(ratio), least) * factor);
    }
}
