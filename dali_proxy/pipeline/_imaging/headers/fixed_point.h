/* Resampling of 8-bit images in integers: 16 rows at a time, one in each lane of a vector.

   Rows of the source are blended into a block of 16 rows. The block is transposed, so that the 16 pixels of a column
   are adjacent, blended along its columns, and transposed back. Intermediate pixels have 7 fractional bits and weights
   have 15, so sums fit 16 bits as long as no weight is negative. Compilers can vectorise the loops. */

#define ROWS 16
#define CHUNK 512    /* pixels of a row that are blended at once, so that a block's input stays in the L1 cache */
#define MOST_TAPS 16 /* with more, rounding errors of 1 / 256 each add up to visible ones; 16 bits would hold 48 */
#define CACHE_LINE 64

/* Resampling of an axis, with weights of 15 bits; see `Axis`. */
typedef struct {
    const int32_t *first;
    int16_t *weights;
    Py_ssize_t size;
    Py_ssize_t taps;
} FixedAxis;

/* Working memory for an image. */
typedef struct {
    int16_t *rows;       /* (inputs of a block, CHUNK): rows of the source */
    int16_t *blended;    /* (ROWS, CHUNK) */
    int16_t *columns;    /* (inputs of a row, ROWS) */
    uint8_t *transposed; /* (channels, outputs of a row, ROWS) */
    uint8_t *lines;      /* (channels, ROWS, outputs of a row) */
} Workspace;

/* Return value * weight, rounded like a processor's rounding multiplication. */
ALWAYS_INLINE int16_t scaled(int16_t value, int16_t weight) {
    return (int16_t)((((int32_t)value * weight >> 14) + 1) >> 1);
}

ALWAYS_INLINE Py_ssize_t padded(Py_ssize_t count) { return (count + ROWS - 1) / ROWS * ROWS; }

/* Convert weights to 15 bits that add up to one. Return 0 if a weight is negative or the sum isn't one. */
static int quantize(const Axis *axis, FixedAxis *fixed) {
    for (Py_ssize_t i = 0; i < axis->size; i++) {
        const float *from = axis->weights + i * axis->taps;
        int16_t *to = fixed->weights + i * axis->taps;
        Py_ssize_t largest = 0;
        int rest = 1 << 15;
        for (Py_ssize_t k = 0; k < axis->taps; k++) {
            if (!(from[k] >= 0 && from[k] <= 1.001f)) return 0;
            int weight = (int)(from[k] * 32768 + 0.5f);
            rest -= weight;
            to[k] = (int16_t)(weight > INT16_MAX ? INT16_MAX : weight);
            if (from[k] > from[largest]) largest = k;
        }
        if (rest < -MOST_TAPS || rest > MOST_TAPS) return 0; /* more than rounding explains */
        int weight = to[largest] + rest;
        to[largest] = (int16_t)(weight > INT16_MAX ? INT16_MAX : weight);
    }
    return 1;
}

/* Compute the first and the last (exclusive) input of outputs begin .. end. */
static void inputs_of(const FixedAxis *axis, Py_ssize_t begin, Py_ssize_t end, Py_ssize_t *first, Py_ssize_t *last) {
    *first = *last = axis->first[begin];
    for (Py_ssize_t i = begin; i < end; i++) {
        if (axis->first[i] < *first) *first = axis->first[i];
        if (axis->first[i] > *last) *last = axis->first[i];
    }
    *last += axis->taps;
}

/* Compute the weighted sum of up to four rows. Add it to `out`, or store it there if it is the first sum. */
ALWAYS_INLINE void blend_fixed_some(const int16_t *rows, const int16_t *weights, int taps, int first, Py_ssize_t n,
                                    int16_t *restrict out) {
    int16_t w[4] = {0};
    for (int k = 0; k < taps; k++) w[k] = weights[k];
    for (Py_ssize_t i = 0; i < n; i++) {
        int16_t sum = scaled(rows[i], w[0]);
        if (taps > 1) sum += scaled(rows[i + CHUNK], w[1]);
        if (taps > 2) sum += scaled(rows[i + 2 * CHUNK], w[2]);
        if (taps > 3) sum += scaled(rows[i + 3 * CHUNK], w[3]);
        out[i] = first ? sum : (int16_t)(out[i] + sum);
    }
}

