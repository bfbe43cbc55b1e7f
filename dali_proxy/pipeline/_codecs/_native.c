/* The work of decoders per image of a batch, in one call for all images. Without this module, `headers.py` and
   `nvjpeg.py` do the same in Python.

   `headers` doesn't trust the data: every read is checked against its end. `turns.py` uses the locks in this module. */

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <pthread.h>
#include <stdint.h>
#include <string.h>

#include "../buffers.h"
#include "../sources.h"

/* A row of the result: `HEADER` of headers.py. */
typedef struct {
    int32_t height, width, components, orientation, simple, rgb, suspect;
} Header;

typedef struct {
    const uint8_t *at, *end;
} Span;

static uint32_t big(const uint8_t *p) { return (uint32_t)p[0] << 8 | p[1]; }

static uint32_t number(const uint8_t *p, int bytes, int little) {
    uint32_t value = 0;
    for (int i = 0; i < bytes; i++) value = value << 8 | p[little ? bytes - 1 - i : i];
    return value;
}

/* The orientation in the first directory of a TIFF structure, or 1. `_exif_orientation` of info.py does the same. */
static int32_t exif_orientation(Span tiff) {
    size_t size = tiff.end - tiff.at;
    if (size < 8) return 1;
    int little = tiff.at[0] == 'I' && tiff.at[1] == 'I';
    if (!little && !(tiff.at[0] == 'M' && tiff.at[1] == 'M')) return 1;
    size_t offset = number(tiff.at + 4, 4, little);
    if (offset > size - 2) return 1;
    size_t entries = number(tiff.at + offset, 2, little);
    for (size_t i = 0, entry = offset + 2; i < entries && entry + 12 <= size; i++, entry += 12) {
        if (number(tiff.at + entry, 2, little) != 0x0112) continue;
        uint32_t kind = number(tiff.at + entry + 2, 2, little); /* as in DALI, the count is ignored */
        int is_short = kind == 3 || kind == 8, is_long = kind == 4 || kind == 9;
        uint32_t value = number(tiff.at + entry + 8, is_long ? 4 : 2, little);
        return (is_short || is_long) && value >= 1 && value <= 8 ? (int32_t)value : 1;
    }
    return 1;
}

/* Whether the factors of a frame's components are those of 4:4:4, 4:4:0, 4:2:2, 4:2:0 or grey. */
static int usual_sampling(const uint8_t *components, int count) {
    if (count != 1 && count != 3) return 0;
    int first = components[1];
    if (count == 1) return first == 0x11;
    if (first != 0x11 && first != 0x12 && first != 0x21 && first != 0x22) return 0;
    return components[4] == 0x11 && components[7] == 0x11;
}

/* Whether a frame's components are named R, G and B: these are stored without conversion. */
static int named_rgb(const uint8_t *components, int count) {
    return count == 3 && components[0] == 'R' && components[3] == 'G' && components[6] == 'B';
}

/* Whether Adobe's segment says that colors weren't converted to luma and chroma. */
static int unconverted(const uint8_t *body, size_t size) {
    return size >= 12 && memcmp(body, "Adobe", 5) == 0 && body[11] == 0;
}

/* Whether the data ends with an end marker, which a few bytes of padding may follow. */
static int has_end(Span data) {
    const uint8_t *first = data.end - data.at > 66 ? data.end - 66 : data.at;
    for (const uint8_t *p = data.end - 2; p >= first; p--)
        if (p[0] == 0xFF && p[1] == 0xD9) return 1;
    return 0;
}

/* Whether there are more scans than `MOST_SCANS` of info.py. Each is as much work as a whole image. */
static int has_many_scans(Span data) {
    int scans = 0;
    for (const uint8_t *p = data.at; data.end - p >= 2 && (p = memchr(p, 0xFF, data.end - p - 1)); p++)
        if (p[1] == 0xDA && ++scans > 200) return 1;
    return 0;
}

