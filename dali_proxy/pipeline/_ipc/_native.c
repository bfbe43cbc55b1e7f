/* Allocation of blocks for samples in shared memory. A block is freed when its last reference ends. block_allocator.py
   does the same in Python and takes ten times as long. See also loan.h, signals.h and tables.h.

   All functions hold the GIL, so finalizers may drop blocks at any time. Only large copies release it. */

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stddef.h>
#include <string.h>
#include <structmember.h>

#include "../buffers.h"
#include "../copy_past_cache.h"
#include "../sources.h"
#include "loan.h"
#include "signals.h"
#include "tables.h"

#define SHIFT 6 /* sizes and offsets of blocks are multiples of 64 bytes: units */
#define WORTH_A_SWITCH (1 << 18) /* bytes; smaller copies are faster than a release of the GIL */
#define SHARED_PAST_CACHE (1 << 14) /* bytes; another core will read the copy */

/* Free units: `length` of them from `start`. */
typedef struct {
    Py_ssize_t start, length;
} Extent;

typedef struct {
    PyObject_HEAD
    PyObject *array; /* uint8, over the segment */
    Py_buffer memory;
    long long segment_id;
    Py_ssize_t size, used;  /* units */
    Py_ssize_t blocks;      /* number of live blocks */
    Extent *extents;        /* sorted, adjacent ones merged; at most one more than blocks */
    Py_ssize_t count, room; /* number of extents, and capacity of the array */
} Allocator;

typedef struct {
    PyObject_HEAD
    Allocator *allocator;
    long long segment_id;
    Py_ssize_t offset, nbytes;
} Block;

static PyTypeObject *allocator_type, *block_type;

static Py_ssize_t units_of(Py_ssize_t nbytes) {
    Py_ssize_t units = (nbytes + (1 << SHIFT) - 1) >> SHIFT;
    return units ? units : 1;
}

/* Allocate units from the first extent that is large enough. Return their start, or -1 if there is none. */
static Py_ssize_t take_units(Allocator *allocator, Py_ssize_t units) {
    if (units > allocator->size - allocator->used) return -1;
    for (Py_ssize_t i = 0; i < allocator->count; i++) {
        Extent *extent = &allocator->extents[i];
        if (extent->length < units) continue;
        Py_ssize_t start = extent->start;
        extent->start += units;
        extent->length -= units;
        if (extent->length == 0)
            memmove(extent, extent + 1, (size_t)(--allocator->count - i) * sizeof(Extent));
        allocator->used += units;
        return start;
    }
    return -1;
}

static void give_units(Allocator *allocator, Py_ssize_t start, Py_ssize_t units) {
    Extent *extents = allocator->extents;
    Py_ssize_t low = 0, high = allocator->count; /* `low` becomes the index of the first extent after `start` */
    while (low < high) {
        Py_ssize_t middle = (low + high) / 2;
        if (extents[middle].start < start)
            low = middle + 1;
        else
            high = middle;
    }
    int before = low > 0 && extents[low - 1].start + extents[low - 1].length == start;
    int behind = low < allocator->count && start + units == extents[low].start;
    if (before && behind) {
        extents[low - 1].length += units + extents[low].length;
        memmove(&extents[low], &extents[low + 1], (size_t)(--allocator->count - low) * sizeof(Extent));
    } else if (before) {
        extents[low - 1].length += units;
    } else if (behind) {
        extents[low].start = start;
        extents[low].length += units;
    } else {
        memmove(&extents[low + 1], &extents[low], (size_t)(allocator->count++ - low) * sizeof(Extent));
        extents[low] = (Extent){start, units};
    }
    allocator->used -= units;
}

