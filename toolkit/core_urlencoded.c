/* core_urlencoded.c - application/x-www-form-urlencoded, without Perl. */
#include "core_urlencoded.h"

#include <string.h>

#if defined(__SSE2__)
#include <emmintrin.h>
#define HAS_SSE2 1
#if defined(__GNUC__) && defined(__x86_64__)
#include <immintrin.h>
#define HAS_AVX2 1
#endif
#endif

#define BLOCK 64

enum { PLAIN, END, CODED };

/* What a byte is to the parser. */
static const uint8_t kinds[256] = {['&'] = END, [';'] = END, ['='] = END, ['+'] = CODED, ['%'] = CODED};

/* Values of hexadecimal digits plus one; 0 is none. */
static const uint8_t hex[256] = {
    ['0'] = 1,  ['1'] = 2,  ['2'] = 3,  ['3'] = 4,  ['4'] = 5,  ['5'] = 6,  ['6'] = 7,  ['7'] = 8,
    ['8'] = 9,  ['9'] = 10, ['a'] = 11, ['b'] = 12, ['c'] = 13, ['d'] = 14, ['e'] = 15, ['f'] = 16,
    ['A'] = 11, ['B'] = 12, ['C'] = 13, ['D'] = 14, ['E'] = 15, ['F'] = 16,
};

#if defined(HAS_SSE2)
static enum hf_urlencoded_level level = HF_URLENCODED_SSE2;
#else
static enum hf_urlencoded_level level = HF_URLENCODED_SCALAR;
#endif

enum hf_urlencoded_level hf_urlencoded_select(enum hf_urlencoded_level most)
{
    level = HF_URLENCODED_SCALAR;
#if defined(HAS_SSE2)
    if (most >= HF_URLENCODED_SSE2)
        level = HF_URLENCODED_SSE2;
#endif
#if defined(HAS_AVX2)
    if (most >= HF_URLENCODED_AVX2 && __builtin_cpu_supports("avx2"))
        level = HF_URLENCODED_AVX2;
#endif
    (void)most;
    return level;
}

static unsigned lowest_bit(uint64_t bits)
{
#if defined(__GNUC__)
    return (unsigned)__builtin_ctzll(bits);
#else
    unsigned n = 0;
    for (; !(bits & 1); bits >>= 1)
        n++;
    return n;
#endif
}

/* --- finding --- */

static void classify_scalar(const char *p, size_t n, uint64_t *ends, uint64_t *coded)
{
    uint64_t e = 0, c = 0;
    size_t i;
    for (i = 0; i < n; i++) {
        const uint8_t kind = kinds[(uint8_t)p[i]];
        e |= (uint64_t)(kind == END) << i;
        c |= (uint64_t)(kind == CODED) << i;
    }
    *ends = e;
    *coded = c;
}

#if defined(HAS_SSE2)
static __m128i is_coded_16(__m128i v)
{
    return _mm_or_si128(_mm_cmpeq_epi8(v, _mm_set1_epi8('+')), _mm_cmpeq_epi8(v, _mm_set1_epi8('%')));
}

static void classify_16(const char *p, uint64_t *ends, uint64_t *coded)
{
    const __m128i v = _mm_loadu_si128((const __m128i *)(const void *)p);
    __m128i e = _mm_cmpeq_epi8(v, _mm_set1_epi8('&'));
    e = _mm_or_si128(e, _mm_cmpeq_epi8(v, _mm_set1_epi8(';')));
    e = _mm_or_si128(e, _mm_cmpeq_epi8(v, _mm_set1_epi8('=')));
    *ends = (uint32_t)_mm_movemask_epi8(e);
    *coded = (uint32_t)_mm_movemask_epi8(is_coded_16(v));
}