ALWAYS_INLINE void blend_fixed_rows(const int16_t *rows, const int16_t *weights, Py_ssize_t taps, Py_ssize_t n,
                                    int16_t *restrict out) {
    switch (taps) { /* constants, for the compiler */
    case 1: blend_fixed_some(rows, weights, 1, 1, n, out); return;
    case 2: blend_fixed_some(rows, weights, 2, 1, n, out); return;
    case 3: blend_fixed_some(rows, weights, 3, 1, n, out); return;
    default: blend_fixed_some(rows, weights, 4, 1, n, out);
    }
    Py_ssize_t k = 4;
    for (; k + 4 <= taps; k += 4) blend_fixed_some(rows + k * CHUNK, weights + k, 4, 0, n, out);
    for (; k < taps; k++) blend_fixed_some(rows + k * CHUNK, weights + k, 1, 0, n, out);
}

ALWAYS_INLINE void widen(const uint8_t *restrict from, Py_ssize_t n, int16_t *restrict out) {
    for (Py_ssize_t i = 0; i < n; i++) out[i] = (int16_t)(from[i] << 7);
}

/* Transpose (ROWS, CHUNK) to (n, ROWS). */
ALWAYS_INLINE void transpose(const int16_t *restrict rows, Py_ssize_t n, int16_t *restrict out) {
    for (Py_ssize_t i = 0; i < n; i++) {
        int16_t *to = out + i * ROWS;
#define LANE(r) to[r] = rows[r * CHUNK + i]; /* unrolled: compilers don't vectorise a loop here */
        LANE(0) LANE(1) LANE(2) LANE(3) LANE(4) LANE(5) LANE(6) LANE(7)
        LANE(8) LANE(9) LANE(10) LANE(11) LANE(12) LANE(13) LANE(14) LANE(15)
#undef LANE
    }
}

/* Prefetching of the next rows of the source during computation, one cache line at a time. */
typedef struct {
    const char *row;
    Py_ssize_t stride, rows, nbytes, offset;
} Fetch;

ALWAYS_INLINE void fetch_some(Fetch *next, Py_ssize_t lines) {
    for (; lines > 0 && next->rows > 0; lines--) {
        __builtin_prefetch(next->row + next->offset, 0, 2); /* into the L2 cache, as the L1 cache is in use */
        next->offset += CACHE_LINE;
        if (next->offset >= next->nbytes) {
            next->offset = 0;
            next->row += next->stride;
            next->rows--;
        }
    }
}

/* Compute the weighted sum of up to four columns of n pixels. Add it to `sums`, or store it if it is the first sum. */
ALWAYS_INLINE void blend_fixed_pixels(const int16_t *from, const int16_t *weights, int taps, int first, int n,
                                      int16_t *restrict sums) {
    for (int i = 0; i < n; i++) {
        int16_t sum = scaled(from[i], weights[0]);
        if (taps > 1) sum += scaled(from[n + i], weights[1]);
        if (taps > 2) sum += scaled(from[2 * n + i], weights[2]);
        if (taps > 3) sum += scaled(from[3 * n + i], weights[3]);
        sums[i] = first ? sum : (int16_t)(sums[i] + sum);
    }
}

/* Blend (inputs, channels, ROWS) into (channels, outputs, ROWS), rounded; `head`: number of taps, at most 4. */
ALWAYS_INLINE void blend_fixed_some_columns(const int16_t *columns, int channels, const FixedAxis *axis, int head,
                                            Py_ssize_t left, Fetch *next, uint8_t *restrict out) {
    const int n = channels * ROWS;
    Py_ssize_t lines = next->rows * (next->nbytes / CACHE_LINE + 1) / axis->size + 1;
    for (Py_ssize_t x = 0; x < axis->size; x++) {
        const int16_t *weights = axis->weights + x * axis->taps;
        const int16_t *from = columns + (axis->first[x] - left) * n;
        int16_t sums[LANES * ROWS];
        uint8_t rounded[LANES * ROWS];
        fetch_some(next, lines);
        blend_fixed_pixels(from, weights, head, 1, n, sums);
        if (head == 4)
            for (Py_ssize_t k = 4; k < axis->taps; k++) blend_fixed_pixels(from + k * n, weights + k, 1, 0, n, sums);
        for (int i = 0; i < n; i++) rounded[i] = (uint8_t)((uint16_t)(sums[i] + 64) >> 7);
        for (int c = 0; c < channels; c++)
            memcpy(out + (c * padded(axis->size) + x) * ROWS, rounded + c * ROWS, ROWS);
    }
}

