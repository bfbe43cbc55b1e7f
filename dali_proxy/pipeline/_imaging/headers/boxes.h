/* Overlaps of boxes. */

/* Compute intersection over union of a box (left, top, right, bottom) with n others, given as four rows. Without
   FOR_EACH_CPU, because fused multiply-add would round differently than NumPy. */
static void overlap_boxes(const float *box, const float *others, const float *areas, Py_ssize_t n,
                          float *restrict overlaps) {
    const float *left = others, *top = others + n, *right = others + 2 * n, *bottom = others + 3 * n;
    const float area = (box[2] - box[0]) * (box[3] - box[1]);
    for (Py_ssize_t i = 0; i < n; i++) {
        float width = (right[i] < box[2] ? right[i] : box[2]) - (left[i] > box[0] ? left[i] : box[0]);
        float height = (bottom[i] < box[3] ? bottom[i] : box[3]) - (top[i] > box[1] ? top[i] : box[1]);
        float common = (width > 0 ? width : 0) * (height > 0 ? height : 0);
        float overlap = common / (areas[i] + area - common);
        overlaps[i] = overlap == overlap ? overlap : 0; /* 0 / 0 */
    }
}

/* Find the box of each anchor, or -1. Of equal overlaps, the last one counts. */
static void match_boxes(const float *boxes, Py_ssize_t count, const float *anchors, const float *areas, Py_ssize_t n,
                        float criteria, float *overlaps, float *most, int32_t *closest, int32_t *restrict matched) {
    for (Py_ssize_t i = 0; i < n; i++) most[i] = -INFINITY, matched[i] = -1;
    for (Py_ssize_t b = 0; b < count; b++) {
        overlap_boxes(boxes + 4 * b, anchors, areas, n, overlaps);
        float largest = -INFINITY;
        for (Py_ssize_t i = 0; i < n; i++) {
            matched[i] = overlaps[i] >= most[i] ? (int32_t)b : matched[i];
            most[i] = overlaps[i] >= most[i] ? overlaps[i] : most[i];
            largest = overlaps[i] >= largest ? overlaps[i] : largest;
        }
        closest[b] = (int32_t)n - 1;
        while (overlaps[closest[b]] != largest) closest[b]--;
    }
    for (Py_ssize_t i = 0; i < n; i++) matched[i] = most[i] <= criteria ? -1 : matched[i];
    for (Py_ssize_t b = 0; b < count; b++) matched[closest[b]] = (int32_t)b; /* also below the criteria */
}

PyDoc_STRVAR(match_boxes_doc,
             "match_boxes(boxes, anchors, areas, criteria, matched)\n--\n\n"
             "Write the index of the box of each anchor, or -1: int32 (n,). boxes: float32 (m, 4); anchors: float32\n"
             "(4, n); areas: float32 (n,), of the anchors. n must not be 0.");

static PyObject *match_boxes_call(PyObject *module, PyObject *arguments) {
    Py_buffer boxes, anchors, areas, matched;
    float criteria;
    if (!PyArg_ParseTuple(arguments, "y*y*y*fw*", &boxes, &anchors, &areas, &criteria, &matched)) return NULL;
    PyObject *result = NULL;
    Py_ssize_t n = matched.len / (Py_ssize_t)sizeof(int32_t), count = boxes.len / (4 * (Py_ssize_t)sizeof(float));
    float *work = malloc((2 * n + count) * sizeof(float));
    if (n == 0 || anchors.len != 4 * n * (Py_ssize_t)sizeof(float) || areas.len != n * (Py_ssize_t)sizeof(float)) {
        PyErr_SetString(PyExc_ValueError, "the anchors don't fit the result");
    } else if (work == NULL) {
        PyErr_NoMemory();
    } else {
        Py_BEGIN_ALLOW_THREADS
        match_boxes(boxes.buf, count, anchors.buf, areas.buf, n, criteria, work, work + n, (int32_t *)(work + 2 * n),
                    matched.buf);
        Py_END_ALLOW_THREADS
        result = Py_NewRef(Py_None);
    }
    free(work);
    RELEASE(&boxes, &anchors, &areas, &matched);
    return result;
}
