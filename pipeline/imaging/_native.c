/* The two loops over pixels that take most of a CPU pipeline's time: resampling and normalising 8-bit pictures.

   The same is computed by `resample.py` and `normalize.py` without this module, in several passes over memory; here a
   picture goes through the registers once, in one call without the GIL. Nothing is decided here: weights, windows and
   borders come from Python. Compilers vectorise the loops; on x86-64, GCC makes a second version for AVX2. */

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#if defined(__x86_64__) && defined(__linux__) && defined(__GNUC__) && !defined(__clang__) && __GNUC__ >= 12
#define FOR_EACH_CPU __attribute__((target_clones("arch=x86-64-v3", "default")))
#else
#define FOR_EACH_CPU
#endif
#define ALWAYS_INLINE static inline __attribute__((always_inline))

#define LANES 4 /* floats kept for a pixel while it is made, whatever its channels */
typedef float Pixel __attribute__((vector_size(LANES * sizeof(float)), aligned(sizeof(float)), may_alias));

/* Turns ties up, as DALI does, where sums of float weights may lie a hair below them. */
#define ROUND 0.5001f

/* An array of three axes that a caller lent: rows, columns, channels in this order, whatever their strides. */
typedef struct {
    char *data;
    Py_ssize_t shape[3];
    Py_ssize_t strides[3];
} Image;

/* How an axis is resampled: output i is the sum over k < taps of weights[i * taps + k] * input[first[i] + k]. */
typedef struct {
    const int32_t *first;
    const float *weights;
    Py_ssize_t size;
    Py_ssize_t taps;
} Axis;

/* The weighted sum of up to four rows of n bytes, added to what `out` holds unless it is the first. */
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

/* The weighted sum of rows of n bytes; the number of taps and `first` are constants, for the compiler. */
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

/* One row of output pixels, LANES floats each; `row` may be read LANES floats beyond its end. */
ALWAYS_INLINE void blend_columns(const float *row, Py_ssize_t channels, const Axis *axis, float *restrict out) {
    for (Py_ssize_t x = 0; x < axis->size; x++) {
        const float *weights = axis->weights + x * axis->taps;
        const float *from = row + axis->first[x] * channels;
        Pixel sum = weights[0] * *(const Pixel *)from;
        for (Py_ssize_t k = 1; k < axis->taps; k++) sum += weights[k] * *(const Pixel *)(from + k * channels);
        *(Pixel *)(out + x * LANES) = sum;
    }
}

/* Rounds one channel of a row of pixels; clamped in integers, which compilers vectorise. */
ALWAYS_INLINE void round_row(const float *pixels, Py_ssize_t width, Py_ssize_t step, uint8_t *restrict out) {
    for (Py_ssize_t x = 0; x < width; x++) {
        int value = (int)(pixels[x * LANES] + ROUND);
        value = value < 0 ? 0 : value;
        out[x * step] = (uint8_t)(value > 255 ? 255 : value);
    }
}

/* The same for pixels whose three channels lie side by side. */
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

ALWAYS_INLINE void scale_row(const uint8_t *from, Py_ssize_t step, Py_ssize_t width, float gain, float offset,
                             float *restrict out) {
    for (Py_ssize_t x = 0; x < width; x++) out[x] = from[x * step] * gain + offset;
}

FOR_EACH_CPU
static void normalize(const Image *source, const Image *target, const float *gains, const float *offsets,
                      float *mirrored) {
    Py_ssize_t width = source->shape[1], step = source->strides[1];
    for (Py_ssize_t y = 0; y < source->shape[0]; y++) {
        for (Py_ssize_t c = 0; c < source->shape[2]; c++) {
            const uint8_t *from = (const uint8_t *)source->data + y * source->strides[0] + c * source->strides[2];
            float *to = (float *)(target->data + y * target->strides[0] + c * target->strides[2]);
            float *row = mirrored ? mirrored : to;
            if (step == 1) /* constants, for the compiler */
                scale_row(from, 1, width, gains[c], offsets[c], row);
            else if (step == 3)
                scale_row(from, 3, width, gains[c], offsets[c], row);
            else
                scale_row(from, step, width, gains[c], offsets[c], row);
            if (mirrored) {
                const float *end = row + width - 1;
                for (Py_ssize_t x = 0; x < width; x++) to[x] = end[-x];
            }
        }
    }
}

/* Borrows an array of rows, columns and channels; `format` is its element type, as struct writes it. */
static int borrow(PyObject *array, Py_buffer *view, Image *image, char format, int writable) {
    if (PyObject_GetBuffer(array, view, PyBUF_STRIDES | PyBUF_FORMAT | (writable ? PyBUF_WRITABLE : 0)) < 0) return -1;
    if (view->ndim != 3 || view->format == NULL || view->format[0] != format || view->format[1] != 0) {
        PyBuffer_Release(view);
        PyErr_Format(PyExc_ValueError, "expected an array of three axes with elements of type '%c'", format);
        return -1;
    }
    image->data = view->buf;
    memcpy(image->shape, view->shape, sizeof(image->shape));
    memcpy(image->strides, view->strides, sizeof(image->strides));
    return 0;
}