ALWAYS_INLINE void blend_fixed_columns(const int16_t *columns, int channels, const FixedAxis *axis, Py_ssize_t left,
                                       Fetch *next, uint8_t *restrict out) {
    switch (axis->taps) { /* constants, for the compiler */
    case 1: blend_fixed_some_columns(columns, channels, axis, 1, left, next, out); return;
    case 2: blend_fixed_some_columns(columns, channels, axis, 2, left, next, out); return;
    case 3: blend_fixed_some_columns(columns, channels, axis, 3, left, next, out); return;
    default: blend_fixed_some_columns(columns, channels, axis, 4, left, next, out);
    }
}

/* Transpose 16 x 16 bytes: interleave the two halves four times. */
ALWAYS_INLINE void transpose_bytes(const uint8_t *from, uint8_t *restrict to, Py_ssize_t stride) {
    uint8_t a[ROWS * ROWS], b[ROWS * ROWS];
    const int half = ROWS * ROWS / 2;
    for (int i = 0; i < half; i++) a[2 * i] = from[i], a[2 * i + 1] = from[half + i];
    for (int i = 0; i < half; i++) b[2 * i] = a[i], b[2 * i + 1] = a[half + i];
    for (int i = 0; i < half; i++) a[2 * i] = b[i], a[2 * i + 1] = b[half + i];
    for (int i = 0; i < half; i++) b[2 * i] = a[i], b[2 * i + 1] = a[half + i];
    for (int r = 0; r < ROWS; r++) memcpy(to + r * stride, b + r * ROWS, ROWS);
}

/* Write a block of rows, (channels, ROWS, width), to the target. */
ALWAYS_INLINE void store_bytes(const uint8_t *lines, Py_ssize_t width, const Image *target, Py_ssize_t top,
                               Py_ssize_t count) {
    Py_ssize_t columns = target->shape[1], channels = target->shape[2], step = target->strides[1];
    for (Py_ssize_t r = 0; r < count; r++) {
        uint8_t *to = (uint8_t *)target->data + (top + r) * target->strides[0];
        const uint8_t *line = lines + r * width;
        if (step == 3 && channels == 3 && target->strides[2] == 1) {
            const uint8_t *second = line + ROWS * width, *third = second + ROWS * width;
            for (Py_ssize_t x = 0; x < columns; x++)
                to[3 * x] = line[x], to[3 * x + 1] = second[x], to[3 * x + 2] = third[x];
            continue;
        }
        for (Py_ssize_t c = 0; c < channels; c++, line += ROWS * width, to += target->strides[2]) {
            if (step == 1)
                memcpy(to, line, columns);
            else
                for (Py_ssize_t x = 0; x < columns; x++) to[x * step] = line[x];
        }
    }
}

/* Return whether to write an image of floats past the cache: it is large, and its rows are aligned. */
ALWAYS_INLINE int is_for_past_cache(const Image *target) {
    const Py_ssize_t *shape = target->shape, *strides = target->strides, item = sizeof(float);
    Py_ssize_t alignment = (Py_ssize_t)(intptr_t)target->data | strides[0] | strides[2] | shape[1] * item;
    return shape[0] * shape[1] * shape[2] * item >= PAST_CACHE && alignment % 16 == 0;
}

