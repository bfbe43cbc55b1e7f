/* Windows of JPEGs, several per call and without the GIL, decoded by the C functions of nvImageCodec: its Python functions
   take the GIL several times per image. The library is loaded at run time. The declarations are those of its header
   nvimgcodec.h, as far as they are used, of the versions from LEAST_VERSION to MOST_VERSION. */

#include <dlfcn.h>
#include <pthread.h>

enum { LEAST_VERSION = 900, MOST_VERSION = 999 };
enum { PROPERTIES = 1, INSTANCE_INFO, DECODE_PARAMS = 5, ORIENTATION = 7, REGION, VIEW, IMAGE_INFO = 11, PLANE_INFO };
enum { BACKEND = 17, BACKEND_PARAMS = 29, EXECUTION_PARAMS };
enum { CPU_DEVICE = -99999, CPU_ONLY = 1, IGNORED_HINT = 1, DECODED = 1 };
enum { SRGB = 1, INTERLEAVED_RGB = 8, UINT8_SAMPLES = 0x0802, HOST_MEMORY = 2 };

/* Images of one call of the decoder, at most. */
enum { MOST_IMAGES = 16 };
/* Smallest extent of a window: libjpeg-turbo interpolates the colors of a single column differently. */
enum { LEAST_EXTENT = 8 };
/* Number of last bytes that must contain the end marker. */
enum { TAIL = 66 };

#define HEAD int type; size_t size; const void *next;
typedef struct { HEAD uint32_t version, cuda_version; } Properties;
typedef struct {
    HEAD int builtin, extensions;
    const char *path;
    int messenger;
    const void *description;
    uint32_t severity, category;
} InstanceInfo;
typedef struct { HEAD float hint; int policy; } BackendParams;
typedef struct { HEAD int kind; BackendParams params; } Backend;
typedef struct {
    HEAD void *device_allocator, *pinned_allocator;
    int threads;
    void *executor;
    int device, initialize, skip_wait, backend_count;
    const Backend *backends;
} ExecutionParams;
typedef struct { HEAD int orient; } DecodeParams;
typedef struct { HEAD int rotated, flip_x, flip_y; } Orientation;
typedef struct { HEAD int ndim, start[5], end[5], policy; struct { uint32_t value; int type; } fill[5]; } Region;
typedef struct { HEAD size_t image; Region region; size_t offset; } View;
typedef struct {
    HEAD uint32_t width, height;
    size_t stride;
    uint32_t channels;
    int sample_type;
    uint8_t precision;
} PlaneInfo;
typedef struct {
    HEAD char codec[256];
    int color, chroma, format;
    Orientation orientation;
    uint32_t plane_count;
    PlaneInfo planes[32];
    void *buffer;
    int kind;
    void *stream;
} ImageInfo;

/* A decoder, and what its calls reuse. */
typedef struct JpegDecoder {
    struct JpegDecoder *next;
    void *decoder, *files[MOST_IMAGES], *windows[MOST_IMAGES], *images[MOST_IMAGES];
} JpegDecoder;

static struct {
    int (*properties)(Properties *);
    int (*create_instance)(void **, const InstanceInfo *);
    int (*create_decoder)(void *, void **, const ExecutionParams *, const char *);
    int (*open_file)(void *, void **, const void *, size_t, const View *);
    int (*open_window)(void *, void **, const View *);
    int (*create_image)(void *, void **, const ImageInfo *);
    int (*decode)(void *, void *const *, void *const *, int, const DecodeParams *, void **);
    int (*wait)(void *);
    int (*statuses)(void *, uint32_t *, size_t *);
    int (*end)(void *);
} codec;

static const struct { const char *name; void **function; } codec_functions[] = {
    {"nvimgcodecGetProperties", (void **)&codec.properties},
    {"nvimgcodecInstanceCreate", (void **)&codec.create_instance},
    {"nvimgcodecDecoderCreate", (void **)&codec.create_decoder},
    {"nvimgcodecCodeStreamCreateFromHostMem", (void **)&codec.open_file},
    {"nvimgcodecCodeStreamGetSubCodeStream", (void **)&codec.open_window},
    {"nvimgcodecImageCreate", (void **)&codec.create_image},
    {"nvimgcodecDecoderDecode", (void **)&codec.decode},
    {"nvimgcodecFutureWaitForAll", (void **)&codec.wait},
    {"nvimgcodecFutureGetProcessingStatus", (void **)&codec.statuses},
    {"nvimgcodecFutureDestroy", (void **)&codec.end},
};

