/* Random windows that keep boxes. Without FOR_EACH_CPU, because fused multiply-add would round differently than
   NumPy. */

#define MOST_AXES 3

enum { NO_WINDOW, FITS, NARROW };

/* The options and the state of `BoxWindows.draw`, which has the same names. Arrays have a row for each sample. */
typedef struct {
    const double *boxes, *extents, *thresholds, *ratios;
    const int64_t *counts;
    Py_ssize_t axes, most_boxes, threshold_count, ratio_count, draws, attempts, begin, size;
    double low, high, prune;
    int whole, iou, every, redraw;
    int64_t *choice;
    double *anchors, *shapes, *best;
    uint8_t *kept, *fits;
} Windows;

static double smaller(double a, double b) { return a < b ? a : b; }
static double larger(double a, double b) { return a > b ? a : b; }

/* The axes of a pair: (0, 1), then (0, 2) and (1, 2). */
static int first_axis(Py_ssize_t pair) { return pair == 2; }
static int second_axis(Py_ssize_t pair) { return pair == 0 ? 1 : 2; }

/* Choose the first of the drawn shapes whose aspect ratio fits. Return 0 if none does, and choose the first one. */
static int choose_shape(const Windows *w, const double *numbers, const double *pixels, double *shape) {
    int exact = 0, fits = 0;
    for (Py_ssize_t p = 0; p < w->ratio_count; p++) exact |= w->ratios[2 * p] == w->ratios[2 * p + 1];
    for (Py_ssize_t draw = 0; draw < w->draws && !fits; draw++) {
        double drawn[MOST_AXES];
        for (int a = 0; a < w->axes; a++) drawn[a] = w->low + (w->high - w->low) * numbers[draw * w->axes + a];
        fits = 1;
        for (Py_ssize_t p = 0; p < w->ratio_count && !exact; p++) {
            double first = drawn[first_axis(p)] * pixels[first_axis(p)];
            double second = drawn[second_axis(p)] * pixels[second_axis(p)];
            fits &= first >= w->ratios[2 * p] * second && first <= w->ratios[2 * p + 1] * second;
        }
        if (fits || draw == 0) memcpy(shape, drawn, w->axes * sizeof(double));
    }
    return fits;
}

/* Stretch a shape whose aspect ratio doesn't fit. */
static void stretch_shape(const Windows *w, const double *pixels, double *shape) {
    double largest = 0;
    for (Py_ssize_t p = 0; p < w->ratio_count; p++) {
        double *first = shape + first_axis(p), *second = shape + second_axis(p);
        double scale = pixels[second_axis(p)] / pixels[first_axis(p)];
        *first = larger(*first, *second * w->ratios[2 * p] * scale);
        *second = larger(*second, *first / (w->ratios[2 * p + 1] * scale));
    }
    for (int a = 0; a < w->axes; a++) largest = larger(largest, shape[a]);
    for (int a = 0; a < w->axes && largest > 1; a++) shape[a] /= largest;
}

/* Return the decisive overlap of a window, and mark the boxes that it keeps. */
static double overlap_window(const Windows *w, const double *boxes, Py_ssize_t count, const double *anchor,
                             const double *shape, uint8_t *kept) {
    double volume = 1, result = w->every || count == 0 ? 1 : 0;
    for (int a = 0; a < w->axes; a++) volume *= shape[a];
    for (Py_ssize_t i = 0; i < count; i++, boxes += 2 * w->axes) {
        double common = 1, size = 1;
        kept[i] = 1;
        for (int a = 0; a < w->axes; a++) {
            double low = boxes[a], high = boxes[w->axes + a], center = (low + high) / 2, end = anchor[a] + shape[a];
            common *= larger(smaller(high, end) - larger(low, anchor[a]), 0);
            size *= high - low;
            kept[i] &= center >= anchor[a] && center <= end;
        }
        double overlap = size > 0 ? common / size : 0, united = size + volume - common;
        if (w->prune == w->prune) kept[i] = overlap >= w->prune && common > 0;
        if (w->iou) overlap = united > 0 ? common / united : 0;
        result = w->every ? smaller(result, overlap) : larger(result, overlap);
    }
    return result;
}

