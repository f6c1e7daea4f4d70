/* scan.c - the scanners of scan.h, one set of three per instruction set.
 *
 * The vector versions are compiled with function attributes instead of compiler flags, so that one object file holds
 * all of them and still starts on any x86-64. What is left at the end of a buffer, less than one vector, is done in
 * smaller steps: a wider load would read past `end`.
 */
#include "scan.h"

#include <stdlib.h>
#include <string.h>

#if defined(__x86_64__) && defined(__GNUC__)
#define HF_SCAN_X86 1
#include <immintrin.h>
#endif

/* ---- plain C ---- */

/* Token characters (RFC 9110, 5.6.2). */
static const uint8_t token_char[256] = {
    ['0' ... '9'] = 1, ['A' ... 'Z'] = 1, ['a' ... 'z'] = 1, ['!'] = 1, ['#'] = 1, ['$'] = 1, ['%'] = 1,
    ['&'] = 1,         ['\''] = 1,        ['*'] = 1,         ['+'] = 1, ['-'] = 1, ['.'] = 1, ['^'] = 1,
    ['_'] = 1,         ['`'] = 1,         ['|'] = 1,         ['~'] = 1,
};

static inline bool stops_value(unsigned char c)
{
    return (c < 0x20 && c != '\t') || c == 0x7f;
}

static inline bool stops_target(unsigned char c)
{
    return c <= 0x20 || c == 0x7f;
}

/* Eight bytes at a time, the arithmetic way: a byte below `n` (at most 0x80) borrows when n is taken from it, and DEL is
 * the byte that 0x7f turns to nothing. A borrow may run on into the next byte, so the answer is only whether there is one. */
#define EACH_BYTE 0x0101010101010101u

static inline bool has_below_or_del(const char *p, unsigned n)
{
    uint64_t v;
    memcpy(&v, p, 8);
    return (((v - EACH_BYTE * n) | ((v ^ EACH_BYTE * 0x7f) - EACH_BYTE)) & ~v & EACH_BYTE * 0x80) != 0;
}

static inline const char *value_tail(const char *p, const char *end)
{
    while (end - p >= 8 && !has_below_or_del(p, 0x20))
        p += 8;
    while (p < end && !stops_value((unsigned char)*p))
        p++;
    return p;
}

static inline const char *target_tail(const char *p, const char *end)
{
    while (end - p >= 8 && !has_below_or_del(p, 0x21))
        p += 8;
    while (p < end && !stops_target((unsigned char)*p))
        p++;
    return p;
}

static inline const char *token_tail(const char *p, const char *end)
{
    while (p < end && token_char[(unsigned char)*p])
        p++;
    return p;
}

static const char *value_end_scalar(const char *p, const char *end)
{
    return value_tail(p, end);
}

static const char *target_end_scalar(const char *p, const char *end)
{
    return target_tail(p, end);
}

static const char *token_end_scalar(const char *p, const char *end)
{
    return token_tail(p, end);
}

static const hf_scanner scalar = {HF_SCAN_SCALAR, "scalar", value_end_scalar, target_end_scalar, token_end_scalar};

const hf_scanner *hf_scan = &scalar;

#ifdef HF_SCAN_X86

/* A byte is a token character if token_rows[low nibble] has the bit of its high nibble. Two shuffles classify a whole
 * vector that way; high nibbles from 8 on have no bit at all. */
#define TOKEN_ROWS                                                                                                     \
    (char)0xe8, (char)0xfc, (char)0xf8, (char)0xfc, (char)0xfc, (char)0xfc, (char)0xfc, (char)0xfc, (char)0xf8,        \
        (char)0xf8, (char)0xf4, (char)0x54, (char)0xd0, (char)0x54, (char)0xf4, (char)0x70
#define NIBBLE_BITS 1, 2, 4, 8, 16, 32, 64, (char)128, 0, 0, 0, 0, 0, 0, 0, 0

/* ---- SSE4.2, 16 bytes ---- */

#define SSE42 __attribute__((target("sse4.2"), always_inline)) static inline
#define SSE42_FN __attribute__((target("sse4.2"))) static

