/* Banks of filters, each of which covers a few neighbouring bins of a spectrogram. */

/* Compute the sums of n columns: filter i covers the bins from bounds[i] to bounds[i + 2]. The
   sums are the same on all processors. */
FOR_EACH_CPU_UNFUSED
static void weigh_bins(const float *from, Py_ssize_t bins, Py_ssize_t n, const float *weights, const int32_t *bounds,
                       Py_ssize_t filters, float *to) {
    for (Py_ssize_t filter = 0; filter < filters; filter++) {
        float *restrict sums = to + filter * n;
        memset(sums, 0, n * sizeof(float));
        for (Py_ssize_t bin = bounds[filter]; bin < bounds[filter + 2]; bin++) {
            const float weight = weights[filter * bins + bin], *row = from + bin * n;
            for (Py_ssize_t i = 0; i < n; i++) sums[i] += weight * row[i];
        }
    }
}

PyDoc_STRVAR(weigh_bins_doc,
             "weigh_bins(source, weights, bounds, target)\n--\n\n"
             "Write the weighted sums of the bins of spectra, float32 (m, bins, n), to (m, filters, n). weights:\n"
             "float32 (filters, bins); bounds: int32, filter i covers the bins from bounds[i] to bounds[i + 2].");

static PyObject *weigh_bins_call(PyObject *module, PyObject *arguments) {
    PyObject *from, *to, *result = NULL;
    Py_buffer source, target, weights, bounds;
    const int flags = PyBUF_C_CONTIGUOUS | PyBUF_FORMAT;
    if (!PyArg_ParseTuple(arguments, "Oy*y*O", &from, &weights, &bounds, &to)) return NULL;
    if (PyObject_GetBuffer(from, &source, flags) < 0) goto release_weights;
    if (PyObject_GetBuffer(to, &target, flags | PyBUF_WRITABLE) < 0) goto release_source;
    int fits = source.ndim == 3 && target.ndim == 3 && source.format[0] == 'f' && target.format[0] == 'f' &&
               source.shape[0] == target.shape[0] && source.shape[2] == target.shape[2];
    Py_ssize_t bins = fits ? source.shape[1] : 0, filters = fits ? target.shape[1] : 0;
    const int32_t *bound = bounds.buf;
    fits = fits && weights.len == filters * bins * (Py_ssize_t)sizeof(float) &&
           bounds.len == (filters + 2) * (Py_ssize_t)sizeof(int32_t);
    for (Py_ssize_t i = 0; fits && i < filters + 2; i++) fits = bound[i] >= 0 && bound[i] <= bins;
    if (fits) {
        Py_ssize_t n = source.shape[2];
        Py_BEGIN_ALLOW_THREADS
        for (Py_ssize_t i = 0; i < source.shape[0]; i++)
            weigh_bins((const float *)source.buf + i * bins * n, bins, n, weights.buf, bound, filters,
                       (float *)target.buf + i * filters * n);
        Py_END_ALLOW_THREADS
        result = Py_NewRef(Py_None);
    } else {
        PyErr_SetString(PyExc_ValueError, "the filters or the result don't fit the spectra");
    }
    PyBuffer_Release(&target);
release_source:
    PyBuffer_Release(&source);
release_weights:
    RELEASE(&weights, &bounds);
    return result;
}
