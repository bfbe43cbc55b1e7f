// Decompresses blocks of LZ4; each warp decompresses one block.

#include "common.cuh"

struct Block {
    const uint8* src;
    uint8* dst;
    int64 size, room;  // bytes of src and dst
    int* failed;       // 1 if the block is damaged or contains more than `room` bytes
};

// Reads the rest of a length that doesn't fit into 4 bits. Returns false at the end of the block.
__device__ __forceinline__ bool extend(const Block& block, int64& position, int64& length) {
    for (int more = 255; more == 255;) {
        if (position >= block.size) return false;
        more = block.src[position++];
        length += more;
    }
    return true;
}

// All lanes read the same lengths and copy different bytes. Returns the number of bytes, or -1 for a damaged block.
__device__ int64 decompress(const Block& block, int lane) {
    int64 position = 0, done = 0;
    while (position < block.size) {
        const int token = block.src[position++];
        int64 literals = token >> 4;
        if (literals == 15 && !extend(block, position, literals)) return -1;
        if (literals > block.size - position || literals > block.room - done) return -1;
        for (int64 k = lane; k < literals; k += 32) block.dst[done + k] = block.src[position + k];
        position += literals;
        done += literals;
        __syncwarp();
        if (position == block.size) return done;  // the last sequence has only literals
        if (position + 2 > block.size) return -1;
        const int64 distance = block.src[position] | block.src[position + 1] << 8;
        position += 2;
        int64 length = token & 15;
        if (length == 15 && !extend(block, position, length)) return -1;
        length += 4;
        if (distance == 0 || distance > done || length > block.room - done) return -1;
        // A match may overlap its copy, which then repeats the last `distance` bytes.
        for (int64 k = lane; k < length; k += 32) block.dst[done + k] = block.dst[done - distance + k % distance];
        done += length;
        __syncwarp();
    }
    return -1;
}

extern "C" __global__ void inflate(const Block* __restrict__ blocks, int count) {
    const int number = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
    if (number >= count) return;
    const Block& block = blocks[number];
    int64 done = decompress(block, lane);
    if (lane == 0) *block.failed = done < 0;
    for (int64 k = (done < 0 ? 0 : done) + lane; k < block.room; k += 32) block.dst[k] = 0;
}
