/* Distribution of items over bins. */

PyDoc_STRVAR(fill_bins_doc,
             "fill_bins(lengths, loads, free, sums, homes)\n--\n\n"
             "Put items into bins, in order: each into the bin, among those with room for it, whose largest sum of loads\n"
             "is then the smallest. lengths: int64 (n,); loads: float64 (n, kinds); free: int64 (bins,), the room of\n"
             "each; sums: float64 (bins, kinds); homes: int64 (n,), written. Return the number of items that have a bin:\n"
             "n, or the index of the first that fits nowhere.");

static PyObject *fill_bins(PyObject *module, PyObject *arguments) {
    Py_buffer lengths, loads, free, sums, homes;
    if (!PyArg_ParseTuple(arguments, "y*y*w*w*w*", &lengths, &loads, &free, &sums, &homes)) return NULL;
    const Py_ssize_t word = sizeof(int64_t), count = lengths.len / word, bins = free.len / word;
    const Py_ssize_t kinds = count ? loads.len / word / count : 1;
    PyObject *result = NULL;
    if (kinds < 1 || loads.len != count * kinds * word || sums.len != bins * kinds * word || homes.len != lengths.len) {
        PyErr_SetString(PyExc_ValueError, "the items and the bins don't fit each other");
        goto release;
    }
    const int64_t *length = lengths.buf;
    const double *load = loads.buf;
    int64_t *room = free.buf, *home = homes.buf;
    double *sum = sums.buf;
    Py_ssize_t item = 0;
    Py_BEGIN_ALLOW_THREADS
    for (; item < count; item++, load += kinds) {
        Py_ssize_t best = -1;
        double least = 0;
        for (Py_ssize_t bin = 0; bin < bins; bin++) {
            if (room[bin] < length[item]) continue;
            double largest = sum[bin * kinds] + load[0];
            for (Py_ssize_t k = 1; k < kinds; k++) {
                const double other = sum[bin * kinds + k] + load[k];
                if (other > largest) largest = other;
            }
            if (best < 0 || largest < least) best = bin, least = largest;
        }
        if (best < 0) break;
        for (Py_ssize_t k = 0; k < kinds; k++) sum[best * kinds + k] += load[k];
        room[best] -= length[item];
        home[item] = best;
    }
    Py_END_ALLOW_THREADS
    result = PyLong_FromSsize_t(item);
release:
    PyBuffer_Release(&lengths);
    PyBuffer_Release(&loads);
    PyBuffer_Release(&free);
    PyBuffer_Release(&sums);
    PyBuffer_Release(&homes);
    return result;
}
