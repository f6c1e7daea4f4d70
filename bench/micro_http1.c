/* micro_http1.c - what parsing one request costs, in nanoseconds, with each scanner.
 *
 * cc -std=gnu11 -O2 -I engine -o micro_http1 bench/micro_http1.c engine/http1.c engine/scan.c engine/header_names.c
 * ./micro_http1 [rounds]
 *
 * Every figure is the best of 15 runs: on a busy machine the smallest is the one that was disturbed least.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "http1.h"
#include "scan.h"

static const char tiny[] = "GET / HTTP/1.1\r\nHost: localhost:5000\r\n\r\n";

static const char browser[] =
    "GET /articles/2024/a-longer-title-than-most?page=2&sort=newest HTTP/1.1\r\n"
    "Host: www.example.org\r\n"
    "Connection: keep-alive\r\n"
    "Cache-Control: max-age=0\r\n"
    "Sec-CH-UA: \"Chromium\";v=\"124\", \"Google Chrome\";v=\"124\", \"Not-A.Brand\";v=\"99\"\r\n"
    "Sec-CH-UA-Mobile: ?0\r\n"
    "Sec-CH-UA-Platform: \"Linux\"\r\n"
    "Upgrade-Insecure-Requests: 1\r\n"
    "User-Agent: Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/124.0.0.0 Safari/537.36\r\n"
    "Accept: text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8\r\n"
    "Sec-Fetch-Site: same-origin\r\n"
    "Sec-Fetch-Mode: navigate\r\n"
    "Sec-Fetch-Dest: document\r\n"
    "Referer: https://www.example.org/articles/2024/\r\n"
    "Accept-Encoding: gzip, deflate, br, zstd\r\n"
    "Accept-Language: en-US,en;q=0.9,de;q=0.8\r\n"
    "Cookie: session=2b5d9a7c1e4f; theme=dark; consent=1\r\n"
    "\r\n";

static const char post[] =
    "POST /api/v1/items HTTP/1.1\r\n"
    "Host: api.example.org\r\n"
    "User-Agent: client/1.0\r\n"
    "Accept: */*\r\n"
    "Content-Type: application/json\r\n"
    "Content-Length: 27\r\n"
    "X-Trace: 0123456789abcdef\r\n"
    "\r\n"
    "{\"name\":\"value\",\"count\":12}";

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static double measure(const char *request, size_t len, long rounds)
{
    static hf_http1_head head;
    const hf_http1_limits limits = HF_HTTP1_LIMITS_DEFAULT;
    double best = 1e30;
    char *copy = malloc(len); /* exactly as long: the case without room for a vector after the last byte */

    memcpy(copy, request, len);
    for (int run = 0; run < 15; run++) {
        const double from = now();
        for (long i = 0; i < rounds; i++) {
            hf_http1_head_reset(&head);
            if (hf_http1_parse(&head, copy, len, &limits) != HF_PARSE_DONE) {
                fprintf(stderr, "refused: %s\n", head.error ? head.error : "incomplete");
                exit(1);
            }
        }
        const double each = (now() - from) / (double)rounds;
        if (each < best)
            best = each;
    }
    free(copy);
    return best;
}

int main(int argc, char **argv)
{
    const long rounds = argc > 1 ? atol(argv[1]) : 200000;
    const struct {
        const char *name, *text;
        size_t len;
    } requests[] = {
        {"tiny", tiny, sizeof tiny - 1}, {"post", post, sizeof post - 1}, {"browser", browser, sizeof browser - 1}};

    printf("%-10s %10s %8s %10s %8s\n", "scanner", "request", "bytes", "ns/parse", "MB/s");
    for (int level = HF_SCAN_SCALAR; level <= HF_SCAN_AVX2; level++) {
        const hf_scanner *scan = hf_scan_select((enum hf_scan_level)level);
        if ((int)scan->level != level)
            continue;
        for (size_t i = 0; i < sizeof requests / sizeof *requests; i++) {
            const double ns = measure(requests[i].text, requests[i].len, rounds);
            printf("%-10s %10s %8zu %10.1f %8.0f\n", scan->name, requests[i].name, requests[i].len, ns,
                   (double)requests[i].len / ns * 1e3);
        }
    }
    return 0;
}
