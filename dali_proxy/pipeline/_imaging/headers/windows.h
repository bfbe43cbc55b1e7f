/* Random windows that keep boxes. Without FOR_EACH_CPU, because fused multiply-add would round differently than
   NumPy. */

#define MOST_AXES 3

/* The constants of bbox_windows.py. */
enum { FIRST_COUNT = 4, MAX_COUNT = 32, MORE_DRAWS = 128 };

/* The options and the state of `BoxWindows.draw`, which has the same names. Arrays have a row for each sample. */
typedef struct {
    const double *boxes, *extents, *crop, *thresholds, *ratios;
    const uint64_t *key;
    const uint8_t *present;
    Py_ssize_t axes, most_boxes, threshold_count, ratio_count, draws, attempts, total;
    double low, high, prune;
    int whole, iou, every, redraw;
    int64_t *choice;
    double *anchors, *shapes, *best;
    uint8_t *kept, *fits;
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
    const double *pixels = w->extents + sample * w->axes;
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
static void fit_window(const Windows *w, const Step *step, Py_ssize_t sample, uint8_t *kept) {
    Sequence sequence = begin_sequence(w, step, 0);
    const uint8_t *present = w->present + sample * w->most_boxes;
    Py_ssize_t count = 0;
    while (count < w->most_boxes && present[count]) count++;
    for (Py_ssize_t k = 0; k < step->size && !w->fits[sample]; k++) {
        double anchor[MOST_AXES] = {0}, shape[MOST_AXES] = {1, 1, 1}, overlap = 1;
        if ((step->begin + k) % w->attempts == 0) {
            double number = number_at(&sequence, (sample * step->size + k) * (1 + w->axes * (1 + w->draws)));
            w->choice[sample] = (int64_t)(number * (double)(w->threshold_count + w->whole));
        }
        const int64_t choice = w->choice[sample];
        int fits = choice == w->threshold_count, any = 0;
        if (fits) {
            memcpy(kept, present, count);
        } else {
            int right = draw_window(w, step, &sequence, sample, k, anchor, shape);
            double least = w->thresholds[choice];
            overlap = overlap_window(w, w->boxes + sample * w->most_boxes * 2 * w->axes, count, anchor, shape,
                                     w->total > 0 ? -1 : least, kept);
            if (w->total <= 0 && !(right && overlap >= least)) continue;
            for (Py_ssize_t i = 0; i < count; i++) any |= kept[i];
            fits = right && overlap >= least && (any || count == 0);
        }
        if (!fits && 2 * any + overlap <= w->best[sample]) continue;
        memcpy(w->anchors + sample * w->axes, anchor, w->axes * sizeof(double));
        memcpy(w->shapes + sample * w->axes, shape, w->axes * sizeof(double));
        memcpy(w->kept + sample * w->most_boxes, kept, count);
        w->best[sample] = 2 * any + overlap;
        w->fits[sample] = (uint8_t)fits;
    }
}

PyDoc_STRVAR(fit_windows_doc,
             "fit_windows(options, flags, steps, key, boxes, present, extents, crop, thresholds, ratios, choice,\n"
             "            anchors, shapes, kept, fits, best)\n--\n\n"
             "Run steps first .. last of BoxWindows.draw for the samples without a window that fits. options: low,\n"
             "high, prune or NaN; flags: draws, attempts, total, whole, iou, every, redraw; crop may be empty.\n"
             "Columns are float64, int64 or bool; the key is uint64 (2,). Return whether a sample has no window that\n"
             "fits and more windows may be drawn.");

static PyObject *fit_windows_call(PyObject *module, PyObject *arguments) {
    enum { READ = 7, WRITTEN = 6 };
    Windows w;
    Py_buffer read[READ], written[WRITTEN];
    Py_ssize_t first, last, left = 0;
    if (!PyArg_ParseTuple(arguments, "(ddd)(nnnpppp)(nn)y*y*y*y*y*y*y*w*w*w*w*w*w*", &w.low, &w.high, &w.prune,
                          &w.draws, &w.attempts, &w.total, &w.whole, &w.iou, &w.every, &w.redraw, &first, &last,
                          &read[0], &read[1], &read[2], &read[3], &read[4], &read[5], &read[6], &written[0],
                          &written[1], &written[2], &written[3], &written[4], &written[5]))
        return NULL;
    const Py_ssize_t word = sizeof(double), samples = written[4].len, rows = samples ? samples : 1;
    w.key = read[0].buf, w.boxes = read[1].buf, w.present = read[2].buf, w.extents = read[3].buf;
    w.crop = read[4].len ? read[4].buf : NULL, w.thresholds = read[5].buf, w.ratios = read[6].buf;
    w.choice = written[0].buf, w.anchors = written[1].buf, w.shapes = written[2].buf, w.kept = written[3].buf;
    w.fits = written[4].buf, w.best = written[5].buf;
    w.axes = read[3].len / word / rows;
    w.most_boxes = read[2].len / rows;
    w.threshold_count = read[5].len / word;
    w.ratio_count = read[6].len / (2 * word);
    int fits = read[0].len == 2 * word && (w.axes == 2 || w.axes == 3) && w.draws > 0 && w.attempts > 0 &&
               w.ratio_count == 2 * w.axes - 3 && w.threshold_count > 0 &&
               read[1].len == samples * w.most_boxes * 2 * w.axes * word && read[2].len == samples * w.most_boxes &&
               read[3].len == samples * w.axes * word && (!read[4].len || read[4].len == read[3].len) &&
               written[0].len == samples * word && written[1].len == read[3].len && written[2].len == read[3].len &&
               written[3].len == read[2].len && written[5].len == samples * word;
    for (Py_ssize_t i = 0; fits && i < samples; i++) fits = w.choice[i] >= 0 && w.choice[i] <= w.threshold_count;
    uint8_t *kept = fits ? malloc(w.most_boxes + 1) : NULL;
    if (kept != NULL) {
        Py_BEGIN_ALLOW_THREADS
        Step step = {0, 0, FIRST_COUNT};
        left = samples;
        for (; step.number < last && left > 0 && (w.total <= 0 || step.begin < w.total); step.number++) {
            if (w.total > 0 && step.size > w.total - step.begin) step.size = w.total - step.begin;
            if (step.number >= first) left = 0;
            for (Py_ssize_t i = 0; step.number >= first && i < samples; i++) {
                if (!w.fits[i]) fit_window(&w, &step, i, kept);
                left += !w.fits[i];
            }
            step.begin += step.size;
            step.size = 2 * step.size < MAX_COUNT ? 2 * step.size : MAX_COUNT;
        }
        if (w.total > 0 && step.begin >= w.total) left = 0;
        Py_END_ALLOW_THREADS
    }
    const int memory = kept != NULL;
    free(kept);
    for (int i = 0; i < READ; i++) PyBuffer_Release(&read[i]);
    for (int i = 0; i < WRITTEN; i++) PyBuffer_Release(&written[i]);
    if (!fits) PyErr_SetString(PyExc_ValueError, "the arrays don't fit each other");
    else if (!memory) PyErr_NoMemory();
    return fits && memory ? PyBool_FromLong(left > 0) : NULL;
}

PyDoc_STRVAR(move_boxes_doc,
             "move_boxes(boxes, kept, anchors, shapes, moved, axes)\n--\n\n"
             "Write the boxes that windows keep, relative to them and cut off at the edges, one after another. boxes:\n"
             "float64 (n, boxes, 2 * axes); kept: bool (n, boxes); anchors, shapes: float64 (n, axes); moved: float64\n"
             "with room for all boxes. Return the number of boxes.");

static PyObject *move_boxes_call(PyObject *module, PyObject *arguments) {
    Py_buffer boxes, kept, anchors, shapes, moved;
    Py_ssize_t axes, total = 0;
    if (!PyArg_ParseTuple(arguments, "y*y*y*y*w*n", &boxes, &kept, &anchors, &shapes, &moved, &axes)) return NULL;
    const Py_ssize_t word = sizeof(double), samples = axes > 0 ? anchors.len / (word * axes) : 0;
    const Py_ssize_t most = samples ? kept.len / samples : 0;
    const int fits = axes > 0 && kept.len == samples * most && anchors.len == samples * axes * word &&
                     shapes.len == anchors.len && boxes.len == kept.len * 2 * axes * word && moved.len >= boxes.len;
    const uint8_t *keep = kept.buf;
    const double *from = boxes.buf, *anchor = anchors.buf, *shape = shapes.buf;
    double *to = moved.buf;
    for (Py_ssize_t i = 0; fits && i < samples; i++, anchor += axes, shape += axes) {
        for (Py_ssize_t k = 0; k < most; k++, from += 2 * axes) {
            if (!*keep++) continue;
            total++;
            for (const double *corner = from; corner < from + 2 * axes; corner += axes) {
                for (Py_ssize_t a = 0; a < axes; a++) {
                    const double value = (corner[a] - anchor[a]) / shape[a];
                    *to++ = value != value ? value : smaller(larger(value, 0), 1);
                }
            }
        }
    }
    RELEASE(&boxes, &kept, &anchors, &shapes, &moved);
    if (!fits) PyErr_SetString(PyExc_ValueError, "the arrays don't fit each other");
    return fits ? PyLong_FromSsize_t(total) : NULL;
}
