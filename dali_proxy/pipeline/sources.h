/* The checksum of a module's sources: native.py ignores a module that is older than its sources. */

#ifndef SOURCES
#define SOURCES 0u /* setup.py defines it */
#endif

static PyObject *sources_call(PyObject *module, PyObject *nothing) { return PyLong_FromUnsignedLong(SOURCES); }

#define SOURCES_METHOD {"sources", sources_call, METH_NOARGS, "sources()\n--\n\nThe checksum of its sources."}
