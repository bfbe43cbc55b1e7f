/* Linear interpolation between pixels at any positions, of images and volumes. */

#define MOST_SPATIAL_AXES 3

/* Interpolate n points, with the operations and the order of NumPy's version. `axes` and `channels` are constants, for
   the compiler. Without `fill`, the border repeats. */
ALWAYS_INLINE void sample_some(const float *restrict image, const Py_ssize_t *extents, int axes, Py_ssize_t channels,
                               const double *restrict positions, Py_ssize_t n, const float *fill, float *restrict to) {
    const double most = 2147483648.0;
    for (Py_ssize_t i = 0; i < n; i++) {
        Py_ssize_t pixel[MOST_SPATIAL_AXES][2];
        float part[MOST_SPATIAL_AXES][2];
        int outside[MOST_SPATIAL_AXES][2];
        for (int a = 0; a < axes; a++) {
            const double moved = positions[a * n + i] - 0.5;
            double low = floor(moved);
            low = low > -most ? low : -most; /* also NaN */
            low = low < most ? low : most;
            part[a][1] = (float)(moved - low);
            part[a][0] = 1 - part[a][1];
            for (int step = 0; step < 2; step++) {
                const Py_ssize_t at = (Py_ssize_t)low + step, last = extents[a] - 1;
                outside[a][step] = at < 0 || at > last;
                pixel[a][step] = at < 0 ? 0 : at > last ? last : at;
            }
        }
        for (Py_ssize_t c = 0; c < channels; c++) to[i * channels + c] = 0;
        for (int corner = 0; corner < 1 << axes; corner++) {
            float weight = 1;
            Py_ssize_t index = 0;
            int is_outside = 0;
            for (int a = 0; a < axes; a++) {
                const int step = corner >> (axes - 1 - a) & 1;
                weight *= part[a][step];
                index = index * extents[a] + pixel[a][step];
                is_outside |= outside[a][step];
            }
            for (Py_ssize_t c = 0; c < channels; c++)
                to[i * channels + c] += weight * (fill && is_outside ? *fill : image[index * channels + c]);
        }
    }
}

FOR_EACH_CPU_UNFUSED
static void sample_linear(const float *image, const Py_ssize_t *extents, int axes, Py_ssize_t channels,
                          const double *positions, Py_ssize_t n, const float *fill, float *to) {
    if (axes == 3 && channels == 1)
        sample_some(image, extents, 3, 1, positions, n, fill, to);
    else if (axes == 3)
        sample_some(image, extents, 3, channels, positions, n, fill, to);
    else if (axes == 2 && channels == 3)
        sample_some(image, extents, 2, 3, positions, n, fill, to);
    else
        sample_some(image, extents, axes, channels, positions, n, fill, to);
}

PyDoc_STRVAR(sample_linear_doc,
             "sample_linear(image, positions, fill, target)\n--\n\n"
             "Interpolate linearly. image: float32, up to three spatial axes and channels; positions: float64 (axes, N),\n"
             "the center of pixel k is at k + 0.5; fill: a float32 for pixels outside, or b'' to repeat the border;\n"
             "target: float32, N times channels numbers. All are C-contiguous.");

static PyObject *sample_linear_call(PyObject *module, PyObject *arguments) {
    PyObject *from, *where, *to, *result = NULL;
    Py_buffer image, positions, target, fill;
    const int flags = PyBUF_C_CONTIGUOUS | PyBUF_FORMAT;
    if (!PyArg_ParseTuple(arguments, "OOy*O", &from, &where, &fill, &to)) return NULL;
    if (PyObject_GetBuffer(from, &image, flags) < 0) goto release_fill;
    if (PyObject_GetBuffer(where, &positions, flags) < 0) goto release_image;
    if (PyObject_GetBuffer(to, &target, flags | PyBUF_WRITABLE) < 0) goto release_positions;
    const int axes = image.ndim - 1;
    const Py_ssize_t word = sizeof(float);
    int fits = 0 < axes && axes <= MOST_SPATIAL_AXES && positions.ndim == 2 && positions.shape[0] == axes &&
               image.format[0] == 'f' && positions.format[0] == 'd' && target.format[0] == 'f' && image.len > 0 &&
               (fill.len == 0 || fill.len == word) && target.len == positions.shape[1] * image.shape[axes] * word;
    if (!fits) {
        PyErr_SetString(PyExc_ValueError, "the image, the positions, the fill value and the result don't fit each other");
    } else {
        Py_BEGIN_ALLOW_THREADS
        sample_linear(image.buf, image.shape, axes, image.shape[axes], positions.buf, positions.shape[1],
                      fill.len ? fill.buf : NULL, target.buf);
        Py_END_ALLOW_THREADS
        result = Py_NewRef(Py_None);
    }
    PyBuffer_Release(&target);
release_positions:
    PyBuffer_Release(&positions);
release_image:
    PyBuffer_Release(&image);
release_fill:
    PyBuffer_Release(&fill);
    return result;
}
