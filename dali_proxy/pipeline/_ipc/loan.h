/* An object that ends a loan of memory: its deallocation writes a byte to shared memory.

   The owner may reuse the lent memory once it sees the byte, so all reads must come before: this needs a release store,
   which Python doesn't have. Also, Python may call signal handlers in a finalizer, and drops their exceptions. */

#include <unistd.h>

typedef struct {
    PyObject_HEAD
    PyObject *page;
    PyObject *forks; /* a list that grows by one item at each fork */
    Py_buffer memory;
    Py_ssize_t number, forked;
    unsigned char generation, retired;
    pid_t pid;
} Loan;

static PyTypeObject *loan_type;

static PyObject *loan_new(PyTypeObject *type, PyObject *arguments, PyObject *keywords) {
    PyObject *page, *forks;
    Py_ssize_t number;
    unsigned char generation, retired;
    if (!PyArg_ParseTuple(arguments, "OnbO!b", &page, &number, &generation, &PyList_Type, &forks, &retired))
        return NULL;
    Loan *loan = (Loan *)type->tp_alloc(type, 0);
    if (loan == NULL) return NULL;
    if (PyObject_GetBuffer(page, &loan->memory, PyBUF_WRITABLE) < 0) {
        Py_DECREF(loan);
        return NULL;
    }
    if (number < 0 || number >= loan->memory.len) {
        PyErr_SetString(PyExc_IndexError, "the page has no such byte");
        Py_DECREF(loan);
        return NULL;
    }
    loan->page = Py_NewRef(page);
    loan->forks = Py_NewRef(forks);
    loan->number = number;
    loan->generation = generation;
    loan->retired = retired;
    loan->forked = PyList_GET_SIZE(forks);
    loan->pid = getpid();
    return (PyObject *)loan;
}

static void loan_dealloc(Loan *loan) {
    PyTypeObject *type = Py_TYPE(loan);
    if (loan->page != NULL && loan->pid == getpid()) {
        unsigned char value = loan->generation;
        if (PyList_GET_SIZE(loan->forks) != loan->forked) value |= loan->retired;
        __atomic_store_n((unsigned char *)loan->memory.buf + loan->number, value, __ATOMIC_RELEASE);
    }
    if (loan->memory.obj != NULL) PyBuffer_Release(&loan->memory);
    Py_XDECREF(loan->page);
    Py_XDECREF(loan->forks);
    type->tp_free(loan);
    Py_DECREF(type);
}

static PyObject *loan_ours(Loan *loan, void *closure) { return PyBool_FromLong(loan->pid == getpid()); }

static PyGetSetDef loan_getset[] = {
    {"ours", (getter)loan_ours, NULL, "whether this process borrowed the memory, not a parent that forked it", NULL},
    {NULL},
};

static PyType_Slot loan_slots[] = {
    {Py_tp_new, loan_new},
    {Py_tp_dealloc, loan_dealloc},
    {Py_tp_getset, loan_getset},
    {Py_tp_doc,
     "Loan(page, number, generation, forks, retired)\n--\n\n"
     "When it is deallocated, writes `generation` to byte `number` of a page, with the bits `retired` if `forks` has\n"
     "grown."},
    {0, NULL},
};

static PyType_Spec loan_spec = {"dali_proxy.pipeline._ipc._native.Loan", sizeof(Loan), 0, Py_TPFLAGS_DEFAULT, loan_slots};
