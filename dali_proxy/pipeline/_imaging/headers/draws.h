/* Random numbers of several operators: those of NumPy's Philox4x64-10 (see dali_proxy/pipeline/_rng.py).
   Without fused multiply-add, which would round differently than NumPy. */

#define INLINE ALWAYS_INLINE
#include "../../normal_quantile.h"

/* Layout of `DRAW` in dali_proxy/pipeline/_operator_api/joint_draws.py. */
typedef struct {
    uint64_t key[2];
    double low, range, limit; /* of uniform numbers; probability of a coin in low; mean and deviation in low and range */
    int64_t count;            /* numbers of a sample */
    int64_t kind;             /* UNIFORM and NORMAL (float32), LISTED: any value of a list, COIN: the second of two */
    int64_t first, values;    /* the list in the table */
} Draw;

enum { UNIFORM, LISTED, COIN, NORMAL, KINDS };

/* Numbers from which on the GIL is released. */
#define MANY_NUMBERS 4096

static uint64_t multiply(uint64_t a, uint64_t b, uint64_t *high) {
    unsigned __int128 product = (unsigned __int128)a * b;
    *high = (uint64_t)(product >> 64);
    return (uint64_t)product;
}

/* Four random words (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC11). */
static void philox(const uint64_t *counter, const uint64_t *key, uint64_t *words) {
    uint64_t a = counter[0], b = counter[1], c = counter[2], d = counter[3], k = key[0], l = key[1];
    for (int round = 0; round < 10; round++) {
        uint64_t high, higher, low = multiply(0xD2E7470EE14C6C93u, a, &high);
        uint64_t lower = multiply(0xCA5A826395121157u, c, &higher);
        a = higher ^ b ^ k, b = lower, c = high ^ d ^ l, d = low;
        k += 0x9E3779B97F4A7C15u, l += 0xBB67AE8584CAA73Bu;
    }
    words[0] = a, words[1] = b, words[2] = c, words[3] = d;
}

#define BLOCK 256

/* Replace uniform numbers, multiples of 2^-53 from [0, 1), by standard normal ones. */
FOR_EACH_CPU_UNFUSED
static void to_normal(double *numbers, Py_ssize_t count) {
    double tails[BLOCK], quantiles[BLOCK];
    int positions[BLOCK];
    for (; count > 0; numbers += BLOCK, count -= BLOCK) {
        const int n = count < BLOCK ? (int)count : BLOCK;
        int found = 0;
        for (int i = 0; i < n; i++) {
            numbers[i] = tails[found] = centered(numbers[i]);
            positions[found] = i;
            found += fabs(numbers[i]) > CENTER;
        }
        for (int i = 0; i < n; i++) numbers[i] = center_quantile(numbers[i]);
        for (int i = 0; i < found; i++) quantiles[i] = near_tail(tail_root(0.5 - fabs(tails[i])));
        for (int i = 0; i < found; i++) {
            const double probability = 0.5 - fabs(tails[i]);
            const double quantile = probability > 2e-11 ? quantiles[i] : tail_quantile(probability);
            numbers[positions[i]] = copysign(quantile, tails[i]);
        }
    }
}

static void draw(const Draw *one, const uint32_t *table, const uint64_t *start, Py_ssize_t count, uint32_t *out) {
    uint64_t counter[4], words[BLOCK];
    double numbers[BLOCK];
    memcpy(counter, start, sizeof(counter));
    for (; count > 0; out += BLOCK, count -= BLOCK) {
        const int n = count < BLOCK ? (int)count : BLOCK;
        for (int i = 0; i < n; i += 4) {
            counter[0]++; /* NumPy counts before it draws; so many numbers that others would change aren't drawn */
            philox(counter, one->key, words + i);
        }
        for (int i = 0; i < n; i++) numbers[i] = (double)(int64_t)(words[i] >> 11) * (1.0 / 9007199254740992.0);
        if (one->kind == NORMAL) to_normal(numbers, n);
        for (int i = 0; i < n; i++) {
            if (one->kind == COIN) {
                out[i] = table[one->first + (numbers[i] < one->low)];
            } else if (one->kind == LISTED) {
                out[i] = table[one->first + (int64_t)(numbers[i] * (double)one->values)];
            } else {
                double scaled = one->low + numbers[i] * one->range;
                float narrow = (float)(one->kind == NORMAL || scaled < one->limit ? scaled : one->limit);
                memcpy(out + i, &narrow, sizeof(narrow));
            }
        }
    }
}

