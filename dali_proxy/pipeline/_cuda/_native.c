/* Launches of a batch in one call: one copy of all tables to the device, then the kernels, then an event. The call
   releases the GIL once, where separate calls would release it for each launch and then wait for other threads.

   The driver is loaded at run time, so that this module can be built without CUDA. */

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <dlfcn.h>
#include <stdint.h>
#include <string.h>

#include "../buffers.h"
#include "../sources.h"

#define ALIGNMENT 256 /* bytes: alignment of the tables; staging.py computes the size of the buffers with it */
#define THREADS 256   /* of a block; launch.py has the same number */

/* The part of CUDA's driver API that is used. Handles are pointers; 0 is success. */
typedef struct {
    int (*stream_context)(void *stream, void **context);
    int (*push_context)(void *context);
    int (*pop_context)(void **context);
    int (*copy)(uint64_t device, const void *host, size_t bytes, void *stream);
    int (*launch)(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                  unsigned shared, void *stream, void **arguments, void **extra);
    int (*record)(void *event, void *stream);
    int (*error_text)(int error, const char **text);
} Driver;

static Driver driver;
static int loaded = 0;

static int load(void) {
    if (loaded) return 0;
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    const struct {
        const char *name;
        void **target;
    } symbols[] = {
        {"cuStreamGetCtx", (void **)&driver.stream_context}, {"cuCtxPushCurrent_v2", (void **)&driver.push_context},
        {"cuCtxPopCurrent_v2", (void **)&driver.pop_context}, {"cuMemcpyHtoDAsync_v2", (void **)&driver.copy},
        {"cuLaunchKernel", (void **)&driver.launch},          {"cuEventRecord", (void **)&driver.record},
        {"cuGetErrorString", (void **)&driver.error_text},
    };
    for (size_t i = 0; i < sizeof(symbols) / sizeof(*symbols); i++) {
        if (library) *symbols[i].target = dlsym(library, symbols[i].name);
        if (!library || !*symbols[i].target) {
            PyErr_SetString(PyExc_OSError, "CUDA's driver library can't be loaded");
            return -1;
        }
    }
    loaded = 1;
    return 0;
}

typedef struct {
    void *function;
    unsigned width, height; /* of the grid, in blocks */
    size_t begin, bytes;    /* of the arguments */
} Launch;

/* A sequence of launches that is built. The arguments of a launch are a part of `arguments`. */
typedef struct {
    Launch *launches;
    Py_ssize_t count;
    char *arguments;
    size_t room, used;
} Sequence;

static int begin_sequence(Sequence *sequence, Py_ssize_t count) {
    sequence->count = count;
    sequence->room = 4096 * (size_t)(count ? count : 1); /* CUDA's limit for the arguments of a kernel is 4 KiB */
    sequence->used = 0;
    sequence->launches = PyMem_Malloc((size_t)(count ? count : 1) * sizeof(Launch));
    sequence->arguments = PyMem_Malloc(sequence->room);
    if (sequence->launches && sequence->arguments) return 0;
    PyErr_NoMemory();
    return -1;
}

static void end_sequence(Sequence *sequence) {
    PyMem_Free(sequence->launches);
    PyMem_Free(sequence->arguments);
}

/* Reserves the arguments of launch `i`: the addresses of tables, then the scalars. Returns NULL with an exception. */
static char *begin_launch(Sequence *sequence, Py_ssize_t i, unsigned long long function, unsigned width,
                          unsigned height, size_t tables, const char *scalars, size_t scalar_bytes) {
    Launch *launch = &sequence->launches[i];
    launch->function = (void *)(uintptr_t)function;
    launch->width = width;
    launch->height = height;
    launch->begin = sequence->used;
    launch->bytes = 8 * tables + scalar_bytes;
    if (launch->begin + launch->bytes > sequence->room) {
        PyErr_SetString(PyExc_ValueError, "the launches have too many arguments");
        return NULL;
    }
    char *arguments = sequence->arguments + launch->begin;
    memcpy(arguments + 8 * tables, scalars, scalar_bytes);
    sequence->used += (launch->bytes + 15) / 16 * 16;
    return arguments;
}