/* Return a new block, or NULL: with an exception, or without one if there is no room. */
static Block *take_block(Allocator *allocator, Py_ssize_t nbytes) {
    if (allocator->blocks + 2 > allocator->room) { /* so that `give_units`, which must not fail, needs no memory */
        Extent *larger = PyMem_Realloc(allocator->extents, (size_t)allocator->room * 2 * sizeof(Extent));
        if (larger == NULL) return (Block *)PyErr_NoMemory();
        allocator->extents = larger;
        allocator->room *= 2;
    }
    Py_ssize_t start = take_units(allocator, units_of(nbytes));
    if (start < 0) return NULL;
    Block *block = PyObject_New(Block, block_type);
    if (block == NULL) {
        give_units(allocator, start, units_of(nbytes));
        return NULL;
    }
    block->allocator = (Allocator *)Py_NewRef(allocator);
    block->segment_id = allocator->segment_id;
    block->offset = start << SHIFT;
    block->nbytes = nbytes;
    allocator->blocks++;
    return block;
}

static PyObject *or_none(PyObject *made) {
    if (made != NULL) return made;
    return PyErr_Occurred() ? NULL : Py_NewRef(Py_None);
}

static void block_dealloc(Block *block) {
    PyTypeObject *type = Py_TYPE(block);
    give_units(block->allocator, block->offset >> SHIFT, units_of(block->nbytes));
    block->allocator->blocks--;
    Py_DECREF(block->allocator);
    PyObject_Free(block);
    Py_DECREF(type);
}

static PyObject *block_array(Block *block, void *closure) { return Py_NewRef(block->allocator->array); }

static PyObject *block_repr(Block *block) {
    return PyUnicode_FromFormat("Block(segment_id=%lld, offset=%zd, nbytes=%zd)", block->segment_id, block->offset,
                                block->nbytes);
}

static PyMemberDef block_members[] = {
    {"segment_id", T_LONGLONG, offsetof(Block, segment_id), READONLY, "number of the segment"},
    {"offset", T_PYSSIZET, offsetof(Block, offset), READONLY, "offset in the segment, in bytes"},
    {"nbytes", T_PYSSIZET, offsetof(Block, nbytes), READONLY, "size in bytes"},
    {NULL},
};

static PyGetSetDef block_getset[] = {{"array", (getter)block_array, NULL, "memory of the segment", NULL}, {NULL}};

static PyType_Slot block_slots[] = {
    {Py_tp_dealloc, block_dealloc},
    {Py_tp_repr, block_repr},
    {Py_tp_members, block_members},
    {Py_tp_getset, block_getset},
    {Py_tp_doc, "`nbytes` bytes at `offset` of a segment. They stay allocated while this object lives."},
    {0, NULL},
};

static PyType_Spec block_spec = {"dali_proxy.pipeline._ipc._native.Block", sizeof(Block), 0,
                                 Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, block_slots};

static PyObject *allocator_new(PyTypeObject *type, PyObject *arguments, PyObject *keywords) {
    long long segment_id;
    PyObject *array;
    if (!PyArg_ParseTuple(arguments, "LO", &segment_id, &array)) return NULL;
    Allocator *allocator = (Allocator *)type->tp_alloc(type, 0);
    if (allocator == NULL) return NULL;
    allocator->room = 64;
    allocator->extents = PyMem_Malloc((size_t)allocator->room * sizeof(Extent));
    if (allocator->extents == NULL) PyErr_NoMemory();
    if (allocator->extents == NULL || PyObject_GetBuffer(array, &allocator->memory, PyBUF_WRITABLE) < 0) {
        Py_DECREF(allocator);
        return NULL;
    }
    allocator->array = Py_NewRef(array);
    allocator->segment_id = segment_id;
    allocator->size = allocator->memory.len >> SHIFT;
    allocator->extents[0] = (Extent){0, allocator->size};
    allocator->count = allocator->size > 0;
    return (PyObject *)allocator;
}

static void allocator_dealloc(Allocator *allocator) {
    PyTypeObject *type = Py_TYPE(allocator);
    PyMem_Free(allocator->extents);
    if (allocator->memory.obj != NULL) PyBuffer_Release(&allocator->memory);
    Py_XDECREF(allocator->array);
    type->tp_free(allocator);
    Py_DECREF(type);
}

