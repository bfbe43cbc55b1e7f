/* Random windows that keep boxes. Without FOR_EACH_CPU, because fused multiply-add would round differently than
   NumPy. */

#define MOST_AXES 3

/* The constants of bbox_windows.py. */
enum { FIRST_COUNT = 4, MAX_COUNT = 32, MORE_DRAWS = 128 };

/* Samples up to which, and steps in which, windows are drawn with the GIL: waiting for it again would take longer. */
enum { FEW_SAMPLES = 64, EARLY_STEPS = 8 };
/* Steps between checks for signals, which interrupt if no window ever fits. */
enum { CHECKED_STEPS = 1024 };

/* The options and the state of `BoxWindows.draw`, which has the same names. Arrays have a row for each sample; boxes
   of all samples follow one another. */
typedef struct {
    const double *boxes, *extents, *crop, *thresholds, *ratios;
    const uint64_t *key;
    const int64_t *counts; /* of boxes */
    Py_ssize_t samples, axes, threshold_count, ratio_count, draws, attempts, total;
    double low, high, prune;
    int whole, iou, every, redraw;
    int64_t *begins, *choice; /* the first box, and the threshold of the last window */
    double *anchors, *shapes, *best;
    uint8_t *kept, *fits, *scratch; /* scratch: for the boxes of one sample */
} Windows;

/* Windows begin .. begin + size of each sample, which are drawn from the same sequences of the generator. */
typedef struct {
    Py_ssize_t number, begin, size;
} Step;

/* A sequence of the generator. A block of four words is computed when one of its numbers is read. */
typedef struct {
    const uint64_t *key;
    uint64_t counter[4], words[4];
} Sequence;

static Sequence begin_sequence(const Windows *w, const Step *step, int stage) {
    return (Sequence){w->key, {0, 0, (uint64_t)step->number, (uint64_t)stage}, {0}};
}

/* Return a number from 0 to 1. NumPy counts before it computes the first block. */
static double number_at(Sequence *sequence, Py_ssize_t position) {
    const uint64_t block = (uint64_t)position / 4 + 1;
    if (sequence->counter[0] != block) {
        sequence->counter[0] = block;
        philox(sequence->counter, sequence->key, sequence->words);
    }
    return (double)(sequence->words[position % 4] >> 11) * (1.0 / 9007199254740992.0);
}

static double smaller(double a, double b) { return a < b ? a : b; }
static double larger(double a, double b) { return a > b ? a : b; }

/* The axes of a pair: (0, 1), then (0, 2) and (1, 2). */
static int first_axis(Py_ssize_t pair) { return pair == 2; }
static int second_axis(Py_ssize_t pair) { return pair == 0 ? 1 : 2; }

