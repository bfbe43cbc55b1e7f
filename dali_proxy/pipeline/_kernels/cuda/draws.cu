// Draws the numbers of distributions; one sample per blockIdx.y. The uniform numbers that they are computed from are those
// of NumPy's Philox4x64-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3") and its conversion to doubles.
//
// Macros from the launcher: OUT (type), KIND (of the distribution). Compiled without fused multiply-add, for the bits of
// the CPU.

#include "common.cuh"
#define INLINE __device__ __forceinline__
#include "../../normal_quantile.h"

enum Kind { UNIFORM, LISTED, COIN, NORMAL };

struct Sample {
    OUT* dst;
    uint64 count, start;       // elements, and the position of the first one in the sequence of the generator
    double low, range, limit;  // of uniform numbers; probability of a coin in `low`; mean and deviation
    uint64 first;              // the list of values
    double length;
};

#ifdef EMULATED
__device__ __forceinline__ uint64 high_product(uint64 a, uint64 b) {
    return static_cast<uint64>(static_cast<unsigned __int128>(a) * b >> 64);
}
#else
__device__ __forceinline__ uint64 high_product(uint64 a, uint64 b) { return __umul64hi(a, b); }
#endif

__device__ __forceinline__ OUT number_of(double uniform, const Sample& sample, const double* lists) {
    if constexpr (KIND == LISTED) {
        return convert<OUT>(lists[sample.first + static_cast<uint64>(uniform * sample.length)]);
    } else if constexpr (KIND == COIN) {
        return convert<OUT>(static_cast<int32>(uniform < sample.low));
    } else if constexpr (KIND == NORMAL) {
        return convert<OUT>(sample.low + normal_quantile(uniform) * sample.range);
    } else {
        const double scaled = sample.low + uniform * sample.range;
        return convert<OUT>(scaled < sample.limit ? scaled : sample.limit);
    }
}

extern "C" __global__ void draw_numbers(const Sample* __restrict__ samples, const double* __restrict__ lists,
                                        uint64 key0, uint64 key1, uint64 counter1, uint64 counter2, uint64 counter3) {
    const Sample& sample = samples[blockIdx.y];
    const uint64 end = sample.start + sample.count, step = static_cast<uint64>(gridDim.x) * blockDim.x;
    // The generator returns four numbers for each value of its counter, beginning with 1.
    for (uint64 block = sample.start / 4 + static_cast<uint64>(blockIdx.x) * blockDim.x + threadIdx.x; 4 * block < end;
         block += step) {
        uint64 c[4] = {block + 1, counter1, counter2, counter3}, k0 = key0, k1 = key1;
        for (int round = 0; round < 10; ++round) {
            const uint64 high0 = high_product(0xD2E7470EE14C6C93ULL, c[0]), low0 = 0xD2E7470EE14C6C93ULL * c[0];
            const uint64 high1 = high_product(0xCA5A826395121157ULL, c[2]), low1 = 0xCA5A826395121157ULL * c[2];
            c[0] = high1 ^ c[1] ^ k0;
            c[1] = low1;
            c[2] = high0 ^ c[3] ^ k1;
            c[3] = low0;
            k0 += 0x9E3779B97F4A7C15ULL;
            k1 += 0xBB67AE8584CAA73BULL;
        }
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            const uint64 position = 4 * block + j;
            if (position < sample.start || position >= end) continue;
            const double uniform = static_cast<double>(c[j] >> 11) * (1.0 / 9007199254740992.0);
            sample.dst[position - sample.start] = number_of(uniform, sample, lists);
        }
    }
}
