// sources: engine/chunked.c engine/scan.c
/* fuzz_chunked.c - the decoder of chunked bodies: the same outcome and the same bytes for any cut and any scanner, and
 * never more written or read than there is.
 *
 * The input is the body itself; its last bytes also choose the length of the pieces.
 */
#include "chunked.h"

#include <stdlib.h>
#include <string.h>

#include "scan.h"
#include "target.h"

typedef struct result {
    int rc;
    size_t len;  /* of the body */
    size_t used; /* bytes that were read */
    const char *error;
} result;

/* Decodes in pieces of `piece` bytes, each in place in memory of exactly its size; the body goes to `body`, which has
 * room for `size` bytes. */
static result decode(const uint8_t *data, size_t size, size_t piece, char *body)
{
    hf_chunked c;
    result r = {HF_CHUNKED_MORE, 0, 0, NULL};

    hf_chunked_init(&c);
    while (r.rc == HF_CHUNKED_MORE && r.used < size) {
        const size_t n = size - r.used < piece ? size - r.used : piece;
        size_t written = SIZE_MAX, consumed = SIZE_MAX;
        char *copy = malloc(n);
        CHECK(copy);
        memcpy(copy, data + r.used, n);
        r.rc = hf_chunked_decode(&c, copy, copy, n, &written, &consumed);
        CHECK(consumed <= n && written <= consumed);
        CHECK(r.rc != HF_CHUNKED_MORE || consumed == n);
        CHECK(r.rc == HF_CHUNKED_MORE || r.rc == HF_CHUNKED_DONE || r.rc == HF_CHUNKED_ERROR);
        memcpy(body + r.len, copy, written);
        free(copy);
        r.len += written;
        r.used += consumed;
    }
    CHECK((r.rc == HF_CHUNKED_ERROR) == (c.error != NULL));
    r.error = c.error;
    return r;
}

/* The data of chunks read from the text in the plainest way; only asked about texts that the decoder takes. */
static size_t reread(const uint8_t *data, size_t size, char *body)
{
    const char *p = (const char *)data;
    size_t len = 0;

    for (;;) {
        char *after;
        const size_t n = strtoull(p, &after, 16);
        p = (const char *)memchr(after, '\n', (size_t)((const char *)data + size - after)) + 1;
        if (n == 0)
            return len;
        memcpy(body + len, p, n);
        len += n;
        p += n + 2;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *body = malloc(size + 1), *other = malloc(size + 1);
    const size_t pieces[] = {size, 1, size ? 1u + data[size - 1] : 1, size > 1 ? 1u + data[size - 2] % 16u : 1};

    CHECK(body && other);
    hf_scan_select(HF_SCAN_SCALAR);
    const result whole = decode(data, size, size, body);

    for (int level = HF_SCAN_SCALAR; level <= HF_SCAN_AVX2; level++) {
        if ((int)hf_scan_select((enum hf_scan_level)level)->level != level)
            continue;
        for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++) {
            const result r = decode(data, size, pieces[i], other);
            CHECK(r.rc == whole.rc && r.len == whole.len && memcmp(body, other, r.len) == 0);
            CHECK(r.error == whole.error);
            CHECK(r.rc != HF_CHUNKED_DONE || r.used == whole.used);
        }
    }

    if (whole.rc == HF_CHUNKED_DONE) {
        CHECK(memcmp(data + whole.used - 4, "\r\n\r\n", 4) == 0);
        CHECK(reread(data, size, other) == whole.len && memcmp(body, other, whole.len) == 0);

        /* what stands behind the body does not matter */
        const result r = decode(data, whole.used, whole.used, other);
        CHECK(r.rc == whole.rc && r.len == whole.len && r.used == whole.used);
    }
    free(body);
    free(other);
    return 0;
}
