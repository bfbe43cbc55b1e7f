/* Loops over bytes: tables, linear maps, histograms, and selections of pixels. */

#define VALUES 256 /* of a byte */

/* Round a float and clamp it, in integers, which compilers vectorise. Wrong for huge floats. */
ALWAYS_INLINE uint8_t rounded_byte(float value) {
    int rounded = (int)(value + 0.5f);
    rounded = rounded < 0 ? 0 : rounded;
    return (uint8_t)(rounded > 255 ? 255 : rounded);
}

FOR_EACH_CPU
static void map_linearly(const uint8_t *restrict from, Py_ssize_t n, float gain, float offset, uint8_t *restrict to) {
    for (Py_ssize_t i = 0; i < n; i++) to[i] = rounded_byte(from[i] * gain + offset);
}

/* Return whether the linear map of all bytes equals a table, in spite of different rounding. */
static int is_linear(const uint8_t *table, float gain, float offset) {
    uint8_t values[VALUES], mapped[VALUES];
    for (int i = 0; i < VALUES; i++) values[i] = (uint8_t)i;
    map_linearly(values, VALUES, gain, offset, mapped);
    return memcmp(mapped, table, VALUES) == 0;
}

/* Look up n bytes; byte i belongs to channel i % channels, each of which has a table. */
ALWAYS_INLINE void look_up_bytes(const uint8_t *restrict from, Py_ssize_t n, const uint8_t *restrict tables,
                                 int channels, uint8_t *restrict to) {
    const int unrolled = 12; /* a multiple of all numbers of channels */
    Py_ssize_t i = 0;
    for (; i + unrolled <= n; i += unrolled)
        for (int k = 0; k < unrolled; k++) to[i + k] = tables[k % channels * VALUES + from[i + k]];
    for (int k = 0; i < n; i++, k++) to[i] = tables[k % channels * VALUES + from[i]];
}

/* Count n bytes of each channel in (channels, VALUES). Neighbours use separate counters, so that equal bytes don't wait
   for each other. */
ALWAYS_INLINE void count_bytes(const uint8_t *from, Py_ssize_t n, int channels, uint32_t *work, int64_t *counts) {
    const int groups = 4;
    memset(work, 0, groups * channels * VALUES * sizeof(uint32_t));
    Py_ssize_t i = 0;
    for (; i + groups * channels <= n; i += groups * channels)
        for (int k = 0; k < groups * channels; k++) work[k * VALUES + from[i + k]]++;
    for (int k = 0; i < n; i++, k++) work[k * VALUES + from[i]]++;
    for (int k = 0; k < groups * channels; k++)
        for (int value = 0; value < VALUES; value++)
            counts[k % channels * VALUES + value] += work[k * VALUES + value];
}

/* Copy the pixels of a row at given columns. */
ALWAYS_INLINE void take_pixels(const char *from, const int32_t *columns, Py_ssize_t n, Py_ssize_t size, char *to) {
    for (Py_ssize_t i = 0; i < n; i++) memcpy(to + i * size, from + columns[i] * size, size);
}

PyDoc_STRVAR(map_bytes_doc,
             "map_bytes(source, target, tables, gain, offset)\n--\n\n"
             "Look up bytes in uint8 (channels, 256), up to 4 channels, the last axis of the contiguous arrays. A single\n"
             "table that equals source * gain + offset, rounded and clamped, is computed instead.");

static PyObject *map_bytes_call(PyObject *module, PyObject *arguments) {
    Py_buffer source, target, tables;
    float gain, offset;
    if (!PyArg_ParseTuple(arguments, "y*w*y*ff", &source, &target, &tables, &gain, &offset)) return NULL;
    PyObject *result = NULL;
    int channels = (int)(tables.len / VALUES);
    if (source.len != target.len || channels < 1 || channels > LANES || tables.len % VALUES ||
        source.len % channels) {
        PyErr_SetString(PyExc_ValueError, "the tables or the result don't fit the bytes");
    } else {
        Py_BEGIN_ALLOW_THREADS
        if (channels == 1 && is_linear(tables.buf, gain, offset))
            map_linearly(source.buf, source.len, gain, offset, target.buf);
        else if (channels == 1) /* constants, for the compiler */
            look_up_bytes(source.buf, source.len, tables.buf, 1, target.buf);
        else if (channels == 3)
            look_up_bytes(source.buf, source.len, tables.buf, 3, target.buf);
        else
            look_up_bytes(source.buf, source.len, tables.buf, channels, target.buf);
        Py_END_ALLOW_THREADS
        result = Py_NewRef(Py_None);
    }
    RELEASE(&source, &target, &tables);
    return result;
}

