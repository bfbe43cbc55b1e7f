/* What is done for many samples in one call: reading files, and copying memory together. No call holds the GIL while it
   reads or copies, so threads that take parts of a batch each run side by side, and no Python runs for a sample.

   Addresses come as columns of 64-bit integers. They are not checked here: whoever makes a table has done that. */

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "../copy_past_cache.h"
#include "../sources.h"

#define MOST_THREADS 64
#define LONGEST_PATH 4096 /* as the kernel has it, with the zero at the end */
#define ALIGNMENT 64      /* bytes: where files begin in a buffer */
#define LARGE_BATCH (1 << 20) /* bytes of one call; more than a core's cache would hold until somebody reads them */
#define PAST_CACHE_OF_LARGE (1 << 12) /* bytes of a sample in such a call; copies at least so large go past the cache */
#define LARGEST_FILE ((int64_t)1 << 40) /* bytes; a sparse file may claim so many that a sum of sizes wraps around */

/* A column that a caller lent: `count` integers, one a sample. */
typedef struct {
    Py_buffer view;
    int64_t *values;
    Py_ssize_t count;
} Column;

static int borrow(PyObject *array, Column *column, int writable) {
    if (PyObject_GetBuffer(array, &column->view, PyBUF_C_CONTIGUOUS | (writable ? PyBUF_WRITABLE : 0)) < 0) return -1;
    if (column->view.itemsize != sizeof(int64_t)) {
        PyBuffer_Release(&column->view);
        PyErr_SetString(PyExc_ValueError, "expected a column of 64-bit integers");
        return -1;
    }
    column->values = column->view.buf;
    column->count = column->view.len / (Py_ssize_t)sizeof(int64_t);
    return 0;
}

/* Borrows several columns of one length, of which the last `writable` ones are written to. */
static int borrow_all(PyObject **arrays, Column *columns, int count, int writable) {
    for (int i = 0; i < count; i++) {
        int fits = borrow(arrays[i], &columns[i], i >= count - writable) == 0;
        if (fits && columns[i].count != columns[0].count) {
            PyErr_SetString(PyExc_ValueError, "the columns differ in length");
            PyBuffer_Release(&columns[i].view);
            fits = 0;
        }
        if (!fits) {
            while (i-- > 0) PyBuffer_Release(&columns[i].view);
            return -1;
        }
    }
    return 0;
}

static void release_all(Column *columns, int count) {
    for (int i = 0; i < count; i++) PyBuffer_Release(&columns[i].view);
}

static int check_range(Py_ssize_t begin, Py_ssize_t end, Py_ssize_t count) {
    if (0 <= begin && begin <= end && end <= count) return 0;
    PyErr_SetString(PyExc_ValueError, "the range leaves the columns");
    return -1;
}

/* Puts a path together as the kernel wants it; returns 0 where Python has to look at it. The path is read once: who
   wrote it may share the memory. */
static int complete_path(const char *given, int64_t length, const char *folder, Py_ssize_t folder_length,
                         const char *scheme, Py_ssize_t scheme_length, char *path) {
    char copy[LONGEST_PATH];
    if (length < 0 || length >= LONGEST_PATH) return 0;
    memcpy(copy, given, (size_t)length);
    while (length > 0 && copy[length - 1] == 0) length--;
    const char *from = copy;
    if (length >= scheme_length && memcmp(from, scheme, (size_t)scheme_length) == 0) {
        from += scheme_length;
        length -= scheme_length;
    }
    if (length == 0 || memchr(from, 0, (size_t)length) != NULL) return 0;
    if (from[0] == '/') folder_length = 0;
    if (folder_length + length >= LONGEST_PATH) return 0;
    memcpy(path, folder, (size_t)folder_length);
    memcpy(path + folder_length, from, (size_t)length);
    path[folder_length + length] = 0;
    return 1;
}

