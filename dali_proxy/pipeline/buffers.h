/* The buffers of arguments. */

static void release_buffers(Py_buffer *const *buffers) {
    while (*buffers) PyBuffer_Release(*buffers++);
}

/* RELEASE(&pixels, &rows): release buffers that PyArg_ParseTuple has filled. */
#define RELEASE(...) release_buffers((Py_buffer *const[]){__VA_ARGS__, NULL})
