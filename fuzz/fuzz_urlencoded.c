// sources: toolkit/core_urlencoded.c
/* Query strings: what the parser finds with every way of searching, compared with the plainest one; decoding and encoding
 * compared likewise, and encoding undone by decoding. */
#include "../toolkit/core_urlencoded.h"

#include <stdlib.h>
#include <string.h>

#include "target.h"

static bool is_end(char ch)
{
    return ch == '&' || ch == ';';
}

static int digit(int ch)
{
    if (ch >= '0' && ch <= '9')
        return ch - '0';
    ch |= 0x20;
    return ch >= 'a' && ch <= 'f' ? ch - 'a' + 10 : -1;
}

static size_t plain_decode(char *dst, const char *src, size_t len)
{
    size_t i, n = 0;
    for (i = 0; i < len; i++) {
        if (src[i] == '+') {
            dst[n++] = ' ';
        } else if (src[i] == '%' && i + 2 < len && digit((uint8_t)src[i + 1]) >= 0 && digit((uint8_t)src[i + 2]) >= 0) {
            dst[n++] = (char)(digit((uint8_t)src[i + 1]) * 16 + digit((uint8_t)src[i + 2]));
            i += 2;
        } else {
            dst[n++] = src[i];
        }
    }
    return n;
}

static void check_token(const hf_urlencoded_token *token, const char *p, const char *end)
{
    size_t i;
    bool coded = false;
    CHECK(token->p == p && token->len == (size_t)(end - p));
    for (i = 0; i < token->len; i++)
        coded |= p[i] == '+' || p[i] == '%';
    CHECK(token->coded == coded);
}

static void check_parse(const char *text, size_t len, bool skip_first)
{
    hf_urlencoded_scan scan;
    hf_urlencoded_pair pair;
    const char *p = text, *const end = text + len;
    size_t n = 0;

    hf_urlencoded_begin(&scan, text, len, skip_first);
    while (hf_urlencoded_next(&scan, &pair)) {
        const char *stop = p, *equals, *begin = p;
        while (stop < end && !is_end(*stop))
            stop++;
        if ((n > 0 || skip_first) && begin < stop && *begin == ' ')
            begin++;
        equals = memchr(begin, '=', (size_t)(stop - begin));
        check_token(&pair.name, begin, equals ? equals : stop);
        check_token(&pair.value, equals ? equals + 1 : stop, stop);
        p = stop + 1;
        n++;
    }
    CHECK(n == hf_urlencoded_count(text, len));
    CHECK(n == 0 ? len == 0 : p == end + 1);
    CHECK(!hf_urlencoded_next(&scan, &pair));
}

static void check_codec(const char *text, size_t len)
{
    char *expected = malloc(len + 1), *decoded = malloc(len + 1);
    char *encoded = malloc(hf_urlencoded_room(len, false)), *latin1 = malloc(hf_urlencoded_room(len, true));
    enum hf_urlencoded_plain plain;
    size_t i, n;

    CHECK(expected && decoded && encoded && latin1);
    n = plain_decode(expected, text, len);
    CHECK(hf_urlencoded_decode(decoded, text, len) == n && memcmp(decoded, expected, n) == 0);

    for (plain = HF_URLENCODED_MARKS; plain <= HF_URLENCODED_UNRESERVED; plain++) {
        n = hf_urlencoded_encode(encoded, text, len, plain, false);
        CHECK(n <= hf_urlencoded_room(len, false));
        for (i = 0; i < n; i++)
            CHECK(strchr("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.~%+", encoded[i]) ||
                  (plain == HF_URLENCODED_MARKS && strchr("!*'()", encoded[i])));
        char *back = malloc(n + 1);
        CHECK(back);
        CHECK(hf_urlencoded_decode(back, encoded, n) == len && memcmp(back, text, len) == 0);
        free(back);

        n = hf_urlencoded_encode(latin1, text, len, plain, true);
        back = malloc(n + 1);
        CHECK(back);
        n = hf_urlencoded_decode(back, latin1, n);
        for (i = 0; i < len; i++)
            n -= (uint8_t)text[i] >= 0x80;
        CHECK(n == len);
        free(back);
    }
    free(expected);
    free(decoded);
    free(encoded);
    free(latin1);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    enum hf_urlencoded_level level;
    /* a copy of the exact size, so that a read behind the end is noticed */
    char *text = malloc(size ? size : 1);
    CHECK(text);
    memcpy(text, data, size);
    for (level = HF_URLENCODED_SCALAR; level <= HF_URLENCODED_AVX2; level++) {
        if (hf_urlencoded_select(level) != level)
            continue;
        check_parse(text, size, true);
        check_parse(text, size, false);
        check_codec(text, size);
    }
    free(text);
    return 0;
}
