/* Affine warps that copy the nearest pixel. */

#define WARP_CHUNK 256 /* pixels whose positions are computed at once */

/* Compute the positions of n pixels of a row, from column `first` on, along one axis: the pixel that contains each, -1
   outside of the source, or the nearest one if `clamps`. Rounds like NumPy. */
ALWAYS_INLINE void find_pixels(double base, double factor, Py_ssize_t first, Py_ssize_t n, Py_ssize_t extent,
                               int clamps, int32_t *restrict found) {
    const double end = (double)extent, last = (double)(extent - 1);
    for (Py_ssize_t i = 0; i < n; i++) {
        double at = base + factor * ((double)(int32_t)(first + i) + 0.5);
        double clamped = at > 0 ? at : 0; /* also NaN */
        clamped = clamped < last ? clamped : last;
        found[i] = clamps || (at >= 0 && at < end) ? (int32_t)clamped : -1;
    }
}

/* Copy the pixels of a row; `size` is a constant, for the compiler. */
ALWAYS_INLINE void copy_found(const Py_buffer *source, const int32_t *slices, const int32_t *rows,
                              const int32_t *columns, Py_ssize_t n, Py_ssize_t size, const char *fill, char *to) {
    for (Py_ssize_t i = 0; i < n; i++) {
        const char *from = (const char *)source->buf + slices[i] * source->strides[0] + rows[i] * source->strides[1] +
                           columns[i] * size;
        memcpy(to + i * size, (slices[i] | rows[i] | columns[i]) < 0 ? fill : from, size);
    }
}

/* Warp a volume. If the third row of the matrix is 0, as for images, all positions along z are 0. */
FOR_EACH_CPU_UNFUSED
static void warp_nearest(const Py_buffer *source, const Py_buffer *target, const double *matrix, const char *fill) {
    int32_t columns[WARP_CHUNK], rows[WARP_CHUNK], slices[WARP_CHUNK] = {0};
    const Py_ssize_t *from = source->shape, *to = target->shape, size = from[3];
    int is_flat = 1;
    for (int a = 8; a < 12; a++) is_flat = is_flat && matrix[a] == 0;
    for (Py_ssize_t z = 0; z < to[0]; z++)
        for (Py_ssize_t y = 0; y < to[1]; y++) {
            double bases[3];
            for (int a = 0; a < 3; a++) {
                const double *row = matrix + 4 * a;
                bases[a] = row[3] + row[2] * ((double)z + 0.5) + row[1] * ((double)y + 0.5);
            }
            for (Py_ssize_t x = 0; x < to[2]; x += WARP_CHUNK) {
                Py_ssize_t n = to[2] - x < WARP_CHUNK ? to[2] - x : WARP_CHUNK;
                find_pixels(bases[0], matrix[0], x, n, from[2], fill == NULL, columns);
                find_pixels(bases[1], matrix[4], x, n, from[1], fill == NULL, rows);
                if (!is_flat) find_pixels(bases[2], matrix[8], x, n, from[0], fill == NULL, slices);
                char *out = (char *)target->buf + z * target->strides[0] + y * target->strides[1] + x * size;
                switch (size) {
                case 1: copy_found(source, slices, rows, columns, n, 1, fill, out); break;
                case 2: copy_found(source, slices, rows, columns, n, 2, fill, out); break;
                case 3: copy_found(source, slices, rows, columns, n, 3, fill, out); break;
                case 4: copy_found(source, slices, rows, columns, n, 4, fill, out); break;
                case 12: copy_found(source, slices, rows, columns, n, 12, fill, out); break;
                default: copy_found(source, slices, rows, columns, n, size, fill, out);
                }
            }
        }
}

PyDoc_STRVAR(warp_nearest_doc,
             "warp_nearest(source, target, matrix, fill)\n--\n\n"
             "Copy pixels of uint8 (d, h, w, bytes), rows of adjacent pixels of any type, into C-contiguous memory of the\n"
             "same kind. matrix: float64 (3, 4), maps the centers of the target's pixels to x, y, z in the source; fill: a\n"
             "pixel for those outside, or b'' to repeat the border.");

static PyObject *warp_nearest_call(PyObject *module, PyObject *arguments) {
    PyObject *from, *to, *result = NULL;
    Py_buffer matrix, fill, source, target;
    if (!PyArg_ParseTuple(arguments, "OOy*y*", &from, &to, &matrix, &fill)) return NULL;
    if (borrow_volumes(from, &source, to, &target) < 0) goto release_values;
    int fits = source.itemsize == 1 && target.itemsize == 1 && source.len > 0 &&
               matrix.len == 12 * (Py_ssize_t)sizeof(double) && (fill.len == 0 || fill.len == source.shape[3]);
    for (int a = 0; fits && a < 3; a++) fits = source.shape[a] <= INT32_MAX && target.shape[a] <= INT32_MAX;
    if (!fits) {
        PyErr_SetString(PyExc_ValueError, "the image, the result, the matrix and the fill value don't fit each other");
    } else {
        Py_BEGIN_ALLOW_THREADS
        warp_nearest(&source, &target, matrix.buf, fill.len ? fill.buf : NULL);
        Py_END_ALLOW_THREADS
        result = Py_NewRef(Py_None);
    }
    RELEASE(&source, &target);
release_values:
    RELEASE(&matrix, &fill);
    return result;
}
