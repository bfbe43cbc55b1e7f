// Computes the tables of the tiles of images for contrast-limited adaptive histogram equalization, as OpenCV does. One
// image per blockIdx.y; each block computes the table of one channel of one tile.
//
// Macros from the launcher: EXPRESSION (a type of expressions.cuh), ROW_BYTES (size of a row of the table), EQUALIZED
// (number of channels with tables).

#include "expressions.cuh"

struct Image {
    uint8* tables;  // [tile row][tile column][channel][value]
    int extent[2], tiles[2], size[2];  // height, width: of the image in pixels, in tiles, and of a tile in pixels
    int limit;                         // largest count of a value; 0: unlimited
    EXPRESSION value;
};

static_assert(sizeof(Image) == ROW_BYTES, "the rows of the table have a different size");

constexpr int COPIES = 8;  // a warp counts in its own copy: for a frequent value, all threads would wait for one word

extern "C" __global__ void tile_tables(const Image* __restrict__ images) {
    const Image& image = images[blockIdx.y];
    __shared__ uint32 counts[COPIES][256];
    __shared__ uint32 sums[2][256];
    __shared__ uint32 excess;
    const int value = threadIdx.x;  // a block has 256 threads
    const int area = image.size[0] * image.size[1];
    for (int number = blockIdx.x; number < image.tiles[0] * image.tiles[1] * EQUALIZED; number += gridDim.x) {
        const int channel = number % EQUALIZED, tile = number / EQUALIZED;
        const int top = tile / image.tiles[1] * image.size[0], left = tile % image.tiles[1] * image.size[1];
        for (int copy = 0; copy < COPIES; ++copy) counts[copy][value] = 0;
        if (value == 0) excess = 0;
        __syncthreads();
        for (int place = threadIdx.x; place < area; place += blockDim.x) {
            const int row = inside<REFLECT_101>(top + place / image.size[1], image.extent[0]);
            const int column = inside<REFLECT_101>(left + place % image.size[1], image.extent[1]);
            atomicAdd(&counts[threadIdx.x / 32][image.value.at(NoSlots(), 0, row, column).values[channel]], 1u);
        }
        __syncthreads();
        uint32 count = 0;
        for (int copy = 0; copy < COPIES; ++copy) count += counts[copy][value];
        const uint32 limit = static_cast<uint32>(image.limit);
        if (limit && count > limit) {
            atomicAdd(&excess, count - limit);
            count = limit;
        }
        __syncthreads();
        if (limit) {  // distribute the excess
            const uint32 rest = excess % 256, apart = rest ? (256 / rest > 1 ? 256 / rest : 1) : 1;
            count += excess / 256 + (value % apart == 0 && value / apart < rest);
        }
        sums[0][value] = count;
        __syncthreads();
        int from = 0;
        for (int distance = 1; distance < 256; distance *= 2, from ^= 1) {
            sums[from ^ 1][value] = sums[from][value] + (value >= distance ? sums[from][value - distance] : 0);
            __syncthreads();
        }
        const float scaled = rintf(static_cast<float>(sums[from][value]) * (255.0f / area));
        image.tables[number * 256 + value] = static_cast<uint8>(fminf(scaled, 255.0f));
        __syncthreads();
    }
}
