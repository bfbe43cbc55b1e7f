/* Resampling in floats: images, frames and volumes of any numbers.

   Slices are blended first, then rows, LINES of them at a time. These are transposed, so that the pixels of a column
   are adjacent, blended along the columns, and transposed back. Compilers vectorise all blending. */

#define LINES 8
#define PART 512 /* numbers of a row that are blended at once, so that they stay in the L1 cache */
typedef float Lines __attribute__((vector_size(LINES * sizeof(float)), aligned(sizeof(float)), may_alias));

/* Compute the weighted sum of rows of n numbers that are `stride` bytes apart. */
typedef void Blend(const char *rows, Py_ssize_t stride, const float *weights, Py_ssize_t taps, Py_ssize_t n,
                   float *restrict out);

#define BLEND_SOME(type, some, first)                                                                 \
    do {                                                                                              \
        const float *w = weights + k;                                                                 \
        const type *a = (const type *)(rows + k * stride), *b = (const type *)(rows + (k + 1) * stride); \
        const type *c = (const type *)(rows + (k + 2) * stride), *d = (const type *)(rows + (k + 3) * stride); \
        for (Py_ssize_t i = 0; i < n; i++) {                                                          \
            float sum = w[0] * (float)a[i];                                                           \
            if (some > 1) sum += w[1] * (float)b[i];                                                  \
            if (some > 2) sum += w[2] * (float)c[i];                                                  \
            if (some > 3) sum += w[3] * (float)d[i];                                                  \
            out[i] = first ? sum : out[i] + sum;                                                      \
        }                                                                                             \
        k += some;                                                                                    \
    } while (0)

/* Define `Blend` for a type; the numbers of taps are constants, for the compiler. */
#define DEFINE_BLEND(name, type)                                                                      \
    FOR_EACH_CPU                                                                                      \
    static void name(const char *rows, Py_ssize_t stride, const float *weights, Py_ssize_t taps, Py_ssize_t n, \
                     float *restrict out) {                                                           \
        Py_ssize_t k = 0;                                                                             \
        if (taps == 1)                                                                                \
            BLEND_SOME(type, 1, 1);                                                                   \
        else if (taps == 2)                                                                           \
            BLEND_SOME(type, 2, 1);                                                                   \
        else if (taps == 3)                                                                           \
            BLEND_SOME(type, 3, 1);                                                                   \
        else                                                                                          \
            BLEND_SOME(type, 4, 1);                                                                   \
        while (k + 4 <= taps) BLEND_SOME(type, 4, 0);                                                 \
        while (k < taps) BLEND_SOME(type, 1, 0);                                                      \
    }

DEFINE_BLEND(blend_uint8, uint8_t)
DEFINE_BLEND(blend_int8, int8_t)
DEFINE_BLEND(blend_uint16, uint16_t)
DEFINE_BLEND(blend_int16, int16_t)
DEFINE_BLEND(blend_float, float)

/* Blend columns of LINES pixels; `channels` is a constant, for the compiler. */
ALWAYS_INLINE void blend_some_lines(const Lines *columns, Py_ssize_t channels, const Axis *axis, Lines *restrict out) {
    for (Py_ssize_t x = 0; x < axis->size; x++) {
        const float *weights = axis->weights + x * axis->taps;
        const Lines *from = columns + axis->first[x] * channels;
        for (Py_ssize_t c = 0; c < channels; c++) {
            Lines sum = weights[0] * from[c];
            for (Py_ssize_t k = 1; k < axis->taps; k++) sum += weights[k] * from[k * channels + c];
            out[x * channels + c] = sum;
        }
    }
}

FOR_EACH_CPU
static void blend_lines(const Lines *columns, Py_ssize_t channels, const Axis *axis, Lines *restrict out) {
    if (channels == 1)
        blend_some_lines(columns, 1, axis, out);
    else if (channels == 3)
        blend_some_lines(columns, 3, axis, out);
    else
        blend_some_lines(columns, channels, axis, out);
}

/* Transpose LINES rows of n numbers that are `stride` apart. */
FOR_EACH_CPU
static void gather_lines(const float *restrict rows, Py_ssize_t stride, Py_ssize_t n, float *restrict out) {
    for (Py_ssize_t i = 0; i < n; i++)
        for (int r = 0; r < LINES; r++) out[i * LINES + r] = rows[r * stride + i];
}

/* The reverse of `gather_lines`. */
FOR_EACH_CPU
static void scatter_lines(const float *restrict columns, Py_ssize_t n, float *restrict rows, Py_ssize_t stride) {
    for (Py_ssize_t i = 0; i < n; i++)
        for (int r = 0; r < LINES; r++) rows[r * stride + i] = columns[i * LINES + r];
}

/* Round like `resample`. */
DEFINE_UNSIGNED_ROUNDING(round_to_bytes, uint8_t, 255.0f, ROUND)

static void store_numbers(const float *line, Py_ssize_t n, char kind, void *to) {
    switch (kind) {
    case 'B': round_to_bytes(line, n, to); return;
    case 'b': round_to_int8(line, n, to); return;
    case 'H': round_to_uint16(line, n, to); return;
    case 'h': round_to_int16(line, n, to); return;
    default: memcpy(to, line, n * sizeof(float));
    }
}

/* A slice to resample: rows of n numbers. */
typedef struct {
    const char *rows;
    Py_ssize_t stride, item, n;
    Blend *blend;
} Slice;

/* Return whether an axis stays as it is. */
static int is_identity(const Axis *axis, Py_ssize_t extent) {
    int same = axis->size == extent && axis->taps == 1;
    for (Py_ssize_t i = 0; same && i < extent; i++) same = axis->first[i] == i && axis->weights[i] == 1;
    return same;
}

