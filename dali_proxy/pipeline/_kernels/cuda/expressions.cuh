// Images as expressions. An expression is a struct with
//
//     Type                      element type of its pixels
//     channels                  number of channels
//     caches                    number of nodes whose pixels a block may keep in shared memory: see shared_pixels.cuh
//     Pixel at(slots, z, y, x)  the pixel of row y and column x of frame (or slice) z
//
// `Memory` reads a pixel; every other expression computes its pixel from pixels of the expression `in` inside it. The
// compiler therefore turns a chain of operators, such as Normalize<float, float, Window<Resize<uint8, Memory<uint8, 3>>>>,
// into one function of the coordinates, without memory for the images in between. Each expression rounds to its Type
// as the separate operators do, so that the results have the same bits.
//
// The parameters of a sample are the members of its struct; expression.py describes the same structs to NumPy.

#include "common.cuh"
#include "filters.cuh"
#include "borders.cuh"
#include "philox.cuh"
#include "rounding.cuh"
#include "noise.cuh"
#include "shared_pixels.cuh"

template <typename T, int N> struct Pixel {
    T values[N];
};

// Pixels in memory, with any strides in bytes. ADJACENT: whether the channels of a pixel lie one after the other.
template <typename T, int N, bool ADJACENT = false> struct Memory {
    using Type = T;
    static constexpr int channels = N;
    static constexpr int caches = 0;
    const char* data;
    int64 strides[4];  // frame, row, column, channel

    template <class Shared>
    __device__ __forceinline__ Pixel<T, N> at(Shared, int z, int y, int x) const {
        const char* address = data + z * strides[0] + y * strides[1] + x * strides[2];
        Pixel<T, N> pixel;
#pragma unroll
        for (int c = 0; c < N; ++c)
            pixel.values[c] = load<T>(address + c * (ADJACENT ? static_cast<int64>(sizeof(T)) : strides[3]));
        return pixel;
    }
};

// Index map: position p of the output shows position first + p * step, or the fill value outside of the image.
template <class In> struct Window {
    using Type = typename In::Type;
    static constexpr int channels = In::channels;
    static constexpr int caches = In::caches;
    In in;
    double fill[channels];
    int first[3], step[3], extent[3];

    template <class Shared>
    __device__ __forceinline__ Pixel<Type, channels> at(Shared slots, int z, int y, int x) const {
        const int depth = first[0] + z * step[0], row = first[1] + y * step[1], column = first[2] + x * step[2];
        const bool inside = depth >= 0 && depth < extent[0] && row >= 0 && row < extent[1] && column >= 0 &&
                            column < extent[2];
        if (inside) return in.at(slots, depth, row, column);
        Pixel<Type, channels> pixel;
#pragma unroll
        for (int c = 0; c < channels; ++c) pixel.values[c] = convert<Type>(fill[c]);
        return pixel;
    }

    __device__ __forceinline__ Prepared prepare(Slots slots, int z, const Rectangle& rectangle) const {
        if (step[1] * step[1] != 1 || step[2] * step[2] != 1) return USELESS;
        const int depth = first[0] + z * step[0];
        const int top = first[1] + rectangle.top * step[1], bottom = first[1] + (rectangle.bottom - 1) * step[1];
        const int left = first[2] + rectangle.left * step[2], right = first[2] + (rectangle.right - 1) * step[2];
        const Rectangle source = {max(min(top, bottom), 0), max(min(left, right), 0),
                                  min(max(top, bottom) + 1, extent[1]), min(max(left, right) + 1, extent[2])};
        const bool is_empty = depth < 0 || depth >= extent[0] || !source.height() || !source.width();
        return is_empty ? FILLED : prepared(in, slots, depth, source);
    }
};

// Fill values inside of regions.
template <int REGIONS, class In> struct Erase : Pointwise<Erase<REGIONS, In>> {
    using Type = typename In::Type;
    static constexpr int channels = In::channels;
    static constexpr int caches = In::caches;
    In in;
    double fill[channels];
    int begin[REGIONS][4], end[REGIONS][4];  // frame, row, column, channel

    template <class Shared>
    __device__ __forceinline__ Pixel<Type, channels> at(Shared slots, int z, int y, int x) const {
        auto pixel = in.at(slots, z, y, x);
#pragma unroll (REGIONS <= 8 ? REGIONS : 1)
        for (int r = 0; r < REGIONS; ++r) {
            const int *low = begin[r], *high = end[r];
            if (z < low[0] || z >= high[0] || y < low[1] || y >= high[1] || x < low[2] || x >= high[2]) continue;
#pragma unroll
            for (int c = 0; c < channels; ++c)
                if (c >= low[3] && c < high[3]) pixel.values[c] = convert<Type>(fill[c]);
        }
        return pixel;
    }
};