static Header read_header(Span data) {
    Header found = {0, 0, 0, 1, 0, 0, 0}, none = found;
    if (data.end - data.at < 4 || data.at[0] != 0xFF || data.at[1] != 0xD8 || data.at[2] != 0xFF) return none;
    const uint8_t *p = data.at + 2;
    int baseline = 0, sequential = 0, oriented = 0, rgb = 0;
    while (data.end - p >= 4) {
        if (p[0] != 0xFF) {
            p++;
            continue;
        }
        int marker = p[1];
        if (marker == 0xFF) {
            p++;
            continue;
        }
        if (marker == 0x00 || marker == 0x01 || (marker >= 0xD0 && marker <= 0xD8)) {
            p += 2;
            continue;
        }
        size_t length = big(p + 2);
        Span body = {p + 4, p + 2 + length};
        if (length < 2) body.end = body.at;
        if (body.end > data.end || body.end < body.at) body.end = data.end;
        size_t size = body.end - body.at;
        if (marker >= 0xC0 && marker <= 0xCF && marker != 0xC4 && marker != 0xC8 && marker != 0xCC) {
            if (found.width || size < 6) return none;
            found.suspect = 1;  /* until a scan is found */
            found.height = big(body.at + 1), found.width = big(body.at + 3), found.components = body.at[5];
            if (!found.height || !found.width) return none;
            int complete = size >= 6 + 3u * found.components;
            sequential = marker <= 0xC1;
            baseline = marker == 0xC0 && body.at[0] == 8 && complete && usual_sampling(body.at + 6, found.components);
            found.rgb |= complete && named_rgb(body.at + 6, found.components);
        } else if (marker == 0xE1 && !oriented && !found.width && size > 6 && body.at[0] == 'E' && body.at[1] == 'x' &&
                   body.at[2] == 'i' && body.at[3] == 'f' && !body.at[4] && !body.at[5]) {
            Span tiff = {body.at + 6, body.end};
            found.orientation = exif_orientation(tiff);
            oriented = found.orientation != 1;
        } else if (marker == 0xEE) {
            rgb |= unconverted(body.at, size);
        } else if (marker == 0xDA) {
            if (!found.width) return none;
            found.rgb |= rgb && found.components == 3;
            int ends = has_end(data);
            found.simple = baseline && !found.rgb && size >= 1 && body.at[0] == found.components && ends;
            int single = sequential && size >= 1 && body.at[0] == found.components;
            found.suspect = !ends || (!single && has_many_scans(data));
            return found;
        } else if (marker == 0xD9) {
            return found.width ? found : none;
        }
        p += 2 + (length < 2 ? 2 : length);
    }
    return found.width ? found : none;
}

static PyObject *headers(PyObject *module, PyObject *args) {
    Py_buffer addresses, lengths, rows;
    (void)module;
    if (!PyArg_ParseTuple(args, "y*y*w*", &addresses, &lengths, &rows)) return NULL;
    Py_ssize_t count = addresses.len / (Py_ssize_t)sizeof(int64_t);
    int fits = lengths.len == addresses.len && rows.len == count * (Py_ssize_t)sizeof(Header);
    if (fits) {
        const int64_t *address = addresses.buf, *length = lengths.buf;
        Header *row = rows.buf;
        Py_BEGIN_ALLOW_THREADS
        for (Py_ssize_t i = 0; i < count; i++) {
            const uint8_t *data = (const uint8_t *)(intptr_t)address[i];
            row[i] = read_header((Span){data, data + (length[i] > 0 ? length[i] : 0)});
        }
        Py_END_ALLOW_THREADS
    }
    RELEASE(&addresses, &lengths, &rows);
    if (!fits) {
        PyErr_SetString(PyExc_ValueError, "expected as many lengths and rows as addresses");
        return NULL;
    }
    Py_RETURN_NONE;
}

/* nvjpegDecodeParamsSetROI: parameters, x, y, width, height; 0 on success. */
typedef int (*SetRegion)(void *, int, int, int, int);

static PyObject *set_regions(PyObject *module, PyObject *args) {
    unsigned long long function;
    Py_buffer parameters, regions;
    (void)module;
    if (!PyArg_ParseTuple(args, "Ky*y*", &function, &parameters, &regions)) return NULL;
    Py_ssize_t count = regions.len / (4 * (Py_ssize_t)sizeof(int32_t));
    int fits = parameters.len >= count * (Py_ssize_t)sizeof(uint64_t), refused = 0;
    SetRegion set = (SetRegion)(uintptr_t)function;
    const uint64_t *parameter = parameters.buf;
    const int32_t *region = regions.buf;
    for (Py_ssize_t i = 0; fits && i < count && !refused; i++, region += 4)
        refused = set((void *)(uintptr_t)parameter[i], region[0], region[1], region[2], region[3]);
    RELEASE(&parameters, &regions);
    if (!fits) {
        PyErr_SetString(PyExc_ValueError, "expected as many parameters as regions");
        return NULL;
    }
    return PyLong_FromLong(refused);
}

/* One batch at a time in libnvjpeg, per GPU. Threads wait without the GIL, so that the next batch begins as soon as one
   ends. The locks are recursive: garbage collection within a turn may close another decoder. */
#define GPUS 64
static pthread_mutex_t turns[GPUS];

static pthread_mutex_t *turn_of(int gpu) {
    if (gpu >= 0 && gpu < GPUS) return &turns[gpu];
    PyErr_Format(PyExc_ValueError, "GPU %d doesn't exist", gpu);
    return NULL;
}

/* A turn that Python holds, as a context manager. C code acquires and releases it: in Python code, a KeyboardInterrupt
   could occur between the acquisition and the block, and the turn would never be released. */
typedef struct {
    PyObject_HEAD
    pthread_mutex_t *mutex;
} HeldTurn;

static PyObject *held_new(PyTypeObject *type, PyObject *args, PyObject *named) {
    int gpu;
    (void)named;
    if (!PyArg_ParseTuple(args, "i", &gpu)) return NULL;
    pthread_mutex_t *mutex = turn_of(gpu);
    HeldTurn *self = mutex ? (HeldTurn *)type->tp_alloc(type, 0) : NULL;
    if (self) self->mutex = mutex;
    return (PyObject *)self;
}

