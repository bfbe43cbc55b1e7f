// Affine warps of ragged batches of images or volumes; one sample per blockIdx.y.
//
// Pixel k covers [k, k + 1); its center is k + 0.5.
//
// Macros from the launcher: IN, OUT (types), NDIM (2 or 3), LINEAR (0 or 1), FILL (0: repeat the border, 1: fill).

#include "common.cuh"

struct Warp {
    const char* src;
    OUT* dst;          // contiguous (spatial axes, channels)
    uint64 count;      // elements of the output
    int64 stride[NDIM + 1];   // of the source, in bytes; outermost axis first, except in the matrix
    uint32 out[NDIM + 1];
    int extent[NDIM];         // of the source
    double matrix[NDIM][NDIM + 1];  // from the output to the source; rows and columns are x, y, z
    double fill;              // a value of the output if LINEAR is 0, otherwise of the source
};

__device__ __forceinline__ float pick(const Warp& warp, const char* src, const int* index) {
    int64 offset = 0;
#pragma unroll
    for (int d = 0; d < NDIM; ++d) {
        const int last = warp.extent[d] - 1;
#if FILL
        if (index[d] < 0 || index[d] > last) return static_cast<float>(warp.fill);
#endif
        offset += (index[d] < 0 ? 0 : index[d] > last ? last : index[d]) * warp.stride[d];
    }
    return convert<float>(load<IN>(src + offset));
}

__device__ __forceinline__ OUT nearest(const Warp& warp, const char* src, const int* index) {
    int64 offset = 0;
#pragma unroll
    for (int d = 0; d < NDIM; ++d) {
        const int last = warp.extent[d] - 1;
#if FILL
        if (index[d] < 0 || index[d] > last) return convert<OUT>(warp.fill);
#endif
        offset += (index[d] < 0 ? 0 : index[d] > last ? last : index[d]) * warp.stride[d];
    }
    return convert<OUT>(load<IN>(src + offset));
}

__device__ __forceinline__ int whole(double position) {
    const double low = floor(position);
    return low < -2147483000.0 ? -2147483000 : low > 2147483000.0 ? 2147483000 : static_cast<int>(low);
}

extern "C" __global__ void warp_affine(const Warp* __restrict__ warps) {
    const Warp& warp = warps[blockIdx.y];
    const uint64 step = static_cast<uint64>(gridDim.x) * blockDim.x;
    for (uint64 element = static_cast<uint64>(blockIdx.x) * blockDim.x + threadIdx.x; element < warp.count;
         element += step) {
        uint64 rest = element / warp.out[NDIM];
        const char* src = warp.src + (element - rest * warp.out[NDIM]) * warp.stride[NDIM];
        double point[NDIM];  // x, y, z
#pragma unroll
        for (int d = NDIM - 1; d >= 0; --d) {
            const uint64 quotient = d ? rest / warp.out[d] : 0;  // the outermost index is the remainder
            point[NDIM - 1 - d] = static_cast<double>(rest - quotient * warp.out[d]) + 0.5;
            rest = quotient;
        }
        int first[NDIM];
        float part[NDIM];
#pragma unroll
        for (int d = 0; d < NDIM; ++d) {
            const double* row = warp.matrix[NDIM - 1 - d];
            double position = row[NDIM];
#pragma unroll
            for (int k = 0; k < NDIM; ++k) position = fma(row[k], point[k], position);
#if LINEAR
            position -= 0.5;
#endif
            first[d] = whole(position);
            part[d] = static_cast<float>(position - first[d]);
        }
#if LINEAR
        float value = 0;
#pragma unroll
        for (int corner = 0; corner < (1 << NDIM); ++corner) {
            int index[NDIM];
            float weight = 1;
#pragma unroll
            for (int d = 0; d < NDIM; ++d) {
                const int one = (corner >> d) & 1;
                index[d] = first[d] + one;
                weight *= one ? part[d] : 1 - part[d];
            }
            value = fmaf(weight, pick(warp, src, index), value);
        }
        warp.dst[element] = convert<OUT>(value);
#else
        warp.dst[element] = nearest(warp, src, first);
#endif
    }
}
