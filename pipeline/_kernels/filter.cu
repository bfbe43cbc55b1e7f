// Correlates images with windows of any size; channels last, one image per blockIdx.y.
//
// Macros from the launcher: IN, OUT (types), BORDER: 0 reflect_101, 1 reflect_1001, 2 wrap, 3 clamp, 4 constant.

#include "common.cuh"

struct Image {
    const char* src;
    OUT* dst;
    uint64 count;           // elements of dst
    int64 height, width;    // of src
    int64 columns;          // of dst
    int64 channels;
    int64 rows_of_window, columns_of_window;
    int64 row, column;      // position in the window that aligns with the output pixel
    uint64 window;          // index of its first weight in the table
    float fill;
};

// Maps any position to a position inside, or returns -1 for the fill value.
__device__ __forceinline__ int64 inside(int64 position, int64 extent) {
    if (position >= 0 && position < extent) return position;
    if constexpr (BORDER == 4) return -1;
    if constexpr (BORDER == 3) return position < 0 ? 0 : extent - 1;
    if (extent == 1) return 0;
    const int64 period = BORDER == 0 ? 2 * (extent - 1) : BORDER == 1 ? 2 * extent : extent;
    int64 rest = position % period;
    if (rest < 0) rest += period;
    if (rest < extent) return rest;
    return BORDER == 0 ? period - rest : period - 1 - rest;
}

extern "C" __global__ void filter_images(const Image* __restrict__ images, const float* __restrict__ windows) {
    const Image& image = images[blockIdx.y];
    const float* window = windows + image.window;
    const uint64 step = static_cast<uint64>(gridDim.x) * blockDim.x;
    for (uint64 element = static_cast<uint64>(blockIdx.x) * blockDim.x + threadIdx.x; element < image.count;
         element += step) {
        const int64 channel = static_cast<int64>(element % static_cast<uint64>(image.channels));
        const int64 pixel = static_cast<int64>(element / static_cast<uint64>(image.channels));
        const int64 top = pixel / image.columns - image.row, left = pixel % image.columns - image.column;
        float sum = 0.0f;
        for (int64 i = 0; i < image.rows_of_window; ++i) {
            const int64 y = inside(top + i, image.height);
            for (int64 j = 0; j < image.columns_of_window; ++j) {
                const int64 x = inside(left + j, image.width);
                float value = image.fill;
                if (x >= 0 && y >= 0) {
                    const int64 offset = (y * image.width + x) * image.channels + channel;
                    value = convert<float>(load<IN>(image.src + offset * static_cast<int64>(sizeof(IN))));
                }
                sum += window[i * image.columns_of_window + j] * value;
            }
        }
        image.dst[element] = convert<OUT>(sum);
    }
}