static void held_dealloc(PyObject *self) {
    PyTypeObject *type = Py_TYPE(self);
    type->tp_free(self);
    Py_DECREF(type);
}

static PyObject *held_enter(PyObject *self, PyObject *nothing) {
    pthread_mutex_t *mutex = ((HeldTurn *)self)->mutex;
    (void)nothing;
    Py_BEGIN_ALLOW_THREADS
    pthread_mutex_lock(mutex);
    Py_END_ALLOW_THREADS
    if (PyErr_CheckSignals()) { /* a thread that was interrupted while it waited doesn't keep the turn */
        pthread_mutex_unlock(mutex);
        return NULL;
    }
    return Py_NewRef(self);
}

static PyObject *held_exit(PyObject *self, PyObject *args) {
    (void)args;
    pthread_mutex_unlock(((HeldTurn *)self)->mutex);
    Py_RETURN_NONE;
}

static PyMethodDef held_methods[] = {
    {"__enter__", held_enter, METH_NOARGS, "Wait for the turn to call libnvjpeg."},
    {"__exit__", held_exit, METH_VARARGS, "Release the turn, on the thread that entered."},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot held_slots[] = {
    {Py_tp_doc, "HeldTurn(gpu): context manager that holds the right to call libnvjpeg."},
    {Py_tp_new, held_new},
    {Py_tp_dealloc, held_dealloc},
    {Py_tp_methods, held_methods},
    {0, NULL},
};

static PyType_Spec held_spec = {
    "dali_proxy.pipeline._codecs._native.HeldTurn", sizeof(HeldTurn), 0, Py_TPFLAGS_DEFAULT, held_slots,
};

/* nvjpegDecodeBatchedInitialize: handle, state, images, threads, output format. */
typedef int (*Prepare)(void *, void *, int, int, int);
/* nvjpegDecodeBatchedEx: handle, state, addresses, sizes, images, parameters, stream. */
typedef int (*Decode)(void *, void *, const void *, const void *, void *, const void *, void *);

static void *pointer(unsigned long long address) { return (void *)(uintptr_t)address; }

static PyObject *decode_in_turn(PyObject *module, PyObject *args) {
    int gpu, count, output, prepared = 0, decoded = 0;
    unsigned long long prepare, decode, handle, state, stream;
    Py_buffer addresses, sizes, images, parameters;
    (void)module;
    if (!PyArg_ParseTuple(args, "iKKKKiiy*y*w*y*K", &gpu, &prepare, &decode, &handle, &state, &count, &output,
                          &addresses, &sizes, &images, &parameters, &stream))
        return NULL;
    pthread_mutex_t *turn = turn_of(gpu);
    if (turn) {
        Py_BEGIN_ALLOW_THREADS
        pthread_mutex_lock(turn);
        if (count) prepared = ((Prepare)(uintptr_t)prepare)(pointer(handle), pointer(state), count, 1, output);
        if (!prepared)
            decoded = ((Decode)(uintptr_t)decode)(pointer(handle), pointer(state), addresses.buf, sizes.buf,
                                                  images.buf, parameters.buf, pointer(stream));
        pthread_mutex_unlock(turn);
        Py_END_ALLOW_THREADS
    }
    RELEASE(&addresses, &sizes, &images, &parameters);
    return turn ? Py_BuildValue("(ii)", prepared, decoded) : NULL;
}

static PyMethodDef methods[] = {
    {"headers", headers, METH_VARARGS, "headers(addresses, lengths, rows): fill a row for each JPEG."},
    {"set_regions", set_regions, METH_VARARGS,
     "set_regions(function, parameters, regions): set x, y, width, height of each; return the first status that isn't "
     "0, else 0."},
    {"decode_in_turn", decode_in_turn, METH_VARARGS,
     "decode_in_turn(gpu, prepare, decode, handle, state, count, output, addresses, sizes, images, parameters, "
     "stream): call two functions of libnvjpeg in one turn, the first unless count is 0; return their statuses."},
    SOURCES_METHOD,
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "_native", "The work of decoders per image.", -1, methods, NULL, NULL, NULL, NULL,
};

PyMODINIT_FUNC PyInit__native(void) {
    pthread_mutexattr_t again;
    pthread_mutexattr_init(&again);
    pthread_mutexattr_settype(&again, PTHREAD_MUTEX_RECURSIVE);
    for (int gpu = 0; gpu < GPUS; gpu++) pthread_mutex_init(&turns[gpu], &again);
    pthread_mutexattr_destroy(&again);
    PyObject *module = PyModule_Create(&definition), *held = PyType_FromSpec(&held_spec);
    if (!module || !held || PyModule_AddType(module, (PyTypeObject *)held) < 0) Py_CLEAR(module);
    Py_XDECREF(held);
    return module;
}