/* n bytes, 1 to 64; no more may be read, but `before` bytes in front of them. */
static void classify_sse2(const char *p, size_t n, size_t before, uint64_t *ends, uint64_t *coded)
{
    uint64_t e, c;
    size_t i;
    *ends = *coded = 0;
    for (i = 0; i + 16 <= n; i += 16) {
        classify_16(p + i, &e, &c);
        *ends |= e << i;
        *coded |= c << i;
    }
    if (i == n)
        return;
    /* The rest, with as many bytes in front of it as it takes to be sixteen. */
    if (n + before < 16) {
        classify_scalar(p, n, ends, coded);
        return;
    }
    classify_16(p + n - 16, &e, &c);
    *ends |= e >> (16 - (n - i)) << i;
    *coded |= c >> (16 - (n - i)) << i;
}
#endif

#if defined(HAS_AVX2)
__attribute__((target("avx2"))) static void classify_avx2(const char *p, uint64_t *ends, uint64_t *coded)
{
    const __m256i amp = _mm256_set1_epi8('&'), semicolon = _mm256_set1_epi8(';'), equals = _mm256_set1_epi8('=');
    const __m256i plus = _mm256_set1_epi8('+'), percent = _mm256_set1_epi8('%');
    uint64_t e = 0, c = 0;
    unsigned i;
    for (i = 0; i < BLOCK; i += 32) {
        const __m256i v = _mm256_loadu_si256((const __m256i *)(const void *)(p + i));
        const __m256i ve = _mm256_or_si256(
            _mm256_cmpeq_epi8(v, amp), _mm256_or_si256(_mm256_cmpeq_epi8(v, semicolon), _mm256_cmpeq_epi8(v, equals)));
        const __m256i vc = _mm256_or_si256(_mm256_cmpeq_epi8(v, plus), _mm256_cmpeq_epi8(v, percent));
        e |= (uint64_t)(uint32_t)_mm256_movemask_epi8(ve) << i;
        c |= (uint64_t)(uint32_t)_mm256_movemask_epi8(vc) << i;
    }
    *ends = e;
    *coded = c;
}
#endif

static void next_block(hf_urlencoded_scan *scan)
{
    const char *p = scan->ahead;
    const size_t left = (size_t)(scan->end - p), n = left < BLOCK ? left : BLOCK;
    scan->block = p;
    scan->ahead = p + n;
#if defined(HAS_AVX2)
    if (n == BLOCK && level == HF_URLENCODED_AVX2) {
        classify_avx2(p, &scan->ends, &scan->coded);
        return;
    }
#endif
#if defined(HAS_SSE2)
    if (level != HF_URLENCODED_SCALAR) {
        classify_sse2(p, n, (size_t)(p - scan->text), &scan->ends, &scan->coded);
        return;
    }
#endif
    classify_scalar(p, n, &scan->ends, &scan->coded);
}

void hf_urlencoded_begin(hf_urlencoded_scan *scan, const char *text, size_t len, bool skip_first)
{
    scan->text = scan->part = scan->block = scan->ahead = text;
    scan->end = text + len;
    scan->ends = scan->coded = 0;
    scan->over = len == 0;
    scan->skip_space = skip_first;
}

bool hf_urlencoded_next(hf_urlencoded_scan *scan, hf_urlencoded_pair *pair)
{
    const char *name = scan->part, *equals = NULL, *stop;
    bool coded = false, name_coded = false;

    if (scan->over)
        return false;
    for (;;) {
        unsigned bit;
        uint64_t before;
        while (!scan->ends) {
            coded |= scan->coded != 0;
            if (scan->ahead == scan->end) {
                scan->over = true;
                stop = scan->end;
                goto found;
            }
            next_block(scan);
        }
        bit = lowest_bit(scan->ends);
        before = ((uint64_t)1 << bit) - 1;
        coded |= (scan->coded & before) != 0;
        scan->coded &= ~before;
        scan->ends &= scan->ends - 1;
        stop = scan->block + bit;
        if (*stop != '=')
            break;
        if (!equals) {
            equals = stop;
            name_coded = coded;
            coded = false;
        }
    }
    scan->part = stop + 1;
found:
    if (scan->skip_space && name < stop && *name == ' ')
        name++;
    scan->skip_space = true;
    pair->name.p = name;
    if (equals) {
        pair->name.len = (size_t)(equals - name);
        pair->name.coded = name_coded;
        pair->value.p = equals + 1;
        pair->value.len = (size_t)(stop - equals - 1);
        pair->value.coded = coded;
    } else {
        pair->name.len = (size_t)(stop - name);
        pair->name.coded = coded;
        pair->value.p = stop;
        pair->value.len = 0;
        pair->value.coded = false;
    }
    return true;
}