/* Copies the tables of a launch to the staging buffer, and appends its arguments. Returns -1 with an exception set. */
static int prepare(Sequence *sequence, Py_ssize_t i_launch, PyObject *item, char *host, size_t size, uint64_t device,
                   size_t *offset) {
    unsigned long long function;
    unsigned width, height;
    PyObject *tables;
    const char *scalars;
    Py_ssize_t scalar_bytes;
    if (!PyArg_ParseTuple(item, "KIIO!y#", &function, &width, &height, &PyTuple_Type, &tables, &scalars, &scalar_bytes))
        return -1;
    char *arguments = begin_launch(sequence, i_launch, function, width, height, (size_t)PyTuple_GET_SIZE(tables),
                                   scalars, (size_t)scalar_bytes);
    if (!arguments) return -1;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tables); i++) {
        Py_buffer view;
        if (PyObject_GetBuffer(PyTuple_GET_ITEM(tables, i), &view, PyBUF_SIMPLE) < 0) return -1;
        int fits = *offset + (size_t)view.len <= size;
        if (fits) memcpy(host + *offset, view.buf, (size_t)view.len);
        uint64_t address = device + *offset;
        memcpy(arguments + 8 * (size_t)i, &address, 8);
        *offset += ((size_t)view.len + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
        PyBuffer_Release(&view);
        if (!fits) {
            PyErr_SetString(PyExc_ValueError, "the staging buffer is too small");
            return -1;
        }
    }
    return 0;
}

/* Returns the first error, and in `failed` the index of its launch; -1 for the copy, and the count for the event. */
static int issue_all(void *stream, uint64_t device, const char *host, size_t bytes, const Sequence *sequence,
                     void *event, Py_ssize_t *failed) {
    const Launch *launches = sequence->launches;
    Py_ssize_t count = sequence->count;
    char *arguments = sequence->arguments;
    void *context = NULL;
    *failed = -1;
    int error = driver.stream_context(stream, &context);
    if (!error) error = driver.push_context(context);
    if (error) return error;
    if (bytes) error = driver.copy(device, host, bytes, stream);
    for (Py_ssize_t i = 0; !error && i < count; i++) {
        size_t size = launches[i].bytes;
        void *extra[] = {(void *)1, arguments + launches[i].begin, (void *)2, &size, NULL}; /* buffer, its size, end */
        *failed = i;
        error = driver.launch(launches[i].function, launches[i].width, launches[i].height, 1, THREADS, 1, 1, 0, stream,
                              NULL, extra);
    }
    int last = driver.record(event, stream); /* also after an error: launches before it use the buffer */
    if (!error && last) *failed = count;
    driver.pop_context(&context);
    return error ? error : last;
}

/* Issues a sequence without the GIL. Returns None, or (index, message) of what failed. */
static PyObject *issue_without_gil(const Sequence *sequence, unsigned long long stream, unsigned long long event,
                                   uint64_t device, const char *host, size_t bytes) {
    int error;
    Py_ssize_t failed;
    Py_BEGIN_ALLOW_THREADS
    error = issue_all((void *)(uintptr_t)stream, device, host, bytes, sequence, (void *)(uintptr_t)event, &failed);
    Py_END_ALLOW_THREADS
    if (!error) Py_RETURN_NONE;
    const char *text = NULL;
    driver.error_text(error, &text);
    return Py_BuildValue("ns", failed, text ? text : "unknown error");
}

PyDoc_STRVAR(issue_doc,
"issue(stream, event, device, host, size, launches)\n--\n\n"
"Copy the tables of launches to the device, launch the kernels, and record an event.\n\n"
"Args:\n"
"    stream: handle of the stream.\n"
"    event: handle of the event.\n"
"    device: address of the staging buffer on the device.\n"
"    host: address of the pinned staging buffer.\n"
"    size: size of both buffers in bytes.\n"
"    launches: list of (function, blocks in x, blocks in y, tables, bytes of the scalars).\n\n"
"Returns:\n"
"    None, or (index, message) of the launch that failed; the index is -1 for the copy.\n");

