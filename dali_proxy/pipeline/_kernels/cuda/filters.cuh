// Resampling filters and the taps of one output position, as in DALI. Pixel k covers [k, k + 1); its center is k + 0.5.
// Outside the image, edge pixels repeat. Weights are divided by their sum.
//
// Every sum uses fmaf explicitly, so that the kernels that share this file round alike.

enum Filter { NEAREST = 0, LINEAR = 1, CUBIC = 2, LANCZOS3 = 3, TRIANGULAR = 4, GAUSSIAN = 5 };

// Mapping of an output axis to the source: output i lies at origin + (i + 0.5) * scale.
struct Axis {
    double origin, scale;
    float radius;  // of the filter's support, in source pixels
    float shrink;  // filter units per source pixel: 1 / max(1, |scale|) if antialiased, otherwise 1
    int filter;
    int extent;    // of the source, in pixels
    int base;      // for NEAREST, in pixels: positions are rounded as if the source began here
    int adds;      // for NEAREST: whether positions are accumulated (rows) or multiplied (columns); decides ties
};

struct Taps {
    int first, count;
    float offset;  // from the output's position to the center of the first pixel
};

// The nearest pixel, with the arithmetic of `nearest_indices` on the CPU. fmaf with 0 prevents the compiler from fusing
// the product with the sum.
__device__ __forceinline__ int nearest_of(const Axis& axis, int i) {
    const float begin = static_cast<float>(axis.origin - axis.base), scale = static_cast<float>(axis.scale);
    float center = begin + fmaf(axis.adds ? 0.5f : i + 0.5f, scale, 0.0f);
    for (int k = 0; axis.adds && k < i; ++k) center += scale;
    return static_cast<int>(floorf(center)) + axis.base;
}

__device__ __forceinline__ Taps taps_of(const Axis& axis, int i) {
    Taps taps;
    if (axis.filter == NEAREST) {
        taps.first = nearest_of(axis, i);
        taps.count = 1;
        taps.offset = 0;
    } else {
        const double center = fma(i + 0.5, axis.scale, axis.origin);
        const double reach = axis.radius + 1e-4;  // a tap on the edge may round to either side
        taps.first = static_cast<int>(ceil(center - reach - 0.5));
        taps.count = static_cast<int>(floor(center + reach - 0.5)) - taps.first + 1;
        taps.offset = static_cast<float>(taps.first + 0.5 - center);
    }
    return taps;
}

// sinc(x) * sinc(x / 3) at x = 0, 1/32, 2/32 ... as on the CPU: with sinf, it would cost several times as much.
__device__ static const float LANCZOS3_CURVE[] = {
    1.0f, 0.9982162f, 0.99287766f, 0.9840227f, 0.9717148f, 0.9560422f, 0.9371167f, 0.9150729f, 0.89006704f,
    0.86227524f, 0.8318922f, 0.7991291f, 0.76421225f, 0.7273802f, 0.6888825f, 0.64897686f, 0.6079271f, 0.5660008f,
    0.52346706f, 0.4805941f, 0.43764699f, 0.39488557f, 0.3525622f, 0.31091976f, 0.27018982f, 0.23059082f, 0.19232647f,
    0.15558434f, 0.1205346f, 0.08732895f, 0.05609977f, 0.02695946f, 3.223762e-17f, -0.024707308f, -0.047111854f,
    -0.06718355f, -0.08491247f, -0.100308284f, -0.11339951f, -0.124232635f, -0.13287102f, -0.13939372f, -0.14389417f,
    -0.14647873f, -0.14726517f, -0.1463811f, -0.14396234f, -0.14015122f, -0.13509491f, -0.12894379f, -0.12184972f,
    -0.11396452f, -0.105438374f, -0.09641836f, -0.08704709f, -0.07746144f, -0.067791335f, -0.058158766f, -0.04867684f,
    -0.03944902f, -0.03056849f, -0.022117669f, -0.014167872f, -0.0067791026f, -1.611881e-17f, 0.006132081f,
    0.011590861f, 0.016360803f, 0.020436661f, 0.023822933f, 0.026533203f, 0.02858942f, 0.030021092f, 0.03086443f,
    0.03116145f, 0.030959029f, 0.030307963f, 0.029262012f, 0.027876945f, 0.026209619f, 0.024317084f, 0.022255722f,
    0.020080455f, 0.017843992f, 0.015596168f, 0.013383339f, 0.011247866f, 0.009227678f, 0.007355926f, 0.005660721f,
    0.004164963f, 0.0028862522f, 0.00183689f, 0.0010239569f, 4.4946928e-4f, 1.1060567e-4f, 0.0f, 0.0f,
};

// A smooth filter at distance x >= 0, a multiple of 1/32.
__device__ __forceinline__ float curve(int filter, float x) {
    switch (filter) {
        case CUBIC:  // Catmull-Rom: a = -0.5
            if (x < 1.0f) return fmaf(x * x, fmaf(1.5f, x, -2.5f), 1.0f);
            return x < 2.0f ? fmaf(x, fmaf(x, fmaf(-0.5f, x, 2.5f), -4.0f), 2.0f) : 0.0f;
        case LANCZOS3:
            return x < 3.0f ? LANCZOS3_CURVE[static_cast<int>(x * 32.0f)] : 0.0f;
        default:  // GAUSSIAN: sigma = 1 / sqrt(8)
            return expf(-4.0f * x * x);
    }
}

// Weight of tap `index`. As in DALI, smooth filters are tables of 32 steps per pixel, interpolated linearly.
__device__ __forceinline__ float weight_of(const Axis& axis, const Taps& taps, int index) {
    if (axis.filter == NEAREST) return 1.0f;
    const float x = (taps.offset + index) * axis.shrink, distance = fabsf(x);
    if (axis.filter == LINEAR || axis.filter == TRIANGULAR) return distance < 1.0f ? 1.0f - distance : 0.0f;
    // The Gaussian isn't 0 at its edges: only the tap on the left edge counts, regardless of the rounding of x.
    if (axis.filter == GAUSSIAN && (x < -1.00001f || x > 0.99999f)) return 0.0f;
    const float position = distance * 32.0f, step = floorf(position);
    const float low = curve(axis.filter, step / 32.0f), high = curve(axis.filter, (step + 1.0f) / 32.0f);
    return fmaf(position - step, high - low, low);
}

__device__ __forceinline__ float weight_sum(const Axis& axis, const Taps& taps) {
    float sum = 0;
    for (int index = 0; index < taps.count; ++index) sum += weight_of(axis, taps, index);
    return sum;
}

__device__ __forceinline__ int clamped(int k, int extent) { return k < 0 ? 0 : (k < extent ? k : extent - 1); }
