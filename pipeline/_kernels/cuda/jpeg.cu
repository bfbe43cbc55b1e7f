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

// Y, Cb or Cr of a pixel, rounded to a byte.
__device__ __forceinline__ int32 component(const Image& image, uint32 y, uint32 x, int which) {
    const uint8* pixel = image.src + (static_cast<uint64>(y) * image.width + x) * 3;
    const int32 r = pixel[0], g = pixel[1], b = pixel[2];
    if (which == 0) return (19595 * r + 38470 * g + 7471 * b + 32768) >> 16;
    if (which == 1) return (-11059 * r - 21709 * g + 32768 * b + (128 << 16) + 32767) >> 16;
    return (32768 * r - 27439 * g - 5329 * b + (128 << 16) + 32767) >> 16;
}

// Transforms eight values to eight coefficients. `first`: the pass over rows, which keeps PASS1_BITS of the fraction.
__device__ __forceinline__ void forward(int32* d, int step, bool first) {
    const int shift = first ? CONST_BITS - PASS1_BITS : CONST_BITS + PASS1_BITS;
    int32 t0 = d[0] + d[7 * step], t7 = d[0] - d[7 * step], t1 = d[step] + d[6 * step], t6 = d[step] - d[6 * step];
    int32 t2 = d[2 * step] + d[5 * step], t5 = d[2 * step] - d[5 * step];
    int32 t3 = d[3 * step] + d[4 * step], t4 = d[3 * step] - d[4 * step];
    const int32 t10 = t0 + t3, t13 = t0 - t3, t11 = t1 + t2, t12 = t1 - t2;
    d[0] = first ? (t10 + t11) * (1 << PASS1_BITS) : descale(t10 + t11, PASS1_BITS);
    d[4 * step] = first ? (t10 - t11) * (1 << PASS1_BITS) : descale(t10 - t11, PASS1_BITS);
    const int32 even = (t12 + t13) * 4433;
    d[2 * step] = descale(even + t13 * 6270, shift);
    d[6 * step] = descale(even - t12 * 15137, shift);
    int32 z1 = t4 + t7, z2 = t5 + t6, z3 = t4 + t6, z4 = t5 + t7;
    const int32 z5 = (z3 + z4) * 9633;
    t4 *= 2446, t5 *= 16819, t6 *= 25172, t7 *= 12299;
    z1 *= -7373, z2 *= -20995, z3 = z3 * -16069 + z5, z4 = z4 * -3196 + z5;
    d[7 * step] = descale(t4 + z1 + z3, shift);
    d[5 * step] = descale(t5 + z2 + z4, shift);
    d[3 * step] = descale(t6 + z2 + z3, shift);
    d[step] = descale(t7 + z1 + z4, shift);
}

__device__ __forceinline__ void inverse(int32* d, int step, int shift) {
    const int32 even = (d[2 * step] + d[6 * step]) * 4433;
    const int32 e2 = even - d[6 * step] * 15137, e3 = even + d[2 * step] * 6270;
    const int32 e0 = (d[0] + d[4 * step]) * (1 << CONST_BITS), e1 = (d[0] - d[4 * step]) * (1 << CONST_BITS);
    const int32 t10 = e0 + e3, t13 = e0 - e3, t11 = e1 + e2, t12 = e1 - e2;
    int32 t0 = d[7 * step], t1 = d[5 * step], t2 = d[3 * step], t3 = d[step];
    int32 z1 = t0 + t3, z2 = t1 + t2, z3 = t0 + t2, z4 = t1 + t3;
    const int32 z5 = (z3 + z4) * 9633;
    z1 *= -7373, z2 *= -20995, z3 = z3 * -16069 + z5, z4 = z4 * -3196 + z5;
    t0 = t0 * 2446 + z1 + z3, t1 = t1 * 16819 + z2 + z4, t2 = t2 * 25172 + z2 + z3, t3 = t3 * 12299 + z1 + z4;
    d[0] = descale(t10 + t3, shift), d[7 * step] = descale(t10 - t3, shift);
    d[step] = descale(t11 + t2, shift), d[6 * step] = descale(t11 - t2, shift);
    d[2 * step] = descale(t12 + t1, shift), d[5 * step] = descale(t12 - t1, shift);
    d[3 * step] = descale(t13 + t0, shift), d[4 * step] = descale(t13 - t0, shift);
}

