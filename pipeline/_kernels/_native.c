/* Launches of a batch in one call: one copy of all tables to the device, then the kernels, then an event. The call
   releases the GIL once, where separate calls would release it for each launch and then wait for other threads.

   The driver is loaded at run time, so that this module can be built without CUDA. */

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <dlfcn.h>
#include <stdint.h>
#include <string.h>

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

/* Copies the tables of a launch to the staging buffer, and appends its arguments. Returns -1 with an exception set. */
static int prepare(PyObject *item, Launch *launch, char *arguments, size_t room, size_t *used, char *host, size_t size,
                   uint64_t device, size_t *offset) {
    unsigned long long function;
    PyObject *tables;
    const char *scalars;
    Py_ssize_t scalar_bytes;
    if (!PyArg_ParseTuple(item, "KIIO!y#", &function, &launch->width, &launch->height, &PyTuple_Type, &tables, &scalars,
                          &scalar_bytes))
        return -1;
    launch->function = (void *)(uintptr_t)function;
    launch->begin = *used;
    launch->bytes = 8 * (size_t)PyTuple_GET_SIZE(tables) + (size_t)scalar_bytes;
    if (launch->begin + launch->bytes > room) {
        PyErr_SetString(PyExc_ValueError, "the launches have too many arguments");
        return -1;
    }
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tables); i++) {
        Py_buffer view;
        if (PyObject_GetBuffer(PyTuple_GET_ITEM(tables, i), &view, PyBUF_SIMPLE) < 0) return -1;
        int fits = *offset + (size_t)view.len <= size;
        if (fits) memcpy(host + *offset, view.buf, (size_t)view.len);
        uint64_t address = device + *offset;
        memcpy(arguments + launch->begin + 8 * (size_t)i, &address, 8);
        *offset += ((size_t)view.len + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
        PyBuffer_Release(&view);
        if (!fits) {
            PyErr_SetString(PyExc_ValueError, "the staging buffer is too small");
            return -1;
        }
    }
    memcpy(arguments + launch->begin + 8 * (size_t)PyTuple_GET_SIZE(tables), scalars, (size_t)scalar_bytes);
    *used += (launch->bytes + 15) / 16 * 16;
    return 0;
}

/* Returns the first error, and in `failed` the index of its launch; -1 for the copy, and the count for the event. */
static int issue_all(void *stream, uint64_t device, const char *host, size_t bytes, const Launch *launches,
                     Py_ssize_t count, char *arguments, void *event, Py_ssize_t *failed) {
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
    Py_ssize_t count = PyList_GET_SIZE(items);
    size_t room = 4096 * (size_t)(count ? count : 1); /* CUDA's limit for the arguments of a kernel is 4 KiB */
    Launch *launches = PyMem_Malloc((size_t)(count ? count : 1) * sizeof(Launch));
    char *arguments = PyMem_Malloc(room);
    if (!launches || !arguments) {
        PyMem_Free(launches);
        PyMem_Free(arguments);
        return PyErr_NoMemory();
    }
    size_t used = 0, offset = 0;
    int ready = 0;
    for (Py_ssize_t i = 0; i < count && !ready; i++)
        ready = prepare(PyList_GET_ITEM(items, i), &launches[i], arguments, room, &used, (char *)(uintptr_t)host,
                        (size_t)size, device, &offset);
    int error = 0;
    Py_ssize_t failed = 0;
    if (!ready) {
        Py_BEGIN_ALLOW_THREADS
        error = issue_all((void *)(uintptr_t)stream, device, (const char *)(uintptr_t)host,
                          offset < size ? offset : (size_t)size, launches, count, arguments, (void *)(uintptr_t)event,
                          &failed);
        Py_END_ALLOW_THREADS
    }
    PyMem_Free(launches);
    PyMem_Free(arguments);
    if (ready) return NULL;
    if (!error) Py_RETURN_NONE;
    const char *text = NULL;
    driver.error_text(error, &text);
    return Py_BuildValue("ns", failed, text ? text : "unknown error");
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
    PyBuffer_Release(&pointers);
    PyBuffer_Release(&shapes);
    PyBuffer_Release(&strides);
    return arrays ? PyBool_FromLong(described) : NULL;
}

static PyMethodDef functions[] = {
    {"describe", describe, METH_VARARGS, describe_doc},
    {"issue", issue, METH_VARARGS, issue_doc},
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