static PyObject *issue(PyObject *self, PyObject *args) {
    unsigned long long stream, event, device, host, size;
    PyObject *items;
    if (!PyArg_ParseTuple(args, "KKKKKO!", &stream, &event, &device, &host, &size, &PyList_Type, &items)) return NULL;
    if (load() < 0) return NULL;
    Sequence sequence;
    PyObject *result = NULL;
    size_t offset = 0;
    int ready = begin_sequence(&sequence, PyList_GET_SIZE(items));
    for (Py_ssize_t i = 0; i < sequence.count && !ready; i++)
        ready = prepare(&sequence, i, PyList_GET_ITEM(items, i), (char *)(uintptr_t)host, (size_t)size, device, &offset);
    if (!ready)
        result = issue_without_gil(&sequence, stream, event, device, (const char *)(uintptr_t)host,
                                   offset < size ? offset : (size_t)size);
    end_sequence(&sequence);
    return result;
}

/* Copies rows to the staging buffer: one buffer (N, bytes of a row), to positions in steps. */
static int write_rows(PyObject *item, char *host, size_t size) {
    Py_ssize_t offset, step;
    Py_ssize_t bytes;
    Py_buffer rows;
    if (!PyArg_ParseTuple(item, "nnny*", &offset, &step, &bytes, &rows)) return -1;
    Py_ssize_t count = bytes > 0 ? rows.len / bytes : 0;
    int fits = offset >= 0 && step >= bytes && (!count || (size_t)(offset + (count - 1) * step + bytes) <= size);
    for (Py_ssize_t i = 0; fits && i < count; i++)
        memcpy(host + offset + i * step, (const char *)rows.buf + i * bytes, (size_t)bytes);
    PyBuffer_Release(&rows);
    if (fits) return 0;
    PyErr_SetString(PyExc_ValueError, "rows outside of the tables");
    return -1;
}

/* Adds addresses of memory to the words at (position, index of the address), int64 each. */
static int add_addresses(const Py_buffer *places, PyObject *addresses, char *host, size_t size) {
    const int64_t *place = places->buf;
    Py_ssize_t known = PyTuple_GET_SIZE(addresses);
    uint64_t *found = PyMem_Malloc(8 * (size_t)(known ? known : 1));
    if (!found) {
        PyErr_NoMemory();
        return -1;
    }
    int result = 0;
    for (Py_ssize_t i = 0; i < known && !result; i++) {
        found[i] = PyLong_AsUnsignedLongLong(PyTuple_GET_ITEM(addresses, i));
        if (found[i] == (uint64_t)-1 && PyErr_Occurred()) result = -1;
    }
    for (Py_ssize_t i = 0; i < places->len / 16 && !result; i++) {
        int64_t position = place[2 * i], index = place[2 * i + 1];
        if (position < 0 || (size_t)position + 8 > size || index < 0 || index >= known) {
            PyErr_SetString(PyExc_ValueError, "an address outside of the tables");
            result = -1;
            break;
        }
        uint64_t word;
        memcpy(&word, host + position, 8);
        word += found[index];
        memcpy(host + position, &word, 8);
    }
    PyMem_Free(found);
    return result;
}

/* Appends a launch whose tables are at offsets in the staging buffer. */
static int append(Sequence *sequence, Py_ssize_t i_launch, PyObject *item, uint64_t device) {
    unsigned long long function;
    unsigned width, height;
    PyObject *offsets;
    const char *scalars;
    Py_ssize_t scalar_bytes;
    if (!PyArg_ParseTuple(item, "KIIO!y#", &function, &width, &height, &PyTuple_Type, &offsets, &scalars,
                          &scalar_bytes))
        return -1;
    char *arguments = begin_launch(sequence, i_launch, function, width, height, (size_t)PyTuple_GET_SIZE(offsets),
                                   scalars, (size_t)scalar_bytes);
    if (!arguments) return -1;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(offsets); i++) {
        uint64_t address = device + PyLong_AsUnsignedLongLong(PyTuple_GET_ITEM(offsets, i));
        memcpy(arguments + 8 * (size_t)i, &address, 8);
    }
    return PyErr_Occurred() ? -1 : 0;
}

