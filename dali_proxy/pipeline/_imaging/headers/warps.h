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
ALWAYS_INLINE void copy_found(const Image *source, const int32_t *rows, const int32_t *columns, Py_ssize_t n,
                              Py_ssize_t size, const char *fill, char *to) {
    for (Py_ssize_t i = 0; i < n; i++) {
        const char *from = (rows[i] | columns[i]) < 0
                               ? fill
                               : source->data + rows[i] * source->strides[0] + columns[i] * size;
        memcpy(to + i * size, from, size);
    }
}

FOR_EACH_CPU_UNFUSED
static void warp_nearest(const Image *source, const Image *target, const double *matrix, const char *fill) {
    int32_t columns[WARP_CHUNK], rows[WARP_CHUNK];
    const Py_ssize_t width = target->shape[1], size = source->shape[2];
    for (Py_ssize_t y = 0; y < target->shape[0]; y++) {
        const double x_base = matrix[2] + matrix[1] * ((double)y + 0.5), y_base = matrix[5] + matrix[4] * ((double)y + 0.5);
        for (Py_ssize_t x = 0; x < width; x += WARP_CHUNK) {
            Py_ssize_t n = width - x < WARP_CHUNK ? width - x : WARP_CHUNK;
            find_pixels(x_base, matrix[0], x, n, source->shape[1], fill == NULL, columns);
            find_pixels(y_base, matrix[3], x, n, source->shape[0], fill == NULL, rows);
            char *to = target->data + y * target->strides[0] + x * size;
            if (size == 3)
                copy_found(source, rows, columns, n, 3, fill, to);
            else if (size == 1)
                copy_found(source, rows, columns, n, 1, fill, to);
            else if (size == 4)
                copy_found(source, rows, columns, n, 4, fill, to);
            else
                copy_found(source, rows, columns, n, size, fill, to);
        }
    }
}

PyDoc_STRVAR(warp_nearest_doc,
             "warp_nearest(source, target, matrix, fill)\n--\n\n"
             "Copy pixels of uint8 (h, w, bytes), rows of adjacent pixels of any type, into (h, w, bytes) of the same\n"
             "kind. matrix: float64 (2, 3), maps the centers of the target's pixels to x, y in the source; fill: a pixel\n"
             "for those outside, or b'' to repeat the source's border.");

static PyObject *warp_nearest_call(PyObject *module, PyObject *arguments) {
    PyObject *from, *to, *result = NULL;
    Py_buffer matrix, fill, source_view, target_view;
    Image source, target;
    if (!PyArg_ParseTuple(arguments, "OOy*y*", &from, &to, &matrix, &fill)) return NULL;
    if (borrow_both(from, &source_view, &source, to, 'B', &target_view, &target) < 0) goto release_values;
    Py_ssize_t size = source.shape[2];
    int adjacent = (source.strides[2] == 1 || size == 1) && (source.strides[1] == size || source.shape[1] == 1) &&
                   (target.strides[2] == 1 || size == 1) && (target.strides[1] == size || target.shape[1] == 1);
    if (!adjacent || target.shape[2] != size || min_extent(&source) < 1 || source.shape[0] > INT32_MAX ||
        source.shape[1] > INT32_MAX || target.shape[1] > INT32_MAX || matrix.len != 6 * (Py_ssize_t)sizeof(double) ||
        (fill.len && fill.len != size)) {
        PyErr_SetString(PyExc_ValueError, "the image, the result, the matrix and the fill value don't fit each other");
        goto release_images;
    }
    Py_BEGIN_ALLOW_THREADS
    warp_nearest(&source, &target, matrix.buf, fill.len ? fill.buf : NULL);
    Py_END_ALLOW_THREADS
    result = Py_NewRef(Py_None);
release_images:
    RELEASE(&source_view, &target_view);
release_values:
    RELEASE(&matrix, &fill);
    return result;
}