PyDoc_STRVAR(take_doc, "take(nbytes)\n--\n\nAllocate a block of `nbytes` bytes; return None if there is no room.");

static PyObject *allocator_take(Allocator *allocator, PyObject *argument) {
    Py_ssize_t nbytes = PyLong_AsSsize_t(argument);
    if (nbytes == -1 && PyErr_Occurred()) return NULL;
    if (nbytes < 0 || nbytes > allocator->memory.len) return Py_NewRef(Py_None);
    return or_none((PyObject *)take_block(allocator, nbytes));
}

/* Copy an array to a new block. Return NULL without an exception if that isn't a copy of bytes, or if there is no room. */
static Block *write_array(Allocator *allocator, PyObject *array) {
    Py_buffer from;
    if (PyObject_GetBuffer(array, &from, PyBUF_C_CONTIGUOUS | PyBUF_FORMAT) < 0) {
        if (PyErr_ExceptionMatches(PyExc_BufferError) || PyErr_ExceptionMatches(PyExc_ValueError))
            PyErr_Clear(); /* NumPy raises ValueError for an array that isn't contiguous */
        return NULL;
    }
    Block *block = NULL;
    int plain = from.format == NULL || strchr("<>!O", from.format[0]) == NULL;
    if (plain && from.len <= allocator->memory.len) block = take_block(allocator, from.len);
    if (block != NULL) {
        char *to = (char *)allocator->memory.buf + block->offset;
        if (from.len < WORTH_A_SWITCH) {
            copy_past_cache(to, from.buf, (size_t)from.len, SHARED_PAST_CACHE);
        } else {
            Py_BEGIN_ALLOW_THREADS
            copy_past_cache(to, from.buf, (size_t)from.len, SHARED_PAST_CACHE);
            Py_END_ALLOW_THREADS
        }
    }
    PyBuffer_Release(&from);
    return block;
}

PyDoc_STRVAR(write_doc,
             "write(arrays)\n--\n\n"
             "Allocate a block for each array of a list, and copy it there. Return None if there is no room, or if one\n"
             "takes more than a copy of bytes: it isn't C-contiguous, isn't in native byte order, or contains objects.");

static PyObject *allocator_write(Allocator *allocator, PyObject *arrays) {
    if (!PyList_CheckExact(arrays)) return PyErr_Format(PyExc_TypeError, "expected a list of arrays");
    PyObject *blocks = PyTuple_New(PyList_GET_SIZE(arrays));
    for (Py_ssize_t i = 0; blocks != NULL && i < PyTuple_GET_SIZE(blocks); i++) {
        PyObject *array = PyList_GetItem(arrays, i); /* checked: a thread may change the list during a large copy */
        Block *block = NULL;
        if (array != NULL) {
            Py_INCREF(array);
            block = write_array(allocator, array);
            Py_DECREF(array);
        }
        if (block == NULL)
            Py_CLEAR(blocks);
        else
            PyTuple_SET_ITEM(blocks, i, (PyObject *)block);
    }
    return or_none(blocks);
}

static PyObject *allocator_nbytes_used(Allocator *allocator, void *closure) {
    return PyLong_FromSsize_t(allocator->used << SHIFT);
}

static PyMethodDef allocator_methods[] = {
    {"take", (PyCFunction)allocator_take, METH_O, take_doc},
    {"write", (PyCFunction)allocator_write, METH_O, write_doc},
    {NULL},
};

static PyGetSetDef allocator_getset[] = {
    {"used", (getter)allocator_nbytes_used, NULL, "allocated bytes, rounded up to the alignment", NULL},
    {NULL},
};