PyDoc_STRVAR(draw_numbers_doc,
             "draw_numbers(draws, table, counter, samples, out)\n--\n\n"
             "Write 4-byte random numbers, one draw after another. draws: structs Draw; table: 4-byte values of all\n"
             "lists; counter: uint64 (4,), of the generators; samples: number of samples of the batch.");

static PyObject *draw_numbers_call(PyObject *module, PyObject *arguments) {
    Py_buffer draws, table, counter, out;
    Py_ssize_t samples;
    if (!PyArg_ParseTuple(arguments, "y*y*y*nw*", &draws, &table, &counter, &samples, &out)) return NULL;
    const Draw *all = draws.buf;
    const Py_ssize_t count = draws.len / (Py_ssize_t)sizeof(Draw), room = out.len / 4, listed = table.len / 4;
    static const int64_t least[KINDS] = {[LISTED] = 1, [COIN] = 2}; /* values of a list */
    Py_ssize_t used = 0;
    int fits = counter.len == 4 * (Py_ssize_t)sizeof(uint64_t) && samples >= 0;
    PyThreadState *state = room >= MANY_NUMBERS ? PyEval_SaveThread() : NULL;
    for (Py_ssize_t i = 0; fits && i < count; i++) {
        fits = all[i].count >= 0 && all[i].first >= 0 && all[i].kind >= 0 && all[i].kind < KINDS &&
               all[i].values >= least[all[i].kind] &&
               all[i].first + all[i].values <= listed && (!samples || all[i].count <= (room - used) / samples);
        if (!fits) break;
        draw(all + i, table.buf, counter.buf, samples * all[i].count, (uint32_t *)out.buf + used);
        used += samples * all[i].count;
    }
    if (state != NULL) PyEval_RestoreThread(state);
    RELEASE(&draws, &table, &counter, &out);
    if (!fits) {
        PyErr_SetString(PyExc_ValueError, "the draws don't fit the table and the output");
        return NULL;
    }
    Py_RETURN_NONE;
}

PyDoc_STRVAR(random_words_doc,
             "random_words(key, counter, out, uniform)\n--\n\n"
             "Write the words of a generator: uint64, or as float64 multiples of 2^-53 from [0, 1). key: uint64 (2,);\n"
             "counter: uint64 (4,).");

static PyObject *random_words_call(PyObject *module, PyObject *arguments) {
    Py_buffer key, start, out;
    int uniform;
    if (!PyArg_ParseTuple(arguments, "y*y*w*p", &key, &start, &out, &uniform)) return NULL;
    const Py_ssize_t count = out.len / (Py_ssize_t)sizeof(uint64_t);
    const int fits = key.len == 2 * (Py_ssize_t)sizeof(uint64_t) && start.len == 4 * (Py_ssize_t)sizeof(uint64_t);
    if (fits) {
        uint64_t counter[4], words[4];
        memcpy(counter, start.buf, sizeof(counter));
        PyThreadState *state = count >= MANY_NUMBERS ? PyEval_SaveThread() : NULL;
        for (Py_ssize_t i = 0; i < count; i += 4) {
            counter[0]++;
            philox(counter, key.buf, words);
            for (int k = 0; uniform && k < 4; k++) {
                const double number = (double)(words[k] >> 11) * (1.0 / 9007199254740992.0);
                memcpy(words + k, &number, sizeof(number));
            }
            memcpy((uint64_t *)out.buf + i, words, (size_t)(count - i < 4 ? count - i : 4) * sizeof(uint64_t));
        }
        if (state != NULL) PyEval_RestoreThread(state);
    }
    RELEASE(&key, &start, &out);
    if (!fits) {
        PyErr_SetString(PyExc_ValueError, "a key has two words, and a counter four");
        return NULL;
    }
    Py_RETURN_NONE;
}

PyDoc_STRVAR(normal_quantiles_doc,
             "normal_quantiles(numbers)\n--\n\n"
             "Replace uniform numbers from [0, 1), multiples of 2^-53, by standard normal ones: contiguous doubles.");

static PyObject *normal_quantiles_call(PyObject *module, PyObject *arguments) {
    Py_buffer numbers;
    if (!PyArg_ParseTuple(arguments, "w*", &numbers)) return NULL;
    const Py_ssize_t count = numbers.len / (Py_ssize_t)sizeof(double);
    PyThreadState *state = count >= MANY_NUMBERS ? PyEval_SaveThread() : NULL;
    to_normal(numbers.buf, count);
    if (state != NULL) PyEval_RestoreThread(state);
    PyBuffer_Release(&numbers);
    Py_RETURN_NONE;
}
