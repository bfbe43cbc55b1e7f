/* Copies of many bytes, for all modules in C. */

#include <stdint.h>
#include <string.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

#define PAST_CACHE (1 << 18) /* bytes; who copies less may well want the copy in the cache */

/* Copies bytes, from `least` on past the cache: memory that is only written is then not fetched first, and what the
   processor works with stays in the cache. */
static inline void copy_past_cache(char *to, const char *from, size_t nbytes, size_t least) {
#ifdef __SSE2__
    if (nbytes >= least) {
        size_t head = -(uintptr_t)to & 63; /* whole lines are written at once */
        memcpy(to, from, head);
        to += head, from += head, nbytes -= head;
        for (; nbytes >= 64; nbytes -= 64, to += 64, from += 64) {
            __m128i line[4];
            memcpy(line, from, sizeof(line));
            for (int i = 0; i < 4; i++) _mm_stream_si128((__m128i *)to + i, line[i]);
        }
        _mm_sfence(); /* before anybody is told of it */
    }
#endif
    memcpy(to, from, nbytes);
}
