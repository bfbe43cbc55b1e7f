/* The filters of PNG, as in section 9 of its specification: bytes are stored as differences to their neighbours. */

enum { NO_FILTER, SUB, UP, AVERAGE, PAETH };

/* The bytes of a pixel, in lanes of a vector: each pixel waits for the one before it, but its bytes don't. */
typedef int16_t Lanes __attribute__((vector_size(16)));
typedef uint8_t Bytes __attribute__((vector_size(8)));

/* `size` is a compile-time constant: 4, which is fast, also for pixels of 3 bytes that others follow. */
ALWAYS_INLINE Lanes load(const uint8_t *from, int size) {
    uint32_t word = 0;
    memcpy(&word, from, size);
    return __builtin_convertvector((Bytes)(uint64_t)word, Lanes);
}

ALWAYS_INLINE void store(Lanes lanes, int size, uint8_t *to) {
    uint64_t word = (uint64_t)__builtin_convertvector(lanes, Bytes);
    memcpy(to, &word, size);
}

ALWAYS_INLINE Lanes distance(Lanes difference) {
    Lanes sign = difference >> 15;
    return (difference ^ sign) - sign;
}

ALWAYS_INLINE Lanes choose(Lanes mask, Lanes yes, Lanes no) { return (mask & yes) | (~mask & no); }

/* The neighbour that is nearest to left + up - corner. */
ALWAYS_INLINE Lanes paeth(Lanes left, Lanes up, Lanes corner) {
    Lanes rise = up - corner, run = left - corner;
    Lanes from_left = distance(rise), from_up = distance(run), from_corner = distance(rise + run);
    Lanes other = choose(from_up <= from_corner, up, corner);
    return choose((from_left <= from_up) & (from_left <= from_corner), left, other);
}

/* Restore a row; `pixel`, the number of bytes to the left neighbour, is a compile-time constant. */
ALWAYS_INLINE void restore(const uint8_t *restrict from, const uint8_t *restrict above, Py_ssize_t n, int filter,
                           int pixel, uint8_t *restrict to) {
    if (filter == NO_FILTER) memcpy(to, from, n);
    if (filter == UP)
        for (Py_ssize_t i = 0; i < n; i++) to[i] = (uint8_t)(from[i] + above[i]);
    if (filter == NO_FILTER || filter == UP) return;
    Lanes left = {0}, corner = {0};
    for (Py_ssize_t i = 0; i < n; i += pixel) {
        int inside = i + 4 <= n;
        Lanes up = inside ? load(above + i, 4) : load(above + i, pixel);
        Lanes guess = filter == SUB ? left : filter == AVERAGE ? (left + up) >> 1 : paeth(left, up, corner);
        left = ((inside ? load(from + i, 4) : load(from + i, pixel)) + guess) & 255;
        corner = up;
        if (inside)
            store(left, 4, to + i);
        else
            store(left, pixel, to + i);
    }
}

ALWAYS_INLINE void restore_row(const uint8_t *from, const uint8_t *above, Py_ssize_t n, int pixel, uint8_t *to) {
    switch (*from++) { /* constants, for the compiler */
    case SUB: restore(from, above, n, SUB, pixel, to); return;
    case UP: restore(from, above, n, UP, pixel, to); return;
    case AVERAGE: restore(from, above, n, AVERAGE, pixel, to); return;
    case PAETH: restore(from, above, n, PAETH, pixel, to); return;
    default: restore(from, above, n, NO_FILTER, pixel, to);
    }
}

/* `above`: a row of zeros, above the first one. */
FOR_EACH_CPU
static void restore_rows(const uint8_t *from, const uint8_t *above, Py_ssize_t rows, Py_ssize_t n, int pixel,
                         uint8_t *to) {
    for (Py_ssize_t y = 0; y < rows; y++, from += n + 1, above = to, to += n) {
        switch (pixel) {
        case 1: restore_row(from, above, n, 1, to); break;
        case 3: restore_row(from, above, n, 3, to); break;
        default: restore_row(from, above, n, 4, to);
        }
    }
}

PyDoc_STRVAR(unfilter_png_doc,
             "unfilter_png(rows, out)\n--\n\n"
             "Restore the rows of a PNG, each behind the byte of its filter, as contiguous uint8 (height, width, 1, 3\n"
             "or 4). Return whether all filters are known.");

static PyObject *unfilter_png_call(PyObject *module, PyObject *arguments) {
    PyObject *target, *result = NULL;
    Py_buffer rows, out;
    if (!PyArg_ParseTuple(arguments, "y*O", &rows, &target)) return NULL;
    if (PyObject_GetBuffer(target, &out, PyBUF_C_CONTIGUOUS | PyBUF_WRITABLE) < 0) goto release_rows;
    Py_ssize_t height = out.ndim == 3 ? out.shape[0] : 0, n = out.ndim == 3 ? out.shape[1] * out.shape[2] : 0;
    if (out.ndim != 3 || out.itemsize != 1 || (out.shape[2] != 1 && out.shape[2] != 3 && out.shape[2] != 4) ||
        rows.len != height * (n + 1)) {
        PyErr_SetString(PyExc_ValueError, "expected pixels of 1, 3 or 4 bytes, and a row for each row of them");
        goto release;
    }
    const uint8_t *from = rows.buf;
    int known = 1;
    for (Py_ssize_t y = 0; y < height; y++) known &= from[y * (n + 1)] <= PAETH;
    if (known && n > 0) {
        uint8_t *zeros = PyMem_Calloc(n, 1);
        if (!zeros) {
            PyErr_NoMemory();
            goto release;
        }
        int pixel = (int)out.shape[2];
        uint8_t *to = out.buf;
        Py_BEGIN_ALLOW_THREADS
        restore_rows(from, zeros, height, n, pixel, to);
        Py_END_ALLOW_THREADS
        PyMem_Free(zeros);
    }
    result = PyBool_FromLong(known);
release:
    PyBuffer_Release(&out);
release_rows:
    PyBuffer_Release(&rows);
    return result;
}
