/* chunked.c - the decoder of chunked.h: a state machine over bytes, with the data of a chunk moved in one piece. */
#include "chunked.h"

#include <string.h>

#include "scan.h"

enum state {
    SIZE,         /* hexadecimal digits of the chunk size */
    EXTENSION,    /* after the ';' of the size line */
    SIZE_LF,      /* after the CR of the size line */
    DATA,         /* `left` bytes of data */
    DATA_CR,      /* the CRLF after the data */
    DATA_LF,
    TRAILER,      /* first byte of a trailer line, or of the empty line that ends the body */
    TRAILER_NAME,
    TRAILER_VALUE,
    TRAILER_LF,
    LAST_LF,      /* after the CR of the empty line */
    DONE,
    FAILED,
};

#define MAX_SIZE_DIGITS 15 /* 2**60 - 1: nothing that is computed from a size can overflow an int64_t */

/* The value of a hexadecimal digit, 255 for any other byte. */
static inline unsigned hex_value(unsigned char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c |= 0x20;
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10u;
    return 255;
}

void hf_chunked_init(hf_chunked *c)
{
    memset(c, 0, sizeof *c);
}

/* Adds `n` bytes to what was spent on other things than data; false when that is more than `max`. */
static inline bool spend(hf_chunked *c, size_t n, uint32_t max)
{
    if (n > max - c->overhead) {
        c->overhead = max;
        return false;
    }
    c->overhead += (uint32_t)n;
    return true;
}

int hf_chunked_decode(hf_chunked *c, char *dst, const char *src, size_t len, size_t *written, size_t *consumed)
{
    const char *p = src;
    const char *const end = src + len;
    char *out = dst;
    const char *why = NULL;

    while (p < end && c->state < DONE) {
        const unsigned char ch = (unsigned char)*p;
        switch (c->state) {
        case SIZE: {
            const unsigned digit = hex_value(ch);
            if (digit < 16) {
                if (c->digits == MAX_SIZE_DIGITS) {
                    why = "chunk size too large";
                    break;
                }
                c->left = c->left << 4 | digit;
                c->digits++;
                p++;
            } else if (c->digits == 0) {
                why = "chunk without a size";
            } else if (ch == '\r') {
                c->state = SIZE_LF;
                p++;
            } else if (ch == ';') {
                c->overhead = c->digits;
                c->state = EXTENSION;
            } else {
                why = "malformed chunk size";
            }
            break;
        }
        case EXTENSION: {
            const char *stop = hf_scan->value_end(p, end);
            if (!spend(c, (size_t)(stop - p), HF_CHUNKED_MAX_EXTENSION)) {
                why = "chunk extension too long";
                break;
            }
            p = stop;
            if (p == end)
                break;
            if (*p != '\r') {
                why = "control character in a chunk extension";
                break;
            }
            c->state = SIZE_LF;
            p++;
            break;
        }
        case SIZE_LF:
            if (ch != '\n') {
                why = "bare CR in a chunk size line";
                break;
            }
            c->overhead = 0;
            c->digits = 0;
            c->state = c->left ? DATA : TRAILER;
            p++;
            break;
        case DATA: {
            const size_t here = (size_t)(end - p);
            const size_t n = here < c->left ? here : (size_t)c->left;
            if (out != p)
                memmove(out, p, n);
            out += n;
            p += n;
            c->left -= n;
            if (c->left == 0)
                c->state = DATA_CR;
            break;
        }
        case DATA_CR:
            if (ch != '\r') {
                why = "chunk data longer than its size";
                break;
            }
            c->state = DATA_LF;
            p++;
            break;
        case DATA_LF:
            if (ch != '\n') {
                why = "bare CR after chunk data";
                break;
            }
            c->state = SIZE;
            p++;
            break;
        case TRAILER:
            if (ch == '\r') {
                c->state = LAST_LF;
                p++;
                break;
            }
            if (hf_scan->token_end(p, p + 1) == p) {
                why = "malformed trailer field name";
                break;
            }
            c->state = TRAILER_NAME;
            break;
        case TRAILER_NAME: {
            const char *stop = hf_scan->token_end(p, end);
            if (!spend(c, (size_t)(stop - p), HF_CHUNKED_MAX_TRAILER)) {
                why = "trailer fields too large";
                break;
            }
            p = stop;
            if (p == end)
                break;
            if (*p != ':') {
                why = "malformed trailer field name";
                break;
            }
            c->state = TRAILER_VALUE;
            break;
        }
        case TRAILER_VALUE: {
            const char *stop = hf_scan->value_end(p, end);
            if (!spend(c, (size_t)(stop - p), HF_CHUNKED_MAX_TRAILER)) {
                why = "trailer fields too large";
                break;
            }
            p = stop;
            if (p == end)
                break;
            if (*p != '\r') {
                why = "control character in a trailer field";
                break;
            }
            c->state = TRAILER_LF;
            p++;
            break;
        }
        case TRAILER_LF:
            if (ch != '\n') {
                why = "bare CR in a trailer field";
                break;
            }
            if (!spend(c, 2, HF_CHUNKED_MAX_TRAILER)) {
                why = "trailer fields too large";
                break;
            }
            c->state = TRAILER;
            p++;
            break;
        case LAST_LF:
            if (ch != '\n') {
                why = "bare CR in the trailer section";
                break;
            }
            c->state = DONE;
            p++;
            break;
        }
        if (HF_UNLIKELY(why != NULL)) {
            c->state = FAILED;
            c->error = why;
        }
    }

    *written = (size_t)(out - dst);
    *consumed = (size_t)(p - src);
    if (c->state == FAILED)
        return HF_CHUNKED_ERROR;
    return c->state == DONE ? HF_CHUNKED_DONE : HF_CHUNKED_MORE;
}
