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
    RELEASE(&source, &target);
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
    RELEASE(&signal, &totals);
    return result;
}


#define BLOCK_ROWS 16
#define BLOCK_BINS 64

/* Compute the squares of the magnitudes of some frequencies, or the magnitudes, from a row of a packed transform: the
   real part of frequency 0, real and imaginary parts in turn, and the last real part if `size` is even. */
ALWAYS_INLINE void find_powers(const float *restrict row, Py_ssize_t size, Py_ssize_t first, Py_ssize_t end, int roots,
                               float *restrict to) {
    const Py_ssize_t pairs = (size - 1) / 2, begin = first ? first : 1, last = end <= pairs ? end : pairs + 1;
    for (Py_ssize_t i = begin; i < last; i++)
        to[i - first] = row[2 * i - 1] * row[2 * i - 1] + row[2 * i] * row[2 * i];
    if (first == 0) to[0] = row[0] * row[0];
    if (last < end) to[last - first] = row[size - 1] * row[size - 1];
    for (Py_ssize_t i = 0; roots && i < end - first; i++) to[i] = sqrtf(to[i]);
}

FOR_EACH_CPU_UNFUSED
static void wave_powers(const float *waves, Py_ssize_t count, Py_ssize_t size, int roots, char *target,
                        const Py_ssize_t *strides) {
    float block[BLOCK_ROWS][BLOCK_BINS];
    const Py_ssize_t bins = size / 2 + 1;
    for (Py_ssize_t y = 0; y < count; y += BLOCK_ROWS) {
        const Py_ssize_t rows = count - y < BLOCK_ROWS ? count - y : BLOCK_ROWS;
        for (Py_ssize_t x = 0; x < bins; x += BLOCK_BINS) {
            const Py_ssize_t end = bins - x < BLOCK_BINS ? bins : x + BLOCK_BINS;
            char *to = target + y * strides[0] + x * strides[1];
            for (Py_ssize_t i = 0; i < rows; i++) {
                find_powers(waves + (y + i) * size, size, x, end, roots, block[i]);
                if (strides[1] == sizeof(float)) memcpy(to + i * strides[0], block[i], (end - x) * sizeof(float));
            }
            for (Py_ssize_t k = 0; strides[1] != sizeof(float) && k < end - x; k++)
                for (Py_ssize_t i = 0; i < rows; i++) *(float *)(to + i * strides[0] + k * strides[1]) = block[i][k];
        }
    }
}

PyDoc_STRVAR(wave_powers_doc,
             "wave_powers(waves, target, roots)\n--\n\n"
             "Write the squares of the magnitudes of the rows of packed transforms, float32 (count, size), contiguous, to\n"
             "float32 (count, size / 2 + 1) of any strides; `roots`: the magnitudes.");

static PyObject *wave_powers_call(PyObject *module, PyObject *arguments) {
    PyObject *from, *to, *result = NULL;
    Py_buffer waves, target;
    int roots;
    if (!PyArg_ParseTuple(arguments, "OOp", &from, &to, &roots)) return NULL;
    if (PyObject_GetBuffer(from, &waves, PyBUF_C_CONTIGUOUS | PyBUF_FORMAT) < 0) return NULL;
    if (PyObject_GetBuffer(to, &target, PyBUF_STRIDES | PyBUF_FORMAT | PyBUF_WRITABLE) < 0) goto release_waves;
    if (waves.ndim != 2 || target.ndim != 2 || strcmp(waves.format, "f") || strcmp(target.format, "f") ||
        waves.shape[1] < 1 || target.shape[0] != waves.shape[0] || target.shape[1] != waves.shape[1] / 2 + 1) {
        PyErr_SetString(PyExc_ValueError, "the result doesn't fit the transforms");
    } else {
        Py_BEGIN_ALLOW_THREADS
        wave_powers(waves.buf, waves.shape[0], waves.shape[1], roots, target.buf, target.strides);
        Py_END_ALLOW_THREADS
        result = Py_NewRef(Py_None);
    }
    PyBuffer_Release(&target);
release_waves:
    PyBuffer_Release(&waves);
    return result;
}


/* Return a sample of a signal that is mirrored at its ends, or padded with zeros. */
ALWAYS_INLINE float padded_sample(const float *from, Py_ssize_t n, Py_ssize_t at, int reflected) {
    if (at >= 0 && at < n) return from[at];
    if (!reflected) return 0;
    const Py_ssize_t period = n > 1 ? 2 * (n - 1) : 1;
    at = (at % period + period) % period;
    return from[at < n ? at : period - at];
}

FOR_EACH_CPU_UNFUSED
static void take_windows(const float *from, Py_ssize_t n, const float *factors, Py_ssize_t length, Py_ssize_t first,
                         Py_ssize_t step, int reflected, Py_ssize_t count, Py_ssize_t size, float *restrict rows) {
    for (Py_ssize_t i = 0; i < count; i++) {
        const Py_ssize_t begin = first + i * step;
        float *row = rows + i * size;
        if (begin >= 0 && begin + length <= n)
            for (Py_ssize_t k = 0; k < length; k++) row[k] = from[begin + k] * factors[k];
        else
            for (Py_ssize_t k = 0; k < length; k++)
                row[k] = padded_sample(from, n, begin + k, reflected) * factors[k];
        memset(row + length, 0, (size - length) * sizeof(float));
    }
}

PyDoc_STRVAR(take_windows_doc,
             "take_windows(signal, factors, first, step, reflected, rows)\n--\n\n"
             "Write the product of each window of a signal and the factors, and then zeros, to the rows of float32\n"
             "(count, size). Window i begins at first + i * step; the signal is mirrored at its ends, or padded with\n"
             "zeros. All arrays are contiguous float32.");

static PyObject *take_windows_call(PyObject *module, PyObject *arguments) {
    PyObject *to, *result = NULL;
    Py_buffer signal, factors, rows;
    Py_ssize_t first, step;
    int reflected;
    if (!PyArg_ParseTuple(arguments, "y*y*nnpO", &signal, &factors, &first, &step, &reflected, &to)) return NULL;
    if (PyObject_GetBuffer(to, &rows, PyBUF_C_CONTIGUOUS | PyBUF_FORMAT | PyBUF_WRITABLE) < 0) goto release_signal;
    const Py_ssize_t n = signal.len / (Py_ssize_t)sizeof(float), length = factors.len / (Py_ssize_t)sizeof(float);
    if (rows.ndim != 2 || strcmp(rows.format, "f") || rows.shape[1] < length || n < 1) {
        PyErr_SetString(PyExc_ValueError, "the rows don't fit the windows, or the signal is empty");
    } else {
        Py_BEGIN_ALLOW_THREADS
        take_windows(signal.buf, n, factors.buf, length, first, step, reflected, rows.shape[0], rows.shape[1],
                     rows.buf);
        Py_END_ALLOW_THREADS
        result = Py_NewRef(Py_None);
    }
    PyBuffer_Release(&rows);
release_signal:
    RELEASE(&signal, &factors);
    return result;
}
