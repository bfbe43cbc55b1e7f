// Evaluates an expression for all pixels of a ragged batch. One sample per blockIdx.y; a block computes a tile of 32
// columns and 8 * PIXELS rows. A thread computes PIXELS pixels of a column.
//
// Macros from the launcher: EXPRESSION (a type of expressions.cuh), ROW_BYTES (size of a row of the table), PIXELS,
// SHARED_BYTES (shared memory for all pixels that the expression keeps there).

#include "expressions.cuh"

struct Image {
    char* target;
    int64 strides[4];  // of the target, in bytes: frame, row, column, channel
    uint32 depth, height, width;
    EXPRESSION value;
};

static_assert(sizeof(Image) == ROW_BYTES, "the rows of the table have a different size");

constexpr int WIDTH = 32, LINES = 8, THREADS = WIDTH * LINES;  // of a block

// Stores a pixel in an image.
template <class Expression> struct Target {
    template <class Pixel>
    __device__ __forceinline__ static void store(const Image& image, int z, int y, int x, const Pixel& pixel) {
        char* target = image.target + z * image.strides[0] + y * image.strides[1] + x * image.strides[2];
#pragma unroll
        for (int c = 0; c < Expression::channels; ++c)
            *reinterpret_cast<typename Expression::Type*>(target + c * image.strides[3]) = pixel.values[c];
    }
};

// Stores a pixel in a patch: a row of the target, whose elements are its columns. The last frame fills its patch.
template <int SIZE, int MERGE, int FRAMES, bool CHANNELS_LAST, class In>
struct Target<Patches<SIZE, MERGE, FRAMES, CHANNELS_LAST, In>> {
    template <class Pixel>
    __device__ __forceinline__ static void store(const Image& image, int z, int y, int x, const Pixel& pixel) {
        using Expression = Patches<SIZE, MERGE, FRAMES, CHANNELS_LAST, In>;
        char* target = image.target + Expression::patch(image.height, image.width, z, y, x) * image.strides[1];
        const int last = z + 1 == image.depth ? FRAMES - 1 : z % FRAMES;
        for (int frame = z % FRAMES; frame <= last; ++frame)
#pragma unroll
            for (int c = 0; c < Expression::channels; ++c)
                *reinterpret_cast<typename Expression::Type*>(
                    target + Expression::feature(frame, y, x, c) * image.strides[2]) = pixel.values[c];
    }
};

template <class Pixel> __device__ __forceinline__ void store(const Image& image, int z, int y, int x, const Pixel& pixel) {
    Target<EXPRESSION>::store(image, z, y, x, pixel);
}

// Pixels that are computed from memory: the loads of a thread's pixels overlap.
__device__ __forceinline__ void evaluate_tile(const Image& image, int z, const Rectangle& tile) {
    const int x = tile.left + threadIdx.x % WIDTH, top = tile.top + threadIdx.x / WIDTH;
    if (x >= tile.right || top >= tile.bottom) return;
    Pixel<EXPRESSION::Type, EXPRESSION::channels> pixels[PIXELS];
    // Pixels below the tile are copies of its last row: without branches, the pixels share what depends on x alone, and
    // all are read before the first is used.
#pragma unroll
    for (int k = 0; k < PIXELS; ++k) pixels[k] = image.value.at(NoSlots(), z, min(top + LINES * k, tile.bottom - 1), x);
#pragma unroll
    for (int k = 0; k < PIXELS; ++k)
        if (top + LINES * k < tile.bottom) store(image, z, top + LINES * k, x, pixels[k]);
}

template <class Shared>
__device__ __forceinline__ void evaluate_rows(const Image& image, Shared slots, int z, const Rectangle& tile) {
    const int x = tile.left + threadIdx.x % WIDTH;
    if (x >= tile.right) return;
    for (int y = tile.top + threadIdx.x / WIDTH; y < tile.bottom; y += LINES)
        store(image, z, y, x, image.value.at(slots, z, y, x));
}

// Pixels that are computed from others in shared memory, for as many rows at once as fit.
__device__ __forceinline__ void evaluate_shared(const Image& image, Slots slots, int z, const Rectangle& tile) {
    Rectangle part = tile;
    while (part.top < tile.bottom) {
        Prepared outcome;
        for (;;) {
            __syncthreads();  // no thread uses the last part any more
            outcome = prepared(image.value, slots, z, part);
            if (outcome != TOO_LARGE || part.height() <= LINES) break;
            part.bottom = part.top + max(part.height() / 2, LINES);
        }
        __syncthreads();
        if (outcome == FILLED) evaluate_rows(image, slots, z, part);
        else evaluate_rows(image, NoSlots(), z, part);
        part = {part.bottom, tile.left, min(part.bottom + part.height(), tile.bottom), tile.right};
    }
}

constexpr int caches = EXPRESSION::caches;
constexpr int RESIDENT = caches > 0 ? 4 : 0;  // blocks for whose registers a multiprocessor has room; 0: any number

extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT) evaluate(const Image* __restrict__ images) {
    const Image& image = images[blockIdx.y];
    const uint32 rows = LINES * PIXELS, tiles_x = (image.width + WIDTH - 1) / WIDTH;
    const uint32 tiles = tiles_x * ((image.height + rows - 1) / rows);
    if (blockIdx.x >= static_cast<uint64>(tiles) * image.depth) return;
    const uint32 z = blockIdx.x / tiles, place = blockIdx.x - z * tiles;
    Rectangle tile;
    tile.top = place / tiles_x * rows, tile.bottom = min(tile.top + rows, image.height);
    tile.left = place % tiles_x * WIDTH, tile.right = min(tile.left + WIDTH, image.width);
    if constexpr (caches > 0) {
        __shared__ __align__(16) char memory[SHARED_BYTES];
        evaluate_shared(image, {memory, SHARED_BYTES / caches / 16 * 16}, z, tile);
    } else {
        evaluate_tile(image, z, tile);
    }
}
