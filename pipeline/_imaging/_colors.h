/* Linear maps of colors. */

/* Compute matrix * (red, green, blue, 1) of n pixels, rounded and clamped. */
FOR_EACH_CPU_UNFUSED
static void map_colors(const uint8_t *source, Py_ssize_t n, const float (*matrix)[4], uint8_t *restrict target) {
    for (Py_ssize_t i = 0; i < n; i++) {
        float red = source[3 * i], green = source[3 * i + 1], blue = source[3 * i + 2];
        for (int c = 0; c < 3; c++) {
            const float *row = matrix[c];
            float value = row[0] * red + row[1] * green + row[2] * blue + row[3];
            value = value > 0.0f ? value : 0.0f;
            value = value < 255.0f ? value : 255.0f;
            target[3 * i + c] = (uint8_t)(int)(value + BELOW_HALF);
        }
    }
}

PyDoc_STRVAR(map_colors_doc,
             "map_colors(source, matrix, target)\n--\n\n"
             "Write matrix @ (red, green, blue, 1), rounded and clamped, for contiguous uint8 (n, 3) into uint8 of this\n"
             "shape. matrix: float32 (3, 4).");

static PyObject *map_colors_call(PyObject *module, PyObject *arguments) {
    Py_buffer source, matrix, target;
    if (!PyArg_ParseTuple(arguments, "y*y*w*", &source, &matrix, &target)) return NULL;
    int fits = source.len % 3 == 0 && source.len == target.len && matrix.len == 12 * (Py_ssize_t)sizeof(float);
    if (fits) {
        Py_BEGIN_ALLOW_THREADS
        map_colors(source.buf, source.len / 3, matrix.buf, target.buf);
        Py_END_ALLOW_THREADS
    } else {
        PyErr_SetString(PyExc_ValueError, "the matrix or the result doesn't fit the pixels");
    }
    PyBuffer_Release(&source);
    PyBuffer_Release(&matrix);
    PyBuffer_Release(&target);
    return fits ? Py_NewRef(Py_None) : NULL;
}
