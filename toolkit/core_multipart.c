/* core_multipart.c - the parser of core_multipart.h. */
#include "core_multipart.h"

#include <stdlib.h>
#include <string.h>

#if defined(__x86_64__) && defined(__GNUC__)
#define HF_MULTIPART_X86 1
#include <immintrin.h>
#endif

/* ---- finding the boundary: compare the first and the last byte of many places at once, and what is between where both
 * are right. In the delimiter CR stands only at the beginning, so that a false start is never looked at twice. ---- */

static const char *find_plain(const char *p, const char *last, const char *needle, size_t len)
{
    while (p <= last) {
        p = memchr(p, needle[0], (size_t)(last - p) + 1);
        if (!p)
            return NULL;
        if (memcmp(p, needle, len) == 0)
            return p;
        p++;
    }
    return NULL;
}

#ifdef HF_MULTIPART_X86

static const char *find_sse2(const char *p, const char *last, const char *needle, size_t len)
{
    const __m128i a = _mm_set1_epi8(needle[0]);
    const __m128i z = _mm_set1_epi8(needle[len - 1]);

    for (; last - p >= 31; p += 32) {
        const char *q = p + len - 1;
        const __m128i m0 = _mm_and_si128(_mm_cmpeq_epi8(a, _mm_loadu_si128((const __m128i *)(const void *)p)),
                                         _mm_cmpeq_epi8(z, _mm_loadu_si128((const __m128i *)(const void *)q)));
        const __m128i m1 = _mm_and_si128(_mm_cmpeq_epi8(a, _mm_loadu_si128((const __m128i *)(const void *)(p + 16))),
                                         _mm_cmpeq_epi8(z, _mm_loadu_si128((const __m128i *)(const void *)(q + 16))));
        unsigned mask = (unsigned)_mm_movemask_epi8(m0) | (unsigned)_mm_movemask_epi8(m1) << 16;
        for (; mask; mask &= mask - 1) {
            const char *at = p + __builtin_ctz(mask);
            if (memcmp(at, needle, len) == 0)
                return at;
        }
    }
    return find_plain(p, last, needle, len);
}

__attribute__((target("avx2"))) static const char *find_avx2(const char *p, const char *last, const char *needle,
                                                             size_t len)
{
    const __m256i a = _mm256_set1_epi8(needle[0]);
    const __m256i z = _mm256_set1_epi8(needle[len - 1]);

    for (; last - p >= 63; p += 64) {
        const char *q = p + len - 1;
        const __m256i m0 =
            _mm256_and_si256(_mm256_cmpeq_epi8(a, _mm256_loadu_si256((const __m256i *)(const void *)p)),
                             _mm256_cmpeq_epi8(z, _mm256_loadu_si256((const __m256i *)(const void *)q)));
        const __m256i m1 =
            _mm256_and_si256(_mm256_cmpeq_epi8(a, _mm256_loadu_si256((const __m256i *)(const void *)(p + 32))),
                             _mm256_cmpeq_epi8(z, _mm256_loadu_si256((const __m256i *)(const void *)(q + 32))));
        unsigned long long mask =
            (unsigned)_mm256_movemask_epi8(m0) | (unsigned long long)(unsigned)_mm256_movemask_epi8(m1) << 32;
        for (; mask; mask &= mask - 1) {
            const char *at = p + __builtin_ctzll(mask);
            if (memcmp(at, needle, len) == 0)
                return at;
        }
    }
    return find_sse2(p, last, needle, len);
}

#endif

const char *hf_multipart_find(const char *p, size_t n, const char *needle, size_t needle_len)
{
    const char *last;

    if (n < needle_len)
        return NULL;
    last = p + (n - needle_len);
#ifdef HF_MULTIPART_X86
    if (__builtin_cpu_supports("avx2"))
        return find_avx2(p, last, needle, needle_len);
    return find_sse2(p, last, needle, needle_len);
#else
    return find_plain(p, last, needle, needle_len);
#endif
}

/* ---- the parser ---- */