/* Resample a slice to `kind`, adjacent rows; `work` has room for the columns of both sides, then for the result. */
static void resample_slice(const Slice *slice, const Axis *rows, const Axis *columns, Py_ssize_t channels, char kind,
                           Py_ssize_t item, char *to, float *work) {
    float blended[LINES * PART] = {0};
    const Py_ssize_t n = columns->size * channels;
    float *results = work + slice->n * LINES, *lines = results + n * LINES;
    if (is_identity(columns, slice->n / channels)) {
        for (Py_ssize_t y = 0; y < rows->size; y++) {
            slice->blend(slice->rows + rows->first[y] * slice->stride, slice->stride, rows->weights + y * rows->taps,
                         rows->taps, n, lines);
            store_numbers(lines, n, kind, to + y * n * item);
        }
        return;
    }
    for (Py_ssize_t top = 0; top < rows->size; top += LINES) {
        const Py_ssize_t count = rows->size - top < LINES ? rows->size - top : LINES;
        for (Py_ssize_t i = 0; i < slice->n; i += PART) {
            const Py_ssize_t part = slice->n - i < PART ? slice->n - i : PART;
            for (Py_ssize_t r = 0; r < count; r++)
                slice->blend(slice->rows + rows->first[top + r] * slice->stride + i * slice->item, slice->stride,
                             rows->weights + (top + r) * rows->taps, rows->taps, part, blended + r * PART);
            gather_lines(blended, PART, part, work + i * LINES);
        }
        blend_lines((const Lines *)work, channels, columns, (Lines *)results);
        if (kind == 'f' && count == LINES) {
            scatter_lines(results, n, (float *)to + top * n, n);
            continue;
        }
        scatter_lines(results, n, lines, n);
        for (Py_ssize_t r = 0; r < count; r++) store_numbers(lines + r * n, n, kind, to + (top + r) * n * item);
    }
}

static Blend *blend_of(char kind) {
    switch (kind) {
    case 'B': return blend_uint8;
    case 'b': return blend_int8;
    case 'H': return blend_uint16;
    case 'h': return blend_int16;
    case 'f': return blend_float;
    default: return NULL;
    }
}

PyDoc_STRVAR(resample_floats_doc,
             "resample_floats(source, target, slice_first, slice_weights, row_first, row_weights, column_first, "
             "column_weights)\n--\n\n"
             "Resample (d, h, w, c), rows of adjacent pixels, into C-contiguous (d, h, w, c): integers of 8 or 16 bits,\n"
             "or float32; see resample. Without weights for slices, each is resampled alone.");

static PyObject *resample_floats_call(PyObject *module, PyObject *arguments) {
    PyObject *from, *to, *result = NULL;
    Py_buffer source, target, slice_first, slice_weights, row_first, row_weights, column_first, column_weights;
    Axis slices = {0}, rows, columns;
    if (!PyArg_ParseTuple(arguments, "OOy*y*y*y*y*y*", &from, &to, &slice_first, &slice_weights, &row_first,
                          &row_weights, &column_first, &column_weights))
        return NULL;
    if (borrow_volumes(from, &source, to, &target) < 0) goto release_weights;
    Blend *blend = blend_of(source.format[0]);
    int fits = blend != NULL && blend_of(target.format[0]) != NULL && source.len > 0 &&
               (slice_first.len > 0 || source.shape[0] == target.shape[0]);
    if (!fits) {
        PyErr_SetString(PyExc_ValueError, "the arrays don't fit each other, or have other numbers");
        goto release_volumes;
    }
    if ((slice_first.len > 0 &&
         read_axis(&slice_first, &slice_weights, source.shape[0], target.shape[0], &slices) < 0) ||
        read_axis(&row_first, &row_weights, source.shape[1], target.shape[1], &rows) < 0 ||
        read_axis(&column_first, &column_weights, source.shape[2], target.shape[2], &columns) < 0)
        goto release_volumes;
    const Py_ssize_t channels = source.shape[3], n = source.shape[2] * channels, height = source.shape[1];
    const Py_ssize_t whole = slices.size ? height * n : 0;
    float *work = malloc((whole + (n + 2 * columns.size * channels) * LINES) * sizeof(float));
    if (work == NULL) {
        PyErr_NoMemory();
        goto release_volumes;
    }
    Py_BEGIN_ALLOW_THREADS
    Slice slice = {NULL, source.strides[1], source.itemsize, n, blend};
    if (slices.size) slice = (Slice){(char *)work, n * (Py_ssize_t)sizeof(float), sizeof(float), n, blend_float};
    for (Py_ssize_t z = 0; z < target.shape[0]; z++) {
        if (slices.size)
            for (Py_ssize_t y = 0; y < height; y++)
                blend((char *)source.buf + slices.first[z] * source.strides[0] + y * source.strides[1],
                      source.strides[0], slices.weights + z * slices.taps, slices.taps, n, work + y * n);
        else
            slice.rows = (char *)source.buf + z * source.strides[0];
        resample_slice(&slice, &rows, &columns, channels, target.format[0], target.itemsize,
                       (char *)target.buf + z * target.strides[0], work + whole);
    }
    Py_END_ALLOW_THREADS
    free(work);
    result = Py_NewRef(Py_None);
release_volumes:
    RELEASE(&source, &target);
release_weights:
    RELEASE(&slice_first, &slice_weights, &row_first, &row_weights, &column_first, &column_weights);
    return result;
}