static PyType_Slot allocator_slots[] = {
    {Py_tp_new, allocator_new},
    {Py_tp_dealloc, allocator_dealloc},
    {Py_tp_methods, allocator_methods},
    {Py_tp_getset, allocator_getset},
    {Py_tp_doc, "Allocator(segment_id, array)\n--\n\nPlaces in a segment, given as a uint8 array over all of it."},
    {0, NULL},
};

static PyType_Spec allocator_spec = {"dali_proxy.pipeline._ipc._native.BlockAllocator", sizeof(Allocator), 0, Py_TPFLAGS_DEFAULT,
                                     allocator_slots};

/* Return an item of a tuple, borrowed, or NULL: with an exception, or without one if it isn't a tuple. */
static PyObject *item_of(PyObject *tuple, Py_ssize_t number) {
    return tuple != NULL && PyTuple_Check(tuple) ? PyTuple_GetItem(tuple, number) : NULL;
}

PyDoc_STRVAR(rows_doc, "rows(blocks, shapes, number)\n--\n\n"
                       "The segment, offset and shape of one input of samples, as the bytes of int64 rows. Blocks and\n"
                       "shapes are lists with a tuple for each sample; all shapes of the input have the same length.");

static PyObject *rows(PyObject *self, PyObject *arguments) {
    PyObject *blocks, *shapes;
    Py_ssize_t number;
    if (!PyArg_ParseTuple(arguments, "O!O!n", &PyList_Type, &blocks, &PyList_Type, &shapes, &number)) return NULL;
    Py_ssize_t count = PyList_GET_SIZE(blocks), columns = 0;
    PyObject *made = NULL;
    int64_t *row = NULL;
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *block = item_of(PyList_GET_ITEM(blocks, i), number);
        PyObject *shape = item_of(PyList_GetItem(shapes, i), number);
        if (PyErr_Occurred()) goto failed;
        if (block == NULL || Py_TYPE(block) != block_type || shape == NULL || !PyTuple_Check(shape)) {
            PyErr_SetString(PyExc_TypeError, "expected tuples of blocks and of shapes");
            goto failed;
        }
        if (made == NULL) {
            columns = 2 + PyTuple_GET_SIZE(shape);
            made = PyBytes_FromStringAndSize(NULL, count * columns * (Py_ssize_t)sizeof(int64_t));
            if (made == NULL) return NULL;
            row = (int64_t *)PyBytes_AS_STRING(made);
        }
        if (PyTuple_GET_SIZE(shape) != columns - 2) {
            PyErr_SetString(PyExc_ValueError, "shapes of different lengths");
            goto failed;
        }
        *row++ = ((Block *)block)->segment_id;
        *row++ = ((Block *)block)->offset;
        for (Py_ssize_t j = 0; j < columns - 2; j++) *row++ = PyLong_AsLongLong(PyTuple_GET_ITEM(shape, j));
    }
    if (PyErr_Occurred()) goto failed;
    return made != NULL ? made : PyBytes_FromStringAndSize(NULL, 0);
failed:
    Py_XDECREF(made);
    return NULL;
}

static PyMethodDef functions[] = {
    SOURCES_METHOD, SIGNAL_METHODS, TABLE_METHODS, {"rows", rows, METH_VARARGS, rows_doc}, {NULL}};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, .m_name = "_native", .m_size = -1, .m_methods = functions,
};

PyMODINIT_FUNC PyInit__native(void) {
    PyObject *module = PyModule_Create(&definition);
    if (module == NULL) return NULL;
    allocator_type = (PyTypeObject *)PyType_FromSpec(&allocator_spec);
    block_type = (PyTypeObject *)PyType_FromSpec(&block_spec);
    loan_type = (PyTypeObject *)PyType_FromSpec(&loan_spec);
    if (allocator_type == NULL || block_type == NULL || loan_type == NULL ||
        PyModule_AddType(module, allocator_type) < 0 || PyModule_AddType(module, block_type) < 0 ||
        PyModule_AddType(module, loan_type) < 0 || add_signals(module) < 0) {
        Py_DECREF(module);
        return NULL;
    }
    return module;
}
