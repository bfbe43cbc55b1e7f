/* Converts planar YUV of 8 bits, the output of video decoders on the CPU, to pixels in one pass, without the GIL.

   Without this module, `pixels.py` computes the same with swscale and OpenCV, in several passes over memory. Colors are
   sums of 16-bit products; a pixel differs by at most 1 from floating point. Compilers vectorise the loops. */

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>
#include <string.h>

#include "../for_each_cpu.h"
#include "../sources.h"

#define BLOCK 256 /* pixels of a row to convert at once; even, as two pixels share chroma */

/* Siting of the chroma of two columns: each has its own, or they share one between them, or in the left one. */
enum { EACH, BETWEEN, LEFT };

typedef struct {
    const uint8_t *data[3]; /* Y, Cb, Cr */
    Py_ssize_t pitch[3];    /* bytes from a row to the next */
    Py_ssize_t height, width;
    int halved_rows, siting;
} Planes;

/* A color is the sum of the products with Y, Cb - 128, Cr - 128, and an offset. */
typedef struct {
    int16_t factors[3]; /* 1 is 8192 */
    int16_t offset;     /* 1 is 32 */
} Color;

ALWAYS_INLINE Py_ssize_t half(Py_ssize_t extent) { return extent / 2 + extent % 2; }

/* (a * b) / 2^15, rounded: one instruction on many processors. */
ALWAYS_INLINE int16_t multiply(int16_t a, int16_t b) { return (int16_t)((((int)a * b >> 14) + 1) >> 1); }

/* Chroma of n columns from `first` on, and of one column before and after them: 3/4 of the near row, 1/4 of the far
   one. The result is multiplied by 4. */
ALWAYS_INLINE void blend_rows(const uint8_t *near, const uint8_t *far, Py_ssize_t first, Py_ssize_t n,
                              Py_ssize_t columns, int16_t *restrict out) {
    Py_ssize_t before = first > 0 ? first - 1 : 0, behind = first + n < columns ? first + n : columns - 1;
    out[0] = (int16_t)(3 * near[before] + far[before]);
    for (Py_ssize_t i = 0; i < n; i++) out[1 + i] = (int16_t)(3 * near[first + i] + far[first + i]);
    out[1 + n] = (int16_t)(3 * near[behind] + far[behind]);
}

/* Chroma of each pixel, minus 128, multiplied by 128. May write one pixel more than n. */
ALWAYS_INLINE void blend_columns(const int16_t *chroma, Py_ssize_t n, int siting, int16_t *restrict out) {
    const int16_t *left = chroma, *here = chroma + 1, *right = chroma + 2;
    if (siting == EACH) {
        for (Py_ssize_t x = 0; x < n; x++) out[x] = (int16_t)((here[x] - 4 * 128) * 32);
        return;
    }
    for (Py_ssize_t i = 0; i < half(n); i++) {
        int even = siting == LEFT ? 4 * here[i] : 3 * here[i] + left[i];
        int odd = siting == LEFT ? 2 * here[i] + 2 * right[i] : 3 * here[i] + right[i];
        out[2 * i] = (int16_t)((even - 16 * 128) * 8);
        out[2 * i + 1] = (int16_t)((odd - 16 * 128) * 8);
    }
}

ALWAYS_INLINE uint8_t color_of(int16_t luma, int16_t blue, int16_t red, Color color) {
    int16_t sum = (int16_t)(color.offset + 16 + multiply(luma, color.factors[0]));
    sum = (int16_t)(sum + multiply(blue, color.factors[1]));
    sum = (int16_t)(sum + multiply(red, color.factors[2]));
    sum = (int16_t)(sum >> 5);
    sum = sum < 0 ? 0 : sum;
    sum = sum > 255 ? 255 : sum;
    return (uint8_t)sum;
}

/* Converts a block of a row; `channels` is a compile-time constant. */
ALWAYS_INLINE void color_block(const uint8_t *luma, const int16_t *blue, const int16_t *red, const Color *colors,
                               int channels, Py_ssize_t n, uint8_t *restrict out) {
    Color first = colors[0], second = colors[channels > 1 ? 1 : 0], third = colors[channels > 1 ? 2 : 0];
    int16_t wide[BLOCK]; /* luma is widened separately: within the sums, compilers widen it more than necessary */
    for (Py_ssize_t x = 0; x < n; x++) wide[x] = (int16_t)(luma[x] << 7);
    for (Py_ssize_t x = 0; x < n; x++) {
        out[channels * x] = color_of(wide[x], blue[x], red[x], first);
        if (channels == 1) continue;
        out[channels * x + 1] = color_of(wide[x], blue[x], red[x], second);
        out[channels * x + 2] = color_of(wide[x], blue[x], red[x], third);
    }
}