// Another element type.
template <typename T, class In> struct Cast : Pointwise<Cast<T, In>> {
    using Type = T;
    static constexpr int channels = In::channels;
    static constexpr int caches = In::caches;
    In in;

    template <class Shared>
    __device__ __forceinline__ Pixel<T, channels> at(Shared slots, int z, int y, int x) const {
        const auto source = in.at(slots, z, y, x);
        Pixel<T, channels> pixel;
#pragma unroll
        for (int c = 0; c < channels; ++c) pixel.values[c] = convert<T>(source.values[c]);
        return pixel;
    }
};

// Pixels that evaluate.cu stores in patches instead of images: of SIZE rows and columns and FRAMES frames, in the order of
// squares of MERGE * MERGE patches. The last frame of an image is repeated. No expression reads them.
template <int SIZE, int MERGE, int FRAMES, bool CHANNELS_LAST, class In>
struct Patches : Pointwise<Patches<SIZE, MERGE, FRAMES, CHANNELS_LAST, In>> {
    using Type = typename In::Type;
    static constexpr int channels = In::channels;
    static constexpr int caches = In::caches;
    In in;

    template <class Shared>
    __device__ __forceinline__ Pixel<Type, channels> at(Shared slots, int z, int y, int x) const {
        return in.at(slots, z, y, x);
    }

    // The number of the patch with a pixel, given the extents of the image.
    __device__ __forceinline__ static int64 patch(uint32 height, uint32 width, int z, int y, int x) {
        const int row = y / SIZE, column = x / SIZE, rows = height / (SIZE * MERGE), columns = width / (SIZE * MERGE);
        const int64 square = (static_cast<int64>(z / FRAMES) * rows + row / MERGE) * columns + column / MERGE;
        return square * (MERGE * MERGE) + row % MERGE * MERGE + column % MERGE;
    }

    // The position of an element in its patch.
    __device__ __forceinline__ static int feature(int frame, int y, int x, int c) {
        const int pixel = y % SIZE * SIZE + x % SIZE;
        return CHANNELS_LAST ? (frame * SIZE * SIZE + pixel) * channels + c
                             : (c * FRAMES + frame) * SIZE * SIZE + pixel;
    }
};

// value * scale + bias for each channel, in the floating-point type Number.
template <typename T, typename Number, class In> struct Normalize : Pointwise<Normalize<T, Number, In>> {
    using Type = T;
    static constexpr int channels = In::channels;
    static constexpr int caches = In::caches;
    In in;
    double scale[channels], bias[channels];

    template <class Shared>
    __device__ __forceinline__ Pixel<T, channels> at(Shared slots, int z, int y, int x) const {
        const auto source = in.at(slots, z, y, x);
        Pixel<T, channels> pixel;
#pragma unroll
        for (int c = 0; c < channels; ++c)
            pixel.values[c] = convert<T>(fma(convert<Number>(source.values[c]), static_cast<Number>(scale[c]),
                                             static_cast<Number>(bias[c])));
        return pixel;
    }
};

// matrix * pixel + offset, with N channels in the output.
template <typename T, int N, class In> struct Matrix : Pointwise<Matrix<T, N, In>> {
    using Type = T;
    static constexpr int channels = N;
    static constexpr int caches = In::caches;
    In in;
    float matrix[N][In::channels];
    float offset[N];

    template <class Shared>
    __device__ __forceinline__ Pixel<T, N> at(Shared slots, int z, int y, int x) const {
        const auto source = in.at(slots, z, y, x);
        Pixel<T, N> pixel;
#pragma unroll
        for (int k = 0; k < N; ++k) {
            float sum = offset[k];
#pragma unroll
            for (int c = 0; c < In::channels; ++c) sum = fmaf(matrix[k][c], convert<float>(source.values[c]), sum);
            pixel.values[k] = convert<T>(sum);
        }
        return pixel;
    }
};

// Channels with fill values behind those of a pixel: N channels.
template <int N, class In> struct Channels : Pointwise<Channels<N, In>> {
    using Type = typename In::Type;
    static constexpr int channels = N;
    static constexpr int caches = In::caches;
    In in;
    double fill[N - In::channels];

    template <class Shared>
    __device__ __forceinline__ Pixel<Type, N> at(Shared slots, int z, int y, int x) const {
        const auto source = in.at(slots, z, y, x);
        Pixel<Type, N> pixel;
#pragma unroll
        for (int c = 0; c < In::channels; ++c) pixel.values[c] = source.values[c];
#pragma unroll
        for (int c = In::channels; c < N; ++c) pixel.values[c] = convert<Type>(fill[c - In::channels]);
        return pixel;
    }
};

