// Reductions along any axes, in two steps without barriers. In `reduce_parts`, each thread combines every `parts`-th
// element of an output's sources; `reduce_finish` combines these partial results. The order is fixed, so every run has
// the same results.
//
// Macros from the launcher: IN, SUM, OUT (types), KEPT and REDUCED (numbers of dimensions), TERM (0 value, 1 square,
// 2 squared difference from the mean), COMBINE (0 sum, 1 minimum, 2 maximum), FINISH (0 nothing, 1 divide, 2 root).

#include "common.cuh"

constexpr int AT_ONCE = 16;  // elements that a thread loads at once

struct Dimension {
    int64 stride;  // of the source, in bytes
    uint64 extent;
};

struct Sample {
    const char* src;
    const float* mean;     // one for all outputs, or one per output
    SUM* parts;
    OUT* dst;
    uint64 outputs, count;  // elements of the output, and source elements per output
    uint64 mean_step;
    float64 divisor;
    Dimension kept[KEPT], reduced[REDUCED];
};

template <int N> __device__ __forceinline__ int64 offset_of(const Dimension (&dims)[N], uint64 element) {
    int64 offset = 0;
#pragma unroll
    for (int d = N - 1; d >= 0; --d) {
        const uint64 quotient = d ? element / dims[d].extent : 0;  // the outermost index is the remainder
        offset += static_cast<int64>(element - quotient * dims[d].extent) * dims[d].stride;
        element = quotient;
    }
    return offset;
}

__device__ __forceinline__ SUM neutral() {
    if constexpr (COMBINE == 0) return 0;
    else if constexpr (Limits<SUM>::kind == 2) return static_cast<SUM>((COMBINE == 1 ? 1e308 : -1e308) * 10);  // inf
    else return static_cast<SUM>(COMBINE == 1 ? Limits<SUM>::high : static_cast<uint64>(Limits<SUM>::low));
}

__device__ __forceinline__ SUM combined(SUM a, SUM b) {
    if constexpr (COMBINE == 0) return a + b;
    else if constexpr (COMBINE == 1) return b < a ? b : a;
    else return b > a ? b : a;
}

__device__ __forceinline__ SUM term(IN value, float mean) {
    if constexpr (TERM == 2) {
        const SUM difference = static_cast<SUM>(convert<float64>(value) - static_cast<float64>(mean));
        return difference * difference;
    } else if constexpr (TERM == 1) {
        const SUM number = convert<SUM>(value);
        return number * number;
    } else {
        return convert<SUM>(value);
    }
}

template <typename Out> __device__ __forceinline__ Out finished(SUM sum, float64 divisor) {
    if constexpr (COMBINE != 0) {
        return convert<Out>(sum);
    } else if constexpr (Limits<Out>::kind == 2) {
        float64 value = static_cast<float64>(sum);
        if constexpr (FINISH != 0) value /= divisor;
        if constexpr (FINISH == 2) value = sqrt(value);
        return convert<Out>(value);
    } else {
        // Integers wrap around, and divisions truncate.
        Out value = static_cast<Out>(sum);
        if constexpr (FINISH != 0) value = static_cast<Out>(static_cast<SUM>(value) / static_cast<SUM>(divisor));
        if constexpr (FINISH == 2) value = value < 1 ? Out(0) : static_cast<Out>(sqrt(static_cast<float64>(value)));
        return value;
    }
}

// Each thread computes one partial result of one output. With `outputs_first`, neighboring threads compute neighboring
// outputs, for sources whose last axis isn't reduced. Otherwise they read neighboring elements of one output.
extern "C" __global__ void reduce_parts(const Sample* __restrict__ samples, int parts, int outputs_first) {
    const Sample& sample = samples[blockIdx.y];
    const uint64 total = sample.outputs * parts;
    const uint64 step = static_cast<uint64>(gridDim.x) * blockDim.x;
    for (uint64 item = static_cast<uint64>(blockIdx.x) * blockDim.x + threadIdx.x; item < total; item += step) {
        const uint64 output = outputs_first ? item % sample.outputs : item / parts;
        const uint64 part = outputs_first ? item / sample.outputs : item % parts;
        const char* source = sample.src + offset_of(sample.kept, output);
        const float mean = TERM == 2 ? sample.mean[output * sample.mean_step] : 0.0f;
        SUM sum = neutral();
        uint64 element = part;
        // Loads that don't wait for each other: one at a time takes as long as all of them.
        for (IN values[AT_ONCE]; element + static_cast<uint64>(parts) * (AT_ONCE - 1) < sample.count;) {
#pragma unroll
            for (int i = 0; i < AT_ONCE; ++i, element += parts)
                values[i] = load<IN>(source + offset_of(sample.reduced, element));
#pragma unroll
            for (int i = 0; i < AT_ONCE; ++i) sum = combined(sum, term(values[i], mean));
        }
        for (; element < sample.count; element += parts)
            sum = combined(sum, term(load<IN>(source + offset_of(sample.reduced, element)), mean));
        sample.parts[output * parts + part] = sum;
    }
}

extern "C" __global__ void reduce_finish(const Sample* __restrict__ samples, int parts) {
    const Sample& sample = samples[blockIdx.y];
    const uint64 step = static_cast<uint64>(gridDim.x) * blockDim.x;
    for (uint64 output = static_cast<uint64>(blockIdx.x) * blockDim.x + threadIdx.x; output < sample.outputs;
         output += step) {
        SUM sum = neutral();
        for (int part = 0; part < parts; ++part) sum = combined(sum, sample.parts[output * parts + part]);
        sample.dst[output] = finished<OUT>(sum, sample.divisor);
    }
}
