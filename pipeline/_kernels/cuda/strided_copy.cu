// General ragged copy: out[i0, i1, ...] = convert(src[i0 * stride0 + i1 * stride1 + ...]). One sample per blockIdx.y.
//
// Strides express most operations: a flip has a negative stride, a transpose permutes the strides, a crop moves the
// source pointer. The kernel reads a dimension where begin <= i < end and writes the fill value elsewhere, so a source
// pointer may lie outside its buffer: it isn't dereferenced there.
//
// Macros from the launcher: IN, OUT, COMPUTE (types), NDIM, INDEX (an unsigned type that counts a sample's elements),
// NORMALIZE (0 or 1).

#include "common.cuh"

struct Dimension {
    int64 stride;   // of the source, in bytes
    uint32 extent;  // of the output
    uint32 begin, end;
    uint32 unused;
};

struct Sample {
    const char* src;
    OUT* dst;       // contiguous
    uint64 count;   // elements of the output
    uint32 channels;  // index of this sample's first row in the table of channels
    uint32 unused;
    Dimension dims[NDIM];
};

__device__ __forceinline__ OUT transform(const char* address, const Channel& channel) {
#if NORMALIZE
    COMPUTE value = convert<COMPUTE>(load<IN>(address));
    return convert<OUT>(fma(value, static_cast<COMPUTE>(channel.scale), static_cast<COMPUTE>(channel.bias)));
#else
    return convert<OUT>(load<IN>(address));
#endif
}

#if NDIM == 1
struct __align__(16) Chunk {
    uint64 values[2];
};

// Copies a contiguous sample in chunks of 16 bytes; returns false if it isn't contiguous, or not aligned as its copy.
__device__ __forceinline__ bool copy_chunks(const Sample& sample) {
    const Dimension& dim = sample.dims[0];
    char* target = reinterpret_cast<char*>(sample.dst);
    const uint64 address = reinterpret_cast<uint64>(target);
    if (dim.stride != sizeof(OUT) || dim.begin != 0 || dim.end < dim.extent ||
        (reinterpret_cast<uint64>(sample.src) - address) % sizeof(Chunk) != 0)
        return false;
    const uint64 bytes = sample.count * sizeof(OUT), unaligned = (sizeof(Chunk) - address % sizeof(Chunk)) % sizeof(Chunk);
    const uint64 head = unaligned < bytes ? unaligned : bytes, chunks = (bytes - head) / sizeof(Chunk);
    const uint64 first = static_cast<uint64>(blockIdx.x) * blockDim.x + threadIdx.x;
    const uint64 step = static_cast<uint64>(gridDim.x) * blockDim.x;
    for (uint64 i = first; i < chunks; i += step)
        reinterpret_cast<Chunk*>(target + head)[i] = reinterpret_cast<const Chunk*>(sample.src + head)[i];
    // Fewer than 32 bytes at both ends.
    for (uint64 i = first; i < head; i += step) target[i] = sample.src[i];
    for (uint64 i = head + chunks * sizeof(Chunk) + first; i < bytes; i += step) target[i] = sample.src[i];
    return true;
}
#endif

extern "C" __global__ void strided_copy(const Sample* __restrict__ samples,
                                        const Channel* __restrict__ channels, int channel_dim) {
    const Sample& sample = samples[blockIdx.y];
#if NDIM == 1 && !NORMALIZE
    if (Same<IN, OUT>::value && copy_chunks(sample)) return;
#endif
    const INDEX count = static_cast<INDEX>(sample.count);
    const INDEX step = static_cast<INDEX>(gridDim.x) * blockDim.x;
    for (INDEX element = static_cast<INDEX>(blockIdx.x) * blockDim.x + threadIdx.x; element < count; element += step) {
        INDEX rest = element;
        int64 offset = 0;
        uint32 channel = sample.channels;
        bool inside = true;
#pragma unroll
        for (int d = NDIM - 1; d >= 0; --d) {
            const Dimension& dim = sample.dims[d];
            const INDEX quotient = d ? rest / dim.extent : 0;  // the outermost index is the remainder
            const uint32 i = static_cast<uint32>(rest - quotient * dim.extent);
            rest = quotient;
            offset += i * dim.stride;
            inside = inside && i >= dim.begin && i < dim.end;
            if (d == channel_dim) channel += i;
        }
        sample.dst[element] = inside ? transform(sample.src + offset, channels[channel])
                                     : convert<OUT>(channels[channel].fill);
    }
}

#if NDIM == 3
// The same copy for outputs whose first dimension is the channel, mainly from HWC to CHW. Each thread computes four
// pixels of a row in every channel, and stores them at once if the rows are aligned.
struct __align__(4 * sizeof(OUT)) Quad {
    OUT values[4];
};

extern "C" __global__ void strided_copy_planar(const Sample* __restrict__ samples,
                                               const Channel* __restrict__ channels) {
    const Sample& sample = samples[blockIdx.y];
    const uint32 depth = sample.dims[0].extent, height = sample.dims[1].extent, width = sample.dims[2].extent;
    const uint32 quads = (width + 3) / 4;
    const bool whole = width % 4 == 0 && reinterpret_cast<uint64>(sample.dst) % sizeof(Quad) == 0;
    for (uint32 item = blockIdx.x * blockDim.x + threadIdx.x; item < height * quads; item += gridDim.x * blockDim.x) {
        const uint32 y = item / quads, x = (item - y * quads) * 4;
        const bool row_inside = y >= sample.dims[1].begin && y < sample.dims[1].end;
        const char* row = sample.src + y * sample.dims[1].stride;
        for (uint32 c = 0; c < depth; ++c) {
            const bool inside = row_inside && c >= sample.dims[0].begin && c < sample.dims[0].end;
            const Channel& channel = channels[sample.channels + c];
            const char* pixels = row + c * sample.dims[0].stride;
            Quad quad;
#pragma unroll
            for (uint32 k = 0; k < 4; ++k) {
                const uint32 i = x + k;
                quad.values[k] = inside && i >= sample.dims[2].begin && i < sample.dims[2].end
                                     ? transform(pixels + i * sample.dims[2].stride, channel)
                                     : convert<OUT>(channel.fill);
            }
            OUT* target = sample.dst + (static_cast<uint64>(c) * height + y) * width + x;
            if (whole) {
                *reinterpret_cast<Quad*>(target) = quad;
            } else {
                for (uint32 k = 0; k < 4 && x + k < width; ++k) target[k] = quad.values[k];
            }
        }
    }
}
#endif
