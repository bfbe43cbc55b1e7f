// General ragged copy: out[i0, i1, ...] = convert(src[i0 * stride0 + i1 * stride1 + ...]). One sample per blockIdx.y.
//
// Strides express most operations: a flip has a negative stride, a transpose permutes the strides, a crop moves the
// source pointer. The kernel reads a dimension where begin <= i < end and writes the fill value elsewhere, so a source
// pointer may lie outside its buffer: it isn't dereferenced there.
//
// Macros from the launcher: IN, OUT (types), NDIM, INDEX (an unsigned type that counts a sample's elements).

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
    uint32 fills;   // index of this sample's first fill value
    uint32 unused;
    Dimension dims[NDIM];
};

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
                                        const double* __restrict__ fills, int channel_dim) {
    const Sample& sample = samples[blockIdx.y];
#if NDIM == 1
    if (Same<IN, OUT>::value && copy_chunks(sample)) return;
#endif
    const INDEX count = static_cast<INDEX>(sample.count);
    const INDEX step = static_cast<INDEX>(gridDim.x) * blockDim.x;
    for (INDEX element = static_cast<INDEX>(blockIdx.x) * blockDim.x + threadIdx.x; element < count; element += step) {
        INDEX rest = element;
        int64 offset = 0;
        uint32 fill = sample.fills;
        bool inside = true;
#pragma unroll
        for (int d = NDIM - 1; d >= 0; --d) {
            const Dimension& dim = sample.dims[d];
            const INDEX quotient = d ? rest / dim.extent : 0;  // the outermost index is the remainder
            const uint32 i = static_cast<uint32>(rest - quotient * dim.extent);
            rest = quotient;
            offset += i * dim.stride;
            inside = inside && i >= dim.begin && i < dim.end;
            if (d == channel_dim) fill += i;
        }
        sample.dst[element] = inside ? convert<OUT>(load<IN>(sample.src + offset)) : convert<OUT>(fills[fill]);
    }
}