/* Try the windows that a sample's numbers describe, and keep the first one that fits, or the best one. */
static int fit_window(const Windows *w, const double *numbers, Py_ssize_t sample, uint8_t *kept) {
    const double *pixels = w->extents + sample * w->axes;
    int64_t choice = w->choice[sample];
    Py_ssize_t count = (Py_ssize_t)w->counts[sample];
    for (Py_ssize_t k = 0; k < w->size; k++, numbers += 1 + w->axes * (1 + w->draws)) {
        double anchor[MOST_AXES] = {0}, shape[MOST_AXES] = {0};
        if ((w->begin + k) % w->attempts == 0) choice = (int64_t)(numbers[0] * (double)(w->threshold_count + w->whole));
        int right = choose_shape(w, numbers + 1 + w->axes, pixels, shape), any = 0;
        if (!right && w->redraw) return NARROW;
        stretch_shape(w, pixels, shape);
        for (int a = 0; a < w->axes; a++) anchor[a] = numbers[1 + a] * (1 - shape[a]);
        double overlap = overlap_window(w, w->boxes + sample * w->most_boxes * 2 * w->axes, count, anchor, shape, kept);
        int whole = choice == w->threshold_count;
        for (int a = 0; a < w->axes && whole; a++) anchor[a] = 0, shape[a] = 1;
        for (Py_ssize_t i = 0; i < count; i++) any |= kept[i] |= (uint8_t)whole;
        int fits = whole || (overlap >= w->thresholds[choice] && right && (any || count == 0));
        if (!fits && 2 * any + overlap <= w->best[sample]) continue;
        memcpy(w->anchors + sample * w->axes, anchor, w->axes * sizeof(double));
        memcpy(w->shapes + sample * w->axes, shape, w->axes * sizeof(double));
        memcpy(w->kept + sample * w->most_boxes, kept, count);
        w->best[sample] = 2 * any + overlap;
        w->fits[sample] = (uint8_t)fits;
        if (fits) return FITS;
    }
    w->choice[sample] = choice;
    return NO_WINDOW;
}

PyDoc_STRVAR(fit_windows_doc,
             "fit_windows(options, flags, boxes, counts, extents, thresholds, ratios, left, numbers, choice, anchors,\n"
             "            shapes, kept, fits, best, status)\n--\n\n"
             "Run a step of BoxWindows.draw for the samples `left`. options: low, high, prune or NaN; flags: draws,\n"
             "attempts, begin, whole, iou, every, redraw; thresholds end with the 0 of the whole image. Writes the\n"
             "status of each sample: 0 without a window that fits, 1 with one, 2 if no shape fits, so that more\n"
             "numbers are needed. Columns are float64, int64 or bool.");

static PyObject *fit_windows_call(PyObject *module, PyObject *arguments) {
    Windows w;
    Py_buffer read[7], written[7];
    if (!PyArg_ParseTuple(arguments, "(ddd)(nnnpppp)y*y*y*y*y*y*y*w*w*w*w*w*w*w*", &w.low, &w.high, &w.prune, &w.draws,
                          &w.attempts, &w.begin, &w.whole, &w.iou, &w.every, &w.redraw, &read[0], &read[1], &read[2],
                          &read[3], &read[4], &read[5], &read[6], &written[0], &written[1], &written[2], &written[3],
                          &written[4], &written[5], &written[6]))
        return NULL;
    PyObject *result = NULL;
    const Py_ssize_t word = sizeof(double);
    Py_ssize_t samples = read[1].len / word, left = read[5].len / word;
    const int64_t *chosen = read[5].buf;
    w.axes = samples ? read[2].len / word / samples : 0;
    w.most_boxes = samples ? written[3].len / samples : 0;
    w.threshold_count = read[3].len / word - 1;
    w.ratio_count = read[4].len / (2 * word);
    Py_ssize_t each = 1 + w.axes * (1 + w.draws);
    w.size = left && w.draws > 0 ? read[6].len / word / left / each : 0;
    w.boxes = read[0].buf, w.counts = read[1].buf, w.extents = read[2].buf, w.thresholds = read[3].buf;
    w.ratios = read[4].buf;
    w.choice = written[0].buf, w.anchors = written[1].buf, w.shapes = written[2].buf, w.kept = written[3].buf;
    w.fits = written[4].buf, w.best = written[5].buf;
    int fits = (w.axes == 2 || w.axes == 3) && w.ratio_count == 2 * w.axes - 3 && w.threshold_count > 0 &&
               w.attempts > 0 && w.begin >= 0 && read[0].len == samples * w.most_boxes * 2 * w.axes * word &&
               read[6].len == left * w.size * each * word && written[0].len == samples * word &&
               written[1].len == samples * w.axes * word && written[2].len == written[1].len &&
               written[4].len == samples && written[5].len == samples * word && written[6].len == left;
    for (Py_ssize_t i = 0; fits && i < left; i++)
        fits = chosen[i] >= 0 && chosen[i] < samples && w.counts[chosen[i]] >= 0 && w.counts[chosen[i]] <= w.most_boxes &&
               w.choice[chosen[i]] >= 0 && w.choice[chosen[i]] <= w.threshold_count;
    uint8_t *kept = fits ? malloc(w.most_boxes + 1) : NULL;
    if (!fits) {
        PyErr_SetString(PyExc_ValueError, "the arrays don't fit each other");
    } else if (kept == NULL) {
        PyErr_NoMemory();
    } else {
        for (Py_ssize_t i = 0; i < left; i++)
            ((uint8_t *)written[6].buf)[i] =
                (uint8_t)fit_window(&w, (const double *)read[6].buf + i * w.size * each, chosen[i], kept);
        result = Py_NewRef(Py_None);
    }
    free(kept);
    for (int i = 0; i < 7; i++) PyBuffer_Release(&read[i]), PyBuffer_Release(&written[i]);
    return result;
}
