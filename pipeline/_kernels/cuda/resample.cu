// Separable resampling of ragged batches, first along x into float32, then along y. One sample per blockIdx.y.
//
// Both passes use the same kernel. It treats an image as (outer, axis, inner): (rows, columns, channels) for the pass
// along x, and (1, rows, columns * channels) for the pass along y.
//
// Macros from the launcher: IN, OUT (types).

#include "common.cuh"
#include "filters.cuh"

struct Pass {
    const char* src;
    OUT* dst;  // contiguous (outer, out, inner)
    int64 outer_stride, axis_stride, inner_stride;  // of the source, in bytes
    uint32 outer, out, inner;
    int held;  // first pixel of the axis that the source contains
    Axis axis;
};

extern "C" __global__ void resample_axis(const Pass* __restrict__ passes) {
    const Pass& pass = passes[blockIdx.y];
    const uint32 count = pass.outer * pass.out * pass.inner;
    for (uint32 element = blockIdx.x * blockDim.x + threadIdx.x; element < count; element += gridDim.x * blockDim.x) {
        const uint32 line = element / pass.inner, inner = element - line * pass.inner;
        const uint32 outer = line / pass.out, i = line - outer * pass.out;
        const char* src = pass.src + outer * pass.outer_stride + inner * pass.inner_stride;
        const Taps taps = taps_of(pass.axis, i);
        float value = 0, sum = 0;
        for (int index = 0; index < taps.count; ++index) {
            const int k = clamped(taps.first + index, pass.axis.extent) - pass.held;
            const float weight = weight_of(pass.axis, taps, index);
            value = fmaf(weight, convert<float>(load<IN>(src + k * pass.axis_stride)), value);
            sum += weight;
        }
        pass.dst[element] = convert<OUT>(value * (1.0f / sum));
    }
}

struct Gather {
    const char* src;
    OUT* dst;  // contiguous (height, width, channels)
    int64 row_stride, pixel_stride, channel_stride;  // of the source, in bytes
    uint32 height, width, channels;
    uint32 unused;
    Axis y, x;
};

// Nearest neighbor along both axes. There are no sums, so values of all types stay exact.
extern "C" __global__ void resample_nearest(const Gather* __restrict__ gathers) {
    const Gather& gather = gathers[blockIdx.y];
    const uint32 count = gather.height * gather.width * gather.channels;
    for (uint32 element = blockIdx.x * blockDim.x + threadIdx.x; element < count; element += gridDim.x * blockDim.x) {
        const uint32 line = element / gather.channels, channel = element - line * gather.channels;
        const uint32 row = line / gather.width, column = line - row * gather.width;
        const int y = clamped(taps_of(gather.y, row).first, gather.y.extent);
        const int x = clamped(taps_of(gather.x, column).first, gather.x.extent);
        const char* address = gather.src + y * gather.row_stride + x * gather.pixel_stride +
                              channel * gather.channel_stride;
        gather.dst[element] = convert<OUT>(load<IN>(address));
    }
}