/* Letters, digits and the rest of bchars (RFC 2046, 5.1.1) but the space. */
bool hf_multipart_is_boundary(const char *boundary, size_t len)
{
    size_t i;

    for (i = 0; i < len; i++) {
        const unsigned char c = (unsigned char)boundary[i];
        if (!((c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
              (c && strchr("'()+_,-./:=?", c))))
            return false;
    }
    return len > 0;
}

bool hf_multipart_init(hf_multipart *mp, const char *boundary, size_t len, const hf_multipart_sink *sink, void *user)
{
    memset(mp, 0, sizeof *mp);
    mp->sink = sink;
    mp->user = user;
    mp->state = HF_MULTIPART_PREAMBLE;
    mp->max_preamble = HF_MULTIPART_MAX_PREAMBLE;
    mp->max_header = HF_MULTIPART_MAX_HEADER;
    mp->delimiter = malloc(len + 4);
    if (!mp->delimiter)
        return false;
    memcpy(mp->delimiter, "\r\n--", 4);
    memcpy(mp->delimiter + 4, boundary, len);
    mp->delimiter_len = len + 4;
    return true;
}

void hf_multipart_free(hf_multipart *mp)
{
    free(mp->delimiter);
    free(mp->buffer);
    memset(mp, 0, sizeof *mp);
    mp->failed = true;
}

char *hf_multipart_reserve(hf_multipart *mp, size_t n)
{
    const size_t held = mp->end - mp->start;

    if (mp->start && mp->capacity - mp->end < n) {
        memmove(mp->buffer, mp->buffer + mp->start, held);
        mp->start = 0;
        mp->end = held;
    }
    if (mp->capacity - mp->end < n) {
        size_t capacity = mp->capacity + mp->capacity / 2;
        char *buffer;
        if (n > (size_t)-1 / 4 - held)
            return NULL;
        if (capacity < held + n)
            capacity = held + n;
        buffer = realloc(mp->buffer, capacity);
        if (!buffer)
            return NULL;
        mp->buffer = buffer;
        mp->capacity = capacity;
    }
    return mp->buffer + mp->end;
}

/* Looks on from where it left off. What could be the beginning of the needle stays to be looked at again. */
static const char *find_on(hf_multipart *mp, const char *needle, size_t len)
{
    const char *p = mp->buffer + mp->start;
    const size_t n = mp->end - mp->start;
    const char *at = hf_multipart_find(p + mp->searched, n - mp->searched, needle, len);

    if (!at && n >= len)
        mp->searched = n - (len - 1);
    return at;
}

static void use_up(hf_multipart *mp, size_t n)
{
    mp->start += n;
    mp->searched = 0;
}

static bool fail(hf_multipart *mp, const char *error)
{
    mp->failed = true;
    mp->error = error;
    mp->start = mp->end = 0;
    return false;
}

/* Each of these takes one step; false when there is nothing to be done before more bytes come. */

static bool in_preamble(hf_multipart *mp, bool more, bool finish)
{
    const size_t len = mp->delimiter_len - 2;
    const char *at = find_on(mp, mp->delimiter + 2, len);

    if (at) {
        use_up(mp, (size_t)(at - (mp->buffer + mp->start)) + len);
        mp->state = HF_MULTIPART_BOUNDARY;
        return true;
    }
    if (!more && mp->end - mp->start > mp->max_preamble)
        return fail(mp, "Size of preamble exceeds maximum allowed");
    return finish ? fail(mp, "End of stream encountered while parsing preamble") : false;
}

static bool in_boundary(hf_multipart *mp, bool finish)
{
    const char *p = mp->buffer + mp->start;
    const size_t n = mp->end - mp->start;

    if (n < 2)
        return finish ? fail(mp, "End of stream encountered while parsing boundary") : false;
    if (memcmp(p, "\r\n", 2) == 0) {
        use_up(mp, 2);
        mp->state = HF_MULTIPART_HEADER;
        return true;
    }
    if (memcmp(p, "--", 2) != 0)
        return fail(mp, "Boundary does not terminate with CRLF or hyphens");
    if (n < 4)
        return finish ? fail(mp, "End of stream encountered while parsing closing boundary") : false;
    if (memcmp(p + 2, "\r\n", 2) != 0)
        return fail(mp, "Closing boundary does not terminate with CRLF");
    use_up(mp, 4);
    mp->state = HF_MULTIPART_EPILOGUE;
    return true;
}

static bool in_header(hf_multipart *mp, bool more, bool finish)
{
    const char *at = find_on(mp, "\r\n\r\n", 4);
    const char *block;
    size_t len;

    if (!at) {
        if (!more && mp->end - mp->start > mp->max_header)
            return fail(mp, "Size of part header exceeds maximum allowed");
        return finish ? fail(mp, "End of stream encountered while parsing part header") : false;
    }
    block = mp->buffer + mp->start;
    len = (size_t)(at - block) + 4;
    use_up(mp, len);
    mp->state = HF_MULTIPART_BODY;
    return mp->sink->on_header(mp->user, block, len) ? true : fail(mp, NULL);
}

static bool in_body(hf_multipart *mp, bool finish)
{
    const char *at = find_on(mp, mp->delimiter, mp->delimiter_len);
    const char *bytes = mp->buffer + mp->start;
    size_t len;

    if (at) {
        len = (size_t)(at - bytes);
        use_up(mp, len + mp->delimiter_len);
        mp->state = HF_MULTIPART_BOUNDARY;
        return mp->sink->on_body(mp->user, bytes, len, true) ? true : fail(mp, NULL);
    }
    len = mp->searched;
    if (len) {
        use_up(mp, len);
        if (!mp->sink->on_body(mp->user, bytes, len, false))
            return fail(mp, NULL);
    }
    return finish ? fail(mp, "End of stream encountered while parsing part body") : false;
}

static bool run(hf_multipart *mp, bool more, bool finish)
{
    bool on = !mp->failed;

    while (on) {
        switch (mp->state) {
        case HF_MULTIPART_PREAMBLE: on = in_preamble(mp, more, finish); break;
        case HF_MULTIPART_BOUNDARY: on = in_boundary(mp, finish); break;
        case HF_MULTIPART_HEADER: on = in_header(mp, more, finish); break;
        case HF_MULTIPART_BODY: on = in_body(mp, finish); break;
        case HF_MULTIPART_EPILOGUE:
            on = mp->start == mp->end ? false : fail(mp, "Nonempty epilogue");
            break;
        }
    }
    if (mp->start == mp->end)
        mp->start = mp->end = 0;
    return !mp->failed;
}

bool hf_multipart_commit(hf_multipart *mp, size_t n, bool more)
{
    if (mp->failed)
        return false;
    if (!mp->buffer)
        return true;
    mp->end += n;
    return run(mp, more, false);
}

bool hf_multipart_feed(hf_multipart *mp, const char *bytes, size_t n)
{
    char *room;

    if (mp->failed)
        return false;
    if (n == 0)
        return true;
    room = hf_multipart_reserve(mp, n);
    if (!room)
        return fail(mp, "Out of memory");
    memcpy(room, bytes, n);
    return hf_multipart_commit(mp, n, false);
}

bool hf_multipart_finish(hf_multipart *mp)
{
    if (!mp->failed && !mp->buffer && !hf_multipart_reserve(mp, 1))
        return fail(mp, "Out of memory");
    return run(mp, false, true);
}
