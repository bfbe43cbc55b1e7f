/* Places in shared memory: finds room for a sample, copies the sample there, and has the room back when nobody refers
   to the place any more. Python does the same in places.py, at ten times the price. loan.h and signals.h have the rest.

   All of it happens under the GIL, so finalizers may drop places at any time; only large copies are made without it. */

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stddef.h>
#include <string.h>
#include <structmember.h>

#include "../copy_past_cache.h"
#include "../sources.h"
#include "loan.h"
#include "signals.h"

#define SHIFT 6 /* places are measured in units of 64 bytes */
#define WORTH_A_SWITCH (1 << 18) /* bytes; smaller copies take less time than another thread's turn */
#define SHARED_PAST_CACHE (1 << 14) /* bytes; another core reads the copy, later */

/* Units from `start` on that are free. */
typedef struct {
    Py_ssize_t start, length;
} Extent;

typedef struct {
    PyObject_HEAD
    PyObject *array; /* uint8, over the segment */
    Py_buffer memory;
    long long segment_id;
    Py_ssize_t size, used;  /* units */
    Py_ssize_t blocks;      /* that live */
    Extent *extents;        /* sorted, neighbours merged; never more than there are blocks, and one */
    Py_ssize_t count, room; /* of extents: how many there are, and how many fit */
} Places;

typedef struct {
    PyObject_HEAD
    Places *places;
    long long segment_id;
    Py_ssize_t offset, nbytes;
} Block;

static PyTypeObject *places_type, *block_type;

static Py_ssize_t units_of(Py_ssize_t nbytes) {
    Py_ssize_t units = (nbytes + (1 << SHIFT) - 1) >> SHIFT;
    return units ? units : 1;
}

/* Takes units at the lowest place where they fit; returns their start, or -1 when no extent is that long. */
static Py_ssize_t take_units(Places *places, Py_ssize_t units) {
    if (units > places->size - places->used) return -1;
    for (Py_ssize_t i = 0; i < places->count; i++) {
        Extent *extent = &places->extents[i];
        if (extent->length < units) continue;
        Py_ssize_t start = extent->start;
        extent->start += units;
        extent->length -= units;
        if (extent->length == 0)
            memmove(extent, extent + 1, (size_t)(--places->count - i) * sizeof(Extent));
        places->used += units;
        return start;
    }
    return -1;
}

static void give_units(Places *places, Py_ssize_t start, Py_ssize_t units) {
    Extent *extents = places->extents;
    Py_ssize_t low = 0, high = places->count; /* the first extent behind it comes to lie at `low` */
    while (low < high) {
        Py_ssize_t middle = (low + high) / 2;
        if (extents[middle].start < start)
            low = middle + 1;
        else
            high = middle;
    }
    int before = low > 0 && extents[low - 1].start + extents[low - 1].length == start;
    int behind = low < places->count && start + units == extents[low].start;
    if (before && behind) {
        extents[low - 1].length += units + extents[low].length;
        memmove(&extents[low], &extents[low + 1], (size_t)(--places->count - low) * sizeof(Extent));
    } else if (before) {
        extents[low - 1].length += units;
    } else if (behind) {
        extents[low].start = start;
        extents[low].length += units;
    } else {
        memmove(&extents[low + 1], &extents[low], (size_t)(places->count++ - low) * sizeof(Extent));
        extents[low] = (Extent){start, units};
    }
    places->used -= units;
}

/* Returns a new block, or NULL: with an exception, or without one when there is no room. */
static Block *take_block(Places *places, Py_ssize_t nbytes) {
    if (places->blocks + 2 > places->room) { /* so that giving back, which can't fail, needs no memory */
        Extent *larger = PyMem_Realloc(places->extents, (size_t)places->room * 2 * sizeof(Extent));
        if (larger == NULL) return (Block *)PyErr_NoMemory();
        places->extents = larger;
        places->room *= 2;
    }
    Py_ssize_t start = take_units(places, units_of(nbytes));
    if (start < 0) return NULL;
    Block *block = PyObject_New(Block, block_type);
    if (block == NULL) {
        give_units(places, start, units_of(nbytes));
        return NULL;
    }
    block->places = (Places *)Py_NewRef(places);
    block->segment_id = places->segment_id;
    block->offset = start << SHIFT;
    block->nbytes = nbytes;
    places->blocks++;
    return block;
}

static PyObject *or_none(Block *block) {
    if (block != NULL) return (PyObject *)block;
    return PyErr_Occurred() ? NULL : Py_NewRef(Py_None);
}

static void block_dealloc(Block *block) {
    PyTypeObject *type = Py_TYPE(block);
    give_units(block->places, block->offset >> SHIFT, units_of(block->nbytes));
    block->places->blocks--;
    Py_DECREF(block->places);
    PyObject_Free(block);
    Py_DECREF(type);
}

static PyObject *block_array(Block *block, void *closure) { return Py_NewRef(block->places->array); }

static PyObject *block_repr(Block *block) {
    return PyUnicode_FromFormat("Block(segment_id=%lld, offset=%zd, nbytes=%zd)", block->segment_id, block->offset,
                                block->nbytes);
}

static PyMemberDef block_members[] = {
    {"segment_id", T_LONGLONG, offsetof(Block, segment_id), READONLY, "the segment's number"},
    {"offset", T_PYSSIZET, offsetof(Block, offset), READONLY, "where it begins in the segment"},
    {"nbytes", T_PYSSIZET, offsetof(Block, nbytes), READONLY, "its size"},
    {NULL},
};

static PyGetSetDef block_getset[] = {{"array", (getter)block_array, NULL, "the segment", NULL}, {NULL}};

