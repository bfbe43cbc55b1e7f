/* Bounding boxes of the connected regions of masks. */

/* Write where each line of a mask changes: the begin and the end of its first run of nonzero bytes, of its second, and
   so on. `firsts` receives the number of the first run of each line, and of the end. */
static void find_runs(const uint8_t *mask, Py_ssize_t lines, Py_ssize_t width, int32_t *edges, int32_t *firsts) {
    Py_ssize_t count = 0;
    for (Py_ssize_t line = 0; line < lines; line++, mask += width) {
        firsts[line] = (int32_t)(count / 2);
        int inside = 0;
        for (Py_ssize_t x = 0; x < width; x++) { /* without branches, which a noisy mask would mispredict */
            edges[count] = (int32_t)x;
            count += inside ^ (mask[x] != 0);
            inside = mask[x] != 0;
        }
        edges[count] = (int32_t)width;
        count += inside;
    }
    firsts[lines] = (int32_t)(count / 2);
}

static int32_t root_of(int32_t *parents, int32_t run) {
    while (parents[run] != run) run = parents[run] = parents[parents[run]];
    return run;
}

/* Join the runs of a line with those of a neighbouring line that overlap. The first run of a region is its root. */
static void join_runs(const int32_t *edges, int32_t *parents, int32_t run, int32_t end, int32_t other,
                      int32_t other_end) {
    while (run < end && other < other_end) {
        if (edges[2 * (size_t)run] < edges[2 * (size_t)other + 1] && edges[2 * (size_t)other] < edges[2 * (size_t)run + 1]) {
            int32_t a = root_of(parents, run), b = root_of(parents, other);
            parents[a < b ? b : a] = a < b ? a : b;
        }
        if (edges[2 * (size_t)run + 1] < edges[2 * (size_t)other + 1])
            run++;
        else
            other++;
    }
}

/* A mask, and the memory to find its regions. */
typedef struct {
    const uint8_t *pixels;
    const Py_ssize_t *shape;
    int ndim;
    Py_ssize_t lines, width;
    int32_t *edges, *firsts, *parents;
} Mask;

/* Find the regions, and number them in the order of their first pixels; return their number. A root's parent becomes
   the number of its region, as a complement. */
static Py_ssize_t find_regions(const Mask *mask) {
    find_runs(mask->pixels, mask->lines, mask->width, mask->edges, mask->firsts);
    int32_t count = mask->firsts[mask->lines], regions = 0;
    for (int32_t run = 0; run < count; run++) mask->parents[run] = run;
    Py_ssize_t stride = 1; /* in lines, between neighbours along an axis */
    for (int axis = mask->ndim - 2; axis >= 0; stride *= mask->shape[axis--])
        for (Py_ssize_t line = stride; line < mask->lines; line++)
            if (line / stride % mask->shape[axis])
                join_runs(mask->edges, mask->parents, mask->firsts[line], mask->firsts[line + 1],
                          mask->firsts[line - stride], mask->firsts[line - stride + 1]);
    for (int32_t run = 0; run < count; run++) {
        int32_t parent = mask->parents[run]; /* comes before the run, so that it has the number of its region */
        mask->parents[run] = parent == run ? ~regions++ : mask->parents[parent];
    }
    return regions;
}

/* Extend the start and the end of each region, (regions, 2, ndim), to its runs. */
static void cover_regions(const Mask *mask, Py_ssize_t regions, int64_t *boxes) {
    int ndim = mask->ndim;
    for (Py_ssize_t i = 0; i < regions; i++)
        for (int axis = 0; axis < ndim; axis++)
            boxes[2 * i * ndim + axis] = INT64_MAX, boxes[(2 * i + 1) * ndim + axis] = 0;
    for (Py_ssize_t line = 0; line < mask->lines; line++)
        for (int32_t run = mask->firsts[line]; run < mask->firsts[line + 1]; run++) {
            int64_t *start = boxes + 2 * (Py_ssize_t)~mask->parents[run] * ndim, *end = start + ndim;
            int64_t from = mask->edges[2 * (size_t)run], to = mask->edges[2 * (size_t)run + 1];
            Py_ssize_t rest = line;
            for (int axis = ndim - 1; axis >= 0; axis--) {
                start[axis] = from < start[axis] ? from : start[axis];
                end[axis] = to > end[axis] ? to : end[axis];
                if (axis > 0) from = rest % mask->shape[axis - 1], to = from + 1, rest /= mask->shape[axis - 1];
            }
        }
}

PyDoc_STRVAR(blob_boxes_doc,
             "blob_boxes(mask)\n--\n\n"
             "Return start and end of each connected region of a C-contiguous mask of bytes, in the order of their\n"
             "first pixels: a bytearray of int64 (regions, 2, ndim).");

static PyObject *blob_boxes_call(PyObject *module, PyObject *array) {
    Py_buffer view;
    PyObject *result = NULL;
    if (PyObject_GetBuffer(array, &view, PyBUF_C_CONTIGUOUS) < 0) return NULL;
    if (view.ndim < 1 || view.itemsize != 1 || view.len < 1 || view.len > INT32_MAX) {
        PyErr_SetString(PyExc_ValueError, "expected a mask of bytes, with at least one dimension and one element");
        goto release;
    }
    Py_ssize_t width = view.shape[view.ndim - 1], lines = view.len / width, most = lines * ((width + 1) / 2);
    int32_t *memory = malloc((3 * most + lines + 2) * sizeof(int32_t));
    if (memory == NULL) {
        PyErr_NoMemory();
        goto release;
    }
    Mask mask = {view.buf, view.shape, view.ndim, lines, width, .edges = memory, .firsts = memory + 2 * most + 1,
                 .parents = memory + 2 * most + lines + 2};
    Py_ssize_t regions;
    Py_BEGIN_ALLOW_THREADS
    regions = find_regions(&mask);
    Py_END_ALLOW_THREADS
    result = PyByteArray_FromStringAndSize(NULL, regions * 2 * view.ndim * (Py_ssize_t)sizeof(int64_t));
    if (result != NULL) cover_regions(&mask, regions, (int64_t *)PyByteArray_AS_STRING(result));
    free(memory);
release:
    PyBuffer_Release(&view);
    return result;
}
