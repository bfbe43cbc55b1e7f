// Correlates images with windows of any size; channels last, one image per blockIdx.y.
//
// Macros from the launcher: IN, OUT (types), BORDER (see borders.cuh), INDEX (signed type of positions: divisions of int64
// take most of the time).

#include "common.cuh"
#include "borders.cuh"

struct Image {
    const char* src;
    OUT* dst;
    uint64 count;           // elements of dst
    int64 height, width;    // of src
    int64 columns;          // of dst
    int64 channels;
    int64 rows_of_window, columns_of_window;
    int64 row, column;      // position in the window that aligns with the output pixel
    const float* window;    // its weights, row by row
    float fill;
};

constexpr int GROUP = 4;  // neighboring elements of a thread; filter.py has the same number

// One element of the output, at any distance from the borders.
__device__ __forceinline__ float sum_of(const Image& image, const float* __restrict__ window, INDEX element) {
    const INDEX channels = static_cast<INDEX>(image.channels), columns = static_cast<INDEX>(image.columns);
    const INDEX height = static_cast<INDEX>(image.height), width = static_cast<INDEX>(image.width);
    const INDEX window_rows = static_cast<INDEX>(image.rows_of_window);
    const INDEX window_columns = static_cast<INDEX>(image.columns_of_window);
    const INDEX pixel = element / channels, channel = element - pixel * channels;
    const INDEX line = pixel / columns;
    const INDEX top = line - static_cast<INDEX>(image.row);
    const INDEX left = pixel - line * columns - static_cast<INDEX>(image.column);
    float sum = 0.0f;
    for (INDEX i = 0; i < window_rows; ++i) {
        const INDEX y = inside<BORDER>(top + i, height);
        for (INDEX j = 0; j < window_columns; ++j) {
            const INDEX x = inside<BORDER>(left + j, width);
            float value = image.fill;
            if (x >= 0 && y >= 0) {
                const int64 offset = (y * width + x) * channels + channel;
                value = convert<float>(load<IN>(image.src + offset * static_cast<int64>(sizeof(IN))));
            }
            sum += window[i * window_columns + j] * value;
        }
    }
    return sum;
}

extern "C" __global__ void filter_images(const Image* __restrict__ images) {
    const Image& image = images[blockIdx.y];
    const float* __restrict__ window = image.window;
    const INDEX count = static_cast<INDEX>(image.count), step = static_cast<INDEX>(gridDim.x * blockDim.x) * GROUP;
    const INDEX channels = static_cast<INDEX>(image.channels), columns = static_cast<INDEX>(image.columns);
    const INDEX height = static_cast<INDEX>(image.height), width = static_cast<INDEX>(image.width);
    const INDEX window_rows = static_cast<INDEX>(image.rows_of_window);
    const INDEX window_columns = static_cast<INDEX>(image.columns_of_window);
    for (INDEX first = static_cast<INDEX>(blockIdx.x * blockDim.x + threadIdx.x) * GROUP; first < count; first += step) {
        const INDEX line = first / (columns * channels), place = first - line * columns * channels;
        const INDEX top = line - static_cast<INDEX>(image.row);
        // Of the first window, and of the end of the last one, in elements of a row.
        const INDEX left = place - static_cast<INDEX>(image.column) * channels;
        const INDEX right = left + GROUP - 1 + (window_columns - 1) * channels;
        if (left < 0 || right >= width * channels || top < 0 || top + window_rows > height ||
            place + GROUP > columns * channels) {
            for (INDEX element = first; element < first + GROUP && element < count; ++element)
                image.dst[element] = convert<OUT>(sum_of(image, window, element));
            continue;
        }
        float sums[GROUP] = {};
        const int64 row_bytes = static_cast<int64>(width * channels) * static_cast<int64>(sizeof(IN));
        const char* row = image.src + top * row_bytes + left * static_cast<int64>(sizeof(IN));
        const float* weights = window;
        for (INDEX i = 0; i < window_rows; ++i, row += row_bytes) {
            const char* source = row;
            for (INDEX j = 0; j < window_columns; ++j, source += channels * static_cast<int64>(sizeof(IN))) {
                const float weight = *weights++;
#pragma unroll
                for (int e = 0; e < GROUP; ++e)
                    sums[e] += weight * convert<float>(load<IN>(source + e * static_cast<int>(sizeof(IN))));
            }
        }
#pragma unroll
        for (int e = 0; e < GROUP; ++e) image.dst[first + e] = convert<OUT>(sums[e]);
    }
}
