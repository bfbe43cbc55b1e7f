// Composes canvases of regions of images; one canvas per blockIdx.y. Where regions overlap, the last one counts.
//
// Macros from the launcher: IN, OUT (types).

#include "common.cuh"

struct Region {
    const char* src;         // the region's first pixel
    int64 strides[4];        // frame, row, column, channel, in bytes
    int64 first[2], size[2]; // row and column on the canvas, height and width
};

struct Canvas {
    OUT* dst;
    uint64 count;  // elements
    int64 height, width, channels;
    int64 begin, end;  // regions
};

extern "C" __global__ void paste_regions(const Canvas* __restrict__ canvases, const Region* __restrict__ regions) {
    const Canvas& canvas = canvases[blockIdx.y];
    const uint64 step = static_cast<uint64>(gridDim.x) * blockDim.x;
    for (uint64 element = static_cast<uint64>(blockIdx.x) * blockDim.x + threadIdx.x; element < canvas.count;
         element += step) {
        int64 rest = static_cast<int64>(element);
        const int64 channel = rest % canvas.channels;
        rest /= canvas.channels;
        const int64 column = rest % canvas.width, row = rest / canvas.width % canvas.height;
        const int64 frame = rest / canvas.width / canvas.height;
        OUT value = convert<OUT>(0);
        for (int64 number = canvas.end - 1; number >= canvas.begin; --number) {
            const Region& region = regions[number];
            const int64 y = row - region.first[0], x = column - region.first[1];
            if (y < 0 || y >= region.size[0] || x < 0 || x >= region.size[1]) continue;
            const int64* strides = region.strides;
            value = convert<OUT>(load<IN>(region.src + frame * strides[0] + y * strides[1] + x * strides[2] +
                                          channel * strides[3]));
            break;
        }
        canvas.dst[element] = value;
    }
}