PyDoc_STRVAR(count_bytes_doc,
             "count_bytes(source, counts)\n--\n\n"
             "Add the numbers of each byte to int64 (channels, 256), up to 4 channels, the last axis of the contiguous\n"
             "array.");

static PyObject *count_bytes_call(PyObject *module, PyObject *arguments) {
    Py_buffer source, counts;
    if (!PyArg_ParseTuple(arguments, "y*w*", &source, &counts)) return NULL;
    PyObject *result = NULL;
    int channels = (int)(counts.len / (VALUES * sizeof(int64_t)));
    const Py_ssize_t most = (Py_ssize_t)1 << 31; /* bytes, for counters of 32 bits */
    if (channels < 1 || channels > LANES || source.len % channels || source.len > most) {
        PyErr_SetString(PyExc_ValueError, "the counts don't fit the bytes, or there are too many bytes");
    } else {
        Py_BEGIN_ALLOW_THREADS
        uint32_t work[4 * LANES * VALUES];
        if (channels == 1) /* constants, for the compiler */
            count_bytes(source.buf, source.len, 1, work, counts.buf);
        else if (channels == 3)
            count_bytes(source.buf, source.len, 3, work, counts.buf);
        else
            count_bytes(source.buf, source.len, channels, work, counts.buf);
        Py_END_ALLOW_THREADS
        result = Py_NewRef(Py_None);
    }
    RELEASE(&source, &counts);
    return result;
}

/* Copy the pixels of a slice; usual sizes are constants, for the compiler. */
static void take_slice(const char *from, Py_ssize_t stride, const int32_t *rows, Py_ssize_t height,
                       const int32_t *columns, Py_ssize_t width, Py_ssize_t size, char *to) {
    for (Py_ssize_t y = 0; y < height; y++, to += width * size) {
        const char *row = from + rows[y] * stride;
        switch (size) {
        case 1: take_pixels(row, columns, width, 1, to); break;
        case 2: take_pixels(row, columns, width, 2, to); break;
        case 3: take_pixels(row, columns, width, 3, to); break;
        case 4: take_pixels(row, columns, width, 4, to); break;
        case 6: take_pixels(row, columns, width, 6, to); break;
        case 12: take_pixels(row, columns, width, 12, to); break;
        default: take_pixels(row, columns, width, size, to);
        }
    }
}

/* Return whether indices choose `size` of `extent` elements. */
static int are_indices(const Py_buffer *indices, Py_ssize_t size, Py_ssize_t extent) {
    const int32_t *found = indices->buf;
    int fits = indices->len == size * (Py_ssize_t)sizeof(int32_t);
    for (Py_ssize_t i = 0; fits && i < size; i++) fits = found[i] >= 0 && found[i] < extent;
    return fits;
}

PyDoc_STRVAR(take_doc,
             "take(source, target, slices, rows, columns)\n--\n\n"
             "Copy the pixels at int32 slices, rows and columns of uint8 (d, h, w, bytes), rows of adjacent pixels, into\n"
             "C-contiguous uint8 (slices, rows, columns, bytes).");

