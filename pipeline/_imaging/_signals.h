/* Filters and windows of signals. */

/* Subtract from each of n elements its predecessor times a coefficient. `before` is the predecessor of the first one,
   which has none if that is negative. */
FOR_EACH_CPU_UNFUSED
static void preemphasize(const float *restrict from, Py_ssize_t n, float coefficient, Py_ssize_t before,
                         float *restrict to) {
    if (n > 0) to[0] = before < 0 ? from[0] : from[0] - coefficient * from[before];
    for (Py_ssize_t i = 1; i < n; i++) to[i] = from[i] - coefficient * from[i - 1];
}

PyDoc_STRVAR(preemphasize_doc,
             "preemphasize(source, coefficient, before, target)\n--\n\n"
             "Write source[i] - coefficient * source[i - 1], with source[before] before source[0], or 0 if that is\n"
             "negative: contiguous float32 of one size.");

static PyObject *preemphasize_call(PyObject *module, PyObject *arguments) {
    Py_buffer source, target;
    float coefficient;
    Py_ssize_t before;
    if (!PyArg_ParseTuple(arguments, "y*fnw*", &source, &coefficient, &before, &target)) return NULL;
    Py_ssize_t n = source.len / (Py_ssize_t)sizeof(float);
    int fits = source.len == target.len && before < (n > 0 ? n : 1);
    if (fits) {
        Py_BEGIN_ALLOW_THREADS
        preemphasize(source.buf, n, coefficient, before, target.buf);
        Py_END_ALLOW_THREADS
    } else {
        PyErr_SetString(PyExc_ValueError, "the result doesn't fit the signal");
    }
    PyBuffer_Release(&source);
    PyBuffer_Release(&target);
    return fits ? Py_NewRef(Py_None) : NULL;
}


/* Find the first and the last window whose sum of squares isn't below `factor` times the reference: a sum, or the
   largest one if it is 0. `totals` receives the n + 1 sums of the first squares. Return 0 if there is no such window. */
static int find_sound(const float *restrict from, Py_ssize_t n, Py_ssize_t window, double factor, double reference,
                      double *restrict totals, Py_ssize_t *first, Py_ssize_t *last) {
    totals[0] = 0;
    for (Py_ssize_t i = 0; i < n; i++) totals[i + 1] = totals[i] + (double)from[i] * from[i];
    const double *ends = totals + window;
    Py_ssize_t count = n - window + 1;
    int invalid = 0;
    if (reference == 0) {
        reference = -INFINITY;
        for (Py_ssize_t i = 0; i < count; i++) {
            double sum = ends[i] - totals[i];
            reference = sum > reference ? sum : reference;
            invalid |= sum != sum;
        }
    }
    double least = reference * factor;
    *first = 0;
    *last = count - 1;
    while (*first < count && !(ends[*first] - totals[*first] >= least)) ++*first;
    while (*last > *first && !(ends[*last] - totals[*last] >= least)) --*last;
    return !invalid && *first < count;
}

PyDoc_STRVAR(find_sound_doc,
             "find_sound(signal, totals, window, factor, reference)\n--\n\n"
             "Return start and end of the windows of float32 (n,) whose sum of squares isn't below `factor` times\n"
             "the reference, or the largest sum if that is 0; two zeros if there is none. totals: memory, float64\n"
             "(n + 1,).");

static PyObject *find_sound_call(PyObject *module, PyObject *arguments) {
    Py_buffer signal, totals;
    Py_ssize_t window, first = 0, last = 0;
    double factor, reference;
    if (!PyArg_ParseTuple(arguments, "y*w*ndd", &signal, &totals, &window, &factor, &reference)) return NULL;
    PyObject *result = NULL;
    Py_ssize_t n = signal.len / (Py_ssize_t)sizeof(float);
    int found;
    if (window < 1 || window > n || totals.len != (n + 1) * (Py_ssize_t)sizeof(double)) {
        PyErr_SetString(PyExc_ValueError, "the window or the memory doesn't fit the signal");
    } else {
        Py_BEGIN_ALLOW_THREADS
        found = find_sound(signal.buf, n, window, factor, reference, totals.buf, &first, &last);
        Py_END_ALLOW_THREADS
        result = Py_BuildValue("nn", found ? first : 0, found ? last + window : 0);
    }
    PyBuffer_Release(&signal);
    PyBuffer_Release(&totals);
    return result;
}
