// JPEG compression and decompression without a file: convert colors to YCbCr, halve the resolution of chroma,
// transform, quantise, and reverse these steps. One image per blockIdx.y. The integer arithmetic is that of libjpeg
// (jccolor, jcsample, jfdctint, jidctint, jdsample, jdcolor), so the pixels equal those of a file that is written and
// read.

#include "common.cuh"

struct Image {
    const uint8* src;  // contiguous HWC, three channels
    uint8* dst;        // contiguous HWC, three channels
    uint8* planes;     // Y at the padded size, then Cb and Cr at half of that size
    uint32 height, width;
    uint16 quant[2][64];  // tables of Y, and of Cb and Cr
};

constexpr int CONST_BITS = 13, PASS1_BITS = 2;

__device__ __forceinline__ int32 descale(int32 value, int bits) { return (value + (1 << (bits - 1))) >> bits; }
__device__ __forceinline__ int32 limited(int32 value) { return value < 0 ? 0 : value > 255 ? 255 : value; }
__device__ __forceinline__ uint32 least(uint32 a, uint32 b) { return a < b ? a : b; }

// Y, Cb and Cr of a pixel, each rounded to a byte.
struct Color {
    int32 y, cb, cr;
};

__device__ __forceinline__ Color color_of(const uint8* pixel) {
    const int32 r = pixel[0], g = pixel[1], b = pixel[2];
    return {(19595 * r + 38470 * g + 7471 * b + 32768) >> 16,
            (-11059 * r - 21709 * g + 32768 * b + (128 << 16) + 32767) >> 16,
            (32768 * r - 27439 * g - 5329 * b + (128 << 16) + 32767) >> 16};
}

// Transforms eight values to eight coefficients. `first`: the pass over rows, which keeps PASS1_BITS of the fraction.
__device__ __forceinline__ void forward(int32* d, bool first) {
    const int shift = first ? CONST_BITS - PASS1_BITS : CONST_BITS + PASS1_BITS;
    int32 t0 = d[0] + d[7], t7 = d[0] - d[7], t1 = d[1] + d[6], t6 = d[1] - d[6];
    int32 t2 = d[2] + d[5], t5 = d[2] - d[5];
    int32 t3 = d[3] + d[4], t4 = d[3] - d[4];
    const int32 t10 = t0 + t3, t13 = t0 - t3, t11 = t1 + t2, t12 = t1 - t2;
    d[0] = first ? (t10 + t11) * (1 << PASS1_BITS) : descale(t10 + t11, PASS1_BITS);
    d[4] = first ? (t10 - t11) * (1 << PASS1_BITS) : descale(t10 - t11, PASS1_BITS);
    const int32 even = (t12 + t13) * 4433;
    d[2] = descale(even + t13 * 6270, shift);
    d[6] = descale(even - t12 * 15137, shift);
    int32 z1 = t4 + t7, z2 = t5 + t6, z3 = t4 + t6, z4 = t5 + t7;
    const int32 z5 = (z3 + z4) * 9633;
    t4 *= 2446, t5 *= 16819, t6 *= 25172, t7 *= 12299;
    z1 *= -7373, z2 *= -20995, z3 = z3 * -16069 + z5, z4 = z4 * -3196 + z5;
    d[7] = descale(t4 + z1 + z3, shift);
    d[5] = descale(t5 + z2 + z4, shift);
    d[3] = descale(t6 + z2 + z3, shift);
    d[1] = descale(t7 + z1 + z4, shift);
}

__device__ __forceinline__ void inverse(int32* d, int shift) {
    const int32 even = (d[2] + d[6]) * 4433;
    const int32 e2 = even - d[6] * 15137, e3 = even + d[2] * 6270;
    const int32 e0 = (d[0] + d[4]) * (1 << CONST_BITS), e1 = (d[0] - d[4]) * (1 << CONST_BITS);
    const int32 t10 = e0 + e3, t13 = e0 - e3, t11 = e1 + e2, t12 = e1 - e2;
    int32 t0 = d[7], t1 = d[5], t2 = d[3], t3 = d[1];
    int32 z1 = t0 + t3, z2 = t1 + t2, z3 = t0 + t2, z4 = t1 + t3;
    const int32 z5 = (z3 + z4) * 9633;
    z1 *= -7373, z2 *= -20995, z3 = z3 * -16069 + z5, z4 = z4 * -3196 + z5;
    t0 = t0 * 2446 + z1 + z3, t1 = t1 * 16819 + z2 + z4, t2 = t2 * 25172 + z2 + z3, t3 = t3 * 12299 + z1 + z4;
    d[0] = descale(t10 + t3, shift), d[7] = descale(t10 - t3, shift);
    d[1] = descale(t11 + t2, shift), d[6] = descale(t11 - t2, shift);
    d[2] = descale(t12 + t1, shift), d[5] = descale(t12 - t1, shift);
    d[3] = descale(t13 + t0, shift), d[4] = descale(t13 - t0, shift);
}