PyDoc_STRVAR(repeat_doc,
"repeat(stream, event, device, host, size, tables, rows, places, addresses, launches)\n--\n\n"
"Issue launches whose packed tables differ from earlier ones only in rows and addresses, as `issue` does.\n\n"
"Args:\n"
"    stream: handle of the stream.\n"
"    event: handle of the event.\n"
"    device: address of the staging buffer on the device.\n"
"    host: address of the pinned staging buffer.\n"
"    size: size of both buffers in bytes.\n"
"    tables: the packed tables; addresses are offsets.\n"
"    rows: list of (offset, step, bytes of a row, rows) that replace parts of the tables.\n"
"    places: int64 (n, 2): position in bytes of each address in the tables, and its index in `addresses`.\n"
"    addresses: tuple of addresses that are added there.\n"
"    launches: list of (function, blocks in x, blocks in y, offsets of the tables, bytes of the scalars).\n\n"
"Returns:\n"
"    None, or (index, message) of the launch that failed; the index is -1 for the copy.\n");

static PyObject *repeat(PyObject *self, PyObject *args) {
    unsigned long long stream, event, device, host, size;
    Py_buffer tables, places;
    PyObject *rows, *addresses, *items;
    if (!PyArg_ParseTuple(args, "KKKKKy*O!y*O!O!", &stream, &event, &device, &host, &size, &tables, &PyList_Type, &rows,
                          &places, &PyTuple_Type, &addresses, &PyList_Type, &items))
        return NULL;
    PyObject *result = NULL;
    char *target = (char *)(uintptr_t)host;
    size_t bytes = (size_t)tables.len;
    Sequence sequence = {0};
    int ready = load();
    if (!ready && bytes > size) {
        PyErr_SetString(PyExc_ValueError, "the staging buffer is too small");
        ready = -1;
    }
    if (!ready) memcpy(target, tables.buf, bytes);
    for (Py_ssize_t i = 0; !ready && i < PyList_GET_SIZE(rows); i++)
        ready = write_rows(PyList_GET_ITEM(rows, i), target, bytes);
    if (!ready) ready = add_addresses(&places, addresses, target, bytes);
    if (!ready) ready = begin_sequence(&sequence, PyList_GET_SIZE(items));
    for (Py_ssize_t i = 0; !ready && i < sequence.count; i++)
        ready = append(&sequence, i, PyList_GET_ITEM(items, i), device);
    if (!ready) result = issue_without_gil(&sequence, stream, event, device, target, bytes);
    end_sequence(&sequence);
    RELEASE(&tables, &places);
    return result;
}

PyDoc_STRVAR(describe_doc,
"describe(arrays, pointers, shapes, strides)\n--\n\n"
"Write addresses, int64 (n,), shapes and strides, int64 (n, dimensions), of a sequence of arrays in host memory.\n\n"
"Returns:\n"
"    Whether all arrays have a buffer with so many dimensions.\n");