/* Write a block of rows as normalised floats; the columns of the target are adjacent. */
ALWAYS_INLINE void store_floats(const uint8_t *lines, Py_ssize_t width, const Image *target, Py_ssize_t top,
                                Py_ssize_t count, const float *gains, const float *offsets) {
    int past_cache = is_for_past_cache(target);
    for (Py_ssize_t c = 0; c < target->shape[2]; c++) {
        char *to = target->data + top * target->strides[0] + c * target->strides[2];
        for (Py_ssize_t r = 0; r < count; r++, to += target->strides[0]) {
            const uint8_t *line = lines + (c * ROWS + r) * width;
            if (!past_cache) {
                scale_row(line, 1, target->shape[1], gains[c], offsets[c], (float *)to);
                continue;
            }
            for (Py_ssize_t x = 0; x < target->shape[1]; x += CHUNK) {
                float row[CHUNK];
                Py_ssize_t chunk = target->shape[1] - x < CHUNK ? target->shape[1] - x : CHUNK;
                scale_row(line + x, 1, chunk, gains[c], offsets[c], row);
                write_past_cache(to + x * sizeof(float), (const char *)row, chunk * sizeof(float));
            }
        }
    }
}

/* Resample an image of adjacent pixels into bytes of any strides, or into floats if there are gains and offsets. */
FOR_EACH_CPU
static void resample_fixed(const Image *source, const Image *target, const FixedAxis *rows, const FixedAxis *columns,
                           const float *gains, const float *offsets, const Workspace *work) {
    Py_ssize_t channels = source->shape[2], width = padded(columns->size), left, right;
    inputs_of(columns, 0, columns->size, &left, &right);
    Py_ssize_t n = (right - left) * channels;
    const uint8_t *from = (const uint8_t *)source->data + left * channels;
    for (Py_ssize_t top = 0; top < rows->size; top += ROWS) {
        Py_ssize_t count = rows->size - top < ROWS ? rows->size - top : ROWS, first, last;
        inputs_of(rows, top, top + count, &first, &last);
        for (Py_ssize_t i = 0; i < n; i += CHUNK) {
            Py_ssize_t chunk = n - i < CHUNK ? n - i : CHUNK;
            for (Py_ssize_t y = first; y < last; y++)
                widen(from + y * source->strides[0] + i, chunk, work->rows + (y - first) * CHUNK);
            for (Py_ssize_t r = 0; r < ROWS; r++) {
                Py_ssize_t y = top + (r < count ? r : count - 1);
                const int16_t *weights = rows->weights + y * rows->taps;
                const int16_t *inputs = work->rows + (rows->first[y] - first) * CHUNK;
                blend_fixed_rows(inputs, weights, rows->taps, padded(chunk), work->blended + r * CHUNK);
            }
            transpose(work->blended, padded(chunk), work->columns + i * ROWS);
        }
        Fetch next = {NULL, source->strides[0], 0, n, 0};
        if (top + ROWS < rows->size && rows->first[top + ROWS] >= first) {
            Py_ssize_t end = top + 2 * ROWS < rows->size ? top + 2 * ROWS : rows->size;
            next.row = (const char *)from + last * source->strides[0];
            next.rows = rows->first[end - 1] + rows->taps - last;
        }
        if (channels == 3) /* constants, for the compiler */
            blend_fixed_columns(work->columns, 3, columns, left, &next, work->transposed);
        else if (channels == 1)
            blend_fixed_columns(work->columns, 1, columns, left, &next, work->transposed);
        else
            blend_fixed_columns(work->columns, (int)channels, columns, left, &next, work->transposed);
        for (Py_ssize_t c = 0; c < channels; c++)
            for (Py_ssize_t x = 0; x < width; x += ROWS)
                transpose_bytes(work->transposed + (c * width + x) * ROWS, work->lines + c * ROWS * width + x, width);
        if (gains != NULL)
            store_floats(work->lines, width, target, top, count, gains, offsets);
        else
            store_bytes(work->lines, width, target, top, count);
    }
    publish_past_cache();
}

/* Weights and working memory for an image. */
typedef struct {
    void *memory;
    FixedAxis rows, columns;
    Workspace work;
} FixedPlan;

