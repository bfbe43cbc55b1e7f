/* Linear maps of colors. */

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>
#endif

enum { COLOR_ROW = 24, COLOR_PART = 20 * COLOR_ROW, AROUND = 5 }; /* numbers of channels */

/* Compute matrix * (red, green, blue, 1) of n pixels, rounded and clamped. A channel is a sum of the five numbers around
   it, two of which have the weight 0: the weights repeat after three numbers, and compilers vectorise the sums. */
FOR_EACH_CPU_UNFUSED
static void map_colors(const uint8_t *source, Py_ssize_t n, const float (*matrix)[4], uint8_t *restrict target) {
    float weights[AROUND][COLOR_ROW], offsets[COLOR_ROW], numbers[COLOR_PART + AROUND] = {0}, sums[COLOR_PART];
    for (int k = 0; k < COLOR_ROW; k++) {
        for (int step = 0; step < AROUND; step++) {
            const int other = k % 3 + step - 2;
            weights[step][k] = other >= 0 && other < 3 ? matrix[k % 3][other] : 0.0f;
        }
        offsets[k] = matrix[k % 3][3];
    }
    for (Py_ssize_t i = 0; i < 3 * n; i += COLOR_PART) {
        const Py_ssize_t part = 3 * n - i < COLOR_PART ? 3 * n - i : COLOR_PART;
        for (Py_ssize_t k = 0; k < part; k++) numbers[k + 2] = source[i + k];
        for (Py_ssize_t j = 0; j < part; j += COLOR_ROW)
            for (int k = 0; k < COLOR_ROW; k++) {
                const float *at = numbers + j + k;
                sums[j + k] = weights[0][k] * at[0] + weights[1][k] * at[1] + weights[2][k] * at[2] +
                              weights[3][k] * at[3] + weights[4][k] * at[4] + offsets[k];
            }
        round_to_uint8(sums, part, target + i);
    }
}

PyDoc_STRVAR(map_colors_doc,
             "map_colors(source, matrix, target)\n--\n\n"
             "Write matrix @ (red, green, blue, 1), rounded and clamped, for contiguous uint8 (n, 3) into uint8 of this\n"
             "shape. matrix: float32 (3, 4).");

static PyObject *map_colors_call(PyObject *module, PyObject *arguments) {
    Py_buffer source, matrix, target;
    if (!PyArg_ParseTuple(arguments, "y*y*w*", &source, &matrix, &target)) return NULL;
    int fits = source.len % 3 == 0 && source.len == target.len && matrix.len == 12 * (Py_ssize_t)sizeof(float);
    if (fits) {
        Py_BEGIN_ALLOW_THREADS
        map_colors(source.buf, source.len / 3, matrix.buf, target.buf);
        Py_END_ALLOW_THREADS
    } else {
        PyErr_SetString(PyExc_ValueError, "the matrix or the result doesn't fit the pixels");
    }
    RELEASE(&source, &matrix, &target);
    return fits ? Py_NewRef(Py_None) : NULL;
}

/* The weights of red, green and blue in gray, and their common shift: those of OpenCV, which DALI uses. */
enum { RED = 9798, GREEN = 19235, BLUE = 3735, GRAY_SHIFT = 15, GRAY_HALF = 1 << (GRAY_SHIFT - 1) };

FOR_EACH_CPU
static void to_gray(const uint8_t *restrict source, Py_ssize_t n, int first, int third, uint8_t *restrict gray) {
    for (Py_ssize_t i = 0; i < n; i++, source += 3)
        gray[i] = (uint8_t)((source[0] * first + source[1] * GREEN + source[2] * third + GRAY_HALF) >> GRAY_SHIFT);
}

#if defined(__x86_64__) && defined(__GNUC__)
enum { GRAY_BLOCK = 32, GRAY_READ = 34 }; /* pixels: those of a block, and how far it reads */

