// out = (in - mean) * factor + shift, one sample per blockIdx.y. Means and deviations broadcast to the sample: their
// strides are 0 along axes of extent 1.
//
// Macros from the launcher: IN, OUT (types), NDIM, SPREAD (0: one factor per sample; 1: `spread` has standard
// deviations, float32; 2: sums of squared differences, float64, with `degrees` of freedom).

#include "common.cuh"

struct Sample {
    const char* src;  // contiguous
    OUT* dst;         // contiguous
    const float* mean;
    const void* spread;
    uint64 count;
    float64 degrees;
    float scale, shift, epsilon, factor;
    uint32 extent[NDIM], mean_stride[NDIM], spread_stride[NDIM];  // in elements
};

__device__ __forceinline__ float factor_of(const Sample& sample, uint64 place) {
    if constexpr (SPREAD == 0) {
        return sample.factor;
    } else if constexpr (SPREAD == 1) {
        const float deviation = static_cast<const float*>(sample.spread)[place];
        if (sample.epsilon == 0) return deviation == 0 ? 0.0f : sample.scale / deviation;
        return sample.scale / sqrtf(deviation * deviation + sample.epsilon);
    } else {
        float64 variance = sample.epsilon;
        if (sample.degrees > 0) variance += static_cast<const float64*>(sample.spread)[place] / sample.degrees;
        return variance > 0 ? static_cast<float>(sample.scale / sqrt(variance)) : 0.0f;
    }
}

extern "C" __global__ void standardize(const Sample* __restrict__ samples) {
    const Sample& sample = samples[blockIdx.y];
    const uint64 step = static_cast<uint64>(gridDim.x) * blockDim.x;
    for (uint64 element = static_cast<uint64>(blockIdx.x) * blockDim.x + threadIdx.x; element < sample.count;
         element += step) {
        uint64 rest = element, mean = 0, spread = 0;
#pragma unroll
        for (int d = NDIM - 1; d >= 0; --d) {
            const uint64 quotient = d ? rest / sample.extent[d] : 0;  // the outermost index is the remainder
            const uint64 index = rest - quotient * sample.extent[d];
            mean += index * sample.mean_stride[d];
            spread += index * sample.spread_stride[d];
            rest = quotient;
        }
        const float value = convert<float>(load<IN>(sample.src + element * sizeof(IN)));
        sample.dst[element] = convert<OUT>((value - sample.mean[mean]) * factor_of(sample, spread) + sample.shift);
    }
}
