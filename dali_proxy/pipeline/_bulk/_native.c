/* Operations on many samples in one call: reading files, gathering memory, and filling bins. Calls release the GIL while they read or
   copy many bytes, and start threads that don't need it. No Python code runs per sample.

   Addresses are columns of 64-bit integers. The caller has checked them. */

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
#define LONGEST_PATH 4096 /* the kernel's limit, including the terminator */
#define ALIGNMENT 64      /* bytes: alignment of files in a buffer */
#define LARGE_BATCH (1 << 20) /* bytes of one call that don't stay in a core's cache until they are read */
#define PAST_CACHE_OF_LARGE (1 << 12) /* bytes: smallest sample that such a call copies past the cache */
#define STACK (1 << 20)     /* bytes of a thread: the C library keeps 40 MiB of stacks for later threads */
#define PIECE (1 << 20)     /* bytes that a thread copies at a time */
#define FEW_BYTES (1 << 16) /* a copy of fewer bytes takes less time than another thread's turn with the GIL */
#define LARGEST_FILE ((int64_t)1 << 40) /* bytes; larger sizes of sparse files could overflow a sum of sizes */

/* A borrowed column: `count` integers, one per sample. */
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

/* Borrows several columns of the same length; the last `writable` ones are writable. */
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
    PyErr_SetString(PyExc_ValueError, "the range exceeds the columns");
    return -1;
}

/* Builds a terminated path; returns 0 if Python must handle it. The path is copied first, because its writer may share
   the memory. */
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

/* Reads a whole file to the buffer's cursor and advances the cursor. Returns the offset, or -1 on failure. Sets the size
   of the file even if it doesn't fit. */
