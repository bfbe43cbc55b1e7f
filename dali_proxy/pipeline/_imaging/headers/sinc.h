/* Resampling of signals by a filter whose weights are linear between the entries of a table. */

/* A filter, as `SincFilter` in resampling.py. */
typedef struct {
    const float *weights, *slopes;
    Py_ssize_t phases, taps;
} Sinc;

/* Compute the weights of the inputs around an output: `part` of the way from an entry to the next one. */
ALWAYS_INLINE void weigh_inputs(const Sinc *sinc, Py_ssize_t entry, float part, float *restrict weights) {
    const float *low = sinc->weights + entry * sinc->taps, *slope = sinc->slopes + entry * sinc->taps;
    for (Py_ssize_t k = 0; k < sinc->taps; k++) weights[k] = low[k] + part * slope[k];
}

/* Return the sum of the products of n numbers. */
ALWAYS_INLINE float sum_products(const float *a, const float *b, Py_ssize_t n) {
    Lines sums[2] = {{0}};
    float rest = 0;
    Py_ssize_t k = 0;
    for (; k + 2 * LINES <= n; k += 2 * LINES)
        for (int s = 0; s < 2; s++) sums[s] += *(const Lines *)(a + k + s * LINES) * *(const Lines *)(b + k + s * LINES);
    for (; k < n; k++) rest += a[k] * b[k];
    sums[0] += sums[1];
    for (int lane = 0; lane < LINES; lane++) rest += sums[0][lane];
    return rest;
}

/* Compute the outputs of all channels. Channels are `stride` apart, with enough zeros on both sides; output i lies at
   input i / scale, and `work` has room for the weights. */
FOR_EACH_CPU
static void resample_channels(const float *padded, Py_ssize_t stride, Py_ssize_t most, Py_ssize_t channels,
                              const Sinc *sinc, double scale, Py_ssize_t n, float *work, float *to) {
    for (Py_ssize_t i = 0; i < n; i++) {
        const double position = (double)i / scale, whole = floor(position);
        const double phase = (position - whole) * (double)sinc->phases;
        const Py_ssize_t before = whole < (double)most ? (Py_ssize_t)whole : most;
        Py_ssize_t entry = (Py_ssize_t)phase;
        entry = entry < sinc->phases ? entry : sinc->phases - 1;
        weigh_inputs(sinc, entry, (float)(phase - (double)entry), work);
        for (Py_ssize_t c = 0; c < channels; c++)
            to[i * channels + c] = sum_products(work, padded + c * stride + before + 1, sinc->taps);
    }
}

PyDoc_STRVAR(resample_signal_doc,
             "resample_signal(signal, weights, slopes, scale, target)\n--\n\n"
             "Resample float32 (n, channels) to float32 (m, channels); output i lies at input i / scale, and inputs\n"
             "outside are 0. weights, slopes: float32 (phases, taps): weights of the inputs around an output between\n"
             "the two in the middle, and the differences to those of the next phase. All are C-contiguous.");

static PyObject *resample_signal_call(PyObject *module, PyObject *arguments) {
    PyObject *from, *first, *second, *to, *result = NULL;
    Py_buffer signal, weights, slopes, target;
    const int flags = PyBUF_C_CONTIGUOUS | PyBUF_FORMAT;
    double scale;
    if (!PyArg_ParseTuple(arguments, "OOOdO", &from, &first, &second, &scale, &to)) return NULL;
    if (PyObject_GetBuffer(from, &signal, flags) < 0) return NULL;
    if (PyObject_GetBuffer(first, &weights, flags) < 0) goto release_signal;
    if (PyObject_GetBuffer(second, &slopes, flags) < 0) goto release_weights;
    if (PyObject_GetBuffer(to, &target, flags | PyBUF_WRITABLE) < 0) goto release_slopes;
    int fits = signal.ndim == 2 && weights.ndim == 2 && target.ndim == 2 && signal.format[0] == 'f' &&
               weights.format[0] == 'f' && slopes.format[0] == 'f' && target.format[0] == 'f' &&
               weights.len == slopes.len && weights.len > 0 && weights.shape[1] % 2 == 0 &&
               signal.shape[1] == target.shape[1] && scale > 0;
    if (!fits) {
        PyErr_SetString(PyExc_ValueError, "the signal, the filter, the scale and the result don't fit each other");
        goto release_target;
    }
    const Sinc sinc = {weights.buf, slopes.buf, weights.shape[0], weights.shape[1]};
    const Py_ssize_t n = signal.shape[0], channels = signal.shape[1], half = sinc.taps / 2;
    const Py_ssize_t most = n + half, stride = most + half + sinc.taps + 1; /* behind `most`, everything is 0 */
    float *padded = calloc(channels * stride + sinc.taps, sizeof(float));
    if (padded == NULL) {
        PyErr_NoMemory();
        goto release_target;
    }
    Py_BEGIN_ALLOW_THREADS
    for (Py_ssize_t c = 0; c < channels; c++)
        for (Py_ssize_t i = 0; i < n; i++) padded[c * stride + half + i] = ((float *)signal.buf)[i * channels + c];
    resample_channels(padded, stride, most, channels, &sinc, scale, target.shape[0], padded + channels * stride,
                      target.buf);
    Py_END_ALLOW_THREADS
    free(padded);
    result = Py_NewRef(Py_None);
release_target:
    PyBuffer_Release(&target);
release_slopes:
    PyBuffer_Release(&slopes);
release_weights:
    PyBuffer_Release(&weights);
release_signal:
    PyBuffer_Release(&signal);
    return result;
}
