// Evaluates an expression for all pixels of a ragged batch. One sample per blockIdx.y; a block computes tiles of 32
// columns and 8 * PIXELS rows. A thread computes PIXELS pixels of a column, so that their loads overlap.
//
// Macros from the launcher: EXPRESSION (a type of expressions.cuh), ROW_BYTES (size of a row of the table), PIXELS.

#include "expressions.cuh"

struct Image {
    char* target;
    int64 strides[4];  // of the target, in bytes: frame, row, column, channel
    uint32 depth, height, width;
    EXPRESSION value;
};

static_assert(sizeof(Image) == ROW_BYTES, "the rows of the table have a different size");

extern "C" __global__ void evaluate(const Image* __restrict__ images) {
    using Type = EXPRESSION::Type;
    constexpr int channels = EXPRESSION::channels;
    const Image& image = images[blockIdx.y];
    const uint32 tiles_x = (image.width + 31) / 32, tiles = tiles_x * ((image.height + 8 * PIXELS - 1) / (8 * PIXELS));
    for (uint64 tile = blockIdx.x; tile < static_cast<uint64>(tiles) * image.depth; tile += gridDim.x) {
        // An image needs no division of 64 bits, which takes longer than many expressions.
        const uint32 z = image.depth == 1 ? 0 : static_cast<uint32>(tile / tiles);
        const uint32 place = static_cast<uint32>(tile - static_cast<uint64>(z) * tiles);
        const uint32 top = place / tiles_x * 8 * PIXELS + threadIdx.x / 32, x = place % tiles_x * 32 + threadIdx.x % 32;
        if (x >= image.width || top >= image.height) continue;
        Pixel<Type, channels> pixels[PIXELS];
        // Pixels below the image are copies of the last row: without branches, the pixels share what depends on x alone,
        // and all are read before the first is used.
#pragma unroll
        for (uint32 k = 0; k < PIXELS; ++k) {
            const uint32 y = top + 8 * k;
            pixels[k] = image.value.at(z, y < image.height ? y : image.height - 1, x);
        }
#pragma unroll
        for (uint32 k = 0; k < PIXELS; ++k) {
            const uint32 y = top + 8 * k;
            if (y >= image.height) break;
            char* target = image.target + z * image.strides[0] + y * image.strides[1] + x * image.strides[2];
#pragma unroll
            for (int c = 0; c < channels; ++c)
                *reinterpret_cast<Type*>(target + c * image.strides[3]) = pixels[k].values[c];
        }
    }
}
