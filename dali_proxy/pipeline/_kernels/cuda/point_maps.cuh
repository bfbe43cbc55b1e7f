// Warps: the output shows the source at positions that a point map computes. A point map is a struct with
//
//     Point at(z, y, x)  the position in the source of row y and column x of frame z
//
// Pixel k covers [k, k + 1). point_maps.py describes the same structs to NumPy.

struct Point {
    double y, x;
};

struct Affine {
    double matrix[2][3];  // from the output to the source; rows and columns are x, y

    __device__ __forceinline__ Point at(int, int row, int column) const {
        double found[2];
#pragma unroll
        for (int d = 0; d < 2; ++d)
            found[d] = fma(matrix[d][1], row + 0.5, fma(matrix[d][0], column + 0.5, matrix[d][2]));
        return {found[1], found[0]};
    }
};

// Positions of pixel centers are integers for the matrix, as in OpenCV, which rounds them to 1 / grid pixels if grid > 0.
struct Perspective {
    double matrix[3][3], grid;

    // No product is fused with a sum, so that rounded positions are those of the CPU.
    __device__ __forceinline__ Point at(int, int row, int column) const {
        double found[3];
#pragma unroll
        for (int d = 0; d < 3; ++d)
            found[d] = fma(matrix[d][1], row, 0.0) + matrix[d][2] + fma(matrix[d][0], column, 0.0);
        const double scale = found[2] != 0 ? (grid > 0 ? grid : 1) / found[2] : 0;
        double y = fma(found[1], scale, 0.0), x = fma(found[0], scale, 0.0);
        if (grid > 0) y = rint(y) / grid, x = rint(x) / grid;
        return {y + 0.5, x + 0.5};
    }
};

struct Waves {
    double amplitude[2], frequency[2], phase[2];  // of the shifts along y, x
    int moves;                                    // 0: each pixel stays

    __device__ __forceinline__ Point at(int, int row, int column) const {
        if (!moves) return {row + 0.5, column + 0.5};
        return {row + amplitude[0] * cos(frequency[0] * column + phase[0]),
                column + amplitude[1] * sin(frequency[1] * row + phase[1])};
    }
};

struct Sphere {
    double center[2], radius;
    int moves;

    __device__ __forceinline__ Point at(int, int row, int column) const {
        const double y = row + 0.5 - center[0], x = column + 0.5 - center[1];
        if (!moves) return {row + 0.5, column + 0.5};
        const double factor = sqrt(fma(x, x, 0.0) + fma(y, y, 0.0)) / radius;
        return {center[0] + fma(factor, y, 0.0), center[1] + fma(factor, x, 0.0)};  // not fused, as on the CPU
    }
};

// A random shift of each pixel.
struct Shifts {
    uint64 seed;
    double range;
    int moves, width;

    __device__ __forceinline__ Point at(int z, int row, int column) const {
        if (!moves) return {row + 0.5, column + 0.5};
        const Draws draws = philox(seed, static_cast<uint64>(row) * width + column, z);
        return {row + 0.5 + (uniform(draws.values[0], draws.values[1]) - 0.5) * range,
                column + 0.5 + (uniform(draws.values[2], draws.values[3]) - 0.5) * range};
    }
};

// Positions in memory, for all frames or each one.
struct Stored {
    const char *y, *x;
    int64 y_strides[3], x_strides[3];  // frame, row, column
    double shift;                      // added to positions
    double grid;                       // positions of centers are rounded to 1 / grid pixels if grid > 1

    __device__ __forceinline__ Point at(int z, int row, int column) const {
        return {moved(load<float>(y + z * y_strides[0] + row * y_strides[1] + column * y_strides[2])),
                moved(load<float>(x + z * x_strides[0] + row * x_strides[1] + column * x_strides[2]))};
    }

    __device__ __forceinline__ double moved(double position) const {
        return grid > 1 ? rint((position + shift - 0.5) * grid) / grid + 0.5 : position + shift;
    }
};

__device__ __forceinline__ int whole_position(double position) {
    const double low = floor(position);
    const int whole = static_cast<int>(low);  // before the comparisons, so that they need no branch
    return low < -2147483000.0 ? -2147483000 : low > 2147483000.0 ? 2147483000 : whole;
}