static int64_t read_one(const char *path, char *buffer, int64_t room, int64_t *cursor, int64_t *size) {
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* else a named pipe would wait for a writer */
    struct stat status;
    int64_t offset = -1;
    if (fd < 0) return -1;
    if (fstat(fd, &status) == 0 && S_ISREG(status.st_mode) && status.st_size <= LARGEST_FILE) {
        *size = status.st_size;
        int64_t aligned = (*size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
        offset = __atomic_fetch_add(cursor, aligned, __ATOMIC_RELAXED); /* other threads read into the same buffer */
        if (offset + *size > room) offset = -1;
        char first; /* of a file whose size the system doesn't know, as in /proc: Python reads it to its end */
        if (*size == 0 && read(fd, &first, 1) != 0) offset = -1;
    }
    for (int64_t done = 0; offset >= 0 && done < *size;) {
        ssize_t count = read(fd, buffer + offset + done, (size_t)(*size - done));
        if (count > 0)
            done += count;
        else if (count == 0 || errno != EINTR)
            offset = -1;
    }
    close(fd);
    return offset;
}

/* The shared state of threads that read files, or ranges of open files if `files` isn't NULL: each takes the next one
   until none is left. */
typedef struct {
    const char *folder, *scheme;
    Py_ssize_t folder_length, scheme_length;
    Py_buffer buffer;
    const int64_t *files, *pointers, *lengths;
    int64_t *offsets, *sizes, *cursor;
    Py_ssize_t next, end;
} Reading;

static void read_whole(Reading *reading, Py_ssize_t i) {
    char path[LONGEST_PATH];
    const char *from = (const char *)(intptr_t)reading->pointers[i];
    reading->offsets[i] = -1;
    reading->sizes[i] = 0;
    if (complete_path(from, reading->lengths[i], reading->folder, reading->folder_length, reading->scheme,
                      reading->scheme_length, path))
        reading->offsets[i] =
            read_one(path, reading->buffer.buf, reading->buffer.len, reading->cursor, &reading->sizes[i]);
}

static void read_range(Reading *reading, Py_ssize_t i) {
    int64_t done = 0;
    while (done < reading->lengths[i]) {
        ssize_t count = pread((int)reading->files[i], (char *)reading->buffer.buf + reading->offsets[i] + done,
                              (size_t)(reading->lengths[i] - done), reading->pointers[i] + done);
        if (count > 0)
            done += count;
        else if (count == 0 || errno != EINTR)
            break;
    }
    reading->sizes[i] = done;
}

static void read_all(void *argument) {
    Reading *reading = argument;
    for (;;) {
        Py_ssize_t i = __atomic_fetch_add(&reading->next, 1, __ATOMIC_RELAXED);
        if (i >= reading->end) return;
        if (reading->files)
            read_range(reading, i);
        else
            read_whole(reading, i);
    }
}

static int64_t clock_now(clockid_t clock) {
    struct timespec now = {0, 0};
    clock_gettime(clock, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* Work that several threads share, and the times of the started ones, without the calling one, in nanoseconds. */
typedef struct {
    void (*run)(void *shared);
    void *shared;
    int64_t processor, elapsed;
} Work;

static void *run_thread(void *argument) {
    Work *work = argument;
    int64_t begin = clock_now(CLOCK_MONOTONIC);
    work->run(work->shared);
    __atomic_fetch_add(&work->elapsed, clock_now(CLOCK_MONOTONIC) - begin, __ATOMIC_RELAXED);
    __atomic_fetch_add(&work->processor, clock_now(CLOCK_THREAD_CPUTIME_ID), __ATOMIC_RELAXED);
    return NULL;
}

/* Works on this thread and on new ones, which block all signals: Python's threads must handle them. */
static void run_with(Work *work, int threads) {
    pthread_t others[MOST_THREADS];
    int started = 0;
    sigset_t all, before;
    pthread_attr_t small;
    if (threads > 1 && pthread_attr_init(&small) == 0) {
        pthread_attr_setstacksize(&small, STACK);
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &before);
        while (started < threads - 1 && pthread_create(&others[started], &small, run_thread, work) == 0) started++;
        pthread_sigmask(SIG_SETMASK, &before, NULL);
        pthread_attr_destroy(&small);
    }
    work->run(work->shared);
    while (started-- > 0) pthread_join(others[started], NULL);
}

PyDoc_STRVAR(read_files_doc,
             "read_files(begin, end, threads, folder, scheme, buffer, cursor, pointers, lengths, offsets, sizes)\n"
             "--\n\n"
             "Reads the files of the samples from `begin` up to `end` into the buffer. Their paths are `lengths`\n"
             "bytes at `pointers`, relative to `folder`; a leading `scheme` is removed. Writes the sizes and the\n"
             "offsets in the buffer, -1 for files that can't be read or don't fit. `cursor` is the first free byte;\n"
             "concurrent calls may fill the same buffer. The call starts `threads` - 1 threads, which don't need\n"
             "the GIL, and returns their processor time and elapsed time in nanoseconds.");

static PyObject *read_files(PyObject *module, PyObject *arguments) {
    Reading reading = {0};
    Work work = {read_all, &reading, 0, 0};
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
        PyErr_SetString(PyExc_ValueError, "expected one cursor, a folder path below the length limit, and 1 to 64 threads");
        goto release_columns;
    }
    reading.cursor = cursor.values;
    reading.pointers = columns[0].values;
    reading.lengths = columns[1].values;
    reading.offsets = columns[2].values;
    reading.sizes = columns[3].values;
    Py_BEGIN_ALLOW_THREADS
    run_with(&work, threads);
    Py_END_ALLOW_THREADS
    result = Py_BuildValue("LL", (long long)work.processor, (long long)work.elapsed);
release_columns:
    release_all(columns, 4);
release_cursor:
    PyBuffer_Release(&cursor.view);
release_buffer:
    PyBuffer_Release(&reading.buffer);
    return result;
}

PyDoc_STRVAR(read_ranges_doc,
             "read_ranges(threads, buffer, files, positions, lengths, offsets, sizes)\n--\n\n"
             "Reads `lengths` bytes at `positions` of open files to their offsets in the buffer. Writes the numbers of\n"
             "bytes that were read, fewer after an error. Threads and the result are those of read_files.");

static PyObject *read_ranges(PyObject *module, PyObject *arguments) {
    Reading reading = {0};
    Work work = {read_all, &reading, 0, 0};
    int threads, fits = 1;
    PyObject *given[5], *result = NULL;
    Column columns[5];
    if (!PyArg_ParseTuple(arguments, "iw*OOOOO", &threads, &reading.buffer, &given[0], &given[1], &given[2], &given[3],
                          &given[4]))
        return NULL;
    if (borrow_all(given, columns, 5, 1) < 0) goto release_buffer;
    reading.files = columns[0].values;
    reading.pointers = columns[1].values;
    reading.lengths = columns[2].values;
    reading.offsets = columns[3].values;
    reading.sizes = columns[4].values;
    reading.end = columns[0].count;
    for (Py_ssize_t i = 0; fits && i < reading.end; i++)
        fits = reading.lengths[i] >= 0 && reading.offsets[i] >= 0 && reading.offsets[i] <= reading.buffer.len &&
               reading.lengths[i] <= reading.buffer.len - reading.offsets[i];
    if (!fits || threads < 1 || threads > MOST_THREADS) {
        PyErr_SetString(PyExc_ValueError, "a range doesn't fit into the buffer, or there aren't 1 to 64 threads");
    } else {
        Py_BEGIN_ALLOW_THREADS
        run_with(&work, threads);
        Py_END_ALLOW_THREADS
        result = Py_BuildValue("LL", (long long)work.processor, (long long)work.elapsed);
    }
    release_all(columns, 5);
release_buffer:
    PyBuffer_Release(&reading.buffer);
    return result;
}

/* The shared state of threads that copy ranges of memory: each takes the next piece of all ranges, one after another,
   until none is left. */
typedef struct {
    char *buffer;
    const int64_t *pointers, *sizes, *offsets;
    Py_ssize_t count;
    int64_t next, total; /* bytes */
    size_t least;
} Gathering;

static void gather_all(void *argument) {
    Gathering *gathering = argument;
    for (;;) {
        int64_t begin = __atomic_fetch_add(&gathering->next, PIECE, __ATOMIC_RELAXED), first = 0;
        int64_t end = begin + PIECE;
        if (begin >= gathering->total) return;
        for (Py_ssize_t i = 0; i < gathering->count && first < end; i++) {
            int64_t size = gathering->sizes[i], from = begin > first ? begin - first : 0;
            int64_t to = end - first < size ? end - first : size;
            if (from < to)
                copy_past_cache(gathering->buffer + gathering->offsets[i] + from,
                                (const char *)(intptr_t)gathering->pointers[i] + from, (size_t)(to - from),
                                gathering->least);
            first += size;
        }
    }
}

PyDoc_STRVAR(gather_doc,
             "gather(threads, buffer, pointers, sizes, offsets)\n--\n\n"
             "Copies ranges of memory, `sizes` bytes at `pointers`, to their offsets in the buffer. Threads and the\n"
             "result are those of read_files.");

static PyObject *gather(PyObject *module, PyObject *arguments) {
    Gathering gathering = {0};
    Work work = {gather_all, &gathering, 0, 0};
    int threads;
    Py_buffer buffer;
    PyObject *given[3], *result = NULL;
    Column columns[3];
    if (!PyArg_ParseTuple(arguments, "iw*OOO", &threads, &buffer, &given[0], &given[1], &given[2])) return NULL;
    if (borrow_all(given, columns, 3, 0) < 0) goto release_buffer;
    gathering.buffer = buffer.buf;
    gathering.pointers = columns[0].values;
    gathering.sizes = columns[1].values;
    gathering.offsets = columns[2].values;
    gathering.count = columns[0].count;
    int fits = threads >= 1 && threads <= MOST_THREADS;
    for (Py_ssize_t i = 0; fits && i < gathering.count; i++) {
        int64_t size = gathering.sizes[i], offset = gathering.offsets[i];
        fits = size >= 0 && offset >= 0 && offset <= buffer.len && size <= buffer.len - offset &&
               !__builtin_add_overflow(gathering.total, size, &gathering.total);
    }
    if (!fits) {
        PyErr_SetString(PyExc_ValueError, "a sample doesn't fit into the buffer, or there aren't 1 to 64 threads");
        goto release_columns;
    }
    gathering.least = gathering.total < LARGE_BATCH ? PAST_CACHE : PAST_CACHE_OF_LARGE;
    if (gathering.total < FEW_BYTES) {
        gather_all(&gathering);
    } else {
        Py_BEGIN_ALLOW_THREADS
        run_with(&work, threads);
        Py_END_ALLOW_THREADS
    }
    result = Py_BuildValue("LL", (long long)work.processor, (long long)work.elapsed);
release_columns:
    release_all(columns, 3);
release_buffer:
    PyBuffer_Release(&buffer);
    return result;
}

#include "headers/bins.h"

static PyMethodDef functions[] = {
    {"read_files", read_files, METH_VARARGS, read_files_doc},
    {"read_ranges", read_ranges, METH_VARARGS, read_ranges_doc},
    {"gather", gather, METH_VARARGS, gather_doc},
    {"fill_bins", fill_bins, METH_VARARGS, fill_bins_doc},
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