static PyObject *take_call(PyObject *module, PyObject *arguments) {
    PyObject *from, *to, *result = NULL;
    Py_buffer slices, rows, columns, source, target;
    if (!PyArg_ParseTuple(arguments, "OOy*y*y*", &from, &to, &slices, &rows, &columns)) return NULL;
    if (borrow_volumes(from, &source, to, &target) < 0) goto release_indices;
    int fits = source.itemsize == 1 && target.itemsize == 1 && are_indices(&slices, target.shape[0], source.shape[0]) &&
               are_indices(&rows, target.shape[1], source.shape[1]) &&
               are_indices(&columns, target.shape[2], source.shape[2]);
    if (!fits) {
        PyErr_SetString(PyExc_ValueError, "the slices, rows or columns don't fit the image or the result");
        goto release_volumes;
    }
    Py_BEGIN_ALLOW_THREADS
    for (Py_ssize_t z = 0; z < target.shape[0]; z++)
        take_slice((char *)source.buf + ((int32_t *)slices.buf)[z] * source.strides[0], source.strides[1], rows.buf,
                   target.shape[1], columns.buf, target.shape[2], source.shape[3],
                   (char *)target.buf + z * target.strides[0]);
    Py_END_ALLOW_THREADS
    result = Py_NewRef(Py_None);
release_volumes:
    RELEASE(&source, &target);
release_indices:
    RELEASE(&slices, &rows, &columns);
    return result;
}

#define DEFINE_MIRROR(name, type)                                                                        \
    FOR_EACH_CPU                                                                                         \
    static void name(const char *from, Py_ssize_t rows, Py_ssize_t width, char *restrict to) {           \
        for (Py_ssize_t y = 0; y < rows; y++) {                                                          \
            const type *source = (const type *)from + y * width;                                         \
            type *target = (type *)to + y * width;                                                       \
            for (Py_ssize_t x = 0; x < width; x++) target[x] = source[width - 1 - x];                    \
        }                                                                                                \
    }

/* Mirror rows of numbers, which compilers vectorise. */
DEFINE_MIRROR(mirror_1, uint8_t)
DEFINE_MIRROR(mirror_2, uint16_t)
DEFINE_MIRROR(mirror_4, uint32_t)

/* Mirror rows of pixels of `size` bytes, which is a constant, for the compiler. */
ALWAYS_INLINE void mirror_pixels(const char *from, Py_ssize_t rows, Py_ssize_t width, Py_ssize_t size, char *to) {
    for (Py_ssize_t y = 0; y < rows; y++, from += width * size, to += width * size)
        for (Py_ssize_t x = 0; x < width; x++) memcpy(to + x * size, from + (width - 1 - x) * size, size);
}

PyDoc_STRVAR(mirror_doc,
             "mirror(source, target, width, channels)\n--\n\n"
             "Write the pixels of each row in the opposite order: contiguous rows of `width` pixels of `channels` numbers.");

static PyObject *mirror_call(PyObject *module, PyObject *arguments) {
    Py_buffer source, target;
    PyObject *from, *to;
    Py_ssize_t width, channels;
    if (!PyArg_ParseTuple(arguments, "OOnn", &from, &to, &width, &channels)) return NULL;
    if (PyObject_GetBuffer(from, &source, PyBUF_C_CONTIGUOUS) < 0) return NULL;
    if (PyObject_GetBuffer(to, &target, PyBUF_C_CONTIGUOUS | PyBUF_WRITABLE) < 0) {
        PyBuffer_Release(&source);
        return NULL;
    }
    const Py_ssize_t size = channels * source.itemsize;
    int fits = source.len == target.len && width > 0 && size > 0 && source.len % (width * size) == 0;
    if (fits) {
        const Py_ssize_t rows = source.len / (width * size);
        Py_BEGIN_ALLOW_THREADS
        switch (size) {
        case 1: mirror_1(source.buf, rows, width, target.buf); break;
        case 2: mirror_2(source.buf, rows, width, target.buf); break;
        case 3: mirror_pixels(source.buf, rows, width, 3, target.buf); break;
        case 4: mirror_4(source.buf, rows, width, target.buf); break;
        case 6: mirror_pixels(source.buf, rows, width, 6, target.buf); break;
        case 12: mirror_pixels(source.buf, rows, width, 12, target.buf); break;
        default: mirror_pixels(source.buf, rows, width, size, target.buf);
        }
        Py_END_ALLOW_THREADS
    } else {
        PyErr_SetString(PyExc_ValueError, "the result or the width doesn't fit the pixels");
    }
    RELEASE(&source, &target);
    return fits ? Py_NewRef(Py_None) : NULL;
}
