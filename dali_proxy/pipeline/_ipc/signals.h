/* Deferred signal handlers, for code that an exception of a handler must not interrupt.

   Python may call a handler between any two steps of the main thread, and an exception of the handler would leave our
   state inconsistent. So `hold` replaces every handler by `note`; `release` restores the handlers and raises again the
   signals that have arrived meanwhile. `let_through` does the reverse around a wait. This is C code because Python
   calls handlers there only in `signal.signal`, before that function changes anything.

   The actions of the system stay unchanged, so `siginterrupt` and C handlers that call Python's keep working.

   Python discards the exceptions of finalizers. An exception that a handler raises in one of ours is raised later, in
   the code that the finalizer interrupted: see `finalizer`. */

#include <pythread.h>
#include <signal.h>

#define SIGNALS 65
#define ATTEMPTS 100 /* limit for handlers that raise in turn while one handler is being replaced */

static PyObject *get_handler, *set_handler; /* Python's functions */
static PyObject *note;
static PyObject *interrupted;          /* the exception type */
static PyObject *replaced[SIGNALS];    /* handlers that `note` replaces */
static unsigned char came[SIGNALS];    /* signals that have arrived and will be raised again */
static Py_ssize_t holds;               /* nested holds of the main thread */
static Py_ssize_t closed;              /* nested finalizers of the main thread inside of a hold */
static PyObject *late;                 /* exception of a handler in a finalizer, which is raised outside of it */
static unsigned long main_thread;

static int on_main_thread(void) { return PyThread_get_thread_ident() == main_thread; }

static PyObject *note_signal(PyObject *self, PyObject *arguments) {
    int number;
    PyObject *frame;
    if (!PyArg_ParseTuple(arguments, "iO", &number, &frame)) return NULL;
    if (number > 0 && number < SIGNALS) came[number] = 1;
    Py_RETURN_NONE;
}

/* Fetch the current exception; store it in `first` unless that has one. */
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

static int is_same_action(const struct sigaction *one, const struct sigaction *other) {
    return one->sa_sigaction == other->sa_sigaction && one->sa_flags == other->sa_flags &&
           memcmp(&one->sa_mask, &other->sa_mask, (SIGNALS - 1) / 8) == 0; /* behind these bits, glibc sets nothing */
}

/* Set a handler even if others raise meanwhile; store the first of their exceptions. Return whether it is set.

   The action of the system stays. Python sets its usual one for a function: nothing needs to be restored where the
   signal had that already, which saves loops a third of their system calls. */
