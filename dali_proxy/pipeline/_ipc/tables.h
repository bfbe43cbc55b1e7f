/* Checks of tables and pages that other processes write. arena_reader.py and slots.py do the same in NumPy. */

/* Return the number of elements of an array, or -1 if NumPy doesn't allow its shape; see `fits_numpy`. */
static int64_t count_elements(const int64_t *shape, Py_ssize_t ndim, int64_t largest) {
    int64_t product = 1;
    int empty = 0;
    for (Py_ssize_t i = 0; i < ndim; i++) {
        if (shape[i] < 0 || __builtin_mul_overflow(product, shape[i] ? shape[i] : 1, &product)) return -1;
        empty |= shape[i] == 0;
    }
    return product >= largest ? -1 : empty ? 0 : product;
}

PyDoc_STRVAR(lie_in_doc, "lie_in(table, itemsize, room, largest)\n--\n\n"
                         "Whether all rows have the first one's segment, and lie inside of `room` bytes, aligned.");

static PyObject *lie_in(PyObject *self, PyObject *arguments) {
    PyObject *table;
    long long itemsize, room, largest;
    if (!PyArg_ParseTuple(arguments, "OLLL", &table, &itemsize, &room, &largest)) return NULL;
    Py_buffer view;
    if (PyObject_GetBuffer(table, &view, PyBUF_C_CONTIGUOUS) < 0) return NULL;
    if (view.ndim != 2 || view.itemsize != 8 || view.shape[1] < 2 || itemsize < 1 || itemsize > 1 << 10 ||
        largest > 1LL << 50) {
        PyBuffer_Release(&view);
        PyErr_SetString(PyExc_ValueError, "expected a table of int64 with two or more columns, and small items");
        return NULL;
    }
    const int64_t *row = view.buf, segment = view.shape[0] ? row[0] : 0;
    Py_ssize_t columns = view.shape[1], ndim = columns - 2;
    int good = view.shape[0] > 0;
    for (Py_ssize_t i = 0; good && i < view.shape[0]; i++, row += columns) {
        int64_t offset = row[1], elements = count_elements(row + 2, ndim, largest);
        good = row[0] == segment && elements >= 0 && offset >= 0 && offset <= room && offset % itemsize == 0 &&
               elements * itemsize <= room - offset;
    }
    PyBuffer_Release(&view);
    return PyBool_FromLong(good);
}

PyDoc_STRVAR(returned_doc, "returned(generations, page, count, retired)\n--\n\n"
                           "The numbers below `count` whose byte in the page is their generation, besides a bit.");

static PyObject *returned(PyObject *self, PyObject *arguments) {
    Py_buffer generations, page;
    Py_ssize_t count;
    unsigned char retired;
    if (!PyArg_ParseTuple(arguments, "y*y*nb", &generations, &page, &count, &retired)) return NULL;
    PyObject *found = PyList_New(0);
    const unsigned char *lent = generations.buf;
    const volatile unsigned char *bytes = page.buf;
    if (count > generations.len) count = generations.len;
    if (count > page.len) count = page.len;
    for (Py_ssize_t i = 0; found != NULL && i < count; i++) {
        if (lent[i] == 0 || (bytes[i] & ~retired & 0xff) != lent[i]) continue;
        PyObject *number = PyLong_FromSsize_t(i);
        if (number == NULL || PyList_Append(found, number) < 0) Py_CLEAR(found);
        Py_XDECREF(number);
    }
    RELEASE(&generations, &page);
    return found;
}

#define TABLE_METHODS \
    {"lie_in", lie_in, METH_VARARGS, lie_in_doc}, { "returned", returned, METH_VARARGS, returned_doc }