SSE42 __m128i load16(const char *p)
{
    return _mm_loadu_si128((const __m128i *)(const void *)p);
}

/* The first and the last eight of 8 to 16 bytes. */
SSE42 __m128i load_ends(const char *p, const char *end)
{
    return _mm_unpacklo_epi64(_mm_loadl_epi64((const __m128i *)(const void *)p),
                              _mm_loadl_epi64((const __m128i *)(const void *)(end - 8)));
}

SSE42 unsigned value_mask16(__m128i v)
{
    const __m128i control = _mm_cmpeq_epi8(_mm_min_epu8(v, _mm_set1_epi8(0x1f)), v);
    const __m128i tab = _mm_cmpeq_epi8(v, _mm_set1_epi8('\t'));
    const __m128i del = _mm_cmpeq_epi8(v, _mm_set1_epi8(0x7f));
    return (unsigned)_mm_movemask_epi8(_mm_or_si128(_mm_andnot_si128(tab, control), del));
}

SSE42 unsigned target_mask16(__m128i v)
{
    const __m128i low = _mm_cmpeq_epi8(_mm_min_epu8(v, _mm_set1_epi8(0x20)), v);
    const __m128i del = _mm_cmpeq_epi8(v, _mm_set1_epi8(0x7f));
    return (unsigned)_mm_movemask_epi8(_mm_or_si128(low, del));
}

SSE42 unsigned token_mask16(__m128i v)
{
    const __m128i nibble = _mm_set1_epi8(0x0f);
    const __m128i rows = _mm_shuffle_epi8(_mm_setr_epi8(TOKEN_ROWS), _mm_and_si128(v, nibble));
    const __m128i bits = _mm_shuffle_epi8(_mm_setr_epi8(NIBBLE_BITS), _mm_and_si128(_mm_srli_epi16(v, 4), nibble));
    return (unsigned)_mm_movemask_epi8(_mm_cmpeq_epi8(_mm_and_si128(rows, bits), _mm_setzero_si128()));
}

/* What is left at the end, at `p`, of at least 16 bytes is looked at together with bytes before it that are known to be good. */
#define SCAN_SSE42(kind)                                                                                               \
    SSE42 const char *kind##_last16(const char *end)                                                                   \
    {                                                                                                                  \
        const unsigned mask = kind##_mask16(load16(end - 16));                                                         \
        return mask ? end - 16 + __builtin_ctz(mask) : end;                                                            \
    }                                                                                                                  \
    SSE42 const char *kind##_below16(const char *p, const char *end)                                                   \
    {                                                                                                                  \
        if (end - p < 8)                                                                                               \
            return kind##_tail(p, end);                                                                                \
        const unsigned mask = kind##_mask16(load_ends(p, end));                                                        \
        const int at = mask ? __builtin_ctz(mask) : 16;                                                                \
        return at < 8 ? p + at : end - 16 + at;                                                                        \
    }                                                                                                                  \
    SSE42_FN const char *kind##_end_sse42(const char *p, const char *end)                                              \
    {                                                                                                                  \
        if (end - p < 16)                                                                                              \
            return kind##_below16(p, end);                                                                             \
        for (; end - p >= 16; p += 16) {                                                                               \
            const unsigned mask = kind##_mask16(load16(p));                                                            \
            if (mask)                                                                                                  \
                return p + __builtin_ctz(mask);                                                                        \
        }                                                                                                              \
        return kind##_last16(end);                                                                                     \
    }

SCAN_SSE42(value)
SCAN_SSE42(target)
SCAN_SSE42(token)

static const hf_scanner sse42 = {HF_SCAN_SSE42, "sse4.2", value_end_sse42, target_end_sse42, token_end_sse42};

/* ---- AVX2, 32 bytes; the first 16 on their own, since that is where most names and values end ---- */

#define AVX2 __attribute__((target("avx2"), always_inline)) static inline
#define AVX2_FN __attribute__((target("avx2"))) static