static int replace_handler(int number, PyObject *handler, PyObject **first) {
    static struct sigaction usual;
    static int knows_usual;
    struct sigaction action;
    int known = sigaction(number, NULL, &action) == 0;
    for (int i = 0; i < ATTEMPTS; i++) {
        PyObject *before = PyObject_CallFunction(set_handler, "iO", number, handler);
        if (before != NULL) {
            Py_DECREF(before);
            int is_usual = PyCallable_Check(handler);
            if (is_usual && !knows_usual) knows_usual = sigaction(number, NULL, &usual) == 0;
            if (known && !(is_usual && knows_usual && is_same_action(&action, &usual))) sigaction(number, &action, NULL);
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
    if (handler == NULL) PyErr_Clear(); /* the system has no such signal */
    return handler;
}

static void defer_handlers(PyObject **first) {
    for (int number = 1; number < SIGNALS; number++) {
        PyObject *handler = handler_of(number);
        if (handler != NULL && handler != note && PyCallable_Check(handler) && replace_handler(number, note, first))
            Py_XSETREF(replaced[number], Py_NewRef(handler));
        Py_XDECREF(handler);
    }
}

static void restore_handlers(PyObject **first) {
    for (int number = 1; number < SIGNALS; number++) {
        if (replaced[number] == NULL) continue;
        PyObject *handler = handler_of(number);
        if (handler == note) replace_handler(number, replaced[number], first); /* else the user has set another */
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
    PyErr_Restore(Py_NewRef(Py_TYPE(error)), error, PyException_GetTraceback(error)); /* keeps its context */
    return NULL;
}

PyDoc_STRVAR(hold_doc, "hold()\n--\n\nDefer signal handlers until `release`. Only the main thread has an effect.");

static PyObject *hold(PyObject *self, PyObject *unused) {
    if (!on_main_thread()) Py_RETURN_NONE;
    if (holds++ == 0) {
        PyObject *first = NULL;
        defer_handlers(&first);
        if (first != NULL) {
            holds = 0;
            restore_handlers(&first);
            return raise_error(first);
        }
    }
    Py_RETURN_NONE;
}

PyDoc_STRVAR(release_doc,
             "release()\n--\n\n"
             "End a `hold`. Return whether it was the outermost one, so that handlers are called again.");

static PyObject *release(PyObject *self, PyObject *unused) {
    if (!on_main_thread() || holds == 0) Py_RETURN_FALSE;
    if (--holds > 0) Py_RETURN_FALSE;
    PyObject *first = late;
    late = NULL;
    restore_handlers(&first);
    if (first != NULL) return raise_error(first);
    Py_RETURN_TRUE;
}

PyDoc_STRVAR(end_hold_doc,
             "end_hold(kind, error, trace)\n--\n\n"
             "`release` as an `__exit__`: the outermost one raises the exception of a handler in place of its `Interrupted`.");

static PyObject *end_hold(PyObject *self, PyObject *const *arguments, Py_ssize_t count) {
    PyObject *is_outermost = release(self, NULL);
    if (is_outermost == NULL) return NULL;
    Py_DECREF(is_outermost);
    if (is_outermost != Py_True) Py_RETURN_NONE;
    if (count < 2 || !PyErr_GivenExceptionMatches(arguments[1], interrupted)) {
        if (PyErr_CheckSignals() < 0) return NULL; /* now, so that handlers don't raise in the callers */
        Py_RETURN_NONE;
    }
    PyObject *values = PyObject_GetAttrString(arguments[1], "args");
    if (values == NULL) return NULL;
    PyObject *error = PyTuple_Check(values) && PyTuple_GET_SIZE(values) > 0 ? Py_NewRef(PyTuple_GET_ITEM(values, 0)) : NULL;
    Py_DECREF(values);
    if (error == NULL || !PyExceptionInstance_Check(error)) {
        Py_XDECREF(error);
        Py_RETURN_NONE;
    }
    return raise_error(error);
}

PyDoc_STRVAR(let_through_doc,
             "let_through(call, *args)\n--\n\n"
             "Return `call(*args)`. Handlers are called meanwhile, even inside a `hold`; there, an exception becomes\n"
             "the argument of an `Interrupted`.");

static PyObject *let_through(PyObject *self, PyObject *const *arguments, Py_ssize_t count) {
    if (count < 1) {
        PyErr_SetString(PyExc_TypeError, "let_through needs a function");
        return NULL;
    }
    if (!on_main_thread() || holds == 0 || closed > 0)
        return PyObject_Vectorcall(arguments[0], arguments + 1, (size_t)count - 1, NULL);
    Py_ssize_t before = holds;
    holds = 0;
    PyObject *first = late, *result = NULL;
    late = NULL;
    restore_handlers(&first);
    if (first == NULL && PyErr_CheckSignals() == 0)
        result = PyObject_Vectorcall(arguments[0], arguments + 1, (size_t)count - 1, NULL);
    if (result == NULL && PyErr_Occurred()) keep_first(&first);
    holds = before;
    defer_handlers(&first);
    if (first == NULL) return result;
    Py_XDECREF(result);
    PyObject *wrapped = PyObject_CallOneArg(interrupted, first);
    Py_DECREF(first);
    return wrapped == NULL ? NULL : raise_error(wrapped);
}

/* Raise the exception of a handler in a finalizer, unless that would interrupt a hold, whose end raises it then. */
static int raise_late(void *unused) {
    if (late == NULL || holds > 0) return 0;
    PyObject *error = late;
    late = NULL;
    raise_error(error);
    return -1;
}

#if PY_VERSION_HEX < 0x030d0000
#define Py_IsFinalizing _Py_IsFinalizing
#endif

static PyObject *run_finalizer(PyObject *function, PyObject *object) {
    if (Py_IsFinalizing()) Py_RETURN_NONE; /* modules are being cleared, and the system frees what is left */
    if (!on_main_thread()) return PyObject_CallOneArg(function, object);
    Py_ssize_t before = holds++;
    PyObject *first = NULL;
    if (before == 0) defer_handlers(&first);
    closed += before > 0;
    PyObject *result = PyObject_CallOneArg(function, object);
    closed -= before > 0;
    if (result == NULL && before == 0 && PyErr_ExceptionMatches(interrupted)) {
        PyObject *wrapped = NULL;
        keep_first(&wrapped);
        PyObject *arguments = PyObject_GetAttrString(wrapped, "args");
        if (first == NULL && arguments != NULL && PyTuple_Check(arguments) && PyTuple_GET_SIZE(arguments) > 0)
            first = Py_NewRef(PyTuple_GET_ITEM(arguments, 0));
        Py_XDECREF(arguments);
        Py_XDECREF(wrapped);
        result = Py_NewRef(Py_None);
    }
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    if (holds > 0 && --holds == 0) restore_handlers(&first); /* a fork sets it to 0 in the child */
    PyErr_Restore(type, value, trace);
    if (first != NULL && late == NULL) {
        late = first;
        Py_AddPendingCall(raise_late, NULL); /* if there are too many such calls, the end of the next hold raises it */
    } else {
        Py_XDECREF(first); /* another handler's exception comes first */
    }
    return result;
}

static PyMethodDef finalizer_method = {"__del__", run_finalizer, METH_O, "Run a finalizer."};

PyDoc_STRVAR(finalizer_doc,
             "finalizer(function)\n--\n\n"
             "Return a method for `__del__` that calls `function`, and loses no exception of a signal handler: handlers\n"
             "are deferred, and an exception in `let_through` is raised in the code that the finalizer interrupted. When the\n"
             "interpreter ends, it does nothing.");

static PyObject *finalizer(PyObject *self, PyObject *function) {
    PyObject *bound = PyCFunction_New(&finalizer_method, function);
    PyObject *method = bound == NULL ? NULL : PyInstanceMethod_New(bound);
    Py_XDECREF(bound);
    return method;
}

PyDoc_STRVAR(handlers_doc, "handlers()\n--\n\nReturn the deferred handlers.");

static PyObject *handlers(PyObject *self, PyObject *unused) {
    PyObject *list = PyList_New(0);
    for (int number = 1; list != NULL && number < SIGNALS; number++)
        if (replaced[number] != NULL && PyList_Append(list, replaced[number]) < 0) Py_CLEAR(list);
    return list;
}

PyDoc_STRVAR(set_python_handler_doc,
             "set_python_handler(number, handler)\n--\n\n"
             "Set the function that Python calls for a signal. The action of the system stays unchanged.");

static PyObject *set_python_handler(PyObject *self, PyObject *arguments) {
    int number;
    PyObject *handler, *first = NULL;
    if (!PyArg_ParseTuple(arguments, "iO", &number, &handler)) return NULL;
    replace_handler(number, handler, &first);
    if (first != NULL) return raise_error(first);
    Py_RETURN_NONE;
}

PyDoc_STRVAR(begin_signals_doc,
             "begin_signals(thread)\n--\n\n"
             "Set the main thread and end all holds. A forked child calls this, too.");

static PyObject *begin_signals(PyObject *self, PyObject *argument) {
    unsigned long thread = PyLong_AsUnsignedLong(argument);
    if (PyErr_Occurred()) return NULL;
    PyObject *first = NULL;
    main_thread = thread;
    Py_CLEAR(late);
    closed = 0;
    if (holds > 0) {
        holds = 0;
        memset(came, 0, sizeof(came)); /* they belong to the parent */
        restore_handlers(&first);
    }
    if (first != NULL) return raise_error(first);
    Py_RETURN_NONE;
}

static PyMethodDef note_method = {"note", note_signal, METH_VARARGS, "Record a signal."};

#define SIGNAL_METHODS                                                              \
    {"hold", hold, METH_NOARGS, hold_doc}, {"release", release, METH_NOARGS, release_doc}, \
        {"end_hold", (PyCFunction)(void (*)(void))end_hold, METH_FASTCALL, end_hold_doc}, \
        {"let_through", (PyCFunction)(void (*)(void))let_through, METH_FASTCALL, let_through_doc}, \
        {"finalizer", finalizer, METH_O, finalizer_doc}, {"handlers", handlers, METH_NOARGS, handlers_doc}, \
        {"set_python_handler", set_python_handler, METH_VARARGS, set_python_handler_doc}, \
        {"begin_signals", begin_signals, METH_O, begin_signals_doc}

static int add_signals(PyObject *module) {
    PyObject *python = PyImport_ImportModule("_signal");
    if (python == NULL) return -1;
    get_handler = PyObject_GetAttrString(python, "getsignal");
    set_handler = PyObject_GetAttrString(python, "signal");
    Py_DECREF(python);
    note = PyCFunction_New(&note_method, NULL);
    interrupted = PyErr_NewExceptionWithDoc("dali_proxy.pipeline._ipc._native.Interrupted",
                                            "The argument is the exception that a handler raised during a wait.",
                                            PyExc_BaseException, NULL);
    if (get_handler == NULL || set_handler == NULL || note == NULL || interrupted == NULL) return -1;
    return PyModule_AddObjectRef(module, "Interrupted", interrupted);
}
