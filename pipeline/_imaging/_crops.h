/* Random windows by area and aspect ratio. Without FOR_EACH_CPU, because fused multiply-add would round differently than
   NumPy. */

static int64_t at_least_one(double extent) { return extent < 1 ? 1 : (int64_t)extent; }

/* Choose the height and the width of a window: the first of n attempts that fits, given for an image of area 1;
   otherwise the largest one of an allowed ratio and area. */
static void choose_extents(const double *tall, const double *wide, Py_ssize_t n, int64_t height, int64_t width,
                           const double *ratios, double most, int64_t *h, int64_t *w) {
    const double unit = sqrt((double)(height * width)), precision = 1.0 / (1 << 23); /* that of float32 */
    for (Py_ssize_t i = 0; i < n; i++) {
        *h = at_least_one(tall[i] * unit + 0.5), *w = at_least_one(wide[i] * unit + 0.5);
        double ratio = (double)*w / (double)*h;
        if (*h <= height && *w <= width && ratios[0] * (1 - precision) <= ratio &&
            ratio <= ratios[1] * (1 + precision))
            return;
    }
    *h = height, *w = width;
    if ((double)width > (double)height * ratios[1])
        *w = at_least_one((double)height * ratios[1]);
    else if ((double)width < (double)height * ratios[0])
        *h = at_least_one((double)width / ratios[0]);
    double area = (most > 0 ? most : 0) * (double)height * (double)width;
    if ((double)(*h * *w) > area) {
        double shrink = sqrt(area / (double)(*h * *w));
        *h = at_least_one((double)*h * shrink), *w = at_least_one((double)*w * shrink);
    }
}

PyDoc_STRVAR(choose_crops_doc,
             "choose_crops(tall, wide, offsets, sizes, ratios, most, windows)\n--\n\n"
             "Write the windows, int64 (n, 4): y, x, height and width. tall, wide: float64 (n, attempts), extents for\n"
             "images of area 1; offsets: float64 (n, 2), from 0 to 1; sizes: int64 (n, 2), of the images; ratios: the\n"
             "range of width / height; most: the largest area relative to the image's.");

static PyObject *choose_crops_call(PyObject *module, PyObject *arguments) {
    Py_buffer tall, wide, offsets, sizes, windows;
    double ratios[2], most;
    if (!PyArg_ParseTuple(arguments, "y*y*y*y*(dd)dw*", &tall, &wide, &offsets, &sizes, &ratios[0], &ratios[1], &most,
                          &windows))
        return NULL;
    PyObject *result = NULL;
    Py_ssize_t count = windows.len / (4 * (Py_ssize_t)sizeof(int64_t));
    Py_ssize_t attempts = count ? tall.len / (Py_ssize_t)sizeof(double) / count : 0;
    if (tall.len != count * attempts * (Py_ssize_t)sizeof(double) || wide.len != tall.len ||
        offsets.len != count * 2 * (Py_ssize_t)sizeof(double) || sizes.len != offsets.len) {
        PyErr_SetString(PyExc_ValueError, "the attempts, the images and the windows don't fit each other");
    } else {
        for (Py_ssize_t i = 0; i < count; i++) {
            int64_t *window = (int64_t *)windows.buf + 4 * i;
            const int64_t height = ((int64_t *)sizes.buf)[2 * i], width = ((int64_t *)sizes.buf)[2 * i + 1];
            const double *offset = (const double *)offsets.buf + 2 * i;
            memset(window, 0, 4 * sizeof(int64_t));
            if (height <= 0 || width <= 0) continue;
            choose_extents((const double *)tall.buf + i * attempts, (const double *)wide.buf + i * attempts, attempts,
                           height, width, ratios, most, window + 2, window + 3);
            window[0] = (int64_t)(offset[0] * (double)(height - window[2] + 1));
            window[1] = (int64_t)(offset[1] * (double)(width - window[3] + 1));
        }
        result = Py_NewRef(Py_None);
    }
    PyBuffer_Release(&tall);
    PyBuffer_Release(&wide);
    PyBuffer_Release(&offsets);
    PyBuffer_Release(&sizes);
    PyBuffer_Release(&windows);
    return result;
}