static int codec_loaded;
static char codec_extensions[4096];

/* Guards what follows, and forks: in a child of a process that forked while the library created an instance or decoded
   for the first time, it would hang. Decoders are never destroyed: as many exist as threads have decoded at once. */
static pthread_mutex_t jpeg_lock = PTHREAD_MUTEX_INITIALIZER;
static enum { NOT_CREATED, CREATED, FAILED } jpeg_state;
static int has_decoded;
static void *jpeg_instance;
static JpegDecoder *idle_decoders;

static void lock_jpegs(void) { pthread_mutex_lock(&jpeg_lock); }

static void unlock_jpegs(void) { pthread_mutex_unlock(&jpeg_lock); }

/* A forked child can't use its parent's decoders. */
static void forget_decoders(void) {
    jpeg_lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
    jpeg_state = NOT_CREATED;
    has_decoded = 0;
    jpeg_instance = NULL;
    idle_decoders = NULL;
}

static int load_codec(const char *library) {
    void *handle = dlopen(library, RTLD_NOW);
    if (!handle) return 0;
    for (size_t i = 0; i < sizeof codec_functions / sizeof *codec_functions; i++)
        if (!(*codec_functions[i].function = dlsym(handle, codec_functions[i].name))) return 0;
    Properties properties = {PROPERTIES, sizeof properties};
    return !codec.properties(&properties) && properties.version >= LEAST_VERSION && properties.version <= MOST_VERSION;
}

PyDoc_STRVAR(load_jpeg_decoder_doc,
             "load_jpeg_decoder(library, extensions)\n--\n\n"
             "Load nvImageCodec, given the path of its library and the folder of its extensions, as bytes. Return whether\n"
             "the library's version is known, so that `decode_jpeg_windows` decodes.");

static PyObject *load_jpeg_decoder_call(PyObject *module, PyObject *arguments) {
    const char *library, *extensions;
    if (!PyArg_ParseTuple(arguments, "yy", &library, &extensions)) return NULL;
    if (!codec_loaded && strlen(extensions) < sizeof codec_extensions) {
        strcpy(codec_extensions, extensions);
        codec_loaded = load_codec(library) && !pthread_atfork(lock_jpegs, unlock_jpegs, forget_decoders);
    }
    return PyBool_FromLong(codec_loaded);
}

/* Return an idle decoder or a new one; NULL if none can be created. The lock must be held. */
static JpegDecoder *take_decoder(void) {
    const InstanceInfo info = {INSTANCE_INFO, sizeof info, .builtin = 1, .extensions = 1, .path = codec_extensions};
    if (jpeg_state == NOT_CREATED) jpeg_state = codec.create_instance(&jpeg_instance, &info) ? FAILED : CREATED;
    JpegDecoder *found = idle_decoders;
    if (found) idle_decoders = found->next;
    if (found || jpeg_state == FAILED || !(found = calloc(1, sizeof *found))) return found;
    const BackendParams params = {BACKEND_PARAMS, sizeof params, .hint = 1, .policy = IGNORED_HINT};
    const Backend backend = {BACKEND, sizeof backend, .kind = CPU_ONLY, .params = params};
    const ExecutionParams execution = {EXECUTION_PARAMS, sizeof execution, .threads = 1, .device = CPU_DEVICE,
                                       .backend_count = 1, .backends = &backend};
    if (!codec.create_decoder(jpeg_instance, &found->decoder, &execution, ":fancy_upsampling=1")) return found;
    free(found);
    return NULL;
}

/* Windows of images: pointers and lengths of the files; y, x, height and width; destinations; whether each was decoded. */
typedef struct {
    const int64_t *pointers, *lengths, *windows, *targets;
    uint8_t *decoded;
} JpegWindows;

static int has_end(const uint8_t *file, int64_t length) {
    const int64_t tail = length < TAIL ? length : TAIL;
    for (const uint8_t *at = file + length - tail; at + 1 < file + length; at++)
        if (at[0] == 0xFF && at[1] == 0xD9) return 1;
    return 0;
}

