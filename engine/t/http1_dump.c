/* http1_dump.c - reads requests from stdin, each behind its length (4 bytes, big-endian), and prints one line for each:
 *
 *   accept METHOD TARGET VERSION FRAMING KEEP_ALIVE HEAD_LEN NAME:VALUE,NAME:VALUE...
 *   refuse STATUS WHY
 *   more
 *
 * METHOD, TARGET, names (in lower case) and values are in hexadecimal, "-" when empty; VERSION is 1.0 or 1.1; FRAMING is
 * "chunked", the Content-Length or "none"; KEEP_ALIVE is 0 or 1. Each request is parsed with every scanner, whole and
 * byte by byte; when they differ the line is "differ WHAT". t/parser_differential.t compares the lines with those of
 * another parser.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "http1.h"
#include "http1_same.h"
#include "scan.h"

static void put_hex(const char *buf, hf_slice s, bool lower)
{
    if (s.len == 0)
        putchar('-');
    for (uint32_t i = 0; i < s.len; i++) {
        unsigned char c = (unsigned char)buf[s.off + i];
        if (lower && c >= 'A' && c <= 'Z')
            c |= 0x20;
        printf("%02x", c);
    }
}

static void dump(const hf_http1_head *h, const char *buf)
{
    printf("accept ");
    put_hex(buf, h->method, false);
    putchar(' ');
    put_hex(buf, h->target, false);
    printf(" 1.%d ", h->minor);
    if (h->chunked)
        printf("chunked");
    else if (h->content_length >= 0)
        printf("%lld", (long long)h->content_length);
    else
        printf("none");
    printf(" %d %u ", h->keep_alive, h->head_len);
    for (uint32_t i = 0; i < h->n_fields; i++) {
        if (i)
            putchar(',');
        put_hex(buf, h->fields[i].name, true);
        putchar(':');
        put_hex(buf, h->fields[i].value, false);
    }
    putchar('\n');
}

int main(void)
{
    static hf_http1_head first, h;
    const hf_http1_limits limits = HF_HTTP1_LIMITS_DEFAULT;
    unsigned char prefix[4];

    while (fread(prefix, 1, 4, stdin) == 4) {
        const size_t len = (size_t)prefix[0] << 24 | (size_t)prefix[1] << 16 | (size_t)prefix[2] << 8 | prefix[3];
        char *buf = malloc(len ? len : 1);
        if (!buf || fread(buf, 1, len, stdin) != len) {
            fprintf(stderr, "http1_dump: input cut short\n");
            return 2;
        }

        hf_scan_select(HF_SCAN_SCALAR);
        hf_http1_head_reset(&first);
        const int rc = hf_http1_parse(&first, buf, len, &limits);
        const char *difference = NULL;
        for (int level = HF_SCAN_SCALAR; level <= HF_SCAN_AVX2 && !difference; level++) {
            hf_scan_select((enum hf_scan_level)level);
            for (int bytewise = 0; bytewise <= 1 && !difference; bytewise++) {
                int other = HF_PARSE_MORE;
                hf_http1_head_reset(&h);
                for (size_t n = bytewise ? 1 : len; n <= len && other == HF_PARSE_MORE; n++)
                    other = hf_http1_parse(&h, buf, n, &limits);
                difference = other != rc ? "outcome" : rc == HF_PARSE_MORE ? NULL : head_difference(&first, &h);
            }
        }

        if (difference)
            printf("differ %s\n", difference);
        else if (rc == HF_PARSE_DONE)
            dump(&first, buf);
        else if (rc == HF_PARSE_MORE)
            printf("more\n");
        else
            printf("refuse %d %s\n", rc, first.error);
        free(buf);
    }
    return 0;
}
