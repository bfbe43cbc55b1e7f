// Copies ragged batches and writes fill values into regions; one sample per blockIdx.y.
//
// Macros from the launcher: VALUE (type), NDIM.

#include "common.cuh"

struct Sample {
    const char* src;
    VALUE* dst;           // contiguous
    uint64 count;     // elements
    uint32 channels;  // index of this sample's first row in the table of channels
    uint32 regions;   // index of this sample's first row in the table of regions
    uint32 region_count;
    uint32 unused;
    int64 stride[NDIM];   // of the source, in bytes
    uint32 extent[NDIM];
};

struct Region {
    uint32 begin[NDIM], end[NDIM];
};

extern "C" __global__ void erase(const Sample* __restrict__ samples, const Region* __restrict__ regions,
                                 const Channel* __restrict__ channels, int channel_dim) {
    const Sample& sample = samples[blockIdx.y];
    const uint64 step = static_cast<uint64>(gridDim.x) * blockDim.x;
    for (uint64 element = static_cast<uint64>(blockIdx.x) * blockDim.x + threadIdx.x; element < sample.count;
         element += step) {
        uint64 rest = element;
        int64 offset = 0;
        uint32 channel = sample.channels;
        uint32 index[NDIM];
#pragma unroll
        for (int d = NDIM - 1; d >= 0; --d) {
            const uint64 quotient = d ? rest / sample.extent[d] : 0;  // the outermost index is the remainder
            index[d] = static_cast<uint32>(rest - quotient * sample.extent[d]);
            rest = quotient;
            offset += index[d] * sample.stride[d];
            if (d == channel_dim) channel += index[d];
        }
        bool erased = false;
        for (uint32 r = 0; r < sample.region_count && !erased; ++r) {
            const Region& region = regions[sample.regions + r];
            erased = true;
#pragma unroll
            for (int d = 0; d < NDIM; ++d) erased = erased && index[d] >= region.begin[d] && index[d] < region.end[d];
        }
        sample.dst[element] = erased ? convert<VALUE>(channels[channel].fill) : load<VALUE>(sample.src + offset);
    }
}
