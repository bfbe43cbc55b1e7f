/* What a module was made of: native.py leaves out one that is older than the sources beside it. */

#ifndef SOURCES
#define SOURCES 0u /* setup.py says it */
#endif

static PyObject *sources_call(PyObject *module, PyObject *nothing) { return PyLong_FromUnsignedLong(SOURCES); }

#define SOURCES_METHOD {"sources", sources_call, METH_NOARGS, "sources()\n--\n\nThe checksum of its sources."}
