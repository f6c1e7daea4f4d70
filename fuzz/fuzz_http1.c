// sources: engine/http1.c engine/scan.c engine/header_names.c
/* fuzz_http1.c - the request head parser: whatever comes, all ways of feeding it and all scanners agree, and every result
 * lies inside the head and keeps the promises of http1.h.
 *
 * The input is the text itself, so that seeds are readable; its last bytes also choose where it is cut.
 */
#include "http1.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "scan.h"
#include "t/http1_same.h"
#include "target.h"

#define EACH_BYTE_UP_TO 1024 /* longer texts are not fed byte by byte: that is quadratic */

/* Parses a copy in memory of exactly its size, at another address each time. */
static int parse(hf_http1_head *head, const uint8_t *data, size_t len, const hf_http1_limits *limits)
{
    char *copy = malloc(len ? len : 1);

    CHECK(copy);
    memcpy(copy, data, len);
    const int rc = hf_http1_parse(head, copy, len, limits);
    free(copy);
    return rc;
}

static void check_same(const hf_http1_head *a, int a_rc, const hf_http1_head *b, int b_rc)
{
    CHECK(a_rc == b_rc);
    if (a_rc == HF_PARSE_MORE)
        return;
    const char *difference = head_difference(a, b);
    if (difference)
        fprintf(stderr, "differs: %s\n", difference);
    CHECK(!difference);
}

static bool inside(hf_slice s, hf_slice outer)
{
    return s.off >= outer.off && s.off - outer.off <= outer.len && s.len <= outer.len - (s.off - outer.off);
}

static bool is_space(char c)
{
    return c == ' ' || c == '\t';
}

static void check_field(const hf_field *f, const char *text, hf_slice head)
{
    const char *name = text + f->name.off, *value = text + f->value.off;

    CHECK(inside(f->name, head) && inside(f->value, head));
    CHECK(f->name.len > 0 && name[f->name.len] == ':' && f->value.off > f->name.off + f->name.len);
    for (uint32_t i = 0; i < f->name.len; i++)
        CHECK(name[i] > ' ' && name[i] < 0x7f && name[i] != ':');
    for (uint32_t i = 0; i < f->value.len; i++)
        CHECK(((unsigned char)value[i] >= ' ' && value[i] != 0x7f) || value[i] == '\t');
    if (f->value.len)
        CHECK(!is_space(value[0]) && !is_space(value[f->value.len - 1]));
    CHECK(f->underscore == (memchr(name, '_', f->name.len) != NULL));

    uint8_t id = HF_HDR_OTHER;
    for (int i = 1; i < HF_HDR_COUNT; i++) {
        const char *known = hf_header_name((uint8_t)i);
        if (strlen(known) == f->name.len && strncasecmp(known, name, f->name.len) == 0)
            id = (uint8_t)i;
    }
    CHECK(f->id == id);
}