AVX2 unsigned value_mask32(const char *p)
{
    const __m256i v = _mm256_loadu_si256((const __m256i *)(const void *)p);
    const __m256i control = _mm256_cmpeq_epi8(_mm256_min_epu8(v, _mm256_set1_epi8(0x1f)), v);
    const __m256i tab = _mm256_cmpeq_epi8(v, _mm256_set1_epi8('\t'));
    const __m256i del = _mm256_cmpeq_epi8(v, _mm256_set1_epi8(0x7f));
    return (unsigned)_mm256_movemask_epi8(_mm256_or_si256(_mm256_andnot_si256(tab, control), del));
}

AVX2 unsigned target_mask32(const char *p)
{
    const __m256i v = _mm256_loadu_si256((const __m256i *)(const void *)p);
    const __m256i low = _mm256_cmpeq_epi8(_mm256_min_epu8(v, _mm256_set1_epi8(0x20)), v);
    const __m256i del = _mm256_cmpeq_epi8(v, _mm256_set1_epi8(0x7f));
    return (unsigned)_mm256_movemask_epi8(_mm256_or_si256(low, del));
}

AVX2 unsigned token_mask32(const char *p)
{
    const __m256i v = _mm256_loadu_si256((const __m256i *)(const void *)p);
    const __m256i nibble = _mm256_set1_epi8(0x0f);
    const __m256i row_table = _mm256_setr_epi8(TOKEN_ROWS, TOKEN_ROWS);
    const __m256i bit_table = _mm256_setr_epi8(NIBBLE_BITS, NIBBLE_BITS);
    const __m256i rows = _mm256_shuffle_epi8(row_table, _mm256_and_si256(v, nibble));
    const __m256i bits = _mm256_shuffle_epi8(bit_table, _mm256_and_si256(_mm256_srli_epi16(v, 4), nibble));
    return (unsigned)_mm256_movemask_epi8(_mm256_cmpeq_epi8(_mm256_and_si256(rows, bits), _mm256_setzero_si256()));
}

#define SCAN_AVX2(kind)                                                                                                \
    AVX2_FN const char *kind##_end_avx2(const char *p, const char *end)                                                \
    {                                                                                                                  \
        if (end - p < 16)                                                                                              \
            return kind##_below16(p, end);                                                                             \
        unsigned mask = kind##_mask16(load16(p));                                                                      \
        if (mask)                                                                                                      \
            return p + __builtin_ctz(mask);                                                                            \
        for (p += 16; end - p >= 32; p += 32) {                                                                        \
            mask = kind##_mask32(p);                                                                                   \
            if (mask)                                                                                                  \
                return p + __builtin_ctz(mask);                                                                        \
        }                                                                                                              \
        if (end - p >= 16) {                                                                                           \
            mask = kind##_mask16(load16(p));                                                                           \
            if (mask)                                                                                                  \
                return p + __builtin_ctz(mask);                                                                        \
        }                                                                                                              \
        return kind##_last16(end);                                                                                     \
    }

SCAN_AVX2(value)
SCAN_AVX2(target)
SCAN_AVX2(token)

static const hf_scanner avx2 = {HF_SCAN_AVX2, "avx2", value_end_avx2, target_end_avx2, token_end_avx2};

#endif /* HF_SCAN_X86 */

const hf_scanner *hf_scan_select(enum hf_scan_level max)
{
    const char *env = getenv("HF_SCAN");
    const hf_scanner *best = &scalar;

    if (env && strcmp(env, "scalar") == 0)
        max = HF_SCAN_SCALAR;
    else if (env && strcmp(env, "sse4.2") == 0 && max > HF_SCAN_SSE42)
        max = HF_SCAN_SSE42;

#ifdef HF_SCAN_X86
    __builtin_cpu_init();
    if (max >= HF_SCAN_SSE42 && __builtin_cpu_supports("sse4.2"))
        best = &sse42;
    if (max >= HF_SCAN_AVX2 && __builtin_cpu_supports("avx2"))
        best = &avx2;
#else
    (void)max;
#endif
    hf_scan = best;
    return best;
}