constexpr uint32 WARPS = 8;
constexpr uint32 BLOCKS = 6;  // of a tile of 16 by 16 pixels: four of Y, one of Cb, one of Cr
constexpr uint32 TILES = 2;   // of a warp, so that each of its threads transforms three rows and three columns
// Rows of a block in shared memory are nine numbers apart: no two threads of a warp read or write the same bank.
constexpr uint32 PITCH = 9;

// Reads a tile, and stores its blocks. A thread converts four pixels at a time, which share their chroma.
__device__ __forceinline__ void read_tile(const Image& image, uint32 tile_y, uint32 tile_x, uint32 lane,
                                          int32 (*blocks)[8 * PITCH]) {
    for (uint32 k = lane; k < 64; k += 32) {
        const uint32 row = k / 8, column = k % 8;  // of the chroma
        // Padding repeats the last chroma row at half resolution, but the last column at full resolution.
        const uint32 y = tile_y * 16 + 2 * row, x = tile_x * 16 + 2 * column;
        const uint32 y0 = least(y, (image.height - 1) / 2 * 2), y1 = least(y0 + 1, image.height - 1);
        const uint32 x0 = least(x, image.width - 1), x1 = least(x + 1, image.width - 1);
        const uint8* upper = image.src + static_cast<uint64>(y0) * image.width * 3;
        const uint8* lower = image.src + static_cast<uint64>(y1) * image.width * 3;
        const Color colors[2][2] = {{color_of(upper + x0 * 3), color_of(upper + x1 * 3)},
                                    {color_of(lower + x0 * 3), color_of(lower + x1 * 3)}};
        int32* luma = blocks[row / 4 * 2 + column / 4] + row % 4 * 2 * PITCH + column % 4 * 2;
        int32 cb = 1 + static_cast<int32>(column % 2), cr = cb;
#pragma unroll
        for (uint32 j = 0; j < 2; ++j) {
            luma[j] = (y > y0 ? colors[1][j] : colors[0][j]).y - 128;  // the last row repeats
            luma[PITCH + j] = colors[1][j].y - 128;
            cb += colors[0][j].cb + colors[1][j].cb;
            cr += colors[0][j].cr + colors[1][j].cr;
        }
        blocks[4][row * PITCH + column] = (cb >> 2) - 128;
        blocks[5][row * PITCH + column] = (cr >> 2) - 128;
    }
}

// Each warp encodes and decodes two tiles at a time, and writes the decoded values to the planes. A thread transforms a
// row or a column of a block.
extern "C" __global__ void jpeg_blocks(const Image* __restrict__ images) {
    __shared__ int32 values[WARPS][TILES * BLOCKS][8 * PITCH];
    __shared__ uint32 reciprocals[2][64];  // 2 ** 32 / (8 * quant), rounded up: exact for sizes of less than 2 ** 18
    const Image& image = images[blockIdx.y];
    for (uint32 k = threadIdx.x; k < 128; k += blockDim.x) {
        const uint32 quant = image.quant[k / 64][k % 64];
        reciprocals[k / 64][k % 64] = ((1u << 29) + quant - 1) / quant;
    }
    __syncthreads();
    const uint32 columns = (image.width + 15) / 16, tiles = columns * ((image.height + 15) / 16);
    const uint32 warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    int32(*blocks)[8 * PITCH] = values[warp];
    for (uint32 first = (blockIdx.x * WARPS + warp) * TILES; first < tiles; first += gridDim.x * WARPS * TILES) {
        const uint32 count = least(TILES, tiles - first), lines = count * BLOCKS * 8;
        for (uint32 tile = 0; tile < count; ++tile)
            read_tile(image, (first + tile) / columns, (first + tile) % columns, lane, blocks + tile * BLOCKS);
        __syncwarp();
        int32 line[8];
        for (uint32 k = lane; k < lines; k += 32) {
            int32* row = blocks[k / 8] + k % 8 * PITCH;
            for (uint32 j = 0; j < 8; ++j) line[j] = row[j];
            forward(line, true);
            for (uint32 j = 0; j < 8; ++j) row[j] = line[j];
        }
        __syncwarp();
        for (uint32 k = lane; k < lines; k += 32) {
            int32* column = blocks[k / 8] + k % 8;
            const uint32 table = k / 8 % BLOCKS >= 4;
            for (uint32 i = 0; i < 8; ++i) line[i] = column[i * PITCH];
            forward(line, false);
            for (uint32 i = 0; i < 8; ++i) {
                const uint32 quant = image.quant[table][i * 8 + k % 8];
                const uint32 size = static_cast<uint32>(line[i] < 0 ? -line[i] : line[i]) + 4 * quant;
                const uint32 rounded = static_cast<uint32>(
                    static_cast<uint64>(size) * reciprocals[table][i * 8 + k % 8] >> 32) * quant;
                line[i] = line[i] < 0 ? -static_cast<int32>(rounded) : static_cast<int32>(rounded);
            }
            inverse(line, CONST_BITS - PASS1_BITS);
            for (uint32 i = 0; i < 8; ++i) column[i * PITCH] = line[i];
        }
        __syncwarp();
        for (uint32 k = lane; k < lines; k += 32) {
            const uint32 tile = first + k / 8 / BLOCKS, block = k / 8 % BLOCKS;
            const int32* row = blocks[k / 8] + k % 8 * PITCH;
            for (uint32 j = 0; j < 8; ++j) line[j] = row[j];
            inverse(line, CONST_BITS + PASS1_BITS + 3);
            uint64 bytes = 0;
            for (uint32 j = 0; j < 8; ++j) bytes |= static_cast<uint64>(limited(line[j] + 128)) << (8 * j);
            const bool luma = block < 4;
            const uint32 pitch = (luma ? 16 : 8) * columns;
            const uint32 top = tile / columns * (luma ? 16 : 8) + (luma ? block / 2 * 8 : 0) + k % 8;
            const uint32 left = tile % columns * (luma ? 16 : 8) + (luma ? block % 2 * 8 : 0);
            uint8* plane = image.planes + (luma ? 0 : static_cast<uint64>(tiles) * 64 * block);
            *reinterpret_cast<uint64*>(plane + static_cast<uint64>(top) * pitch + left) = bytes;
        }
        __syncwarp();
    }
}

