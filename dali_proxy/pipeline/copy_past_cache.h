/* Copies of many bytes, for all C modules.

   For ordinary writes, the processor first loads the target into its cache and evicts other data. Writes past the cache
   avoid both. */

#include <stdint.h>
#include <string.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

#define PAST_CACHE (1 << 18) /* bytes; smaller results may be used again from the cache */

/* Copy bytes past the cache, except those before the first and after the last aligned vector. A cache line that is
   written both ways costs more than either, so chunks should begin at multiples of 16 bytes. Call `publish_past_cache`
   before another thread may read the result. */
static inline void write_past_cache(char *to, const char *from, size_t nbytes) {
#ifdef __SSE2__
    size_t head = -(uintptr_t)to & 15;
    if (head < nbytes) {
        memcpy(to, from, head);
        to += head, from += head, nbytes -= head;
        for (; nbytes >= 16; nbytes -= 16, to += 16, from += 16)
            _mm_stream_si128((__m128i *)to, _mm_loadu_si128((const __m128i *)from));
    }
#endif
    memcpy(to, from, nbytes);
}

static inline void publish_past_cache(void) {
#ifdef __SSE2__
    _mm_sfence();
#endif
}

/* Copy bytes; past the cache if there are `least` or more. */
static inline void copy_past_cache(char *to, const char *from, size_t nbytes, size_t least) {
    if (nbytes < least) {
        memcpy(to, from, nbytes);
        return;
    }
    write_past_cache(to, from, nbytes);
    publish_past_cache();
}
