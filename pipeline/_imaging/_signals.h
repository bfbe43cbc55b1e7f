/* Filters of signals. Without FOR_EACH_CPU, because fused multiply-add would round differently than NumPy. */

/* Subtract from each of n elements its predecessor times a coefficient; the first one keeps its value. */
static void preemphasize(const float *restrict from, Py_ssize_t n, float coefficient, float *restrict to) {
    if (n > 0) to[0] = from[0];
    for (Py_ssize_t i = 1; i < n; i++) to[i] = from[i] - coefficient * from[i - 1];
}

PyDoc_STRVAR(preemphasize_doc,
             "preemphasize(source, coefficient, target)\n--\n\n"
             "Write source[i] - coefficient * source[i - 1], for i = 0 source[0]: contiguous float32 of one size.");

static PyObject *preemphasize_call(PyObject *module, PyObject *arguments) {
    Py_buffer source, target;
    float coefficient;
    if (!PyArg_ParseTuple(arguments, "y*fw*", &source, &coefficient, &target)) return NULL;
    int fits = source.len == target.len;
    if (fits) {
        Py_BEGIN_ALLOW_THREADS
        preemphasize(source.buf, source.len / (Py_ssize_t)sizeof(float), coefficient, target.buf);
        Py_END_ALLOW_THREADS
    } else {
        PyErr_SetString(PyExc_ValueError, "the result doesn't fit the signal");
    }
    PyBuffer_Release(&source);
    PyBuffer_Release(&target);
    return fits ? Py_NewRef(Py_None) : NULL;
}