// Chroma of four neighboring pixels: a triangle filter over the neighbors, or the nearest value in images of up to four
// columns. `column`: that of the chroma of the first pixel.
__device__ __forceinline__ void upsample(const uint8* plane, uint32 pitch, uint32 height, uint32 width, uint32 y,
                                         uint32 column, int32* chroma) {
    const bool nearest = width <= 2;
    const uint32 row = y / 2, other = nearest ? row : y % 2 ? least(row + 1, height - 1) : row - (row > 0);
    const uint8 *near = plane + static_cast<uint64>(row) * pitch, *far = plane + static_cast<uint64>(other) * pitch;
    int32 sums[4];  // of the columns from one before to one behind those of the pixels
#pragma unroll
    for (uint32 k = 0; k < 4; ++k) {
        const uint32 x = least(column + k - (column + k > 0), width - 1);
        sums[k] = near[x] * 3 + far[x];
    }
#pragma unroll
    for (int k = 0; k < 4; ++k) {
        const int32 own = sums[1 + k / 2], neighbor = nearest ? own : sums[k / 2 + k % 2 * 2];
        chroma[k] = ((own * 3 + neighbor + 8 - k % 2) >> 4) - 128;
    }
}

// Each thread computes four pixels of a row.
extern "C" __global__ void jpeg_pixels(const Image* __restrict__ images) {
    const Image& image = images[blockIdx.y];
    const uint32 columns = (image.width + 15) / 16, rows = (image.height + 15) / 16;
    const uint32 half_height = (image.height + 1) / 2, half_width = (image.width + 1) / 2;
    const uint32 groups = (image.width + 3) / 4, count = image.height * groups;
    const uint64 area = static_cast<uint64>(columns) * rows * 64;
    for (uint32 group = blockIdx.x * blockDim.x + threadIdx.x; group < count; group += gridDim.x * blockDim.x) {
        const uint32 y = group / groups, x = (group - y * groups) * 4;
        const uint32 luma = *reinterpret_cast<const uint32*>(image.planes + static_cast<uint64>(y) * columns * 16 + x);
        int32 cb[4], cr[4];
        upsample(image.planes + area * 4, columns * 8, half_height, half_width, y, x / 2, cb);
        upsample(image.planes + area * 5, columns * 8, half_height, half_width, y, x / 2, cr);
        uint8 bytes[12];
#pragma unroll
        for (int k = 0; k < 4; ++k) {
            const int32 value = luma >> (8 * k) & 255;
            bytes[3 * k] = static_cast<uint8>(limited(value + ((91881 * cr[k] + 32768) >> 16)));
            bytes[3 * k + 1] = static_cast<uint8>(limited(value + ((-22554 * cb[k] - 46802 * cr[k] + 32768) >> 16)));
            bytes[3 * k + 2] = static_cast<uint8>(limited(value + ((116130 * cb[k] + 32768) >> 16)));
        }
        uint8* out = image.dst + (static_cast<uint64>(y) * image.width + x) * 3;
        if (x + 4 <= image.width && reinterpret_cast<uint64>(out) % 4 == 0) {
#pragma unroll
            for (int k = 0; k < 12; k += 4)
                *reinterpret_cast<uint32*>(out + k) =
                    bytes[k] | bytes[k + 1] << 8 | bytes[k + 2] << 16 | static_cast<uint32>(bytes[k + 3]) << 24;
        } else {
#pragma unroll
            for (uint32 k = 0; k < 12; ++k)
                if (x + k / 3 < image.width) out[k] = bytes[k];
        }
    }
}
