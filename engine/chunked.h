/* chunked.h - the decoder of chunked transfer coding (RFC 9112, section 7.1), with extensions and trailers.
 *
 * Decodes in place and one piece at a time; holds no bytes back, so a body split anywhere decodes the same.
 */
#ifndef HF_CHUNKED_H
#define HF_CHUNKED_H

#include "base.h"

typedef struct hf_chunked {
    uint64_t left;          /* bytes of the current chunk that are still to come (hf_chunked_left), or its size as read so far */
    uint32_t overhead;      /* bytes of extensions, since the last chunk's data, and of trailers: both have limits */
    uint8_t state;
    uint8_t digits;         /* hexadecimal digits read of the current chunk size */
    const char *error;      /* after an error: what was wrong */
} hf_chunked;

#define HF_CHUNKED_MAX_EXTENSION 4096  /* bytes of one chunk-size line; above: error */
#define HF_CHUNKED_MAX_TRAILER 16384   /* bytes of all trailer fields; above: error */

void hf_chunked_init(hf_chunked *c);

enum { HF_CHUNKED_MORE = 0, HF_CHUNKED_DONE = 1, HF_CHUNKED_ERROR = -1 };

/* Decodes from src[0..len). Writes the body bytes to dst (room for len bytes; dst may be src, decoding in place) and
 * their number to *written; sets *consumed to the bytes of src that were read. Returns HF_CHUNKED_MORE when all of src
 * was read and the body goes on, HF_CHUNKED_DONE when the last chunk and its trailers were read (bytes of src after
 * *consumed belong to the next request), HF_CHUNKED_ERROR for a malformed body: 400 and the connection is closed.
 * Strict: CRLF only, no white space around the size, a size of at most 15 hexadecimal digits, no NUL or bare CR or LF
 * in an extension, trailer lines that are fields (name, ':' at once, value without control characters). */
int hf_chunked_decode(hf_chunked *c, char *dst, const char *src, size_t len, size_t *written, size_t *consumed);

/* Bytes of the current chunk that are still to come; 0 until its whole size line was read, for a size that may yet turn
 * out malformed says nothing. */
static inline uint64_t hf_chunked_left(const hf_chunked *c)
{
    return c->digits ? 0 : c->left;
}

#endif
