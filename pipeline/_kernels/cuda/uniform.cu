// Draws uniform numbers; one sample per blockIdx.y. They are those of NumPy's Philox4x64-10 (Salmon et al., "Parallel
// random numbers: as easy as 1, 2, 3") and its conversion to doubles.
//
// Macros from the launcher: T (type).

#include "common.cuh"

struct Sample {
    T* dst;
    uint64 count, start;       // elements, and the position of the first one in the sequence of the generator
    double low, range, limit;  // `limit` is the largest result
};

#ifdef EMULATED
__device__ __forceinline__ uint64 high_product(uint64 a, uint64 b) {
    return static_cast<uint64>(static_cast<unsigned __int128>(a) * b >> 64);
}
__device__ __forceinline__ double scaled(double number, double range, double low) { return low + number * range; }
#else
__device__ __forceinline__ uint64 high_product(uint64 a, uint64 b) { return __umul64hi(a, b); }
__device__ __forceinline__ double scaled(double number, double range, double low) {
    return __dadd_rn(low, __dmul_rn(number, range));  // rounded as on the CPU
}
#endif

extern "C" __global__ void uniform(const Sample* __restrict__ samples, uint64 key0, uint64 key1, uint64 counter1,
                                   uint64 counter2, uint64 counter3) {
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
            const double number = static_cast<double>(c[j] >> 11) * (1.0 / 9007199254740992.0);
            const double value = scaled(number, sample.range, sample.low);
            sample.dst[position - sample.start] = convert<T>(value < sample.limit ? value : sample.limit);
        }
    }
}
