/* Random windows by area and aspect ratio. Without FOR_EACH_CPU, because fused multiply-add would round differently than
   NumPy. */

static int64_t at_least_one(double extent) { return extent < 1 ? 1 : (int64_t)extent; }

/* The ranges of the areas, relative to the image's, and of width / height, with their logarithms. */
typedef struct {
    double areas[2], ratios[2], logarithms[2];
} CropRanges;

/* Choose the height and the width of a window: the first of n attempts that fits; otherwise the largest one of an
   allowed ratio and area. The attempts are numbers from [0, 1), first those of the areas. */
static void choose_extents(const double *drawn, Py_ssize_t n, int64_t height, int64_t width, const CropRanges *ranges,
                           int64_t *h, int64_t *w) {
    const double *ratios = ranges->ratios, *logarithms = ranges->logarithms, most = ranges->areas[1];
    const double unit = sqrt((double)(height * width)), precision = 1.0 / (1 << 23); /* that of float32 */
    for (Py_ssize_t i = 0; i < n; i++) {
        const double drawn_area = ranges->areas[0] + drawn[i] * (ranges->areas[1] - ranges->areas[0]);
        const double image_ratio = exp(logarithms[0] + drawn[n + i] * (logarithms[1] - logarithms[0]));
        const double area_of_one = drawn_area > 0 ? drawn_area : 0;
        *h = at_least_one(sqrt(area_of_one / image_ratio) * unit + 0.5);
        *w = at_least_one(sqrt(area_of_one * image_ratio) * unit + 0.5);
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
             "choose_crops(drawn, sizes, areas, ratios, logarithms, windows)\n--\n\n"
             "Write the windows, int64 (n, 4): y, x, height and width. drawn: float64 (n, 2 * attempts + 2), numbers from\n"
             "[0, 1) for the areas, the ratios and the position; sizes: int64 (n, 2), of the images; areas, ratios,\n"
             "logarithms: the ranges of the area relative to the image's, of width / height, and of its logarithm.");

static PyObject *choose_crops_call(PyObject *module, PyObject *arguments) {
    Py_buffer drawn, sizes, windows;
    CropRanges ranges;
    if (!PyArg_ParseTuple(arguments, "y*y*(dd)(dd)(dd)w*", &drawn, &sizes, &ranges.areas[0], &ranges.areas[1],
                          &ranges.ratios[0], &ranges.ratios[1], &ranges.logarithms[0], &ranges.logarithms[1], &windows))
        return NULL;
    PyObject *result = NULL;
    Py_ssize_t count = windows.len / (4 * (Py_ssize_t)sizeof(int64_t));
    Py_ssize_t numbers = count ? drawn.len / (Py_ssize_t)sizeof(double) / count : 2, attempts = (numbers - 2) / 2;
    if (numbers < 2 || numbers % 2 || drawn.len != count * numbers * (Py_ssize_t)sizeof(double) ||
        sizes.len != count * 2 * (Py_ssize_t)sizeof(int64_t)) {
        PyErr_SetString(PyExc_ValueError, "the numbers, the images and the windows don't fit each other");
    } else {
        for (Py_ssize_t i = 0; i < count; i++) {
            int64_t *window = (int64_t *)windows.buf + 4 * i;
            const int64_t height = ((int64_t *)sizes.buf)[2 * i], width = ((int64_t *)sizes.buf)[2 * i + 1];
            const double *own = (const double *)drawn.buf + i * numbers, *offset = own + 2 * attempts;
            memset(window, 0, 4 * sizeof(int64_t));
            if (height <= 0 || width <= 0) continue;
            choose_extents(own, attempts, height, width, &ranges, window + 2, window + 3);
            window[0] = (int64_t)(offset[0] * (double)(height - window[2] + 1));
            window[1] = (int64_t)(offset[1] * (double)(width - window[3] + 1));
        }
        result = Py_NewRef(Py_None);
    }
    RELEASE(&drawn, &sizes, &windows);
    return result;
}
