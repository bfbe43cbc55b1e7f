/* Handlers of signals, put off while code runs that must not be left half done.

   Python calls a handler between any two steps of the main thread, and what the handler raises would leave our state
   torn. So `hold` puts `note` into the place of every handler, and `release` puts the handlers back and has the signals
   that came meanwhile arrive again. `let_through` does the reverse around a wait. All of it happens in C: Python calls
   handlers there in `signal.signal` only, which does so before it changes anything.

   What the system knows of a signal stays as it was, so `siginterrupt` and handlers in C that call Python's survive. */

#include <pythread.h>
#include <signal.h>

#define SIGNALS 65
#define ATTEMPTS 100 /* handlers that raise, one after the other, while one handler is replaced */

static PyObject *get_handler, *set_handler; /* Python's functions */
static PyObject *note;
static PyObject *interrupted;          /* the exception type */
static PyObject *replaced[SIGNALS];    /* handlers in whose place `note` is */
static unsigned char came[SIGNALS];    /* signals to deliver */
static Py_ssize_t holds;               /* of the main thread */
static unsigned long main_thread;

static int on_main_thread(void) { return PyThread_get_thread_ident() == main_thread; }

static PyObject *note_signal(PyObject *self, PyObject *arguments) {
    int number;
    PyObject *frame;
    if (!PyArg_ParseTuple(arguments, "iO", &number, &frame)) return NULL;
    if (number > 0 && number < SIGNALS) came[number] = 1;
    Py_RETURN_NONE;
}

/* Takes the exception that is set, if it is the first one. */
static void keep_first(PyObject **first) {
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    PyErr_NormalizeException(&type, &value, &trace);
    if (trace != NULL) PyException_SetTraceback(value, trace);
    Py_XDECREF(type);
    Py_XDECREF(trace);
    if (*first == NULL)
        *first = value;
    else
        Py_XDECREF(value);
}

/* Sets a handler, whatever others raise meanwhile: the first such exception goes to `first`. Returns whether it is set. */
static int replace_handler(int number, PyObject *handler, PyObject **first) {
    struct sigaction action;
    int known = sigaction(number, NULL, &action) == 0;
    for (int i = 0; i < ATTEMPTS; i++) {
        PyObject *before = PyObject_CallFunction(set_handler, "iO", number, handler);
        if (before != NULL) {
            Py_DECREF(before);
            if (known) sigaction(number, &action, NULL);
            return 1;
        }
        keep_first(first);
    }
    return 0;
}

static PyObject *handler_of(int number) {
    PyObject *boxed = PyLong_FromLong(number);
    PyObject *handler = boxed == NULL ? NULL : PyObject_CallOneArg(get_handler, boxed);
    Py_XDECREF(boxed);
    if (handler == NULL) PyErr_Clear(); /* the number of no signal */
    return handler;
}

static void put_handlers_off(PyObject **first) {
    for (int number = 1; number < SIGNALS; number++) {
        PyObject *handler = handler_of(number);
        if (handler != NULL && handler != note && PyCallable_Check(handler) && replace_handler(number, note, first))
            Py_XSETREF(replaced[number], Py_NewRef(handler));
        Py_XDECREF(handler);
    }
}

static void put_handlers_back(PyObject **first) {
    for (int number = 1; number < SIGNALS; number++) {
        if (replaced[number] == NULL) continue;
        PyObject *handler = handler_of(number);
        if (handler == note) replace_handler(number, replaced[number], first); /* else somebody has set another one */
        Py_XDECREF(handler);
        Py_CLEAR(replaced[number]);
    }
    for (int number = 1; number < SIGNALS; number++) {
        if (!came[number]) continue;
        came[number] = 0;
        PyErr_SetInterruptEx(number);
    }
}

static PyObject *raise_error(PyObject *error) {
    PyErr_Restore(Py_NewRef(Py_TYPE(error)), error, PyException_GetTraceback(error)); /* it keeps its context */
    return NULL;
}

PyDoc_STRVAR(hold_doc, "hold()\n--\n\nPuts the handlers of signals off until `release`, on the main thread.");

static PyObject *hold(PyObject *self, PyObject *unused) {
    if (!on_main_thread()) Py_RETURN_NONE;
    if (holds == 0) {
        PyObject *first = NULL;
        put_handlers_off(&first);
        if (first != NULL) {
            put_handlers_back(&first);
            return raise_error(first);
        }
    }
    holds++;
    Py_RETURN_NONE;
}

PyDoc_STRVAR(release_doc,
             "release()\n--\n\n"
             "Ends a `hold`. Returns whether it was the last one, so that handlers are called again.");

