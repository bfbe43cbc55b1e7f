// Correlates images with windows of any size; channels last, one image per blockIdx.y.
//
// Macros from the launcher: IN, OUT (types), BORDER (see borders.cuh).

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

extern "C" __global__ void filter_images(const Image* __restrict__ images) {
    const Image& image = images[blockIdx.y];
    const float* __restrict__ window = image.window;
    const uint64 step = static_cast<uint64>(gridDim.x) * blockDim.x;
    for (uint64 element = static_cast<uint64>(blockIdx.x) * blockDim.x + threadIdx.x; element < image.count;
         element += step) {
        const int64 channel = static_cast<int64>(element % static_cast<uint64>(image.channels));
        const int64 pixel = static_cast<int64>(element / static_cast<uint64>(image.channels));
        const int64 top = pixel / image.columns - image.row, left = pixel % image.columns - image.column;
        float sum = 0.0f;
        for (int64 i = 0; i < image.rows_of_window; ++i) {
            const int64 y = inside<BORDER>(top + i, image.height);
            for (int64 j = 0; j < image.columns_of_window; ++j) {
                const int64 x = inside<BORDER>(left + j, image.width);
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