static PyType_Slot block_slots[] = {
    {Py_tp_dealloc, block_dealloc},
    {Py_tp_repr, block_repr},
    {Py_tp_members, block_members},
    {Py_tp_getset, block_getset},
    {Py_tp_doc, "A place in a segment: `nbytes` bytes from `offset`. It stays taken while this object lives."},
    {0, NULL},
};

static PyType_Spec block_spec = {"pipeline._ipc._native.Block", sizeof(Block), 0,
                                 Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, block_slots};

static PyObject *places_new(PyTypeObject *type, PyObject *arguments, PyObject *keywords) {
    long long segment_id;
    PyObject *array;
    if (!PyArg_ParseTuple(arguments, "LO", &segment_id, &array)) return NULL;
    Places *places = (Places *)type->tp_alloc(type, 0);
    if (places == NULL) return NULL;
    places->room = 64;
    places->extents = PyMem_Malloc((size_t)places->room * sizeof(Extent));
    if (places->extents == NULL) PyErr_NoMemory();
    if (places->extents == NULL || PyObject_GetBuffer(array, &places->memory, PyBUF_WRITABLE) < 0) {
        Py_DECREF(places);
        return NULL;
    }
    places->array = Py_NewRef(array);
    places->segment_id = segment_id;
    places->size = places->memory.len >> SHIFT;
    places->extents[0] = (Extent){0, places->size};
    places->count = places->size > 0;
    return (PyObject *)places;
}

static void places_dealloc(Places *places) {
    PyTypeObject *type = Py_TYPE(places);
    PyMem_Free(places->extents);
    if (places->memory.obj != NULL) PyBuffer_Release(&places->memory);
    Py_XDECREF(places->array);
    type->tp_free(places);
    Py_DECREF(type);
}

PyDoc_STRVAR(take_doc, "take(nbytes)\n--\n\nTakes a place of so many bytes; None where there is no room.");

static PyObject *places_take(Places *places, PyObject *argument) {
    Py_ssize_t nbytes = PyLong_AsSsize_t(argument);
    if (nbytes == -1 && PyErr_Occurred()) return NULL;
    if (nbytes < 0 || nbytes > places->memory.len) return Py_NewRef(Py_None);
    return or_none(take_block(places, nbytes));
}

PyDoc_STRVAR(write_doc,
             "write(array)\n--\n\n"
             "Takes a place and copies an array there; None where there is no room, or where it takes more than to\n"
             "copy the bytes as they lie: the array is not C-contiguous, its byte order is not the machine's, or it\n"
             "holds objects.");

static PyObject *places_write(Places *places, PyObject *array) {
    Py_buffer from;
    if (PyObject_GetBuffer(array, &from, PyBUF_C_CONTIGUOUS | PyBUF_FORMAT) < 0) {
        if (!PyErr_ExceptionMatches(PyExc_BufferError) && !PyErr_ExceptionMatches(PyExc_ValueError)) return NULL;
        PyErr_Clear(); /* NumPy raises a ValueError for what is not contiguous */
        return Py_NewRef(Py_None);
    }
    Block *block = NULL;
    int plain = from.format == NULL || strchr("<>!O", from.format[0]) == NULL;
    if (plain && from.len <= places->memory.len) block = take_block(places, from.len);
    if (block != NULL) {
        char *to = (char *)places->memory.buf + block->offset;
        if (from.len < WORTH_A_SWITCH) {
            copy_past_cache(to, from.buf, (size_t)from.len, SHARED_PAST_CACHE);
        } else {
            Py_BEGIN_ALLOW_THREADS
            copy_past_cache(to, from.buf, (size_t)from.len, SHARED_PAST_CACHE);
            Py_END_ALLOW_THREADS
        }
    }
    PyBuffer_Release(&from);
    return or_none(block);
}

static PyObject *places_nbytes_used(Places *places, void *closure) {
    return PyLong_FromSsize_t(places->used << SHIFT);
}

static PyMethodDef places_methods[] = {
    {"take", (PyCFunction)places_take, METH_O, take_doc},
    {"write", (PyCFunction)places_write, METH_O, write_doc},
    {NULL},
};

static PyGetSetDef places_getset[] = {
    {"used", (getter)places_nbytes_used, NULL, "bytes that are taken, rounded up to the alignment", NULL},
    {NULL},
};

static PyType_Slot places_slots[] = {
    {Py_tp_new, places_new},
    {Py_tp_dealloc, places_dealloc},
    {Py_tp_methods, places_methods},
    {Py_tp_getset, places_getset},
    {Py_tp_doc, "Places(segment_id, array)\n--\n\nPlaces in a segment, given as a uint8 array over all of it."},
    {0, NULL},
};

static PyType_Spec places_spec = {"pipeline._ipc._native.Places", sizeof(Places), 0, Py_TPFLAGS_DEFAULT, places_slots};

static PyMethodDef functions[] = {SOURCES_METHOD, SIGNAL_METHODS, {NULL}};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, .m_name = "_native", .m_size = -1, .m_methods = functions,
};

PyMODINIT_FUNC PyInit__native(void) {
    PyObject *module = PyModule_Create(&definition);
    if (module == NULL) return NULL;
    places_type = (PyTypeObject *)PyType_FromSpec(&places_spec);
    block_type = (PyTypeObject *)PyType_FromSpec(&block_spec);
    loan_type = (PyTypeObject *)PyType_FromSpec(&loan_spec);
    if (places_type == NULL || block_type == NULL || loan_type == NULL || PyModule_AddType(module, places_type) < 0 ||
        PyModule_AddType(module, block_type) < 0 || PyModule_AddType(module, loan_type) < 0 ||
        add_signals(module) < 0) {
        Py_DECREF(module);
        return NULL;
    }
    return module;
}
