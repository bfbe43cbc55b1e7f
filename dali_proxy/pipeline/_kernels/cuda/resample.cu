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

constexpr uint32 GROUP = 8;  // elements of a thread, which share their weights; resample.py has the same number

// A thread computes GROUP elements at one position of the axis: in successive rows, or, if there is only one, in columns
// so far apart that neighboring threads compute neighboring elements.
extern "C" __global__ void resample_axis(const Pass* __restrict__ passes) {
    const Pass& pass = passes[blockIdx.y];
    const bool in_rows = pass.outer > 1;
    const uint32 outers = in_rows ? (pass.outer + GROUP - 1) / GROUP : 1;
    const uint32 inners = in_rows ? pass.inner : (pass.inner + GROUP - 1) / GROUP;
    const uint32 members = in_rows ? pass.outer : pass.inner, apart = in_rows ? 1 : inners;
    const int64 stride = in_rows ? pass.outer_stride : pass.inner_stride;
    const uint32 count = outers * pass.out * inners;
    for (uint32 group = blockIdx.x * blockDim.x + threadIdx.x; group < count; group += gridDim.x * blockDim.x) {
        const uint32 line = group / inners, inner = group - line * inners;
        const uint32 outer = line / pass.out, i = line - outer * pass.out;
        const uint32 first = in_rows ? outer * GROUP : inner;  // of the group's members
        const char* base = pass.src + (in_rows ? inner * pass.inner_stride : 0);
        const char* src[GROUP];
#pragma unroll
        for (uint32 m = 0; m < GROUP; ++m) {
            const uint32 member = first + m * apart;
            src[m] = base + (member < members ? member : members - 1) * stride;
        }
        const Taps taps = taps_of(pass.axis, i);
        float values[GROUP] = {}, sum = 0;
        for (int index = 0; index < taps.count; ++index) {
            const int64 offset = (clamped(taps.first + index, pass.axis.extent) - pass.held) * pass.axis_stride;
            const float weight = weight_of(pass.axis, taps, index);
#pragma unroll
            for (uint32 m = 0; m < GROUP; ++m)
                values[m] = fmaf(weight, convert<float>(load<IN>(src[m] + offset)), values[m]);
            sum += weight;
        }
#pragma unroll
        for (uint32 m = 0; m < GROUP; ++m) {
            const uint32 member = first + m * apart;
            if (member >= members) continue;
            const uint32 row = in_rows ? member : 0, column = in_rows ? inner : member;
            pass.dst[(row * pass.out + i) * pass.inner + column] = convert<OUT>(values[m] * (1.0f / sum));
        }
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
