/* Selections of polygons, a few of them in each of many samples. */

#define MOST_COMPARISONS ((Py_ssize_t)1 << 16) /* of a sample; with more of them, a hash table is faster */

/* The polygons of a sample: rows of mask, first vertex and end; and the masks to select. */
typedef struct {
    const int32_t *masks, *polygons;
    Py_ssize_t mask_count, polygon_count, vertex_count;
    const char *vertices;
} Outlines;

/* Count the polygons of the selected masks, and their vertices. Return 0 if a mask repeats or has no polygon, or if
   vertices don't exist. */
static int count_selected(const Outlines *outlines, int64_t *polygons, int64_t *vertices) {
    *polygons = *vertices = 0;
    for (Py_ssize_t i = 0; i < outlines->mask_count; i++) {
        int64_t before = *polygons;
        for (Py_ssize_t k = 0; k < i; k++)
            if (outlines->masks[k] == outlines->masks[i]) return 0;
        for (Py_ssize_t k = 0; k < outlines->polygon_count; k++) {
            const int32_t *polygon = outlines->polygons + 3 * k;
            if (polygon[0] != outlines->masks[i]) continue;
            if (polygon[1] < 0 || polygon[2] < polygon[1] || polygon[2] > outlines->vertex_count) return 0;
            *polygons += 1;
            *vertices += polygon[2] - polygon[1];
        }
        if (*polygons == before) return 0;
    }
    return 1;
}

/* Copy the polygons of the selected masks, and their vertices of `size` bytes; advance both targets. */
static void copy_selected(const Outlines *outlines, int reindex, Py_ssize_t size, int32_t **polygons, char **vertices) {
    int32_t position = 0;
    for (Py_ssize_t i = 0; i < outlines->mask_count; i++)
        for (Py_ssize_t k = 0; k < outlines->polygon_count; k++) {
            const int32_t *polygon = outlines->polygons + 3 * k, count = polygon[2] - polygon[1];
            if (polygon[0] != outlines->masks[i]) continue;
            memcpy(*vertices, outlines->vertices + polygon[1] * size, count * size);
            *vertices += count * size;
            *(*polygons)++ = reindex ? (int32_t)i : outlines->masks[i];
            *(*polygons)++ = position;
            *(*polygons)++ = position += count;
        }
}

/* Borrow a sample of a batch: an array of `ndim` dimensions, of int32 unless `any`. */
static int borrow_sample(PyObject *sequence, Py_ssize_t sample, int ndim, int any, Py_buffer *view) {
    if (PyObject_GetBuffer(PySequence_Fast_GET_ITEM(sequence, sample), view, PyBUF_C_CONTIGUOUS | PyBUF_FORMAT) < 0) {
        PyErr_Clear(); /* not contiguous */
        return 0;
    }
    if (view->ndim == ndim && (any || strcmp(view->format, "i") == 0)) return 1;
    PyBuffer_Release(view);
    return 0;
}

PyDoc_STRVAR(select_polygons_doc,
             "select_polygons(masks, polygons, vertices, reindex)\n--\n\n"
             "Return the selected polygons of all samples, as fn.segmentation.select_masks defines them, their\n"
             "counts, the vertices, and their counts: bytearrays of int32 (P, 3), int64 (N,), rows like those of the\n"
             "vertices, and int64 (N,). The arguments are sequences of N contiguous arrays. None if samples are\n"
             "invalid or large.");

static PyObject *select_polygons_call(PyObject *module, PyObject *arguments) {
    PyObject *given[3], *samples[3] = {NULL, NULL, NULL}, *results[4] = {NULL, NULL, NULL, NULL}, *result = NULL;
    int reindex;
    if (!PyArg_ParseTuple(arguments, "OOOp", &given[0], &given[1], &given[2], &reindex)) return NULL;
    Py_ssize_t count = 0, views = 0, size = 0, polygons = 0, vertices = 0;
    Py_buffer *view = NULL;
    Outlines *outlines = NULL;
    for (int i = 0; i < 3; i++)
        if ((samples[i] = PySequence_Fast(given[i], "expected a sequence of arrays")) == NULL) goto release;
    count = PySequence_Fast_GET_SIZE(samples[0]);
    view = malloc((3 * count + 1) * sizeof(Py_buffer));
    outlines = malloc((count + 1) * sizeof(Outlines));
    for (int i = 1; i < 4; i += 2)
        if ((results[i] = PyByteArray_FromStringAndSize(NULL, count * (Py_ssize_t)sizeof(int64_t))) == NULL)
            goto release;
    if (view == NULL || outlines == NULL) {
        PyErr_NoMemory();
        goto release;
    }
    int64_t *counts[2] = {(int64_t *)PyByteArray_AS_STRING(results[1]), (int64_t *)PyByteArray_AS_STRING(results[3])};
    int fits = PySequence_Fast_GET_SIZE(samples[1]) == count && PySequence_Fast_GET_SIZE(samples[2]) == count;
    for (Py_ssize_t n = 0; fits && n < count; n++) {
        for (int i = 0; fits && i < 3; i++)
            if ((fits = borrow_sample(samples[i], n, i ? 2 : 1, i == 2, view + views))) views++;
        if (!fits) break;
        const Py_buffer *own = view + views - 3;
        outlines[n] = (Outlines){own[0].buf, own[1].buf, own[0].shape[0], own[1].shape[0], own[2].shape[0], own[2].buf};
        if (n == 0) size = own[2].shape[1] * own[2].itemsize;
        fits = own[1].shape[1] == 3 && own[2].shape[1] * own[2].itemsize == size &&
               outlines[n].mask_count * (outlines[n].mask_count + outlines[n].polygon_count) <= MOST_COMPARISONS &&
               count_selected(&outlines[n], &counts[0][n], &counts[1][n]);
        if (fits) polygons += counts[0][n], vertices += counts[1][n];
    }
    if (!fits) {
        result = Py_NewRef(Py_None);
        goto release;
    }
    if ((results[0] = PyByteArray_FromStringAndSize(NULL, polygons * 3 * (Py_ssize_t)sizeof(int32_t))) == NULL ||
        (results[2] = PyByteArray_FromStringAndSize(NULL, vertices * size)) == NULL)
        goto release;
    int32_t *rows = (int32_t *)PyByteArray_AS_STRING(results[0]);
    char *points = PyByteArray_AS_STRING(results[2]);
    for (Py_ssize_t n = 0; n < count; n++) copy_selected(&outlines[n], reindex, size, &rows, &points);
    result = PyTuple_Pack(4, results[0], results[1], results[2], results[3]);
release:
    while (views-- > 0) PyBuffer_Release(view + views);
    free(view);
    free(outlines);
    for (int i = 0; i < 3; i++) Py_XDECREF(samples[i]);
    for (int i = 0; i < 4; i++) Py_XDECREF(results[i]);
    return result;
}