/* Choose the first of the drawn shapes whose aspect ratio fits. Return 0 if none does, and choose the first one. */
static int choose_shape(const Windows *w, Sequence *sequence, Py_ssize_t position, Py_ssize_t draws,
                        const double *pixels, double *shape) {
    int exact = 0, fits = 0;
    for (Py_ssize_t p = 0; p < w->ratio_count; p++) exact |= w->ratios[2 * p] == w->ratios[2 * p + 1];
    for (Py_ssize_t draw = 0; draw < draws && !fits; draw++) {
        double drawn[MOST_AXES];
        for (int a = 0; a < w->axes; a++) drawn[a] = w->low + (w->high - w->low) * number_at(sequence, position++);
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

/* Draw window k of a step. Return whether its aspect ratio fits. */
static int draw_window(const Windows *w, const Step *step, Sequence *sequence, Py_ssize_t sample, Py_ssize_t k,
                       double *anchor, double *shape) {
    const double square[MOST_AXES] = {1, 1, 1}, *pixels = w->extents ? w->extents + sample * w->axes : square;
    const Py_ssize_t window = sample * step->size + k;
    const Py_ssize_t position = window * (1 + w->axes * (1 + w->draws)) + 1;
    double numbers[MOST_AXES];
    for (int a = 0; a < w->axes; a++) numbers[a] = number_at(sequence, position + a);
    if (w->crop != NULL) {
        for (int a = 0; a < w->axes; a++) {
            double crop = w->crop[sample * w->axes + a], room = pixels[a] - crop;
            double low = smaller(room, 0), high = larger(room, 0);
            anchor[a] = (low + floor(numbers[a] * (high - low + 1))) / pixels[a];
            shape[a] = crop / pixels[a];
        }
        return 1;
    }
    int fits = choose_shape(w, sequence, position + w->axes, w->draws, pixels, shape);
    if (!fits && w->redraw) {
        Sequence more = begin_sequence(w, step, 1);
        fits = 1; /* because it is stretched */
        choose_shape(w, &more, window * MORE_DRAWS * w->axes, MORE_DRAWS, pixels, shape);
    }
    stretch_shape(w, pixels, shape);
    for (int a = 0; a < w->axes; a++) anchor[a] = numbers[a] * (1 - shape[a]);
    return fits;
}

/* Return the decisive overlap of a window, and mark the boxes that it keeps. Return early if it is below `least`. */
static double overlap_window(const Windows *w, const double *boxes, Py_ssize_t count, const double *anchor,
                             const double *shape, double least, uint8_t *kept) {
    double volume = 1, result = w->every || count == 0 ? 1 : 0;
    for (int a = 0; a < w->axes; a++) volume *= shape[a];
    for (Py_ssize_t i = 0; i < count && !(w->every && result < least); i++, boxes += 2 * w->axes) {
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

/* Try the windows of a step, and keep the first one that fits, or the best one if their number is limited. */
static void fit_window(const Windows *w, const Step *step, Py_ssize_t sample) {
    Sequence sequence = begin_sequence(w, step, 0);
    const Py_ssize_t count = (Py_ssize_t)w->counts[sample];
    const double *boxes = w->boxes + w->begins[sample] * 2 * w->axes;
    uint8_t *kept = w->scratch;
    for (Py_ssize_t k = 0; k < step->size && !w->fits[sample]; k++) {
        double anchor[MOST_AXES] = {0}, shape[MOST_AXES] = {1, 1, 1}, overlap = 1;
        if ((step->begin + k) % w->attempts == 0) {
            double number = number_at(&sequence, (sample * step->size + k) * (1 + w->axes * (1 + w->draws)));
            w->choice[sample] = (int64_t)(number * (double)(w->threshold_count + w->whole));
        }
        const int64_t choice = w->choice[sample];
        int fits = choice == w->threshold_count, any = 0;
        if (fits) {
            memset(kept, 1, count);
        } else {
            int right = draw_window(w, step, &sequence, sample, k, anchor, shape);
            double least = w->thresholds[choice];
            overlap = overlap_window(w, boxes, count, anchor, shape, w->total > 0 ? -1 : least, kept);
            if (w->total <= 0 && !(right && overlap >= least)) continue;
            for (Py_ssize_t i = 0; i < count; i++) any |= kept[i];
            fits = right && overlap >= least && (any || count == 0);
        }
        if (!fits && 2 * any + overlap <= w->best[sample]) continue;
        memcpy(w->anchors + sample * w->axes, anchor, w->axes * sizeof(double));
        memcpy(w->shapes + sample * w->axes, shape, w->axes * sizeof(double));
        memcpy(w->kept + w->begins[sample], kept, count);
        w->best[sample] = 2 * any + overlap;
        w->fits[sample] = (uint8_t)fits;
    }
}

/* Run steps up to number `last` for the samples without a window that fits. Return how many of them are left. */
static Py_ssize_t fit_windows(const Windows *w, Step *step, Py_ssize_t last) {
    Py_ssize_t left = w->samples;
    for (; step->number < last && left > 0 && (w->total <= 0 || step->begin < w->total); step->number++) {
        if (w->total > 0 && step->size > w->total - step->begin) step->size = w->total - step->begin;
        left = 0;
        for (Py_ssize_t i = 0; i < w->samples; i++) {
            if (!w->fits[i]) fit_window(w, step, i);
            left += !w->fits[i];
        }
        step->begin += step->size;
        step->size = 2 * step->size < MAX_COUNT ? 2 * step->size : MAX_COUNT;
    }
    return w->total > 0 && step->begin >= w->total ? 0 : left;
}

/* Write the boxes that windows keep, relative to them and cut off at the edges, one after another, and their counts.
   Return the number of boxes. */
static Py_ssize_t move_boxes(const Windows *w, double *to, int64_t *counts) {
    Py_ssize_t total = 0;
    for (Py_ssize_t i = 0; i < w->samples; i++) {
        const double *from = w->boxes + w->begins[i] * 2 * w->axes, *anchor = w->anchors + i * w->axes;
        counts[i] = 0;
        for (int64_t k = 0; k < w->counts[i]; k++, from += 2 * w->axes) {
            if (!w->kept[w->begins[i] + k]) continue;
            counts[i]++;
            for (Py_ssize_t c = 0; c < 2 * w->axes; c++) {
                const double value = (from[c] - anchor[c % w->axes]) / w->shapes[i * w->axes + c % w->axes];
                *to++ = value != value ? value : smaller(larger(value, 0), 1);
            }
        }
        total += (Py_ssize_t)counts[i];
    }
    return total;
}

/* Draw the windows. Return whether all fit, or -1 with an exception. */
static int draw_all(const Windows *w) {
    Step step = {0, 0, FIRST_COUNT};
    Py_ssize_t left = w->samples <= FEW_SAMPLES ? fit_windows(w, &step, EARLY_STEPS) : w->samples;
    while (left > 0) {
        Py_BEGIN_ALLOW_THREADS
        left = fit_windows(w, &step, step.number + CHECKED_STEPS);
        Py_END_ALLOW_THREADS
        if (PyErr_CheckSignals() < 0) return -1;
    }
    int fits = 1;
    for (Py_ssize_t i = 0; i < w->samples; i++) fits &= w->fits[i];
    return fits;
}

PyDoc_STRVAR(draw_windows_doc,
             "draw_windows(options, flags, key, boxes, counts, extents, crop, thresholds, ratios, anchors, shapes,\n"
             "             moved, kept, kept_counts)\n--\n\n"
             "Draw the windows of BoxWindows.draw, and write the boxes that they keep, one after another. options: low,\n"
             "high, prune or NaN; flags: draws, attempts, total, whole, iou, every, redraw; extents and crop may be\n"
             "empty. Columns are float64, int64 or bool; the key is uint64 (2,). Return the number of boxes that are\n"
             "kept, and whether all windows fit.");

static PyObject *draw_windows_call(PyObject *module, PyObject *arguments) {
    enum { READ = 7, WRITTEN = 5 };
    Windows w = {0};
    Py_buffer read[READ], written[WRITTEN];
    if (!PyArg_ParseTuple(arguments, "(ddd)(nnnpppp)y*y*y*y*y*y*y*w*w*w*w*w*", &w.low, &w.high, &w.prune, &w.draws,
                          &w.attempts, &w.total, &w.whole, &w.iou, &w.every, &w.redraw, &read[0], &read[1], &read[2],
                          &read[3], &read[4], &read[5], &read[6], &written[0], &written[1], &written[2], &written[3],
                          &written[4]))
        return NULL;
    const Py_ssize_t word = sizeof(double), boxes = written[3].len;
    w.key = read[0].buf, w.boxes = read[1].buf, w.counts = read[2].buf;
    w.extents = read[3].len ? read[3].buf : NULL, w.crop = read[4].len ? read[4].buf : NULL;
    w.thresholds = read[5].buf, w.ratios = read[6].buf;
    w.anchors = written[0].buf, w.shapes = written[1].buf, w.kept = written[3].buf;
    w.samples = read[2].len / word;
    w.axes = w.samples ? written[0].len / (word * w.samples) : 0;
    w.threshold_count = read[5].len / word;
    w.ratio_count = read[6].len / (2 * word);
    const Py_ssize_t columns = w.samples * w.axes * word;
    int fits = read[0].len == 2 * word && (w.axes == 2 || w.axes == 3) && w.draws > 0 && w.attempts > 0 &&
               w.ratio_count == 2 * w.axes - 3 && w.threshold_count > 0 && read[1].len == boxes * 2 * w.axes * word &&
               (!read[3].len || read[3].len == columns) && (!read[4].len || read[4].len == columns) &&
               written[0].len == columns && written[1].len == columns && written[2].len == read[1].len &&
               written[4].len == read[2].len;
    PyObject *result = NULL;
    /* begins, choice and best, then fits and scratch */
    char *state = fits ? PyMem_Calloc(1, (size_t)(w.samples * (3 * word + 1) + boxes + 1)) : NULL;
    if (fits && !state) PyErr_NoMemory();
    if (state) {
        w.begins = (int64_t *)state, w.choice = w.begins + w.samples, w.best = (double *)(w.choice + w.samples);
        w.fits = (uint8_t *)(w.best + w.samples), w.scratch = w.fits + w.samples;
        int64_t begin = 0;
        for (Py_ssize_t i = 0; fits && i < w.samples; i++) {
            w.begins[i] = begin, w.best[i] = -1;
            fits = w.counts[i] >= 0 && w.counts[i] <= boxes - begin;
            begin += w.counts[i];
        }
        fits = fits && begin == boxes;
    }
    if (!fits) PyErr_SetString(PyExc_ValueError, "the arrays don't fit each other");
    if (state && fits) {
        for (Py_ssize_t i = 0; i < w.samples * w.axes; i++) w.anchors[i] = 0, w.shapes[i] = 1;
        memset(w.kept, 1, (size_t)boxes);
        int all = draw_all(&w);
        if (all >= 0) result = Py_BuildValue("nN", move_boxes(&w, written[2].buf, written[4].buf), PyBool_FromLong(all));
    }
    PyMem_Free(state);
    for (int i = 0; i < READ; i++) PyBuffer_Release(&read[i]);
    for (int i = 0; i < WRITTEN; i++) PyBuffer_Release(&written[i]);
    return result;
}