static void check_promises(const hf_http1_head *h, const char *text, size_t len, const hf_http1_limits *limits)
{
    const hf_slice head = {0, h->head_len};
    unsigned hosts = 0;
    bool underscore = false;

    CHECK(h->head_len <= len && h->head_len <= limits->max_head && h->head_len >= 18);
    CHECK(memcmp(text + h->head_len - 4, "\r\n\r\n", 4) == 0);
    CHECK(inside(h->method, head) && inside(h->target, head) && inside(h->host, head));
    CHECK(h->method.len >= 1 && h->method.len <= 32 && h->target.len >= 1);
    CHECK(h->target.len <= limits->max_request_line);
    CHECK(!h->authority.len || inside(h->authority, h->target));
    CHECK(!h->path.len || (inside(h->path, h->target) && text[h->path.off] == '/'));
    CHECK(!h->has_query || (inside(h->query, h->target) && text[h->query.off - 1] == '?'));
    CHECK(h->has_query || h->query.len == 0);
    CHECK(h->path_encoded == (h->path.len && memchr(text + h->path.off, '%', h->path.len)));
    CHECK(!memchr(text + h->target.off, '#', h->target.len));
    switch (h->target_form) {
    case HF_TARGET_ORIGIN:
        CHECK(h->path.len && h->authority.len == 0);
        break;
    case HF_TARGET_ABSOLUTE:
        CHECK(h->authority.len && !memchr(text + h->authority.off, '@', h->authority.len));
        break;
    case HF_TARGET_AUTHORITY:
        CHECK(same_slice(h->authority, h->target) && h->path.len == 0);
        CHECK(h->method.len == 7 && memcmp(text + h->method.off, "CONNECT", 7) == 0);
        break;
    default:
        CHECK(h->target_form == HF_TARGET_ASTERISK && h->target.len == 1);
    }
    CHECK(h->minor <= 1 && h->content_length >= -1);
    CHECK(!h->chunked || (h->content_length == -1 && h->minor == 1));
    CHECK(!h->expect_continue || h->minor == 1);
    CHECK(h->n_fields <= limits->max_fields && h->n_fields <= HF_HTTP1_MAX_FIELDS);
    for (uint32_t i = 0; i < h->n_fields; i++) {
        check_field(&h->fields[i], text, head);
        hosts += h->fields[i].id == HF_HDR_HOST;
        underscore |= h->fields[i].underscore;
    }
    CHECK(hosts == 1 || (hosts == 0 && h->minor == 0));
    CHECK(h->any_underscore == underscore);

    /* the path decodes to the same apart and in place, and never grows */
    char *apart = malloc(h->path.len + 1u), *in_place = malloc(h->path.len + 1u);
    CHECK(apart && in_place);
    memcpy(in_place, text + h->path.off, h->path.len);
    const ptrdiff_t n = hf_percent_decode(apart, text + h->path.off, h->path.len);
    CHECK(hf_percent_decode(in_place, in_place, h->path.len) == n);
    CHECK(n <= (ptrdiff_t)h->path.len);
    CHECK(n < 0 || memcmp(apart, in_place, (size_t)n) == 0);
    CHECK(n < 0 || !memchr(apart, 0, (size_t)n));
    free(apart);
    free(in_place);
}

static void check(const uint8_t *data, size_t size, const hf_http1_limits *limits)
{
    static hf_http1_head whole, other;

    hf_scan_select(HF_SCAN_SCALAR);
    hf_http1_head_reset(&whole);
    const int rc = parse(&whole, data, size, limits);
    CHECK(rc == HF_PARSE_MORE || rc == HF_PARSE_DONE || rc == 400 || rc == 414 || rc == 417 || rc == 431 || rc == 501 || rc == 505);
    CHECK(rc != HF_PARSE_MORE || size <= limits->max_head);
    CHECK((rc > HF_PARSE_DONE) == (whole.error != NULL));
    if (rc == HF_PARSE_DONE)
        check_promises(&whole, (const char *)data, size, limits);

    /* cut in three, with each scanner; the later parts are seen by the parser only when it asks for more */
    for (int level = HF_SCAN_SCALAR; level <= HF_SCAN_AVX2; level++) {
        if ((int)hf_scan_select((enum hf_scan_level)level)->level != level)
            continue;
        size_t a = size ? data[size - 1] * size / 255 : 0;
        size_t b = size > 1 ? data[size - 2] * size / 255 : 0;
        if (a > b) {
            const size_t t = a;
            a = b;
            b = t;
        }
        hf_http1_head_reset(&other);
        int other_rc = parse(&other, data, size, limits);
        check_same(&whole, rc, &other, other_rc);

        hf_http1_head_reset(&other);
        other_rc = parse(&other, data, a, limits);
        if (other_rc == HF_PARSE_MORE)
            other_rc = parse(&other, data, b, limits);
        if (other_rc == HF_PARSE_MORE)
            other_rc = parse(&other, data, size, limits);
        check_same(&whole, rc, &other, other_rc);
    }

    if (size <= EACH_BYTE_UP_TO) {
        int other_rc = HF_PARSE_MORE;
        hf_http1_head_reset(&other);
        for (size_t n = 0; n <= size && other_rc == HF_PARSE_MORE; n++)
            other_rc = parse(&other, data, n, limits);
        check_same(&whole, rc, &other, other_rc);
    }

    /* what stands behind a head does not matter */
    if (rc == HF_PARSE_DONE) {
        hf_http1_head_reset(&other);
        check_same(&whole, rc, &other, parse(&other, data, whole.head_len, limits));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const hf_http1_limits usual = HF_HTTP1_LIMITS_DEFAULT;
    const hf_http1_limits tight = {.max_request_line = 40, .max_head = 100, .max_fields = 4};

    check(data, size, &usual);
    check(data, size, &tight);
    return 0;
}