/* Prepare the `slot`-th image of a call. Return 0 if the decoder doesn't support it. */
static int prepare_window(JpegDecoder *decoder, int slot, const JpegWindows *given, Py_ssize_t index) {
    const uint8_t *file = (const uint8_t *)(intptr_t)given->pointers[index];
    const int64_t *window = given->windows + 4 * index, height = window[2], width = window[3];
    if (height < LEAST_EXTENT || width < LEAST_EXTENT || !has_end(file, given->lengths[index])) return 0;
    if (codec.open_file(jpeg_instance, &decoder->files[slot], file, given->lengths[index], NULL)) return 0;
    const View view = {VIEW, sizeof view, .region = {REGION, sizeof(Region), .ndim = 2,
                       .start = {(int)window[0], (int)window[1]},
                       .end = {(int)(window[0] + height), (int)(window[1] + width)}}};
    if (codec.open_window(decoder->files[slot], &decoder->windows[slot], &view)) return 0;
    const ImageInfo image = {IMAGE_INFO, sizeof image, .color = SRGB, .format = INTERLEAVED_RGB,
                             .orientation = {ORIENTATION, sizeof(Orientation)}, .plane_count = 1,
                             .planes = {{PLANE_INFO, sizeof(PlaneInfo), .width = (uint32_t)width,
                                         .height = (uint32_t)height, .stride = 3 * (size_t)width, .channels = 3,
                                         .sample_type = UINT8_SAMPLES}},
                             .buffer = (void *)(intptr_t)given->targets[index], .kind = HOST_MEMORY};
    return !codec.create_image(jpeg_instance, &decoder->images[slot], &image);
}

static void decode_windows(JpegDecoder *decoder, const JpegWindows *given, Py_ssize_t begin, Py_ssize_t end) {
    Py_ssize_t indices[MOST_IMAGES];
    uint32_t statuses[MOST_IMAGES];
    int count = 0;
    for (Py_ssize_t index = begin; index < end; index++)
        if (prepare_window(decoder, count, given, index)) indices[count++] = index;
    const DecodeParams params = {DECODE_PARAMS, sizeof params};
    void *future = NULL;
    if (!count || codec.decode(decoder->decoder, decoder->windows, decoder->images, count, &params, &future)) return;
    size_t size = count;
    if (!codec.wait(future) && !codec.statuses(future, statuses, &size))
        for (int slot = 0; slot < count; slot++) given->decoded[indices[slot]] = statuses[slot] == DECODED;
    codec.end(future);
}

/* Decode all windows. The first call of a process holds the lock meanwhile. */
static void decode_all_windows(const JpegWindows *given, Py_ssize_t count) {
    lock_jpegs();
    JpegDecoder *decoder = take_decoder();
    const int is_first = !has_decoded;
    if (!is_first) unlock_jpegs();
    for (Py_ssize_t begin = 0; decoder && begin < count; begin += MOST_IMAGES)
        decode_windows(decoder, given, begin, begin + MOST_IMAGES < count ? begin + MOST_IMAGES : count);
    if (!is_first) lock_jpegs();
    has_decoded = 1;
    if (decoder) {
        decoder->next = idle_decoders;
        idle_decoders = decoder;
    }
    unlock_jpegs();
}

PyDoc_STRVAR(decode_jpeg_windows_doc,
             "decode_jpeg_windows(pointers, lengths, windows, targets, decoded)\n--\n\n"
             "Decode windows of JPEGs to RGB. pointers, lengths, targets: int64 (n,), addresses and sizes of the files, and\n"
             "addresses of height * width * 3 bytes; windows: int64 (n, 4), y, x, height, width, inside of the image.\n"
             "Write to decoded, uint8 (n,), 1 for those that were decoded; others are tiny, truncated or unsupported.");

static PyObject *decode_jpeg_windows_call(PyObject *module, PyObject *arguments) {
    Py_buffer pointers, lengths, windows, targets, decoded;
    if (!PyArg_ParseTuple(arguments, "y*y*y*y*w*", &pointers, &lengths, &windows, &targets, &decoded)) return NULL;
    const Py_ssize_t count = decoded.len;
    const int fits = pointers.len == 8 * count && lengths.len == pointers.len && targets.len == pointers.len &&
                     windows.len == 4 * pointers.len;
    if (fits && codec_loaded) {
        const JpegWindows given = {pointers.buf, lengths.buf, windows.buf, targets.buf, decoded.buf};
        memset(decoded.buf, 0, count);
        Py_BEGIN_ALLOW_THREADS
        decode_all_windows(&given, count);
        Py_END_ALLOW_THREADS
    }
    RELEASE(&pointers, &lengths, &windows, &targets, &decoded);
    if (fits) Py_RETURN_NONE;
    PyErr_SetString(PyExc_ValueError, "the files, the windows and the targets don't fit each other");
    return NULL;
}
