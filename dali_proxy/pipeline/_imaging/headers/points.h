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
             "map_points(samples, counts, matrices, offsets, target)\n--\n\n"
             "Write matrix @ point + offset for all points, float32. samples: a sequence of N arrays of points, or one\n"
             "array of all points; counts: int64 (N,), number of points of each sample; matrices: (N, m, n), up to\n"
             "6 x 6; offsets: (N, m); target: m numbers for each point. All are C-contiguous.");

static PyObject *map_points_call(PyObject *module, PyObject *arguments) {
    PyObject *samples, *from, *to, *moves, *sequence = NULL, *result = NULL;
    Py_buffer counts, matrices, offsets, target, view;
    const int flags = PyBUF_C_CONTIGUOUS | PyBUF_FORMAT;
    if (!PyArg_ParseTuple(arguments, "Oy*OOO", &samples, &counts, &from, &moves, &to)) return NULL;
    if (PyObject_GetBuffer(from, &matrices, flags) < 0) goto release_counts;
    if (PyObject_GetBuffer(moves, &offsets, flags) < 0) goto release_matrices;
    if (PyObject_GetBuffer(to, &target, flags | PyBUF_WRITABLE) < 0) goto release_offsets;
    const Py_ssize_t word = sizeof(float), count = counts.len / (Py_ssize_t)sizeof(int64_t);
    const int joined = PyObject_CheckBuffer(samples);
    if (joined && PyObject_GetBuffer(samples, &view, flags) < 0) goto release_target;
    if (!joined && (sequence = PySequence_Fast(samples, "expected a sequence of arrays")) == NULL) goto release_target;
    int fits = matrices.ndim == 3 && offsets.ndim == 2 && matrices.format[0] == 'f' && offsets.format[0] == 'f' &&
               target.format[0] == 'f' && matrices.shape[0] == count && offsets.shape[0] == count &&
               offsets.shape[1] == matrices.shape[1] && 0 < matrices.shape[1] && 0 < matrices.shape[2] &&
               matrices.shape[1] <= MOST_COORDINATES && matrices.shape[2] <= MOST_COORDINATES &&
               (joined ? view.format[0] == 'f' : PySequence_Fast_GET_SIZE(sequence) == count);
    int rows = fits ? (int)matrices.shape[1] : 1, columns = fits ? (int)matrices.shape[2] : 1;
    const Py_ssize_t total = target.len / (rows * word);
    Py_ssize_t begin = 0;
    fits = fits && (!joined || view.len == total * columns * word);
    for (Py_ssize_t i = 0; fits && i < count; i++) {
        const Py_ssize_t n = (Py_ssize_t)((const int64_t *)counts.buf)[i];
        if (!joined && PyObject_GetBuffer(PySequence_Fast_GET_ITEM(sequence, i), &view, flags) < 0) goto release_samples;
        fits = n >= 0 && n <= total - begin && (joined || (view.format[0] == 'f' && view.len == n * columns * word));
        if (fits)
            map_points((const float *)view.buf + (joined ? begin * columns : 0), n, columns, rows,
                       (const float *)matrices.buf + i * rows * columns, (const float *)offsets.buf + i * rows,
                       (float *)target.buf + begin * rows);
        begin += n;
        if (!joined) PyBuffer_Release(&view);
    }
    if (fits && begin == total)
        result = Py_NewRef(Py_None);
    else
        PyErr_SetString(PyExc_ValueError, "the points, the maps and the result don't fit each other");
release_samples:
    Py_XDECREF(sequence);
    if (joined) PyBuffer_Release(&view);
release_target:
    PyBuffer_Release(&target);
release_offsets:
    PyBuffer_Release(&offsets);
release_matrices:
    PyBuffer_Release(&matrices);
release_counts:
    PyBuffer_Release(&counts);
    return result;
}
