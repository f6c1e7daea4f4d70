/* answers.h - reads what the server wrote as a strict client would, written apart from the engine so that the two can
 * disagree. For tests and fuzz targets.
 */
#ifndef HF_T_ANSWERS_H
#define HF_T_ANSWERS_H

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum answer_rc {
    ANSWER_MORE, /* well-formed so far, but not all of it is here */
    ANSWER_DONE,
    ANSWER_BAD,  /* `why` says what is wrong */
};

typedef struct answer {
    const char *why;
    int status;
    size_t head_len;        /* bytes of the head */
    size_t used;            /* bytes of all of it */
    char *body;             /* decoded, behind it a NUL; to be freed by answer_free */
    size_t body_len;
    bool chunked;           /* framing: chunked, */
    long long length;       /* Content-Length (-1: none), */
    bool until_end;         /* or the end of the connection */
    bool close, keep_alive; /* what Connection said */
    bool has_date, has_server;
} answer;

__attribute__((unused)) static void answer_free(answer *a)
{
    free(a->body);
    a->body = NULL;
}

static enum answer_rc answer_bad(answer *a, const char *why)
{
    a->why = why;
    return ANSWER_BAD;
}

/* The end of the line at p without its CRLF; NULL if it is not complete. */
static const char *answer_line_end(const char *p, const char *end)
{
    const char *lf = memchr(p, '\n', (size_t)(end - p));
    return lf && lf > p && lf[-1] == '\r' ? lf - 1 : NULL;
}

static bool answer_has_word(const char *p, const char *end, const char *word)
{
    const size_t n = strlen(word);
    while (p < end) {
        while (p < end && (*p == ' ' || *p == ','))
            p++;
        const char *from = p;
        while (p < end && *p != ' ' && *p != ',')
            p++;
        if ((size_t)(p - from) == n && strncasecmp(from, word, n) == 0)
            return true;
    }
    return false;
}

static enum answer_rc answer_chunks(answer *a, const char *p, const char *end, const char *start)
{
    size_t room = 0;
    for (;;) {
        const char *eol = answer_line_end(p, end);
        if (!eol)
            return end - p > 20 ? answer_bad(a, "an endless chunk size") : ANSWER_MORE;
        if (eol - p < 1 || eol - p > 16 || strspn(p, "0123456789abcdefABCDEF") != (size_t)(eol - p))
            return answer_bad(a, "a malformed chunk size");
        const size_t n = strtoull(p, NULL, 16);
        p = eol + 2;
        if (n == 0) {
            if (end - p < 2)
                return ANSWER_MORE;
            if (memcmp(p, "\r\n", 2) != 0)
                return answer_bad(a, "trailers, or junk, behind the last chunk");
            a->used = (size_t)(p + 2 - start);
            return ANSWER_DONE;
        }
        const size_t here = (size_t)(end - p) < n ? (size_t)(end - p) : n;
        if (a->body_len + here >= room) {
            room = (a->body_len + here) * 2 + 64;
            a->body = realloc(a->body, room);
            if (!a->body)
                abort();
        }
        memcpy(a->body + a->body_len, p, here);
        a->body_len += here;
        a->body[a->body_len] = '\0';
        if ((size_t)(end - p) < n + 2)
            return ANSWER_MORE;
        if (memcmp(p + n, "\r\n", 2) != 0)
            return answer_bad(a, "a chunk longer than its size");
        p += n + 2;
    }
}

/* Reads one answer at data. `eof`: nothing more comes. `to_head`: it answers a HEAD request. The result is to be given to
 * answer_free() in any case. */
__attribute__((unused)) static enum answer_rc answer_read(answer *a, const char *data, size_t len, bool eof, bool to_head)
{
    const char *p = data, *const end = data + len, *eol;
    bool has_length = false;

    memset(a, 0, sizeof *a);
    a->length = -1;
    if (len >= 9 && memcmp(p, "HTTP/1.1 ", 9) != 0)
        return answer_bad(a, "not HTTP/1.1");
    if (!(eol = answer_line_end(p, end)))
        return ANSWER_MORE;
    if (eol - p < 13 || p[9] < '1' || p[9] > '9' || p[10] < '0' || p[10] > '9' || p[11] < '0' || p[11] > '9' || p[12] != ' ')
        return answer_bad(a, "a malformed status line");
    a->status = (p[9] - '0') * 100 + (p[10] - '0') * 10 + p[11] - '0';
    for (p = eol + 2;; p = eol + 2) {
        if (!(eol = answer_line_end(p, end)))
            return ANSWER_MORE;
        if (eol == p)
            break;
        const char *colon = memchr(p, ':', (size_t)(eol - p));
        if (!colon || colon == p || colon[1] != ' ' || memchr(p, ' ', (size_t)(colon - p)))
            return answer_bad(a, "a malformed header line");
        const char *value = colon + 2;
        for (const char *c = value; c < eol; c++)
            if (((unsigned char)*c < ' ' && *c != '\t') || *c == 0x7f)
                return answer_bad(a, "a control character in a header");
        const size_t n = (size_t)(colon - p);
        if (n == 14 && strncasecmp(p, "Content-Length", n) == 0) {
            if (has_length)
                return answer_bad(a, "two Content-Lengths");
            if (value == eol || strspn(value, "0123456789") != (size_t)(eol - value))
                return answer_bad(a, "a malformed Content-Length");
            has_length = true;
            a->length = strtoll(value, NULL, 10);
        } else if (n == 17 && strncasecmp(p, "Transfer-Encoding", n) == 0) {
            if (a->chunked || strncasecmp(value, "chunked\r", 8) != 0)
                return answer_bad(a, "an unexpected Transfer-Encoding");
            a->chunked = true;
        } else if (n == 10 && strncasecmp(p, "Connection", n) == 0) {
            a->close |= answer_has_word(value, eol, "close");
            a->keep_alive |= answer_has_word(value, eol, "keep-alive");
        } else if (n == 4 && strncasecmp(p, "Date", n) == 0) {
            if (a->has_date)
                return answer_bad(a, "two Dates");
            a->has_date = true;
        } else if (n == 6 && strncasecmp(p, "Server", n) == 0) {
            if (a->has_server)
                return answer_bad(a, "two Servers");
            a->has_server = true;
        }
    }
    p += 2;
    a->head_len = a->used = (size_t)(p - data);
    if (a->chunked && has_length)
        return answer_bad(a, "Content-Length and Transfer-Encoding together");
    if (a->close && a->keep_alive)
        return answer_bad(a, "close and keep-alive together");
    if (a->status < 200 && (a->chunked || has_length))
        return answer_bad(a, "a length of an interim answer");
    if ((a->status < 200 && a->status != 101) || a->status == 204 || a->status == 304 || to_head)
        return ANSWER_DONE;
    if (a->chunked)
        return answer_chunks(a, p, end, data);
    size_t n = (size_t)(end - p);
    a->until_end = !has_length;
    if (has_length && n > (unsigned long long)a->length)
        n = (size_t)a->length;
    a->body = malloc(n + 1);
    if (!a->body)
        abort();
    memcpy(a->body, p, n);
    a->body[n] = '\0';
    a->body_len = n;
    a->used += n;
    if (a->until_end)
        return eof ? ANSWER_DONE : ANSWER_MORE;
    return n == (unsigned long long)a->length ? ANSWER_DONE : ANSWER_MORE;
}

#endif
