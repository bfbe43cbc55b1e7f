// Crops, resizes, crops, mirrors and normalises 8-bit images in one launch. One image per blockIdx.y, one tile of
// 32 x 8 output pixels per blockIdx.x. It reads only the pixels under the filter.
//
// The results equal those of resample.cu followed by strided_copy.cu: sums have the same order, the normalisation is
// the same, and for a uint8 resize this kernel also rounds in between.
//
// Macros from the launcher: OUT (type), CHANNELS, PLANAR (1: CHW, 0: HWC), ROUNDED (1: round resized pixels to uint8).

#include "common.cuh"
#include "filters.cuh"

struct Image {
    const char* src;
    OUT* dst;
    int64 row_stride, pixel_stride, channel_stride;  // of the source, in bytes
    uint32 height, width;       // of the output
    int y_first, y_step;        // output row r is row y_first + r * y_step of the resized image
    int x_first, x_step;
    uint32 channels;            // index of this image's first row in the table of channels
    uint32 unused;
    Axis y, x;
};

extern "C" __global__ void crop_resize_normalize(const Image* __restrict__ images,
                                                 const Channel* __restrict__ channels) {
    const Image& image = images[blockIdx.y];
    const uint32 tiles_x = (image.width + 31) / 32, tiles_y = (image.height + 7) / 8;
    if (blockIdx.x >= tiles_x * tiles_y) return;
    const uint32 row = blockIdx.x / tiles_x * 8 + threadIdx.x / 32;
    const uint32 column = blockIdx.x % tiles_x * 32 + threadIdx.x % 32;
    if (row >= image.height || column >= image.width) return;

    const Taps rows = taps_of(image.y, image.y_first + static_cast<int>(row) * image.y_step);
    const Taps columns = taps_of(image.x, image.x_first + static_cast<int>(column) * image.x_step);
    const float row_norm = 1.0f / weight_sum(image.y, rows);
    const float column_norm = 1.0f / weight_sum(image.x, columns);

    float sums[CHANNELS] = {};
    for (int r = 0; r < rows.count; ++r) {
        const char* line = image.src + clamped(rows.first + r, image.y.extent) * image.row_stride;
        float line_sums[CHANNELS] = {};
        for (int c = 0; c < columns.count; ++c) {
            const char* pixel = line + clamped(columns.first + c, image.x.extent) * image.pixel_stride;
            const float weight = weight_of(image.x, columns, c);
#pragma unroll
            for (int k = 0; k < CHANNELS; ++k)
                line_sums[k] = fmaf(weight, convert<float>(load<uint8>(pixel + k * image.channel_stride)), line_sums[k]);
        }
        const float weight = weight_of(image.y, rows, r);
#pragma unroll
        for (int k = 0; k < CHANNELS; ++k) sums[k] = fmaf(weight, line_sums[k] * column_norm, sums[k]);
    }

#pragma unroll
    for (int k = 0; k < CHANNELS; ++k) {
        float value = sums[k] * row_norm;
#if ROUNDED
        value = convert<float>(convert<uint8>(value));
#endif
        const Channel& channel = channels[image.channels + k];
        const OUT result = convert<OUT>(fma(value, static_cast<float>(channel.scale), static_cast<float>(channel.bias)));
#if PLANAR
        image.dst[(static_cast<uint64>(k) * image.height + row) * image.width + column] = result;
#else
        image.dst[(static_cast<uint64>(row) * image.width + column) * CHANNELS + k] = result;
#endif
    }
}
