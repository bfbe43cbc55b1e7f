/* Copies of many bytes, for all modules in C.

   Where memory is only written, the processor fetches it into its cache first, and drives out what it works with. Bytes
   that go past the cache spare both. */

#include <stdint.h>
#include <string.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

#define PAST_CACHE (1 << 18) /* bytes; who writes less may well want it in the cache */

/* Copies bytes past the cache, as far as they are whole vectors at their multiples. A line of the cache that is written
   both ways costs more than either: what is written piece by piece should lie at multiples of 16 bytes.
   `publish_past_cache` comes before anybody is told. */
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

/* Copies bytes, from `least` on past the cache. */
static inline void copy_past_cache(char *to, const char *from, size_t nbytes, size_t least) {
    if (nbytes < least) {
        memcpy(to, from, nbytes);
        return;
    }
    write_past_cache(to, from, nbytes);
    publish_past_cache();
}
