// Resampling filters and the taps of one output position, as DALI has them: pixel k covers [k, k + 1), its centre is
// k + 0.5; outside the picture the edge pixel repeats; weights are divided by their sum.
//
// Every sum is spelt out with fmaf, so that the kernels that share this file round alike.

enum Filter { NEAREST = 0, LINEAR = 1, CUBIC = 2, LANCZOS3 = 3, TRIANGULAR = 4, GAUSSIAN = 5 };

// How an axis of the output maps to the source: output i lies at origin + (i + 0.5) * scale.
struct Axis {
    double origin, scale;
    float radius;  // of the filter's support, in source pixels
    float shrink;  // 1 / max(1, |scale|) when antialiased, else 1: source pixels to the filter's unit
    int filter;
    int extent;    // of the source, in pixels
};

struct Taps {
    int first, count;
    float offset;  // from the output's position to the centre of the first pixel
};

__device__ __forceinline__ Taps taps_of(const Axis& axis, int i) {
    const double center = fma(i + 0.5, axis.scale, axis.origin);
    Taps taps;
    if (axis.filter == NEAREST) {
        taps.first = static_cast<int>(floor(center));
        taps.count = 1;
        taps.offset = 0;
    } else {
        taps.first = static_cast<int>(ceil(center - axis.radius - 0.5));
        taps.count = static_cast<int>(floor(center + axis.radius - 0.5)) - taps.first + 1;
        taps.offset = static_cast<float>(taps.first + 0.5 - center);
    }
    return taps;
}

__device__ __forceinline__ float sinc(float x) {
    const float t = 3.14159265358979f * x;
    return x == 0 ? 1.0f : sinf(t) / t;
}

// The weight of tap `index`.
__device__ __forceinline__ float weight_of(const Axis& axis, const Taps& taps, int index) {
    if (axis.filter == NEAREST) return 1.0f;
    const float x = fabsf((taps.offset + index) * axis.shrink);
    switch (axis.filter) {
        case CUBIC:  // Catmull-Rom: a = -0.5
            if (x < 1.0f) return fmaf(x * x, fmaf(1.5f, x, -2.5f), 1.0f);
            return x < 2.0f ? fmaf(x, fmaf(x, fmaf(-0.5f, x, 2.5f), -4.0f), 2.0f) : 0.0f;
        case LANCZOS3:
            return x < 3.0f ? sinc(x) * sinc(x / 3.0f) : 0.0f;
        case GAUSSIAN:  // sigma = 1 / sqrt(8), cut at 1
            return x < 1.0f ? expf(-4.0f * x * x) : 0.0f;
        default:  // LINEAR, TRIANGULAR
            return x < 1.0f ? 1.0f - x : 0.0f;
    }
}

__device__ __forceinline__ float weight_sum(const Axis& axis, const Taps& taps) {
    float sum = 0;
    for (int index = 0; index < taps.count; ++index) sum += weight_of(axis, taps, index);
    return sum;
}

__device__ __forceinline__ int clamped(int k, int extent) { return k < 0 ? 0 : (k < extent ? k : extent - 1); }