/* Plan an image. Return 1, 0 if it needs floats, or -1 without memory. The caller must free `memory`. */
static int plan_fixed(const Axis *rows, const Axis *columns, Py_ssize_t channels, FixedPlan *plan) {
    plan->memory = NULL;
    if (rows->taps > MOST_TAPS || columns->taps > MOST_TAPS) return 0;
    plan->rows = (FixedAxis){rows->first, NULL, rows->size, rows->taps};
    plan->columns = (FixedAxis){columns->first, NULL, columns->size, columns->taps};
    Py_ssize_t span = 1, first, last;
    for (Py_ssize_t top = 0; top < rows->size; top += ROWS) {
        inputs_of(&plan->rows, top, top + ROWS < rows->size ? top + ROWS : rows->size, &first, &last);
        span = last - first > span ? last - first : span;
    }
    inputs_of(&plan->columns, 0, columns->size, &first, &last);
    Py_ssize_t sizes[] = {
        span * CHUNK, ROWS * CHUNK, padded((last - first) * channels) * ROWS, rows->size * rows->taps,
        columns->size * columns->taps, channels * padded(columns->size) * ROWS / 2,
        channels * padded(columns->size) * ROWS / 2,
    };
    int16_t *blocks[sizeof(sizes) / sizeof(sizes[0])];
    Py_ssize_t total = CACHE_LINE;
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) total += padded(sizes[i]) * 2 + CACHE_LINE;
    if ((plan->memory = malloc(total)) == NULL) return -1;
    uintptr_t address = (uintptr_t)plan->memory;
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        address = (address + CACHE_LINE - 1) / CACHE_LINE * CACHE_LINE;
        blocks[i] = (int16_t *)address;
        address += sizes[i] * 2;
    }
    plan->work = (Workspace){blocks[0], blocks[1], blocks[2], (uint8_t *)blocks[5], (uint8_t *)blocks[6]};
    plan->rows.weights = blocks[3];
    plan->columns.weights = blocks[4];
    return quantize(rows, &plan->rows) && quantize(columns, &plan->columns);
}

/* Compute the resampling of an axis with the triangle filter, like `filters.py`. The caller must free `first` and
   `weights`. Return -1 without memory. */
static int plan_triangle(Py_ssize_t extent, Py_ssize_t size, double low, double high, int antialias, int reversed,
                         Axis *axis) {
    double scale = (high - low) / size, reach = antialias && fabs(scale) > 1 ? fabs(scale) : 1;
    Py_ssize_t last = extent - 1, taps = 1;
    int32_t *first = malloc(size * sizeof(int32_t));
    for (Py_ssize_t i = 0; first != NULL && i < size; i++) {
        double center = low + (i + 0.5) * scale - 0.5;
        Py_ssize_t begin = (Py_ssize_t)floor(center - reach) + 1, end = (Py_ssize_t)ceil(center + reach);
        begin = begin < 0 ? 0 : begin > last ? last : begin;
        end = end < 1 ? 1 : end > extent ? extent : end;
        first[reversed ? size - 1 - i : i] = (int32_t)begin;
        taps = end - begin > taps ? end - begin : taps;
    }
    float *weights = calloc(size * taps, sizeof(float));
    *axis = (Axis){first, weights, size, taps};
    if (first == NULL || weights == NULL) return -1;
    for (Py_ssize_t i = 0; i < size; i++) {
        double center = low + (i + 0.5) * scale - 0.5, sum = 0;
        Py_ssize_t begin = (Py_ssize_t)floor(center - reach) + 1, end = (Py_ssize_t)ceil(center + reach);
        for (Py_ssize_t k = begin; k < end; k++) sum += 1 - fabs(k - center) / reach;
        Py_ssize_t output = reversed ? size - 1 - i : i;
        if (first[output] > extent - taps) first[output] = (int32_t)(extent - taps);
        for (Py_ssize_t k = begin; k < end; k++) {
            Py_ssize_t inside = k < 0 ? 0 : k > last ? last : k; /* edge pixels replace those outside */
            weights[output * taps + inside - first[output]] += (float)((1 - fabs(k - center) / reach) / sum);
        }
    }
    return 0;
}