// Operations on two elements.
#define OPERATION(NAME, FLOATS, INTEGERS)                                                    \
    struct NAME {                                                                            \
        template <typename T> static __device__ __forceinline__ T of(T a, T b) {             \
            if constexpr (Limits<T>::kind == 2) return FLOATS;                               \
            else return static_cast<T>(INTEGERS);                                            \
        }                                                                                    \
    };
// Integers wrap around.
OPERATION(Add, sum_of(a, b), static_cast<uint64>(a) + static_cast<uint64>(b))
OPERATION(Subtract, difference_of(a, b), static_cast<uint64>(a) - static_cast<uint64>(b))
OPERATION(Multiply, product_of(a, b), static_cast<uint64>(a) * static_cast<uint64>(b))
OPERATION(Divide, quotient_of(a, b), 0)
// NaN wins.
OPERATION(Minimum, a < b || a != a ? a : b, a < b ? a : b)
OPERATION(Maximum, a > b || a != a ? a : b, a > b ? a : b)

// An operation on the pixels of two expressions, converted to T.
template <class Operation, typename T, class Other, class In> struct Combine {
    using Type = T;
    static constexpr int channels = In::channels;
    static constexpr int caches = In::caches + Other::caches;
    In in;
    Other other;

    template <class Shared>
    __device__ __forceinline__ Pixel<T, channels> at(Shared slots, int z, int y, int x) const {
        const auto left = in.at(slots, z, y, x);
        const auto right = other.at(slots.after(In::caches), z, y, x);
        Pixel<T, channels> pixel;
#pragma unroll
        for (int c = 0; c < channels; ++c)
            pixel.values[c] = Operation::of(convert<T>(left.values[c]), convert<T>(right.values[c]));
        return pixel;
    }

    __device__ __forceinline__ Prepared prepare(Slots slots, int z, const Rectangle& rectangle) const {
        const Prepared first = prepared(in, slots, z, rectangle);
        return first == FILLED ? prepared(other, slots.after(In::caches), z, rectangle) : first;
    }
};

// Noise of a kind of noise.cuh.
template <int KIND, typename Number, class In> struct Noise : Pointwise<Noise<KIND, Number, In>> {
    using Type = typename In::Type;
    static constexpr int channels = In::channels;
    static constexpr int caches = In::caches;
    In in;
    int64 steps[4];  // distances of the draws of neighbours along frames, rows, columns and channels
    uint64 seed;
    double first, second;
    Type salt, pepper;

    template <class Shared>
    __device__ __forceinline__ Pixel<Type, channels> at(Shared slots, int z, int y, int x) const {
        auto pixel = in.at(slots, z, y, x);
        const int64 draw = z * steps[0] + y * steps[1] + x * steps[2];
#pragma unroll
        for (int c = 0; c < channels; ++c)
            pixel.values[c] = noisy<KIND, Number>(pixel.values[c], seed, draw + c * steps[3], first, second, salt, pepper);
        return pixel;
    }
};

// The entry of a table for each byte.
template <class In> struct Lookup : Pointwise<Lookup<In>> {
    using Type = uint8;
    static constexpr int channels = In::channels;
    static constexpr int caches = In::caches;
    In in;
    uint8 table[256];

    template <class Shared>
    __device__ __forceinline__ Pixel<uint8, channels> at(Shared slots, int z, int y, int x) const {
        const auto source = in.at(slots, z, y, x);
        Pixel<uint8, channels> pixel;
#pragma unroll
        for (int c = 0; c < channels; ++c) pixel.values[c] = table[source.values[c]];
        return pixel;
    }
};

// The entry of a channel's table in memory, (channels, 256), for each byte.
template <class In> struct LookupStored : Pointwise<LookupStored<In>> {
    using Type = uint8;
    static constexpr int channels = In::channels;
    static constexpr int caches = In::caches;
    In in;
    const uint8* tables;

    template <class Shared>
    __device__ __forceinline__ Pixel<uint8, channels> at(Shared slots, int z, int y, int x) const {
        const auto source = in.at(slots, z, y, x);
        Pixel<uint8, channels> pixel;
#pragma unroll
        for (int c = 0; c < channels; ++c) pixel.values[c] = tables[c * 256 + source.values[c]];
        return pixel;
    }
};

#include "resize.cuh"
#include "point_maps.cuh"
#include "neighborhoods.cuh"
#include "equalize.cuh"
