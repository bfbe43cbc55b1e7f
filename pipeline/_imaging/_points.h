/* Linear maps of points: coordinates of boxes and outlines, a few of them in each of many samples. */

#define MOST_COORDINATES 6 /* of a point */

/* Compute n points: matrix (rows, columns) times point, plus offset. */
ALWAYS_INLINE void map_some_points(const float *restrict from, Py_ssize_t n, int columns, int rows,
                                   const float *restrict matrix, const float *restrict offset, float *restrict to) {
    float m[MOST_COORDINATES * MOST_COORDINATES], moved[MOST_COORDINATES];
    memcpy(m, matrix, rows * columns * sizeof(float));
    memcpy(moved, offset, rows * sizeof(float));
    for (Py_ssize_t i = 0; i < n; i++)
        for (int r = 0; r < rows; r++) {
            float sum = m[r * columns] * from[i * columns];
            for (int c = 1; c < columns; c++) /* rounded once, like fused multiply-add in NumPy's products */
                sum = (float)(sum + (double)m[r * columns + c] * from[i * columns + c]);
            to[i * rows + r] = sum + moved[r];
        }
}

/* As `map_some_points`; the usual numbers of coordinates are constants, for the compiler. */
FOR_EACH_CPU
static void map_points(const float *from, Py_ssize_t n, int columns, int rows, const float *matrix,
                       const float *offset, float *to) {
    if (rows == 2 && columns == 2)
        map_some_points(from, n, 2, 2, matrix, offset, to);
    else if (rows == 3 && columns == 3)
        map_some_points(from, n, 3, 3, matrix, offset, to);
    else if (rows == 4 && columns == 4)
        map_some_points(from, n, 4, 4, matrix, offset, to);
    else
        map_some_points(from, n, columns, rows, matrix, offset, to);
}

PyDoc_STRVAR(map_points_doc,
             "map_points(samples, matrices, offsets, target)\n--\n\n"
             "Write matrix @ point + offset for all points, float32. samples: a sequence of N arrays of K points each;\n"
             "matrices: (N, m, n), up to 6 x 6; offsets: (N, m); target: (N, K, m). All are C-contiguous.");

static PyObject *map_points_call(PyObject *module, PyObject *arguments) {
    PyObject *samples, *from, *to, *moves, *result = NULL;
    Py_buffer matrices, offsets, target, view;
    const int flags = PyBUF_C_CONTIGUOUS | PyBUF_FORMAT;
    if (!PyArg_ParseTuple(arguments, "OOOO", &samples, &from, &moves, &to)) return NULL;
    if (PyObject_GetBuffer(from, &matrices, flags) < 0) return NULL;
    if (PyObject_GetBuffer(moves, &offsets, flags) < 0) goto release_matrices;
    if (PyObject_GetBuffer(to, &target, flags | PyBUF_WRITABLE) < 0) goto release_offsets;
    PyObject *sequence = PySequence_Fast(samples, "expected a sequence of arrays");
    if (sequence == NULL) goto release_target;
    Py_ssize_t count = PySequence_Fast_GET_SIZE(sequence);
    int fits = matrices.ndim == 3 && offsets.ndim == 2 && target.ndim == 3 && matrices.format[0] == 'f' &&
               offsets.format[0] == 'f' && target.format[0] == 'f' && matrices.shape[0] == count &&
               offsets.shape[0] == count && target.shape[0] == count && offsets.shape[1] == matrices.shape[1] &&
               target.shape[2] == matrices.shape[1] && 0 < matrices.shape[1] && 0 < matrices.shape[2] &&
               matrices.shape[1] <= MOST_COORDINATES && matrices.shape[2] <= MOST_COORDINATES;
    Py_ssize_t n = fits ? target.shape[1] : 0;
    int rows = fits ? (int)matrices.shape[1] : 0, columns = fits ? (int)matrices.shape[2] : 0;
    for (Py_ssize_t i = 0; fits && i < count; i++) {
        if (PyObject_GetBuffer(PySequence_Fast_GET_ITEM(sequence, i), &view, flags) < 0) goto release_sequence;
        fits = view.format[0] == 'f' && view.len == n * columns * (Py_ssize_t)sizeof(float);
        if (fits)
            map_points(view.buf, n, columns, rows, (const float *)matrices.buf + i * rows * columns,
                       (const float *)offsets.buf + i * rows, (float *)target.buf + i * n * rows);
        PyBuffer_Release(&view);
    }
    if (fits)
        result = Py_NewRef(Py_None);
    else
        PyErr_SetString(PyExc_ValueError, "the points, the maps and the result don't fit each other");
release_sequence:
    Py_DECREF(sequence);
release_target:
    PyBuffer_Release(&target);
release_offsets:
    PyBuffer_Release(&offsets);
release_matrices:
    PyBuffer_Release(&matrices);
    return result;
}
