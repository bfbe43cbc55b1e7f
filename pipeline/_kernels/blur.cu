// Filters contiguous samples along one axis; one sample per blockIdx.y. Borders reflect without repeating the
// outermost value.
//
// Macros from the launcher: IN, OUT (types), SUM (type of the sum), ADDS (whether to multiply sums by a factor and add them
// to other values).

#include "common.cuh"
#include "borders.cuh"

struct Sample {
    const char* src;
    OUT* dst;
    uint64 count;    // elements
    uint64 inner;    // distance of neighbors along the axis, in elements
    int64 extent;    // of the axis
    int64 radius;
    uint64 weights;  // index of this sample's first of 2 * radius + 1 weights
    float factor;      // of the sum
    const float* add;  // added to the result; null: nothing
};

extern "C" __global__ void blur_axis(const Sample* __restrict__ samples, const float* __restrict__ weights) {
    const Sample& sample = samples[blockIdx.y];
    const float* window = weights + sample.weights;
    const uint64 step = static_cast<uint64>(gridDim.x) * blockDim.x;
    for (uint64 element = static_cast<uint64>(blockIdx.x) * blockDim.x + threadIdx.x; element < sample.count;
         element += step) {
        const int64 position = static_cast<int64>(element / sample.inner % static_cast<uint64>(sample.extent));
        const char* line = sample.src + (element - position * sample.inner) * sizeof(IN);
        SUM sum = 0;
        for (int64 k = -sample.radius; k <= sample.radius; ++k) {
            const int64 from = inside<REFLECT_101>(position + k, sample.extent);
            const SUM value = convert<SUM>(load<IN>(line + from * static_cast<int64>(sample.inner * sizeof(IN))));
            sum += static_cast<SUM>(window[k + sample.radius]) * value;
        }
        if (ADDS) {  // not fused, so that the result is that of the CPU
            const float scaled = fmaf(static_cast<float>(sum), sample.factor, 0.0f);
            sample.dst[element] = convert<OUT>(sample.add ? sample.add[element] + scaled : scaled);
        } else {
            sample.dst[element] = convert<OUT>(sum);
        }
    }
}