size_t hf_urlencoded_count(const char *text, size_t len)
{
    const char *const end = text + len;
    size_t n = len > 0;
#if defined(HAS_SSE2)
    while (level != HF_URLENCODED_SCALAR && end - text >= 16) {
        /* Each byte counts its matches, for as long as it can. */
        const size_t rounds = (size_t)(end - text) / 16 < 255 ? (size_t)(end - text) / 16 : 255;
        __m128i counts = _mm_setzero_si128();
        uint64_t sums[2];
        size_t i;
        for (i = 0; i < rounds; i++, text += 16) {
            const __m128i v = _mm_loadu_si128((const __m128i *)(const void *)text);
            counts = _mm_sub_epi8(counts, _mm_cmpeq_epi8(v, _mm_set1_epi8('&')));
            counts = _mm_sub_epi8(counts, _mm_cmpeq_epi8(v, _mm_set1_epi8(';')));
        }
        _mm_storeu_si128((__m128i *)(void *)sums, _mm_sad_epu8(counts, _mm_setzero_si128()));
        n += (size_t)(sums[0] + sums[1]);
    }
#endif
    for (; text < end; text++)
        n += *text == '&' || *text == ';';
    return n;
}

/* --- decoding --- */

#if defined(HAS_SSE2)
#define IS_WIDE (level != HF_URLENCODED_SCALAR)
#else
#define IS_WIDE false
#endif

size_t hf_urlencoded_decode(char *dst, const char *src, size_t len)
{
    const char *const end = src + len;
    char *d = dst;

    while (src < end) {
#if defined(HAS_SSE2)
        /* Never more is written than was read, so sixteen bytes fit wherever sixteen are left. */
        while (IS_WIDE && end - src >= 16) {
            const __m128i v = _mm_loadu_si128((const __m128i *)(const void *)src);
            const unsigned found = (unsigned)_mm_movemask_epi8(is_coded_16(v));
            const unsigned n = found ? lowest_bit(found) : 16;
            _mm_storeu_si128((__m128i *)(void *)d, v);
            src += n;
            d += n;
            if (found)
                break;
        }
#endif
        for (; src < end; src++) {
            uint8_t high, low;
            if (*src == '+') {
                *d++ = ' ';
            } else if (*src != '%') {
                if (IS_WIDE && end - src >= 16)
                    break; /* perhaps more of them */
                *d++ = *src;
            } else if (end - src >= 3 && (high = hex[(uint8_t)src[1]]) != 0 && (low = hex[(uint8_t)src[2]]) != 0) {
                *d++ = (char)((high - 1) << 4 | (low - 1));
                src += 2;
            } else {
                *d++ = '%';
            }
        }
    }
    return (size_t)(d - dst);
}

/* --- encoding --- */

/* Bit 0: stands for itself among HF_URLENCODED_MARKS; bit 1: among HF_URLENCODED_UNRESERVED. */
static const uint8_t plain_of[256] = {
    ['0'] = 3, ['1'] = 3, ['2'] = 3, ['3'] = 3, ['4'] = 3, ['5'] = 3, ['6'] = 3, ['7'] = 3, ['8'] = 3, ['9'] = 3,
    ['A'] = 3, ['B'] = 3, ['C'] = 3, ['D'] = 3, ['E'] = 3, ['F'] = 3, ['G'] = 3, ['H'] = 3, ['I'] = 3, ['J'] = 3,
    ['K'] = 3, ['L'] = 3, ['M'] = 3, ['N'] = 3, ['O'] = 3, ['P'] = 3, ['Q'] = 3, ['R'] = 3, ['S'] = 3, ['T'] = 3,
    ['U'] = 3, ['V'] = 3, ['W'] = 3, ['X'] = 3, ['Y'] = 3, ['Z'] = 3, ['a'] = 3, ['b'] = 3, ['c'] = 3, ['d'] = 3,
    ['e'] = 3, ['f'] = 3, ['g'] = 3, ['h'] = 3, ['i'] = 3, ['j'] = 3, ['k'] = 3, ['l'] = 3, ['m'] = 3, ['n'] = 3,
    ['o'] = 3, ['p'] = 3, ['q'] = 3, ['r'] = 3, ['s'] = 3, ['t'] = 3, ['u'] = 3, ['v'] = 3, ['w'] = 3, ['x'] = 3,
    ['y'] = 3, ['z'] = 3, ['-'] = 3, ['_'] = 3, ['.'] = 3, ['~'] = 3, ['!'] = 1, ['*'] = 1, ['('] = 1, [')'] = 1,
    ['\''] = 1,
};