FOR_EACH_CPU
static void convert(const Planes *planes, const Color *colors, Py_ssize_t channels, uint8_t *out) {
    int16_t chroma[BLOCK + 2], blended[2][BLOCK];
    int halved = planes->siting != EACH;
    Py_ssize_t rows = planes->halved_rows ? half(planes->height) : planes->height;
    Py_ssize_t columns = halved ? half(planes->width) : planes->width;
    for (Py_ssize_t y = 0; y < planes->height; y++) {
        Py_ssize_t near = planes->halved_rows ? y / 2 : y, far = near;
        if (planes->halved_rows) far += y % 2 ? 1 : -1;
        far = far < 0 ? 0 : far < rows ? far : rows - 1;
        for (Py_ssize_t x = 0; x < planes->width; x += BLOCK) {
            Py_ssize_t n = planes->width - x < BLOCK ? planes->width - x : BLOCK;
            for (int c = 0; c < 2; c++) {
                const uint8_t *data = planes->data[1 + c];
                Py_ssize_t pitch = planes->pitch[1 + c];
                blend_rows(data + near * pitch, data + far * pitch, halved ? x / 2 : x, halved ? half(n) : n, columns,
                           chroma);
                if (planes->siting == BETWEEN) /* compile-time constants */
                    blend_columns(chroma, n, BETWEEN, blended[c]);
                else if (planes->siting == LEFT)
                    blend_columns(chroma, n, LEFT, blended[c]);
                else
                    blend_columns(chroma, n, EACH, blended[c]);
            }
            const uint8_t *luma = planes->data[0] + y * planes->pitch[0] + x;
            uint8_t *to = out + (y * planes->width + x) * channels;
            if (channels == 1)
                color_block(luma, blended[0], blended[1], colors, 1, n, to);
            else
                color_block(luma, blended[0], blended[1], colors, 3, n, to);
        }
    }
}

/* Whether a borrowed buffer contains a plane of so many rows and columns. */
static int holds(const Py_buffer *view, Py_ssize_t pitch, Py_ssize_t rows, Py_ssize_t columns) {
    return pitch >= columns && columns <= view->len && (rows - 1) <= (view->len - columns) / pitch;
}

PyDoc_STRVAR(convert_doc,
             "convert(luma, blue, red, pitches, halved, left, colors, out)\n--\n\n"
             "Converts planes of bytes, whose rows are `pitches` apart, to uint8 (height, width, 1 or 3).\n"
             "`halved`: whether chroma has half the rows, and half the columns; `left`: whether it is then sited in\n"
             "the left one of two columns. A color is 4 numbers of int16: the factors of Y, Cb - 128 and Cr - 128\n"
             "in units of 1/8192, and the offset in units of 1/32.");

static PyObject *convert_call(PyObject *module, PyObject *arguments) {
    PyObject *target, *result = NULL;
    Py_buffer views[3], colors, out;
    Planes planes;
    Color table[3];
    int halved_columns, left;
    if (!PyArg_ParseTuple(arguments, "y*y*y*(nnn)(pp)py*O", &views[0], &views[1], &views[2], &planes.pitch[0],
                          &planes.pitch[1], &planes.pitch[2], &planes.halved_rows, &halved_columns, &left, &colors,
                          &target))
        return NULL;
    if (PyObject_GetBuffer(target, &out, PyBUF_C_CONTIGUOUS | PyBUF_WRITABLE) < 0) goto release_planes;
    if (out.ndim != 3 || out.itemsize != 1 || (out.shape[2] != 1 && out.shape[2] != 3) ||
        colors.len != out.shape[2] * (Py_ssize_t)sizeof(Color)) {
        PyErr_SetString(PyExc_ValueError, "expected pixels of 1 or 3 bytes, and as many colors");
        goto release;
    }
    memcpy(table, colors.buf, colors.len);
    planes.height = out.shape[0];
    planes.width = out.shape[1];
    planes.siting = !halved_columns ? EACH : left ? LEFT : BETWEEN;
    for (int c = 0; c < 3 && out.len > 0; c++) {
        Py_ssize_t rows = c && planes.halved_rows ? half(planes.height) : planes.height;
        Py_ssize_t columns = c && halved_columns ? half(planes.width) : planes.width;
        if (!holds(&views[c], planes.pitch[c], rows, columns)) {
            PyErr_SetString(PyExc_ValueError, "a plane is smaller than the pixels need");
            goto release;
        }
        planes.data[c] = views[c].buf;
    }
    if (out.len > 0) {
        Py_BEGIN_ALLOW_THREADS
        convert(&planes, table, out.shape[2], out.buf);
        Py_END_ALLOW_THREADS
    }
    result = Py_NewRef(Py_None);
release:
    PyBuffer_Release(&out);
release_planes:
    for (int c = 0; c < 3; c++) PyBuffer_Release(&views[c]);
    PyBuffer_Release(&colors);
    return result;
}

static PyMethodDef functions[] = {
    {"convert", convert_call, METH_VARARGS, convert_doc},
    SOURCES_METHOD,
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, .m_name = "_native", .m_doc = "Pixels of video frames.", .m_size = 0, .m_methods = functions,
};

PyMODINIT_FUNC PyInit__native(void) { return PyModuleDef_Init(&definition); }
