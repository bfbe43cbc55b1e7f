// Expressions of contrast-limited adaptive histogram equalization: lightness, and tables of tiles.

__device__ __forceinline__ float cube_root_of(float ratio) {
    return ratio < 216.0f / 24389 ? ratio * (841.0f / 108) + 16.0f / 116 : cbrtf(ratio);
}

__device__ __forceinline__ float cube_of(float root) {
    return root <= 6.0f / 29 ? (root - 16.0f / 116) * (108.0f / 841) : root * root * root;
}

// RGB to CIE L*a*b* in bytes, in the fixed-point numbers of OpenCV.
template <class In> struct ToLab : Pointwise<ToLab<In>> {
    using Type = uint8;
    static constexpr int channels = 3;
    static constexpr int caches = In::caches;
    In in;

    template <class Shared>
    __device__ __forceinline__ Pixel<uint8, 3> at(Shared slots, int z, int y, int x) const {
        const int weights[3][3] = {{1777, 1541, 778}, {871, 2929, 296}, {73, 448, 3575}};
        const auto source = in.at(slots, z, y, x);
        int light[3], roots[3];
#pragma unroll
        for (int c = 0; c < 3; ++c) {
            const float value = source.values[c] / 255.0f;
            const float linear = value <= 0.04045f ? value / 12.92f : powf((value + 0.055f) / 1.055f, 2.4f);
            light[c] = static_cast<int>(rintf(2040 * linear));
        }
#pragma unroll
        for (int c = 0; c < 3; ++c) {
            const int sum = weights[c][0] * light[0] + weights[c][1] * light[1] + weights[c][2] * light[2];
            roots[c] = static_cast<int>(rintf(32768 * cube_root_of(((sum + 2048) >> 12) / 2040.0f)));
        }
        return {{byte_of(296 * roots[1] - 1336935), byte_of(500 * (roots[0] - roots[1]) + (128 << 15)),
                 byte_of(200 * (roots[1] - roots[2]) + (128 << 15))}};
    }

    __device__ __forceinline__ static uint8 byte_of(int value) {
        const int rounded = (value + (1 << 14)) >> 15;
        return static_cast<uint8>(rounded < 0 ? 0 : rounded > 255 ? 255 : rounded);
    }
};

template <class In> struct FromLab : Pointwise<FromLab<In>> {
    using Type = uint8;
    static constexpr int channels = 3;
    static constexpr int caches = In::caches;
    In in;

    template <class Shared>
    __device__ __forceinline__ Pixel<uint8, 3> at(Shared slots, int z, int y, int x) const {
        const float weights[3][3] = {{3.2404814f, -1.5371515f, -0.4985363f},
                                     {-0.9692549f, 1.8759900f, 0.0415559f},
                                     {0.0556466f, -0.2040413f, 1.0573111f}};
        const auto source = in.at(slots, z, y, x);
        const float root = (source.values[0] * (100.0f / 255) + 16) / 116;
        const float light[3] = {0.950456f * cube_of(root + (source.values[1] - 128) / 500.0f), cube_of(root),
                                1.088754f * cube_of(root - (source.values[2] - 128) / 200.0f)};
        Pixel<uint8, 3> pixel;
#pragma unroll
        for (int c = 0; c < 3; ++c) {
            float value = weights[c][0] * light[0] + weights[c][1] * light[1] + weights[c][2] * light[2];
            value = fminf(fmaxf(value, 0.0f), 1.0f);
            value = value <= 0.0031308f ? 12.92f * value : 1.055f * powf(value, 1 / 2.4f) - 0.055f;
            pixel.values[c] = convert<uint8>(255 * value);
        }
        return pixel;
    }
};

// Tables of bytes for tiles of the image, interpolated between the centers of the tiles. COUNT: number of channels
// with tables; the others stay the same.
template <int COUNT, class In> struct Tiles : Pointwise<Tiles<COUNT, In>> {
    using Type = uint8;
    static constexpr int channels = In::channels;
    static constexpr int caches = In::caches;
    In in;
    const uint8* tables;  // [tile row][tile column][channel][value]
    int tiles[2];         // rows, columns
    float inverse[2];     // 1 / height and 1 / width of a tile

    template <class Shared>
    __device__ __forceinline__ Pixel<uint8, channels> at(Shared slots, int z, int y, int x) const {
        auto pixel = in.at(slots, z, y, x);
        const int place[2] = {y, x};
        int low[2], high[2];
        float part[2];
#pragma unroll
        for (int d = 0; d < 2; ++d) {
            const float position = fmaf(static_cast<float>(place[d]), inverse[d], 0.0f) - 0.5f;
            const int first = static_cast<int>(floorf(position));
            part[d] = position - first;
            low[d] = first < 0 ? 0 : first;
            high[d] = first + 1 < tiles[d] ? first + 1 : tiles[d] - 1;
        }
#pragma unroll
        for (int c = 0; c < COUNT; ++c) {
            const int value = pixel.values[c];
            const float above = entry(low[0], low[1], c, value) * (1 - part[1]) + entry(low[0], high[1], c, value) * part[1];
            const float below = entry(high[0], low[1], c, value) * (1 - part[1]) + entry(high[0], high[1], c, value) * part[1];
            pixel.values[c] = static_cast<uint8>(rintf(above * (1 - part[0]) + below * part[0]));
        }
        return pixel;
    }

    __device__ __forceinline__ float entry(int row, int column, int c, int value) const {
        return tables[((row * tiles[1] + column) * COUNT + c) * 256 + value];
    }
};
