// Converts frames of video decoders to pixels: out = matrix * (Y, Cb, Cr) + offset. One frame per blockIdx.y.
//
// Luma has one value per pixel. Chroma has one pair (Cb, Cr) per 2 by 2 pixels, and is interpolated linearly. A pair
// lies halfway between its two rows, and either halfway between its two columns or in the left one.
//
// Macros from the launcher: IN (uint8, or uint16 with the value in the upper 8 bits), CHANNELS.

#include "common.cuh"

struct Frame {
    const char* luma;
    const char* chroma;
    uint8* dst;  // contiguous, channels last
    int64 luma_pitch, chroma_pitch;  // bytes per row
    int64 height, width;
    int64 left;  // whether chroma lies in the left column
    float matrix[CHANNELS][3];
    float offset[CHANNELS];
};

__device__ __forceinline__ float value_at(const char* row, int64 index) {
    return convert<float>(load<IN>(row + index * sizeof(IN))) * (sizeof(IN) == 1 ? 1.0f : 1.0f / 256);
}

extern "C" __global__ void nv12_to_pixels(const Frame* __restrict__ frames) {
    const Frame& frame = frames[blockIdx.y];
    const int64 pixels = frame.height * frame.width;
    const int64 rows = (frame.height + 1) / 2, columns = (frame.width + 1) / 2;
    const int64 step = static_cast<int64>(gridDim.x) * blockDim.x;
    for (int64 pixel = static_cast<int64>(blockIdx.x) * blockDim.x + threadIdx.x; pixel < pixels; pixel += step) {
        const int64 y = pixel / frame.width, x = pixel % frame.width;
        // If chroma lies halfway between two pixels, the nearest pair counts 3/4, the next one on the pixel's side 1/4.
        const int64 near_y = y / 2, near_x = x / 2;
        int64 far_y = near_y + (y % 2 ? 1 : -1), far_x = near_x + (x % 2 ? 1 : -1);
        const float beside = !frame.left ? 0.25f : x % 2 ? 0.5f : 0.0f;
        far_y = far_y < 0 ? 0 : far_y < rows ? far_y : rows - 1;
        far_x = far_x < 0 ? 0 : far_x < columns ? far_x : columns - 1;
        const char* near_row = frame.chroma + near_y * frame.chroma_pitch;
        const char* far_row = frame.chroma + far_y * frame.chroma_pitch;
        float values[3];
        values[0] = value_at(frame.luma + y * frame.luma_pitch, x);
#pragma unroll
        for (int c = 0; c < 2; ++c) {
            const float upper =
                (1 - beside) * value_at(near_row, 2 * near_x + c) + beside * value_at(near_row, 2 * far_x + c);
            const float lower =
                (1 - beside) * value_at(far_row, 2 * near_x + c) + beside * value_at(far_row, 2 * far_x + c);
            values[1 + c] = 0.75f * upper + 0.25f * lower;
        }
#pragma unroll
        for (int k = 0; k < CHANNELS; ++k) {
            float sum = frame.offset[k];
#pragma unroll
            for (int c = 0; c < 3; ++c) sum = fmaf(frame.matrix[k][c], values[c], sum);
            frame.dst[pixel * CHANNELS + k] = convert<uint8>(sum);
        }
    }
}
