// sources: toolkit/core_multipart.c
/* fuzz_multipart.c - the parser of multipart bodies: the same parts and the same error for any cut, one byte at a time
 * included, whatever a plain search finds, and nothing read outside the body.
 *
 * The input is the boundary, a line feed, and the body; its last bytes also choose the length of the pieces.
 */
#include "../toolkit/core_multipart.h"

#include <stdlib.h>
#include <string.h>

#include "target.h"

/* What the sink was told, written down: H block, B bytes (joined), E. */
typedef struct record {
    char *bytes;
    size_t len, room;
    bool in_body;
    unsigned parts, stop_at;
} record;

static void note(record *r, const char *bytes, size_t n)
{
    CHECK(n <= r->room - r->len);
    if (n)
        memcpy(r->bytes + r->len, bytes, n);
    r->len += n;
}

static bool on_header(void *user, const char *block, size_t len)
{
    record *r = user;
    CHECK(!r->in_body);
    CHECK(len >= 4 && memcmp(block + len - 4, "\r\n\r\n", 4) == 0);
    note(r, "H", 1);
    note(r, block, len);
    note(r, "B", 1);
    r->in_body = true;
    return ++r->parts != r->stop_at;
}

static bool on_body(void *user, const char *bytes, size_t len, bool final)
{
    record *r = user;
    CHECK(r->in_body);
    note(r, bytes, len);
    if (final) {
        note(r, "E", 1);
        r->in_body = false;
    }
    return true;
}

static const hf_multipart_sink sink = {on_header, on_body};

/* Parses in pieces, each in memory of exactly its size. `straight`: put where the parser wants them. */
static const char *parse(record *r, const char *boundary, size_t boundary_len, const uint8_t *body, size_t size,
                         size_t piece, bool straight)
{
    hf_multipart mp;
    const char *error;
    size_t at = 0;

    r->len = 0;
    r->parts = 0;
    r->in_body = false;
    CHECK(hf_multipart_init(&mp, boundary, boundary_len, &sink, r));
    while (at < size) {
        const size_t n = size - at < piece ? size - at : piece;
        bool ok;
        if (straight) {
            char *room = hf_multipart_reserve(&mp, n);
            CHECK(room);
            memcpy(room, body + at, n);
            ok = hf_multipart_commit(&mp, n, false);
        }
        else {
            char *copy = malloc(n);
            CHECK(copy);
            memcpy(copy, body + at, n);
            ok = hf_multipart_feed(&mp, copy, n);
            free(copy);
        }
        at += n;
        CHECK(ok == !hf_multipart_failed(&mp));
        if (!ok && !r->stop_at)
            CHECK(hf_multipart_error(&mp));
        if (!ok && at > size / 2)
            break;
    }
    CHECK(hf_multipart_finish(&mp) == !hf_multipart_failed(&mp));
    error = hf_multipart_error(&mp);
    CHECK(error || hf_multipart_failed(&mp) || mp.state == HF_MULTIPART_EPILOGUE);
    hf_multipart_free(&mp);
    return error;
}

static const char *find(const char *p, size_t n, const char *needle, size_t len)
{
    for (; n >= len; p++, n--)
        if (memcmp(p, needle, len) == 0)
            return p;
    return NULL;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const uint8_t *line = size ? memchr(data, '\n', size) : NULL;
    record whole = {0}, cut = {0};
    const char *expected, *boundary;
    const uint8_t *body;
    size_t boundary_len, body_len, i;

    if (!line || !hf_multipart_is_boundary((const char *)data, (size_t)(line - data)))
        return 0;
    boundary = (const char *)data;
    boundary_len = (size_t)(line - data);
    body = line + 1;
    body_len = size - boundary_len - 1;
    /* The limits are applied at the end of a piece, so beyond them the cut does matter. */
    if (body_len > HF_MULTIPART_MAX_HEADER)
        return 0;

    CHECK(hf_multipart_find((const char *)body, body_len, boundary, boundary_len) ==
          find((const char *)body, body_len, boundary, boundary_len));

    whole.room = cut.room = body_len + 4 * (body_len / 4 + 1) + 16;
    whole.bytes = malloc(whole.room);
    cut.bytes = malloc(cut.room);
    CHECK(whole.bytes && cut.bytes);
    for (whole.stop_at = 0; whole.stop_at < 3; whole.stop_at += 2) {
        const size_t pieces[] = {1, 2, body_len ? 1u + body[body_len - 1] : 1, body_len > 1 ? 1u + body[body_len - 2] % 16u : 1,
                                 body_len + 1};
        cut.stop_at = whole.stop_at;
        expected = parse(&whole, boundary, boundary_len, body, body_len, body_len + 1, false);
        for (i = 0; i < sizeof pieces / sizeof *pieces; i++) {
            const char *error = parse(&cut, boundary, boundary_len, body, body_len, pieces[i], i % 2);
            CHECK(error == expected || (error && expected && strcmp(error, expected) == 0));
            /* What is not over may not have been told in full, but for its beginning. */
            if (whole.in_body)
                CHECK(cut.in_body && cut.parts == whole.parts);
            else
                CHECK(cut.len == whole.len && memcmp(cut.bytes, whole.bytes, whole.len) == 0);
        }
    }
    free(whole.bytes);
    free(cut.bytes);
    return 0;
}
