/* Resampling of 8-bit images in floats, for weights that `fixed_point.h` doesn't support, and normalisation. */

/* Compute the weighted sum of up to four rows of n bytes. Add it to `out`, or store it if it is the first sum. */
ALWAYS_INLINE void blend_some(const uint8_t *rows, Py_ssize_t stride, const float *weights, int taps, int first,
                              Py_ssize_t n, float *restrict out) {
    const uint8_t *a = rows, *b = rows + stride, *c = rows + 2 * stride, *d = rows + 3 * stride;
    float w[4] = {0};
    for (int k = 0; k < taps; k++) w[k] = weights[k];
    for (Py_ssize_t i = 0; i < n; i++) {
        float sum = w[0] * a[i];
        if (taps > 1) sum += w[1] * b[i];
        if (taps > 2) sum += w[2] * c[i];
        if (taps > 3) sum += w[3] * d[i];
        out[i] = first ? sum : out[i] + sum;
    }
}

/* Compute the weighted sum of rows of n bytes; the number of taps and `first` are constants, for the compiler. */
ALWAYS_INLINE void blend_rows(const uint8_t *rows, Py_ssize_t stride, const float *weights, Py_ssize_t taps,
                              Py_ssize_t n, float *restrict out) {
    switch (taps) {
    case 1: blend_some(rows, stride, weights, 1, 1, n, out); return;
    case 2: blend_some(rows, stride, weights, 2, 1, n, out); return;
    case 3: blend_some(rows, stride, weights, 3, 1, n, out); return;
    default: blend_some(rows, stride, weights, 4, 1, n, out);
    }
    Py_ssize_t k = 4;
    for (; k + 4 <= taps; k += 4) blend_some(rows + k * stride, stride, weights + k, 4, 0, n, out);
    for (; k < taps; k++) blend_some(rows + k * stride, stride, weights + k, 1, 0, n, out);
}

/* Compute one row of output pixels, LANES floats each; this reads up to LANES floats beyond the end of `row`. */
ALWAYS_INLINE void blend_columns(const float *row, Py_ssize_t channels, const Axis *axis, float *restrict out) {
    for (Py_ssize_t x = 0; x < axis->size; x++) {
        const float *weights = axis->weights + x * axis->taps;
        const float *from = row + axis->first[x] * channels;
        Pixel sum = weights[0] * *(const Pixel *)from;
        for (Py_ssize_t k = 1; k < axis->taps; k++) sum += weights[k] * *(const Pixel *)(from + k * channels);
        *(Pixel *)(out + x * LANES) = sum;
    }
}

/* Round one channel of a row of pixels. Clamp in integers, which compilers vectorise. */
ALWAYS_INLINE void round_row(const float *pixels, Py_ssize_t width, Py_ssize_t step, uint8_t *restrict out) {
    for (Py_ssize_t x = 0; x < width; x++) {
        int value = (int)(pixels[x * LANES] + ROUND);
        value = value < 0 ? 0 : value;
        out[x * step] = (uint8_t)(value > 255 ? 255 : value);
    }
}

/* Round pixels with three adjacent channels. */
ALWAYS_INLINE void round_rgb(const float *pixels, Py_ssize_t width, uint8_t *restrict out) {
    for (Py_ssize_t x = 0; x < width; x++) {
        for (int c = 0; c < 3; c++) {
            int value = (int)(pixels[x * LANES + c] + ROUND);
            value = value < 0 ? 0 : value;
            out[x * 3 + c] = (uint8_t)(value > 255 ? 255 : value);
        }
    }
}

FOR_EACH_CPU
static void resample(const Image *source, const Image *target, const Axis *rows, const Axis *columns, float *row,
                     float *pixels) {
    Py_ssize_t width = columns->size, channels = source->shape[2], step = target->strides[1];
    for (Py_ssize_t y = 0; y < rows->size; y++) {
        const uint8_t *from = (const uint8_t *)source->data + rows->first[y] * source->strides[0];
        const float *weights = rows->weights + y * rows->taps;
        blend_rows(from, source->strides[0], weights, rows->taps, source->shape[1] * channels, row);
        if (channels == 3) /* a constant, for the compiler */
            blend_columns(row, 3, columns, pixels);
        else
            blend_columns(row, channels, columns, pixels);
        uint8_t *line = (uint8_t *)target->data + y * target->strides[0];
        if (step == 3 && channels == 3 && target->strides[2] == 1) {
            round_rgb(pixels, width, line);
            continue;
        }
        for (Py_ssize_t c = 0; c < channels; c++) {
            uint8_t *to = line + c * target->strides[2];
            if (step == 1)
                round_row(pixels + c, width, 1, to);
            else
                round_row(pixels + c, width, step, to);
        }
    }
}

#define SCALE_ROW(type, step)                                                                          \
    for (Py_ssize_t x = 0; x < width; x++) row[x] = (float)from[x * (step)] * gains[c] + offsets[c]

/* Define the normalisation of an image of a type; usual steps between pixels are constants, for the compiler. */
#define DEFINE_NORMALIZE(name, type)                                                                   \
    FOR_EACH_CPU                                                                                       \
    static void name(const Image *source, const Image *target, const float *gains, const float *offsets, \
                     float *mirrored) {                                                                \
        const Py_ssize_t width = source->shape[1], step = source->strides[1] / (Py_ssize_t)sizeof(type); \
        for (Py_ssize_t y = 0; y < source->shape[0]; y++)                                              \
            for (Py_ssize_t c = 0; c < source->shape[2]; c++) {                                        \
                const type *from = (const type *)(source->data + y * source->strides[0] + c * source->strides[2]); \
                float *to = (float *)(target->data + y * target->strides[0] + c * target->strides[2]); \
                float *restrict row = mirrored ? mirrored : to;                                        \
                if (step == 1)                                                                         \
                    SCALE_ROW(type, 1);                                                                \
                else if (step == 3)                                                                    \
                    SCALE_ROW(type, 3);                                                                \
                else                                                                                   \
                    SCALE_ROW(type, step);                                                             \
                if (mirrored) {                                                                        \
                    const float *end = row + width - 1;                                                \
                    for (Py_ssize_t x = 0; x < width; x++) to[x] = end[-x];                            \
                }                                                                                      \
            }                                                                                          \
    }

DEFINE_NORMALIZE(normalize_uint8, uint8_t)
DEFINE_NORMALIZE(normalize_int8, int8_t)
DEFINE_NORMALIZE(normalize_uint16, uint16_t)
DEFINE_NORMALIZE(normalize_int16, int16_t)
DEFINE_NORMALIZE(normalize_float, float)

typedef void Normalize(const Image *source, const Image *target, const float *gains, const float *offsets,
                       float *mirrored);

static Normalize *normalize_of(char kind) {
    switch (kind) {
    case 'B': return normalize_uint8;
    case 'b': return normalize_int8;
    case 'H': return normalize_uint16;
    case 'h': return normalize_int16;
    case 'f': return normalize_float;
    default: return NULL;
    }
}
