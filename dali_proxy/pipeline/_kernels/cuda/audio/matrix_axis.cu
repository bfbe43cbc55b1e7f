// Multiplies vectors along one axis of samples by a matrix whose rows may be sparse; one sample per blockIdx.y.
//
// Macros from the launcher: IN (type).

#include "common.cuh"

struct Sample {
    const char* src;
    float* dst;
    uint64 count;         // elements of dst
    uint64 rows;          // of the matrix: extent of dst along the axis
    uint64 inner;         // elements behind the axis
    int64 extent;         // of src along the axis
    uint64 matrix, range; // indices of the sample's first weight and range
};

struct Range {
    int begin, end;  // the other weights of the row are 0
};

extern "C" __global__ void matrix_axis(const Sample* __restrict__ samples, const float* __restrict__ weights,
                                       const Range* __restrict__ ranges) {
    const Sample& sample = samples[blockIdx.y];
    const uint64 step = static_cast<uint64>(gridDim.x) * blockDim.x;
    for (uint64 element = static_cast<uint64>(blockIdx.x) * blockDim.x + threadIdx.x; element < sample.count;
         element += step) {
        const uint64 inner = element % sample.inner, row = element / sample.inner % sample.rows;
        const uint64 outer = element / sample.inner / sample.rows;
        const float* own = weights + sample.matrix + row * sample.extent;
        const char* source = sample.src + (outer * sample.extent * sample.inner + inner) * sizeof(IN);
        const Range range = ranges[sample.range + row];
        float sum = 0;
        for (int k = range.begin; k < range.end; ++k)
            sum = fmaf(own[k], convert<float>(load<IN>(source + k * sample.inner * sizeof(IN))), sum);
        sample.dst[element] = sum;
    }
}