/* Reads a whole file to where the cursor of the buffer is, and moves it on; returns the place, or -1 when that can't be
   done. The size is that of the file, also where it doesn't fit. */
static int64_t read_one(const char *path, char *buffer, int64_t room, int64_t *cursor, int64_t *size) {
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct stat status;
    int64_t place = -1;
    if (fd < 0) return -1;
    if (fstat(fd, &status) == 0 && S_ISREG(status.st_mode) && status.st_size <= LARGEST_FILE) {
        *size = status.st_size;
        int64_t taken = (*size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
        place = __atomic_fetch_add(cursor, taken, __ATOMIC_RELAXED); /* other threads read into the same buffer */
        if (place + *size > room) place = -1;
    }
    for (int64_t done = 0; place >= 0 && done < *size;) {
        ssize_t count = read(fd, buffer + place + done, (size_t)(*size - done));
        if (count > 0)
            done += count;
        else if (count == 0 || errno != EINTR)
            place = -1;
    }
    close(fd);
    return place;
}

/* What several threads read together: each draws the next file until there is none. The times are those of the threads
   beside the calling one, in nanoseconds. */
typedef struct {
    const char *folder, *scheme;
    Py_ssize_t folder_length, scheme_length;
    Py_buffer buffer;
    const int64_t *pointers, *lengths;
    int64_t *places, *sizes, *cursor;
    Py_ssize_t next, end;
    int64_t processor, elapsed;
} Reading;

static void *read_all(void *argument) {
    Reading *reading = argument;
    char path[LONGEST_PATH];
    for (;;) {
        Py_ssize_t i = __atomic_fetch_add(&reading->next, 1, __ATOMIC_RELAXED);
        if (i >= reading->end) return NULL;
        const char *from = (const char *)(intptr_t)reading->pointers[i];
        reading->places[i] = -1;
        reading->sizes[i] = 0;
        if (complete_path(from, reading->lengths[i], reading->folder, reading->folder_length, reading->scheme,
                          reading->scheme_length, path))
            reading->places[i] =
                read_one(path, reading->buffer.buf, reading->buffer.len, reading->cursor, &reading->sizes[i]);
    }
}

static int64_t clock_now(clockid_t clock) {
    struct timespec now = {0, 0};
    clock_gettime(clock, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static void *read_beside(void *argument) {
    Reading *reading = argument;
    int64_t begin = clock_now(CLOCK_MONOTONIC);
    read_all(reading);
    __atomic_fetch_add(&reading->elapsed, clock_now(CLOCK_MONOTONIC) - begin, __ATOMIC_RELAXED);
    __atomic_fetch_add(&reading->processor, clock_now(CLOCK_THREAD_CPUTIME_ID), __ATOMIC_RELAXED);
    return NULL;
}

/* Reads on this thread and on others beside it, which get no signals: those are for threads that know Python. */
static void read_with(Reading *reading, int threads) {
    pthread_t others[MOST_THREADS];
    int started = 0;
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    while (started < threads - 1 && pthread_create(&others[started], NULL, read_beside, reading) == 0) started++;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    read_all(reading);
    while (started-- > 0) pthread_join(others[started], NULL);
}

PyDoc_STRVAR(read_files_doc,
             "read_files(begin, end, threads, folder, scheme, buffer, cursor, pointers, lengths, places, sizes)\n--\n\n"
             "Reads the files of the samples from `begin` to before `end` into the buffer. Their paths are `lengths`\n"
             "bytes at `pointers`, without `scheme` and below `folder`. Writes places in the buffer, -1 for files\n"
             "that could not be read or did not fit, and sizes. `cursor` is the first free byte; several calls may\n"
             "fill one buffer at once. So many threads read, started for this call, since they need no GIL.\n"
             "Returns what those beside the calling one spent, in nanoseconds: processor time and elapsed time.");

static PyObject *read_files(PyObject *module, PyObject *arguments) {
    Reading reading;
    int threads;
    PyObject *given[4], *cursor_array, *result = NULL;
    Column columns[4], cursor;
    if (!PyArg_ParseTuple(arguments, "nniy#y#w*OOOOO", &reading.next, &reading.end, &threads, &reading.folder,
                          &reading.folder_length, &reading.scheme, &reading.scheme_length, &reading.buffer,
                          &cursor_array, &given[0], &given[1], &given[2], &given[3]))
        return NULL;
    if (borrow(cursor_array, &cursor, 1) < 0) goto release_buffer;
    if (borrow_all(given, columns, 4, 2) < 0) goto release_cursor;
    if (check_range(reading.next, reading.end, columns[0].count) < 0) goto release_columns;
    if (cursor.count != 1 || reading.folder_length >= LONGEST_PATH || threads < 1 || threads > MOST_THREADS) {
        PyErr_SetString(PyExc_ValueError, "expected one cursor, a folder whose path is not too long, 1 to 64 threads");
        goto release_columns;
    }
    reading.cursor = cursor.values;
    reading.pointers = columns[0].values;
    reading.lengths = columns[1].values;
    reading.places = columns[2].values;
    reading.sizes = columns[3].values;
    reading.processor = reading.elapsed = 0;
    Py_BEGIN_ALLOW_THREADS
    read_with(&reading, threads);
    Py_END_ALLOW_THREADS
    result = Py_BuildValue("LL", (long long)reading.processor, (long long)reading.elapsed);
release_columns:
    release_all(columns, 4);
release_cursor:
    PyBuffer_Release(&cursor.view);
release_buffer:
    PyBuffer_Release(&reading.buffer);
    return result;
}

PyDoc_STRVAR(gather_doc,
             "gather(begin, end, buffer, pointers, sizes, places)\n--\n\n"
             "Copies the samples from `begin` to before `end`, `sizes` bytes at `pointers`, to their places in the\n"
             "buffer.");

static PyObject *gather(PyObject *module, PyObject *arguments) {
    Py_ssize_t begin, end;
    Py_buffer buffer;
    PyObject *given[3], *result = NULL;
    Column columns[3];
    if (!PyArg_ParseTuple(arguments, "nnw*OOO", &begin, &end, &buffer, &given[0], &given[1], &given[2])) return NULL;
    if (borrow_all(given, columns, 3, 0) < 0) goto release_buffer;
    if (check_range(begin, end, columns[0].count) < 0) goto release_columns;
    size_t total = 0; /* no further than LARGE_BATCH, so that it never wraps around */
    for (Py_ssize_t i = begin; i < end; i++) {
        int64_t size = columns[1].values[i], place = columns[2].values[i];
        if (size < 0 || place < 0 || place > buffer.len || size > buffer.len - place) {
            PyErr_SetString(PyExc_ValueError, "a sample does not fit into the buffer");
            goto release_columns;
        }
        if (total < LARGE_BATCH) total += (size_t)size;
    }
    size_t least = total < LARGE_BATCH ? PAST_CACHE : PAST_CACHE_OF_LARGE;
    Py_BEGIN_ALLOW_THREADS
    for (Py_ssize_t i = begin; i < end; i++)
        copy_past_cache((char *)buffer.buf + columns[2].values[i], (const char *)(intptr_t)columns[0].values[i],
                        (size_t)columns[1].values[i], least);
    Py_END_ALLOW_THREADS
    result = Py_NewRef(Py_None);
release_columns:
    release_all(columns, 3);
release_buffer:
    PyBuffer_Release(&buffer);
    return result;
}

static PyMethodDef functions[] = {
    {"read_files", read_files, METH_VARARGS, read_files_doc},
    {"gather", gather, METH_VARARGS, gather_doc},
    SOURCES_METHOD,
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "_native",
    .m_doc = "Loops over the samples of a batch.",
    .m_size = 0,
    .m_methods = functions,
};

PyMODINIT_FUNC PyInit__native(void) { return PyModuleDef_Init(&definition); }