static PyObject *release(PyObject *self, PyObject *unused) {
    if (!on_main_thread() || holds == 0) Py_RETURN_FALSE;
    if (--holds > 0) Py_RETURN_FALSE;
    PyObject *first = NULL;
    put_handlers_back(&first);
    if (first != NULL) return raise_error(first);
    Py_RETURN_TRUE;
}

PyDoc_STRVAR(let_through_doc,
             "let_through(call, *args)\n--\n\n"
             "Returns `call(*args)`, with handlers called in spite of a `hold`. What is raised becomes the argument of\n"
             "an `Interrupted`, where there is a `hold`.");

static PyObject *let_through(PyObject *self, PyObject *const *arguments, Py_ssize_t count) {
    if (count < 1) {
        PyErr_SetString(PyExc_TypeError, "let_through needs something to call");
        return NULL;
    }
    if (!on_main_thread() || holds == 0) return PyObject_Vectorcall(arguments[0], arguments + 1, (size_t)count - 1, NULL);
    Py_ssize_t before = holds;
    holds = 0;
    PyObject *first = NULL, *made = NULL;
    put_handlers_back(&first);
    if (first == NULL && PyErr_CheckSignals() == 0)
        made = PyObject_Vectorcall(arguments[0], arguments + 1, (size_t)count - 1, NULL);
    if (made == NULL && PyErr_Occurred()) keep_first(&first);
    put_handlers_off(&first);
    holds = before;
    if (first == NULL) return made;
    Py_XDECREF(made);
    PyObject *wrapped = PyObject_CallOneArg(interrupted, first);
    Py_DECREF(first);
    return wrapped == NULL ? NULL : raise_error(wrapped);
}

PyDoc_STRVAR(handlers_doc, "handlers()\n--\n\nReturns the handlers that are put off.");

static PyObject *handlers(PyObject *self, PyObject *unused) {
    PyObject *list = PyList_New(0);
    for (int number = 1; list != NULL && number < SIGNALS; number++)
        if (replaced[number] != NULL && PyList_Append(list, replaced[number]) < 0) Py_CLEAR(list);
    return list;
}

PyDoc_STRVAR(set_python_handler_doc,
             "set_python_handler(number, handler)\n--\n\n"
             "Set the function that Python calls for a signal, but leave the action of the system as it is.");

static PyObject *set_python_handler(PyObject *self, PyObject *arguments) {
    int number;
    PyObject *handler, *first = NULL;
    if (!PyArg_ParseTuple(arguments, "iO", &number, &handler)) return NULL;
    replace_handler(number, handler, &first);
    if (first != NULL) return raise_error(first);
    Py_RETURN_NONE;
}

PyDoc_STRVAR(begin_signals_doc,
             "begin_signals(thread)\n--\n\nSays which thread is the main one, as a forked child does, too: it holds nothing.");

static PyObject *begin_signals(PyObject *self, PyObject *argument) {
    unsigned long thread = PyLong_AsUnsignedLong(argument);
    if (PyErr_Occurred()) return NULL;
    PyObject *first = NULL;
    main_thread = thread;
    if (holds > 0) {
        holds = 0;
        memset(came, 0, sizeof(came)); /* the parent's */
        put_handlers_back(&first);
    }
    if (first != NULL) return raise_error(first);
    Py_RETURN_NONE;
}

static PyMethodDef note_method = {"note", note_signal, METH_VARARGS, "Notes a signal."};

#define SIGNAL_METHODS                                                              \
    {"hold", hold, METH_NOARGS, hold_doc}, {"release", release, METH_NOARGS, release_doc}, \
        {"let_through", (PyCFunction)(void (*)(void))let_through, METH_FASTCALL, let_through_doc}, \
        {"handlers", handlers, METH_NOARGS, handlers_doc}, \
        {"set_python_handler", set_python_handler, METH_VARARGS, set_python_handler_doc}, \
        {"begin_signals", begin_signals, METH_O, begin_signals_doc}

static int add_signals(PyObject *module) {
    PyObject *python = PyImport_ImportModule("_signal");
    if (python == NULL) return -1;
    get_handler = PyObject_GetAttrString(python, "getsignal");
    set_handler = PyObject_GetAttrString(python, "signal");
    Py_DECREF(python);
    note = PyCFunction_New(&note_method, NULL);
    interrupted = PyErr_NewExceptionWithDoc("pipeline._ipc._native.Interrupted",
                                            "What a handler raised during a wait is the argument.",
                                            PyExc_BaseException, NULL);
    if (get_handler == NULL || set_handler == NULL || note == NULL || interrupted == NULL) return -1;
    return PyModule_AddObjectRef(module, "Interrupted", interrupted);
}