// Each thread encodes and decodes one block of 8 by 8 values, and writes the decoded values to the planes.
extern "C" __global__ void jpeg_blocks(const Image* __restrict__ images) {
    const Image& image = images[blockIdx.y];
    const uint32 columns = (image.width + 15) / 16, rows = (image.height + 15) / 16;  // tiles of 16 by 16 pixels
    const uint32 half_height = (image.height + 1) / 2;
    const uint32 blocks = columns * rows * 6;
    for (uint32 block = blockIdx.x * blockDim.x + threadIdx.x; block < blocks; block += gridDim.x * blockDim.x) {
        const bool luma = block < columns * rows * 4;
        const uint32 chroma = luma ? 0 : block - columns * rows * 4;
        const int which = luma ? 0 : 1 + static_cast<int>(chroma / (columns * rows));
        const uint32 number = luma ? block : chroma % (columns * rows);
        const uint32 pitch = (luma ? 2 : 1) * columns;  // in blocks
        const uint32 top = number / pitch * 8, left = number % pitch * 8;
        int32 values[64];
        for (uint32 i = 0; i < 8; ++i) {
            for (uint32 j = 0; j < 8; ++j) {
                int32 value;
                if (luma) {
                    value = component(image, least(top + i, image.height - 1), least(left + j, image.width - 1), 0);
                } else {
                    // Padding repeats the last chroma row at half resolution, but the last column at full resolution.
                    const uint32 y = 2 * least(top + i, half_height - 1), x = 2 * (left + j);
                    const uint32 y1 = least(y + 1, image.height - 1);
                    const uint32 x0 = least(x, image.width - 1), x1 = least(x + 1, image.width - 1);
                    value = component(image, y, x0, which) + component(image, y, x1, which) +
                            component(image, y1, x0, which) + component(image, y1, x1, which);
                    value = (value + 1 + static_cast<int32>(j % 2)) >> 2;
                }
                values[i * 8 + j] = value - 128;
            }
        }
        for (int i = 0; i < 8; ++i) forward(values + i * 8, 1, true);
        for (int j = 0; j < 8; ++j) forward(values + j, 8, false);
        for (int k = 0; k < 64; ++k) {
            const int32 quant = image.quant[!luma][k];
            const int32 size = values[k] < 0 ? -values[k] : values[k];
            const int32 level = (size + 4 * quant) / (8 * quant);
            values[k] = (values[k] < 0 ? -level : level) * quant;
        }
        for (int j = 0; j < 8; ++j) inverse(values + j, 8, CONST_BITS - PASS1_BITS);
        for (int i = 0; i < 8; ++i) inverse(values + i * 8, 1, CONST_BITS + PASS1_BITS + 3);
        uint8* plane = image.planes + (luma ? 0 : static_cast<uint64>(columns) * rows * 64 * (3 + which));
        for (uint32 i = 0; i < 8; ++i)
            for (uint32 j = 0; j < 8; ++j)
                plane[static_cast<uint64>(top + i) * pitch * 8 + left + j] =
                    static_cast<uint8>(limited(values[i * 8 + j] + 128));
    }
}

// Chroma at a pixel: a triangle filter over the neighbors, or the nearest value in images of up to four columns.
__device__ __forceinline__ int32 upsampled(const uint8* plane, uint32 pitch, uint32 height, uint32 width, uint32 y,
                                           uint32 x) {
    const uint32 row = y / 2, column = x / 2;
    if (width <= 2) return plane[row * pitch + column];
    const uint32 other = y % 2 ? least(row + 1, height - 1) : row - (row > 0);
    const uint8 *near = plane + row * pitch, *far = plane + other * pitch;
    const int32 here = near[column] * 3 + far[column];
    if (x % 2 == 0)
        return column == 0 ? (here * 4 + 8) >> 4 : (here * 3 + near[column - 1] * 3 + far[column - 1] + 8) >> 4;
    return column + 1 == width ? (here * 4 + 7) >> 4 : (here * 3 + near[column + 1] * 3 + far[column + 1] + 7) >> 4;
}

extern "C" __global__ void jpeg_pixels(const Image* __restrict__ images) {
    const Image& image = images[blockIdx.y];
    const uint32 columns = (image.width + 15) / 16, rows = (image.height + 15) / 16;
    const uint32 half_height = (image.height + 1) / 2, half_width = (image.width + 1) / 2;
    const uint32 count = image.height * image.width;
    const uint64 area = static_cast<uint64>(columns) * rows * 64;
    for (uint32 pixel = blockIdx.x * blockDim.x + threadIdx.x; pixel < count; pixel += gridDim.x * blockDim.x) {
        const uint32 y = pixel / image.width, x = pixel - y * image.width;
        const int32 luma = image.planes[static_cast<uint64>(y) * columns * 16 + x];
        const int32 cb = upsampled(image.planes + area * 4, columns * 8, half_height, half_width, y, x) - 128;
        const int32 cr = upsampled(image.planes + area * 5, columns * 8, half_height, half_width, y, x) - 128;
        uint8* out = image.dst + static_cast<uint64>(pixel) * 3;
        out[0] = static_cast<uint8>(limited(luma + ((91881 * cr + 32768) >> 16)));
        out[1] = static_cast<uint8>(limited(luma + ((-22554 * cb - 46802 * cr + 32768) >> 16)));
        out[2] = static_cast<uint8>(limited(luma + ((116130 * cb + 32768) >> 16)));
    }
}