/* Eight gray values as 32-bit integers, in lanes of four. Pairs of 16-bit numbers are multiplied and added: the first
   two channels, then the third one and 1, whose weight is the half to round. */
__attribute__((target("avx2"))) static inline __m256i eight_grays(const uint8_t *source, __m256i pairs, __m256i thirds,
                                                                  __m256i weights, __m256i third_weights) {
    const __m256i ones = _mm256_set1_epi32(1 << 16);
    const __m256i bytes = _mm256_inserti128_si256(_mm256_castsi128_si256(_mm_loadu_si128((const __m128i *)source)),
                                                  _mm_loadu_si128((const __m128i *)(source + 12)), 1);
    const __m256i two = _mm256_madd_epi16(_mm256_shuffle_epi8(bytes, pairs), weights);
    const __m256i one = _mm256_madd_epi16(_mm256_or_si256(_mm256_shuffle_epi8(bytes, thirds), ones), third_weights);
    return _mm256_srli_epi32(_mm256_add_epi32(two, one), GRAY_SHIFT);
}

/* Compute blocks of pixels with instructions that compilers don't choose. Return the number of pixels. */
__attribute__((target("avx2"))) static Py_ssize_t blocks_to_gray(const uint8_t *source, Py_ssize_t n, int first,
                                                                 int third, uint8_t *gray) {
    const __m256i weights = _mm256_set1_epi32(GREEN << 16 | first);
    const __m256i third_weights = _mm256_set1_epi32(GRAY_HALF << 16 | third);
    const __m256i pairs =
        _mm256_broadcastsi128_si256(_mm_setr_epi8(0, -1, 1, -1, 3, -1, 4, -1, 6, -1, 7, -1, 9, -1, 10, -1));
    const __m256i thirds =
        _mm256_broadcastsi128_si256(_mm_setr_epi8(2, -1, -1, -1, 5, -1, -1, -1, 8, -1, -1, -1, 11, -1, -1, -1));
    const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    Py_ssize_t i = 0;
    for (; i + GRAY_READ <= n; i += GRAY_BLOCK, source += 3 * GRAY_BLOCK) {
        __m256i parts[4];
        for (int k = 0; k < 4; k++) parts[k] = eight_grays(source + 24 * k, pairs, thirds, weights, third_weights);
        const __m256i bytes = _mm256_packus_epi16(_mm256_packus_epi32(parts[0], parts[1]),
                                                  _mm256_packus_epi32(parts[2], parts[3]));
        _mm256_storeu_si256((__m256i *)(gray + i), _mm256_permutevar8x32_epi32(bytes, order));
    }
    return i;
}
#endif

PyDoc_STRVAR(to_gray_doc,
             "to_gray(source, reversed, target)\n--\n\n"
             "Write the gray of contiguous uint8 (n, 3), RGB or BGR if `reversed`, into uint8 (n,).");

static PyObject *to_gray_call(PyObject *module, PyObject *arguments) {
    Py_buffer source, target;
    int reversed;
    if (!PyArg_ParseTuple(arguments, "y*pw*", &source, &reversed, &target)) return NULL;
    const int fits = source.len == 3 * target.len, first = reversed ? BLUE : RED, third = reversed ? RED : BLUE;
    if (fits) {
        Py_BEGIN_ALLOW_THREADS
        const uint8_t *from = source.buf;
        uint8_t *to = target.buf;
        Py_ssize_t done = 0;
#if defined(__x86_64__) && defined(__GNUC__)
        if (__builtin_cpu_supports("avx2")) done = blocks_to_gray(from, target.len, first, third, to);
#endif
        to_gray(from + 3 * done, target.len - done, first, third, to + done);
        Py_END_ALLOW_THREADS
    } else {
        PyErr_SetString(PyExc_ValueError, "the result doesn't fit the pixels");
    }
    RELEASE(&source, &target);
    return fits ? Py_NewRef(Py_None) : NULL;
}