// Weights of TAPS pixels for a position `part` beyond the middle one: linear, or the cubic and Lanczos filters of OpenCV.
template <int TAPS> __device__ __forceinline__ void tap_weights(float part, float* weights) {
    if constexpr (TAPS == 2) {
        weights[0] = 1 - part;
        weights[1] = part;
    } else if constexpr (TAPS == 4) {
        const float a = -0.75f, before = part + 1, after = 1 - part;
        weights[0] = ((a * before - 5 * a) * before + 8 * a) * before - 4 * a;
        weights[1] = ((a + 2) * part - (a + 3)) * part * part + 1;
        weights[2] = ((a + 2) * after - (a + 3)) * after * after + 1;
        weights[3] = 1 - weights[0] - weights[1] - weights[2];
    } else {
        float sum = 0;
        for (int k = 0; k < TAPS; ++k) {
            const float distance = part + (TAPS / 2 - 1 - k);
            const float lobe = fabsf(distance) < 1e-6f ? 1e30f : sinf(0.78539816f * distance) / (distance * distance);
            weights[k] = k % 2 && fabsf(distance) >= 1e-6f ? -lobe : lobe;
            sum += weights[k];
        }
        for (int k = 0; k < TAPS; ++k) weights[k] /= sum;
    }
}

// TAPS: 1 for the nearest pixel, 2 linear, 4 cubic, 8 Lanczos. BORDER: see borders.cuh.
template <typename T, int TAPS, int BORDER, class Points, class In> struct Warp {
    using Type = T;
    static constexpr int channels = In::channels;
    static constexpr int caches = 0;
    In in;
    Points points;
    double fill[channels];  // values of the output if TAPS is 1, otherwise of the source
    int extent[2];          // of the source: height, width; not 0

    // Whether a position, from `inside`, has the fill value. The first pixel is read in its place: without branches, all
    // pixels are read before the first is used.
    __device__ __forceinline__ static bool filled(int y, int x) { return BORDER == CONSTANT && (y < 0 || x < 0); }

    template <class Shared>
    __device__ __forceinline__ Pixel<T, channels> at(Shared, int frame, int row, int column) const {
        const Point point = points.at(frame, row, column);
        Pixel<T, channels> pixel;
        if constexpr (TAPS == 1) {
            const int y = inside<BORDER>(whole_position(point.y), extent[0]);
            const int x = inside<BORDER>(whole_position(point.x), extent[1]);
            const auto source = in.at(NoSlots(), frame, y < 0 ? 0 : y, x < 0 ? 0 : x);
#pragma unroll
            for (int c = 0; c < channels; ++c) {
                const T outside = convert<T>(fill[c]);
                pixel.values[c] = filled(y, x) ? outside : convert<T>(source.values[c]);
            }
            return pixel;
        }
        const double exact[2] = {point.y - 0.5, point.x - 0.5};
        int first[2];
        float weights[2][TAPS];
#pragma unroll
        for (int d = 0; d < 2; ++d) {
            first[d] = whole_position(exact[d]);
            tap_weights<TAPS>(static_cast<float>(exact[d] - first[d]), weights[d]);
            first[d] -= TAPS / 2 - 1;
        }
        float sums[channels] = {}, outside[channels];
#pragma unroll
        for (int c = 0; c < channels; ++c) outside[c] = static_cast<float>(fill[c]);
#pragma unroll
        for (int right = 0; right < TAPS; ++right) {
            const int x = inside<BORDER>(first[1] + right, extent[1]);
#pragma unroll
            for (int down = 0; down < TAPS; ++down) {
                const int y = inside<BORDER>(first[0] + down, extent[0]);
                const float weight = weights[0][down] * weights[1][right];
                const auto source = in.at(NoSlots(), frame, y < 0 ? 0 : y, x < 0 ? 0 : x);
#pragma unroll
                for (int c = 0; c < channels; ++c) {
                    const float value = filled(y, x) ? outside[c] : convert<float>(source.values[c]);
                    sums[c] = fmaf(weight, value, sums[c]);
                }
            }
        }
#pragma unroll
        for (int c = 0; c < channels; ++c) pixel.values[c] = convert<T>(sums[c]);
        return pixel;
    }
};