#if defined(HAS_SSE2)
/* Bytes that are not unreserved. */
static unsigned reserved_16(__m128i v)
{
    const __m128i lower = _mm_or_si128(v, _mm_set1_epi8(0x20));
    /* Moved to the lower end of the signed range, one comparison tells whether a byte is within. */
    const __m128i letter =
        _mm_cmplt_epi8(_mm_add_epi8(lower, _mm_set1_epi8((char)(-128 - 'a'))), _mm_set1_epi8(-128 + 26));
    const __m128i digit =
        _mm_cmplt_epi8(_mm_add_epi8(v, _mm_set1_epi8((char)(-128 - '0'))), _mm_set1_epi8(-128 + 10));
    __m128i ok = _mm_or_si128(letter, digit);
    ok = _mm_or_si128(ok, _mm_cmpeq_epi8(v, _mm_set1_epi8('-')));
    ok = _mm_or_si128(ok, _mm_cmpeq_epi8(v, _mm_set1_epi8('_')));
    ok = _mm_or_si128(ok, _mm_cmpeq_epi8(v, _mm_set1_epi8('.')));
    ok = _mm_or_si128(ok, _mm_cmpeq_epi8(v, _mm_set1_epi8('~')));
    return ~(unsigned)_mm_movemask_epi8(ok) & 0xffffu;
}
#endif

size_t hf_urlencoded_room(size_t len, bool latin1)
{
    return len * (latin1 ? 6 : 3) + 16;
}

static char *escape(char *d, uint8_t ch)
{
    static const char digits[] = "0123456789ABCDEF";
    d[0] = '%';
    d[1] = digits[ch >> 4];
    d[2] = digits[ch & 15];
    return d + 3;
}

size_t hf_urlencoded_encode(char *dst, const char *src, size_t len, enum hf_urlencoded_plain plain, bool latin1)
{
    const char *const end = src + len;
    const uint8_t mine = plain == HF_URLENCODED_MARKS ? 1 : 2;
    char *d = dst;

    while (src < end) {
#if defined(HAS_SSE2)
        while (IS_WIDE && end - src >= 16) {
            const __m128i v = _mm_loadu_si128((const __m128i *)(const void *)src);
            const unsigned found = reserved_16(v);
            const unsigned n = found ? lowest_bit(found) : 16;
            _mm_storeu_si128((__m128i *)(void *)d, v);
            src += n;
            d += n;
            if (found)
                break;
        }
#endif
        for (; src < end; src++) {
            const uint8_t ch = (uint8_t)*src;
            if (plain_of[ch] & mine) {
                *d++ = (char)ch;
                if (IS_WIDE && (plain_of[ch] & 2) && end - src > 16) {
                    src++;
                    break; /* perhaps more of them */
                }
            } else if (ch == ' ') {
                *d++ = '+';
            } else if (ch >= 0x80 && latin1) {
                d = escape(d, (uint8_t)(0xc0 | ch >> 6));
                d = escape(d, (uint8_t)(0x80 | (ch & 0x3f)));
            } else {
                d = escape(d, ch);
            }
        }
    }
    return (size_t)(d - dst);
}