static PyObject *describe(PyObject *self, PyObject *args) {
    PyObject *given;
    Py_buffer pointers, shapes, strides;
    if (!PyArg_ParseTuple(args, "Ow*w*w*", &given, &pointers, &shapes, &strides)) return NULL;
    PyObject *arrays = PySequence_Fast(given, "expected a sequence of arrays");
    Py_ssize_t count = arrays ? PySequence_Fast_GET_SIZE(arrays) : 0;
    Py_ssize_t ndim = count ? shapes.len / 8 / count : 0;
    int described = arrays && pointers.len == 8 * count && shapes.len == 8 * count * ndim && strides.len == shapes.len;
    for (Py_ssize_t i = 0; described && i < count; i++) {
        Py_buffer view;
        if (PyObject_GetBuffer(PySequence_Fast_GET_ITEM(arrays, i), &view, PyBUF_STRIDES) < 0) {
            PyErr_Clear();
            described = 0;
            break;
        }
        described = view.ndim == ndim;
        ((int64_t *)pointers.buf)[i] = (int64_t)(intptr_t)view.buf;
        for (Py_ssize_t axis = 0; described && axis < ndim; axis++) {
            ((int64_t *)shapes.buf)[i * ndim + axis] = view.shape[axis];
            ((int64_t *)strides.buf)[i * ndim + axis] = view.strides[axis];
        }
        PyBuffer_Release(&view);
    }
    Py_XDECREF(arrays);
    RELEASE(&pointers, &shapes, &strides);
    return arrays ? PyBool_FromLong(described) : NULL;
}

PyDoc_STRVAR(place_images_doc,
"place_images(pointers, shapes, strides, columns, rows, extents)\n--\n\n"
"Write where the images of a batch lie in memory.\n\n"
"Args:\n"
"    pointers: addresses, int64 (n,).\n"
"    shapes: int64 (n, dimensions).\n"
"    strides: in bytes, int64 (n, dimensions).\n"
"    columns: for each dimension, its place among depth, height, width and channels.\n"
"    rows: written, int64 (n, 5): the address, and strides in the order of these places; 0 for missing dimensions.\n"
"    extents: written, int64 (n, 3): depth, height and width; 1 for missing dimensions.\n\n"
"Returns:\n"
"    The number of channels of all images, or -1 if they differ, and the stride of the channels, or -1.\n");

static PyObject *place_images(PyObject *self, PyObject *args) {
    Py_buffer pointers, shapes, strides, columns, rows, extents;
    if (!PyArg_ParseTuple(args, "y*y*y*y*w*w*", &pointers, &shapes, &strides, &columns, &rows, &extents)) return NULL;
    Py_ssize_t count = pointers.len / 8, ndim = columns.len;
    int fits = shapes.len == 8 * count * ndim && strides.len == shapes.len && rows.len == 40 * count &&
               extents.len == 24 * count;
    for (Py_ssize_t axis = 0; axis < ndim; axis++) fits &= ((const uint8_t *)columns.buf)[axis] < 4;
    int64_t channels = 1, step = 0;
    for (Py_ssize_t i = 0; fits && i < count; i++) {
        int64_t *row = (int64_t *)rows.buf + 5 * i, own[4] = {1, 1, 1, 1};
        row[0] = ((const int64_t *)pointers.buf)[i];
        memset(row + 1, 0, 32);
        for (Py_ssize_t axis = 0; axis < ndim; axis++) {
            int column = ((const uint8_t *)columns.buf)[axis];
            own[column] = ((const int64_t *)shapes.buf)[i * ndim + axis];
            row[1 + column] = ((const int64_t *)strides.buf)[i * ndim + axis];
        }
        memcpy((int64_t *)extents.buf + 3 * i, own, 24);
        channels = i && channels != own[3] ? -1 : own[3];
        step = i && step != row[4] ? -1 : row[4];
        if (channels < 0) break;
    }
    RELEASE(&pointers, &shapes, &strides, &columns, &rows, &extents);
    if (fits) return Py_BuildValue("LL", (long long)channels, (long long)step);
    PyErr_SetString(PyExc_ValueError, "the tables have different numbers of images or dimensions");
    return NULL;
}

static PyMethodDef functions[] = {
    {"describe", describe, METH_VARARGS, describe_doc},
    {"place_images", place_images, METH_VARARGS, place_images_doc},
    {"issue", issue, METH_VARARGS, issue_doc},
    {"repeat", repeat, METH_VARARGS, repeat_doc},
    SOURCES_METHOD,
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "_native",
    .m_doc = "Launches of kernels, and descriptions of their inputs.",
    .m_size = 0,
    .m_methods = functions,
};

PyMODINIT_FUNC PyInit__native(void) { return PyModuleDef_Init(&definition); }
