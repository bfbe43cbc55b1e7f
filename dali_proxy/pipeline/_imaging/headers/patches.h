/* Patches of 8-bit images, normalised. */

/* The patches of one frame in an output of patches, each of channels, frames, rows and columns.

   frames: of a patch; place: index of the frame among them; copies: number of them that show it. */
typedef struct {
    Py_ssize_t size, merge, frames, place, copies, features;
    const float *gains, *offsets;
} Patches;

/* Copy a channel of a patch from rows of floats. */
ALWAYS_INLINE void copy_patch(const float *from, Py_ssize_t stride, Py_ssize_t size, Py_ssize_t copies, float *to) {
    for (Py_ssize_t y = 0; y < size; y++) memcpy(to + y * size, from + y * stride, size * sizeof(float));
    for (Py_ssize_t k = 1; k < copies; k++) memcpy(to + k * size * size, to, size * size * sizeof(float));
}

/* Normalise the rows of a strip of patches, which fits into the cache, then write its patches one after the other. */
FOR_EACH_CPU
static void write_patches(const Image *source, const Patches *patches, float *rows, float *target) {
    const Py_ssize_t size = patches->size, merge = patches->merge, width = source->shape[1], step = source->strides[1];
    const Py_ssize_t channels = source->shape[2], columns = width / (size * merge), area = size * size;
    for (Py_ssize_t strip = 0; strip < source->shape[0] / size; strip++) {
        for (Py_ssize_t y = 0; y < size; y++)
            for (Py_ssize_t c = 0; c < channels; c++) {
                const uint8_t *from = (const uint8_t *)source->data + (strip * size + y) * source->strides[0] +
                                      c * source->strides[2];
                float *row = rows + (c * size + y) * width;
                if (step == 3) /* a constant, for the compiler */
                    scale_row(from, 3, width, patches->gains[c], patches->offsets[c], row);
                else
                    scale_row(from, step, width, patches->gains[c], patches->offsets[c], row);
            }
        const Py_ssize_t square = strip / merge * columns, line = strip % merge;
        for (Py_ssize_t column = 0; column < columns * merge; column++) {
            const Py_ssize_t number = ((square + column / merge) * merge + line) * merge + column % merge;
            for (Py_ssize_t c = 0; c < channels; c++) {
                const float *from = rows + c * size * width + column * size;
                float *to = target + number * patches->features + (c * patches->frames + patches->place) * area;
                if (size == 14)
                    copy_patch(from, width, 14, patches->copies, to);
                else if (size == 16)
                    copy_patch(from, width, 16, patches->copies, to);
                else
                    copy_patch(from, width, size, patches->copies, to);
            }
        }
    }
}

PyDoc_STRVAR(write_patches_doc,
             "write_patches(image, target, size, merge, frames, place, copies, gains, offsets)\n--\n\n"
             "Write image * gain + offset of each channel, uint8 (h, w, c) of any strides, to float32 (patches, features)\n"
             "in C order. A feature has the channels, frames, rows and columns of a patch; the image is the frames from\n"
             "place to place + copies - 1. Squares of merge * merge patches are adjacent.");

static PyObject *write_patches_call(PyObject *module, PyObject *arguments) {
    PyObject *array, *result = NULL;
    Py_buffer view, target, gains, offsets;
    Image image;
    Patches patches;
    if (!PyArg_ParseTuple(arguments, "Ow*nnnnny*y*", &array, &target, &patches.size, &patches.merge, &patches.frames,
                          &patches.place, &patches.copies, &gains, &offsets))
        return NULL;
    if (borrow(array, &view, &image, 'B', 0) < 0) goto release_values;
    const Py_ssize_t factor = patches.size * patches.merge, channels = image.shape[2];
    const Py_ssize_t nbytes = image.shape[0] * image.shape[1] * channels * patches.frames * (Py_ssize_t)sizeof(float);
    if (factor <= 0 || image.shape[0] % factor || image.shape[1] % factor || target.len != nbytes ||
        patches.place < 0 || patches.copies < 1 || patches.place + patches.copies > patches.frames ||
        gains.len != channels * (Py_ssize_t)sizeof(float) || offsets.len != gains.len) {
        PyErr_SetString(PyExc_ValueError, "the patches or the values don't fit the image");
        goto release_image;
    }
    patches.features = channels * patches.frames * patches.size * patches.size;
    patches.gains = gains.buf, patches.offsets = offsets.buf;
    float *rows = malloc((channels * patches.size * image.shape[1] + 1) * sizeof(float));
    if (rows == NULL) {
        PyErr_NoMemory();
        goto release_image;
    }
    Py_BEGIN_ALLOW_THREADS
    write_patches(&image, &patches, rows, target.buf);
    Py_END_ALLOW_THREADS
    free(rows);
    result = Py_NewRef(Py_None);
release_image:
    PyBuffer_Release(&view);
release_values:
    RELEASE(&target, &gains, &offsets);
    return result;
}
