/* Sums and linear maps of the rows of an array. */

typedef double Sums __attribute__((vector_size(LANES * sizeof(double))));

#define SUMS 4 /* independent sums, so that additions don't wait for each other */

/* The terms of a sum: elements minus a mean, or their squares, in float32 or in float64. */
typedef enum { DIFFERENCES, SQUARES, WIDE_SQUARES } Term;

ALWAYS_INLINE double sum_terms(const float *from, Py_ssize_t n, float mean, Term term) {
    Sums sums[SUMS] = {{0}};
    double rest = 0;
    Py_ssize_t i = 0;
    for (; i + SUMS * LANES <= n; i += SUMS * LANES)
        for (int k = 0; k < SUMS; k++) {
            Pixel terms = *(const Pixel *)(from + i + k * LANES);
            Sums wide = __builtin_convertvector(terms, Sums) - (double)mean;
            terms -= mean;
            if (term == SQUARES) terms *= terms;
            if (term == WIDE_SQUARES)
                sums[k] += wide * wide;
            else
                sums[k] += __builtin_convertvector(terms, Sums);
        }
    for (; i < n; i++) {
        float difference = from[i] - mean;
        double wide = (double)from[i] - mean;
        rest += term == WIDE_SQUARES ? wide * wide : term == SQUARES ? difference * difference : difference;
    }
    Sums sum = (sums[0] + sums[1]) + (sums[2] + sums[3]);
    return (sum[0] + sum[1]) + (sum[2] + sum[3]) + rest;
}

FOR_EACH_CPU_UNFUSED
static void sum_rows(const float *from, Py_ssize_t rows, Py_ssize_t n, const float *means, int means_step, Term term,
                     double *to) {
    for (Py_ssize_t row = 0; row < rows; row++, from += n) {
        float mean = means[row * means_step];
        to[row] = term == SQUARES        ? sum_terms(from, n, mean, SQUARES)
                  : term == WIDE_SQUARES ? sum_terms(from, n, mean, WIDE_SQUARES)
                                         : sum_terms(from, n, mean, DIFFERENCES);
    }
}

FOR_EACH_CPU_UNFUSED
static void standardize_rows(const float *restrict from, Py_ssize_t rows, Py_ssize_t n, const float *means,
                             int means_step, const float *factors, int factors_step, float *restrict to) {
    for (Py_ssize_t row = 0; row < rows; row++) {
        const float mean = means[row * means_step], factor = factors[row * factors_step];
        for (Py_ssize_t i = row * n; i < (row + 1) * n; i++) to[i] = (from[i] - mean) * factor;
    }
}

/* Return whether a buffer has one float, or one per row. */
static int fits_rows(const Py_buffer *values, Py_ssize_t rows) {
    return values->len == sizeof(float) || values->len == rows * (Py_ssize_t)sizeof(float);
}

PyDoc_STRVAR(sum_rows_doc,
             "sum_rows(source, means, squared, wide, target)\n--\n\n"
             "Write the sum of source - mean, or of its square, of each row: contiguous float32 (m, n) into float64\n"
             "(m,). Terms are float32, squares are float64 if `wide`. means: float32 (m or 1,).");

static PyObject *sum_rows_call(PyObject *module, PyObject *arguments) {
    Py_buffer source, means, target;
    int squared, wide;
    if (!PyArg_ParseTuple(arguments, "y*y*ppw*", &source, &means, &squared, &wide, &target)) return NULL;
    Py_ssize_t rows = target.len / (Py_ssize_t)sizeof(double), n = source.len / (Py_ssize_t)sizeof(float);
    int fits = rows > 0 && n % rows == 0 && fits_rows(&means, rows);
    if (fits) {
        Py_BEGIN_ALLOW_THREADS
        sum_rows(source.buf, rows, n / rows, means.buf, means.len > (Py_ssize_t)sizeof(float),
                 !squared ? DIFFERENCES : wide ? WIDE_SQUARES : SQUARES, target.buf);
        Py_END_ALLOW_THREADS
    } else {
        PyErr_SetString(PyExc_ValueError, "the means or the sums don't fit the rows");
    }
    RELEASE(&source, &means, &target);
    return fits ? Py_NewRef(Py_None) : NULL;
}

PyDoc_STRVAR(standardize_doc,
             "standardize(source, rows, means, factors, target)\n--\n\n"
             "Write (source - mean) * factor of each row: contiguous float32 (rows, n) into float32 of this shape.\n"
             "means, factors: float32 (rows or 1,).");

static PyObject *standardize_call(PyObject *module, PyObject *arguments) {
    Py_buffer source, means, factors, target;
    Py_ssize_t rows;
    if (!PyArg_ParseTuple(arguments, "y*ny*y*w*", &source, &rows, &means, &factors, &target)) return NULL;
    Py_ssize_t n = source.len / (Py_ssize_t)sizeof(float);
    int fits = rows > 0 && n % rows == 0 && fits_rows(&means, rows) && fits_rows(&factors, rows) &&
               source.len == target.len;
    if (fits) {
        Py_BEGIN_ALLOW_THREADS
        standardize_rows(source.buf, rows, n / rows, means.buf, means.len > (Py_ssize_t)sizeof(float), factors.buf,
                         factors.len > (Py_ssize_t)sizeof(float), target.buf);
        Py_END_ALLOW_THREADS
    } else {
        PyErr_SetString(PyExc_ValueError, "the means, the factors or the result don't fit the rows");
    }
    RELEASE(&source, &means, &factors, &target);
    return fits ? Py_NewRef(Py_None) : NULL;
}