/* Reads how an axis is resampled, and checks that no tap leaves the `extent` inputs. */
static int read_axis(const Py_buffer *first, const Py_buffer *weights, Py_ssize_t extent, Py_ssize_t size, Axis *axis) {
    axis->first = first->buf;
    axis->weights = weights->buf;
    axis->size = first->len / (Py_ssize_t)sizeof(int32_t);
    axis->taps = axis->size ? weights->len / (Py_ssize_t)sizeof(float) / axis->size : 0;
    int fits = axis->size == size && axis->taps > 0;
    for (Py_ssize_t i = 0; fits && i < size; i++)
        fits = axis->first[i] >= 0 && axis->first[i] + axis->taps <= extent;
    if (!fits) PyErr_SetString(PyExc_ValueError, "the weights don't fit the picture's or the result's extents");
    return fits ? 0 : -1;
}

PyDoc_STRVAR(resample_doc,
             "resample(source, target, row_first, row_weights, column_first, column_weights)\n--\n\n"
             "Resamples uint8 (h, w, c), rows of adjacent pixels, c <= 4, into uint8 (h, w, c) of any strides.\n"
             "Output i of an axis is the sum over k of weights[i, k] * input[first[i] + k], rounded and clamped.");

static PyObject *resample_call(PyObject *module, PyObject *arguments) {
    PyObject *from, *to, *result = NULL;
    Py_buffer row_first, row_weights, column_first, column_weights, source_view, target_view;
    Image source, target;
    Axis rows, columns;
    if (!PyArg_ParseTuple(arguments, "OOy*y*y*y*", &from, &to, &row_first, &row_weights, &column_first,
                          &column_weights))
        return NULL;
    if (borrow(from, &source_view, &source, 'B', 0) < 0) goto release_weights;
    if (borrow(to, &target_view, &target, 'B', 1) < 0) goto release_source;
    Py_ssize_t channels = source.shape[2];
    if (channels < 1 || channels > LANES || target.shape[2] != channels || source.strides[2] != 1 ||
        source.strides[1] != channels) {
        PyErr_SetString(PyExc_ValueError, "expected 1 to 4 adjacent channels, as many in the result");
        goto release_target;
    }
    if (read_axis(&row_first, &row_weights, source.shape[0], target.shape[0], &rows) < 0 ||
        read_axis(&column_first, &column_weights, source.shape[1], target.shape[1], &columns) < 0)
        goto release_target;
    float *work = calloc(source.shape[1] * channels + LANES + columns.size * LANES, sizeof(float));
    if (work == NULL) {
        PyErr_NoMemory();
        goto release_target;
    }
    Py_BEGIN_ALLOW_THREADS
    resample(&source, &target, &rows, &columns, work, work + source.shape[1] * channels + LANES);
    Py_END_ALLOW_THREADS
    free(work);
    result = Py_NewRef(Py_None);
release_target:
    PyBuffer_Release(&target_view);
release_source:
    PyBuffer_Release(&source_view);
release_weights:
    PyBuffer_Release(&row_first);
    PyBuffer_Release(&row_weights);
    PyBuffer_Release(&column_first);
    PyBuffer_Release(&column_weights);
    return result;
}

PyDoc_STRVAR(normalize_doc,
             "normalize(source, target, mirror, gains, offsets)\n--\n\n"
             "Writes source * gain + offset of each channel: uint8 (h, w, c) of any strides into float32 (h, w, c)\n"
             "whose columns are adjacent; columns in reverse if mirror.");

static PyObject *normalize_call(PyObject *module, PyObject *arguments) {
    PyObject *from, *to, *result = NULL;
    Py_buffer gains, offsets, source_view, target_view;
    Image source, target;
    int mirror;
    if (!PyArg_ParseTuple(arguments, "OOpy*y*", &from, &to, &mirror, &gains, &offsets)) return NULL;
    if (borrow(from, &source_view, &source, 'B', 0) < 0) goto release_values;
    if (borrow(to, &target_view, &target, 'f', 1) < 0) goto release_source;
    Py_ssize_t nbytes = source.shape[2] * (Py_ssize_t)sizeof(float);
    if (memcmp(source.shape, target.shape, sizeof(source.shape)) != 0 || gains.len != nbytes ||
        offsets.len != nbytes || (target.strides[1] != sizeof(float) && target.shape[1] > 1)) {
        PyErr_SetString(PyExc_ValueError, "the result or the values don't fit the picture");
        goto release_target;
    }
    float *mirrored = mirror ? malloc((source.shape[1] + 1) * sizeof(float)) : NULL;
    if (mirror && mirrored == NULL) {
        PyErr_NoMemory();
        goto release_target;
    }
    Py_BEGIN_ALLOW_THREADS
    normalize(&source, &target, gains.buf, offsets.buf, mirrored);
    Py_END_ALLOW_THREADS
    free(mirrored);
    result = Py_NewRef(Py_None);
release_target:
    PyBuffer_Release(&target_view);
release_source:
    PyBuffer_Release(&source_view);
release_values:
    PyBuffer_Release(&gains);
    PyBuffer_Release(&offsets);
    return result;
}

static PyMethodDef functions[] = {
    {"resample", resample_call, METH_VARARGS, resample_doc},
    {"normalize", normalize_call, METH_VARARGS, normalize_doc},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, .m_name = "_native", .m_doc = "Loops over pixels.", .m_size = 0, .m_methods = functions,
};

PyMODINIT_FUNC PyInit__native(void) { return PyModuleDef_Init(&definition); }
