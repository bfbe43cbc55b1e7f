// Linear map between the channels of each pixel: out = matrix * in + offset. One image per blockIdx.y.
//
// Macros from the launcher: IN, OUT (types), IN_CHANNELS, OUT_CHANNELS.

#include "common.cuh"

struct Image {
    const char* src;  // contiguous, channels last
    OUT* dst;         // contiguous, channels last
    uint64 pixels;
    float matrix[OUT_CHANNELS][IN_CHANNELS];
    float offset[OUT_CHANNELS];
};

extern "C" __global__ void transform_pixels(const Image* __restrict__ images) {
    const Image& image = images[blockIdx.y];
    const uint64 step = static_cast<uint64>(gridDim.x) * blockDim.x;
    for (uint64 pixel = static_cast<uint64>(blockIdx.x) * blockDim.x + threadIdx.x; pixel < image.pixels;
         pixel += step) {
        float values[IN_CHANNELS];
#pragma unroll
        for (int c = 0; c < IN_CHANNELS; ++c)
            values[c] = convert<float>(load<IN>(image.src + (pixel * IN_CHANNELS + c) * sizeof(IN)));
#pragma unroll
        for (int k = 0; k < OUT_CHANNELS; ++k) {
            float sum = image.offset[k];
#pragma unroll
            for (int c = 0; c < IN_CHANNELS; ++c) sum = fmaf(image.matrix[k][c], values[c], sum);
            image.dst[pixel * OUT_CHANNELS + k] = convert<OUT>(sum);
        }
    }
}
