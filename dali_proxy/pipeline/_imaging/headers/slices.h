/* Windows of slices. Without FOR_EACH_CPU, because fused multiply-add would round differently than NumPy. */

/* The bounds of slices along an axis, as `SliceBounds` describes them. */
typedef struct {
    int relative_begin, relative_end, from_start, exact;
} Bounds;

/* Round to the nearest integer, halves away from zero; return 0 for numbers of more than 62 bits, and for NaN. */
static int round_bound(double value, int64_t *rounded) {
    if (!(fabs(value) < (double)((int64_t)1 << 62))) return 0;
    *rounded = (int64_t)(value + copysign(0.5, value));
    return 1;
}

/* Return 0 if the slice isn't valid. NULL stands for the begin or the end of the axis. */
static int locate_slice(const Bounds *bounds, const double *begin, const double *end, int64_t extent, int64_t *first,
                        int64_t *count) {
    const double size = (double)extent, from = begin ? *begin * (bounds->relative_begin ? size : 1) : 0;
    const double low = bounds->relative_begin && !bounds->exact ? (double)(float)from : from;
    double high = size;
    if (end) {
        const double to = *end * (bounds->relative_end ? size : 1);
        high = bounds->relative_end && !bounds->exact ? (double)(float)to : to;
        if (bounds->from_start) {
            const int is_sum = bounds->relative_begin && bounds->relative_end && !bounds->exact && high >= 0;
            high = is_sum ? (low > from + to ? low : from + to) : low + high;
        }
    }
    int64_t last;
    if (!round_bound(low, first) || !round_bound(high, &last) || last < *first) return 0;
    *count = last - *first;
    return 1;
}

PyDoc_STRVAR(locate_slices_doc,
             "locate_slices(shapes, count, axes, begin, end, bounds, starts, extents)\n--\n\n"
             "Write the windows of slices along some axes of samples. shapes, starts, extents: int64 (n, dimensions);\n"
             "axes: a tuple; begin, end: float64, (n, axes), (n, 1) or empty; bounds: whether begin and end are fractions,\n"
             "whether the end counts from the begin, and whether fractions keep their precision. Return whether all\n"
             "windows are valid.");

static PyObject *locate_slices_call(PyObject *module, PyObject *arguments) {
    PyObject *axes;
    Py_buffer shapes, begin, end, starts, extents;
    Py_ssize_t count;
    Bounds bounds;
    if (!PyArg_ParseTuple(arguments, "y*nO!y*y*(pppp)w*w*", &shapes, &count, &PyTuple_Type, &axes, &begin, &end,
                          &bounds.relative_begin, &bounds.relative_end, &bounds.from_start, &bounds.exact, &starts,
                          &extents))
        return NULL;
    const Py_ssize_t word = sizeof(int64_t), rows = count > 0 ? count : 1, sliced = PyTuple_GET_SIZE(axes);
    const Py_ssize_t dimensions = shapes.len / word / rows;
    const Py_ssize_t begins = begin.len / word / rows, ends = end.len / word / rows; /* values of a sample */
    int fits = count >= 0 && shapes.len == count * dimensions * word && begin.len == count * begins * word &&
               end.len == count * ends * word && (begins <= 1 || begins == sliced) && (ends <= 1 || ends == sliced) &&
               starts.len == shapes.len && extents.len == shapes.len, valid = 1;
    if (fits) {
        memset(starts.buf, 0, starts.len);
        memcpy(extents.buf, shapes.buf, shapes.len);
    }
    for (Py_ssize_t position = 0; fits && valid && position < sliced; position++) {
        const Py_ssize_t axis = PyLong_AsSsize_t(PyTuple_GET_ITEM(axes, position));
        fits = axis >= 0 && axis < dimensions; /* also after an error */
        const double *from = begins ? (const double *)begin.buf + (begins > 1 ? position : 0) : NULL;
        const double *to = ends ? (const double *)end.buf + (ends > 1 ? position : 0) : NULL;
        for (Py_ssize_t i = 0; fits && valid && i < count; i++) {
            const Py_ssize_t at = i * dimensions + axis;
            valid = locate_slice(&bounds, from ? from + i * begins : NULL, to ? to + i * ends : NULL,
                                 ((const int64_t *)shapes.buf)[at], (int64_t *)starts.buf + at,
                                 (int64_t *)extents.buf + at);
        }
    }
    RELEASE(&shapes, &begin, &end, &starts, &extents);
    if (fits) return PyBool_FromLong(valid);
    if (!PyErr_Occurred()) PyErr_SetString(PyExc_ValueError, "the samples, the axes and the bounds don't fit each other");
    return NULL;
}
