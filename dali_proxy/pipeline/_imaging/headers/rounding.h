/* Rounding of floats to small integers, half away from zero, in one pass. */

/* The largest float below 0.5. Added with the sign of x, and truncated, it rounds x half away from zero, for
   |x| < 2**23. With 0.5 instead, 0.49999997 would become 1. */
#define BELOW_HALF 0.49999997f

/* Define a loop over contiguous floats. They are clamped first, and NaN becomes 0; compilers vectorise this. */
#define DEFINE_ROUNDING(name, type, low, high)                                     \
    FOR_EACH_CPU                                                                   \
    static void name(const float *source, Py_ssize_t n, type *restrict target) {   \
        for (Py_ssize_t i = 0; i < n; i++) {                                       \
            float value = source[i];                                               \
            value = value == value ? value : 0.0f;                                 \
            value = value > (low) ? value : (low);                                 \
            value = value < (high) ? value : (high);                               \
            target[i] = (type)(int)(value + copysignf(BELOW_HALF, value));         \
        }                                                                          \
    }

/* The same for unsigned integers: NaN isn't above 0, and nothing is negative afterwards. `half` is added. */
#define DEFINE_UNSIGNED_ROUNDING(name, type, high, half)                           \
    FOR_EACH_CPU                                                                   \
    static void name(const float *source, Py_ssize_t n, type *restrict target) {   \
        for (Py_ssize_t i = 0; i < n; i++) {                                       \
            float value = source[i] > 0.0f ? source[i] : 0.0f;                     \
            value = value < (high) ? value : (high);                               \
            target[i] = (type)(int)(value + (half));                               \
        }                                                                          \
    }

DEFINE_UNSIGNED_ROUNDING(round_to_uint8, uint8_t, 255.0f, BELOW_HALF)
DEFINE_ROUNDING(round_to_int8, int8_t, -128.0f, 127.0f)
DEFINE_UNSIGNED_ROUNDING(round_to_uint16, uint16_t, 65535.0f, BELOW_HALF)
DEFINE_ROUNDING(round_to_int16, int16_t, -32768.0f, 32767.0f)

FOR_EACH_CPU
static void round_to_int32(const float *source, Py_ssize_t n, int32_t *restrict target) {
    const float end = 2147483648.0f; /* the largest integer isn't a float */
    for (Py_ssize_t i = 0; i < n; i++) {
        float value = source[i];
        value = value == value ? value : 0.0f;
        float inside = value > -end ? value : -end;
        inside = inside < end ? inside : 0.0f;
        int32_t rounded = (int32_t)(inside + copysignf(BELOW_HALF, inside));
        target[i] = value < end ? rounded : INT32_MAX;
    }
}

PyDoc_STRVAR(round_floats_doc,
             "round_floats(source, target)\n--\n\n"
             "Round contiguous float32 half away from zero, and clamp them to integers of 8 or 16 bits, or to\n"
             "int32; NaN becomes 0.");

static PyObject *round_floats_call(PyObject *module, PyObject *arguments) {
    Py_buffer source = {0}, target = {0};
    PyObject *from, *to;
    if (!PyArg_ParseTuple(arguments, "OO", &from, &to)) return NULL;
    if (PyObject_GetBuffer(from, &source, PyBUF_C_CONTIGUOUS | PyBUF_FORMAT) < 0) return NULL;
    if (PyObject_GetBuffer(to, &target, PyBUF_C_CONTIGUOUS | PyBUF_FORMAT | PyBUF_WRITABLE) < 0) {
        PyBuffer_Release(&source);
        return NULL;
    }
    Py_ssize_t n = source.len / (Py_ssize_t)sizeof(float);
    char kind = target.format[0];
    int fits = source.format[0] == 'f' && kind && strchr("BbHhi", kind) != NULL && target.len == n * target.itemsize;
    if (fits) {
        Py_BEGIN_ALLOW_THREADS
        if (kind == 'B')
            round_to_uint8(source.buf, n, target.buf);
        else if (kind == 'b')
            round_to_int8(source.buf, n, target.buf);
        else if (kind == 'H')
            round_to_uint16(source.buf, n, target.buf);
        else if (kind == 'i')
            round_to_int32(source.buf, n, target.buf);
        else
            round_to_int16(source.buf, n, target.buf);
        Py_END_ALLOW_THREADS
    } else {
        PyErr_SetString(PyExc_ValueError, "expected float32, and as many integers of 8 or 16 bits, or int32");
    }
    RELEASE(&source, &target);
    return fits ? Py_NewRef(Py_None) : NULL;
}
