/* http1.c - the request head parser of http1.h.
 *
 * It goes from left to right and refuses at the first byte that is wrong, so that the outcome depends on the bytes
 * only, never on how they were cut into reads. A line that is not complete is looked at again when more has come, from
 * `scanned` on, so a head that arrives byte by byte costs about as much as one that arrives whole.
 */
#include "http1.h"

#include <string.h>

#include "scan.h"

enum state { EMPTY_LINES, REQUEST_LINE, FIELDS, COMPLETE, REFUSED };

enum connection_bits { SAYS_CLOSE = 1, SAYS_KEEP_ALIVE = 2 };

#define MAX_EMPTY_LINES 8 /* before the request line; some clients send one after a body (RFC 9112, 2.2) */
#define MAX_METHOD 32
#define MAX_LENGTH_DIGITS 18 /* of Content-Length: always fits an int64_t */

static HF_COLD int refuse(hf_http1_head *head, int status, const char *why)
{
    head->state = REFUSED;
    head->status = (uint16_t)status;
    head->error = why;
    return status;
}

static inline hf_slice slice(const char *buf, const char *from, const char *to)
{
    return (hf_slice){(uint32_t)(from - buf), (uint32_t)(to - from)};
}

static inline bool is_space(char c)
{
    return c == ' ' || c == '\t';
}

static inline bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Whether p[0..len) is `word`, which is lower case, in any case. Only letters of `word` match in two cases. */
static bool is_word(const char *p, size_t len, const char *word)
{
    if (strlen(word) != len)
        return false;
    for (size_t i = 0; i < len; i++) {
        char c = p[i];
        if (c >= 'A' && c <= 'Z')
            c |= 0x20;
        if (c != word[i])
            return false;
    }
    return true;
}

/* Takes the next member of a comma-separated list at *p, without the white space around it; it may be empty. Returns
 * false when the list has been read. A list of nothing has one empty member. */
static bool next_member(const char **p, const char *end, const char **member, size_t *len)
{
    const char *from = *p;
    if (from == NULL)
        return false;
    const char *comma = memchr(from, ',', (size_t)(end - from));
    const char *to = comma ? comma : end;
    *p = comma ? comma + 1 : NULL;
    while (from < to && is_space(*from))
        from++;
    while (from < to && is_space(to[-1]))
        to--;
    *member = from;
    *len = (size_t)(to - from);
    return true;
}

/* ---- host names ---- */

/* Characters of a reg-name (RFC 3986, 3.2.2) but for the comma, which in a Host value means that two were joined. */
static const uint8_t host_char[256] = {
    ['0' ... '9'] = 1, ['A' ... 'Z'] = 1, ['a' ... 'z'] = 1, ['-'] = 1, ['.'] = 1, ['_'] = 1, ['~'] = 1,
    ['%'] = 1,         ['!'] = 1,         ['$'] = 1,         ['&'] = 1, ['\''] = 1, ['('] = 1, [')'] = 1,
    ['*'] = 1,         ['+'] = 1,         [';'] = 1,         ['='] = 1,
};

/* Whether [p, end) is host or host:port; the host may be an IPv6 address in brackets and is never empty, the digits of
 * the port may be missing unless `need_port`. */
static bool is_host(const char *p, const char *end, bool need_port)
{
    const char *host = p;

    if (p < end && *p == '[') {
        p++;
        while (p < end && (is_digit(*p) || (*p >= 'a' && *p <= 'f') || (*p >= 'A' && *p <= 'F') || *p == ':' || *p == '.'))
            p++;
        if (p - host < 3 || p == end || *p != ']') /* "::" is the shortest address */
            return false;
        p++;
    } else {
        while (p < end && host_char[(unsigned char)*p])
            p++;
        if (p == host)
            return false;
    }
    if (p == end)
        return !need_port;
    if (*p++ != ':')
        return false;

    const char *digits = p;
    unsigned port = 0;
    for (; p < end; p++) {
        if (!is_digit(*p) || p - digits == 5)
            return false;
        port = port * 10 + (unsigned)(*p - '0');
    }
    return port <= 65535 && (p > digits || !need_port);
}

/* ---- the request line ---- */

/* Splits [from, to), a path and maybe a query. */
static void split_path(hf_http1_head *head, const char *buf, const char *from, const char *to)
{
    const char *question = memchr(from, '?', (size_t)(to - from));
    const char *path_end = question ? question : to;

    head->path = slice(buf, from, path_end);
    head->path_encoded = memchr(from, '%', (size_t)(path_end - from)) != NULL;
    if (question) {
        head->has_query = true;
        head->query = slice(buf, question + 1, to);
    }
}

/* "http://" or "https://" authority [path] [?query] (RFC 9112, 3.2.2) */
static int read_absolute_target(hf_http1_head *head, const char *buf, const char *from, const char *to)
{
    const char *colon = memchr(from, ':', (size_t)(to - from));

    if (!colon || to - colon < 3 || colon[1] != '/' || colon[2] != '/' ||
        !(is_word(from, (size_t)(colon - from), "http") || is_word(from, (size_t)(colon - from), "https")))
        return refuse(head, 400, "malformed request target");

    const char *authority = colon + 3;
    const char *p = authority;
    while (p < to && *p != '/' && *p != '?')
        p++;
    if (!is_host(authority, p, false))
        return refuse(head, 400, "malformed authority in the request target");
    head->target_form = HF_TARGET_ABSOLUTE;
    head->authority = slice(buf, authority, p);
    split_path(head, buf, p, to);
    return 0;
}

/* The four forms of a request target (RFC 9112, 3.2). Returns 0 or a status. */
static int read_target(hf_http1_head *head, const char *buf, const char *from, const char *to)
{
    const char *method = buf + head->method.off;
    const size_t len = (size_t)(to - from);

    head->target = slice(buf, from, to);
    if (memchr(from, '#', len))
        return refuse(head, 400, "fragment in the request target");

    if (HF_UNLIKELY(head->method.len == 7)) {
        if (memcmp(method, "CONNECT", 7) == 0) {
            if (!is_host(from, to, true))
                return refuse(head, 400, "CONNECT with a target that is not host:port");
            head->target_form = HF_TARGET_AUTHORITY;
            head->authority = head->target;
            return 0;
        }
        if (len == 1 && *from == '*' && memcmp(method, "OPTIONS", 7) == 0) {
            head->target_form = HF_TARGET_ASTERISK;
            return 0;
        }
    }
    if (HF_LIKELY(*from == '/')) {
        head->target_form = HF_TARGET_ORIGIN;
        if (len == 1)
            head->path = head->target;
        else
            split_path(head, buf, from, to);
        return 0;
    }
    return read_absolute_target(head, buf, from, to);
}

/* Whether p[0..n) may be the beginning of "HTTP/" DIGIT "." DIGIT. `n` is at most 8. */
static bool begins_version(const char *p, size_t n)
{
    static const char form[] = "HTTP/0.0";
    for (size_t i = 0; i < n; i++) {
        if (form[i] == '0' ? !is_digit(p[i]) : p[i] != form[i])
            return false;
    }
    return true;
}

/* The line goes on where the read bytes end (`stop` == `end`) or where it becomes too long. */
static int request_line_cut(hf_http1_head *head, const char *stop, const char *end)
{
    if (stop == end)
        return HF_PARSE_MORE;
    if (*stop == '\r')
        return refuse(head, 400, "malformed request line");
    return refuse(head, 414, "request line too long");
}

/* method SP target SP version CRLF (RFC 9112, 3). On HF_PARSE_DONE the line has been read. */
static int read_request_line(hf_http1_head *head, const char *buf, const char *end, uint32_t max)
{
    const char *p = buf + head->start;
    const char *stop = (size_t)(end - p) > max ? p + max : end; /* beyond it only CRLF may stand */

    if (HF_LIKELY(stop - p >= 4 && memcmp(p, "GET ", 4) == 0)) {
        head->method = (hf_slice){head->start, 3};
        p += 4;
    } else {
        const char *method = p;
        p = hf_scan->token_end(p, stop - p > MAX_METHOD ? p + MAX_METHOD + 1 : stop);
        if (p - method > MAX_METHOD)
            return refuse(head, 400, "method too long");
        if (p == stop)
            return request_line_cut(head, stop, end);
        if (*p != ' ' || p == method)
            return refuse(head, 400, "malformed method");
        head->method = slice(buf, method, p);
        p++;
    }

    const char *target = p;
    if (HF_UNLIKELY(head->scanned > (uint32_t)(p - buf)))
        p = buf + head->scanned;
    p = hf_scan->target_end(p, stop);
    head->scanned = (uint32_t)(p - buf);
    if (HF_UNLIKELY(p == stop))
        return request_line_cut(head, stop, end);
    if (HF_UNLIKELY(*p != ' ' || p == target))
        return refuse(head, 400, "malformed request line");
    const int status = read_target(head, buf, target, p);
    if (HF_UNLIKELY(status))
        return status;
    p++;

    if (HF_LIKELY(stop - p >= 8)) {
        if (HF_LIKELY(memcmp(p, "HTTP/1.", 7) == 0 && is_digit(p[7])))
            head->minor = p[7] != '0';
        else if (begins_version(p, 8))
            return refuse(head, 505, "not HTTP/1.x");
        else
            return refuse(head, 400, "malformed HTTP version");
        p += 8;
    } else {
        if (!begins_version(p, (size_t)(stop - p)))
            return refuse(head, 400, "malformed HTTP version");
        return request_line_cut(head, stop, end);
    }

    if (p == end)
        return HF_PARSE_MORE;
    if (HF_UNLIKELY(*p != '\r')) {
        if (p == stop)
            return request_line_cut(head, stop, end);
        return refuse(head, 400, "malformed request line");
    }
    if (p + 1 == end)
        return HF_PARSE_MORE;
    if (HF_UNLIKELY(p[1] != '\n'))
        return refuse(head, 400, "bare CR in the request line");
    head->pos = (uint32_t)(p + 2 - buf);
    head->scanned = 0;
    head->state = FIELDS;
    return HF_PARSE_DONE;
}

/* ---- fields with a meaning for the framing or the connection; each returns 0 or a status ---- */

static int read_host(hf_http1_head *head, hf_slice value, const char *p, const char *end)
{
    if (head->n_host++)
        return refuse(head, 400, "more than one Host field");
    if (p < end && !is_host(p, end, false))
        return refuse(head, 400, "malformed Host field");
    head->host = value;
    return 0;
}

/* RFC 9110, 8.6. Repeated equal values are taken as one, whether they came as a list or as several fields. */
static int read_content_length(hf_http1_head *head, const char *p, const char *end)
{
    const char *digits;
    size_t len;

    if (head->chunked)
        return refuse(head, 400, "Content-Length together with Transfer-Encoding");
    while (next_member(&p, end, &digits, &len)) {
        int64_t n = 0;
        if (len == 0 || len > MAX_LENGTH_DIGITS)
            return refuse(head, 400, "malformed Content-Length");
        for (size_t i = 0; i < len; i++) {
            if (!is_digit(digits[i]))
                return refuse(head, 400, "malformed Content-Length");
            n = n * 10 + (digits[i] - '0');
        }
        if (head->content_length >= 0 && head->content_length != n)
            return refuse(head, 400, "differing Content-Length values");
        head->content_length = n;
    }
    return 0;
}

/* RFC 9112, 6.1: only "chunked" itself is understood, and it must come last and once. */
static int read_transfer_encoding(hf_http1_head *head, const char *p, const char *end)
{
    const char *coding;
    size_t len;
    bool other = false;

    if (head->minor == 0)
        return refuse(head, 400, "Transfer-Encoding in an HTTP/1.0 request");
    if (head->content_length >= 0)
        return refuse(head, 400, "Content-Length together with Transfer-Encoding");
    while (next_member(&p, end, &coding, &len)) {
        if (len == 0)
            return refuse(head, 400, "malformed Transfer-Encoding");
        if (head->chunked)
            return refuse(head, 400, "a transfer coding after chunked");
        if (is_word(coding, len, "chunked"))
            head->chunked = true;
        else
            other = true;
    }
    return other ? refuse(head, 501, "unknown transfer coding") : 0;
}

/* RFC 9110, 7.6.1 */
static int read_connection(hf_http1_head *head, const char *p, const char *end)
{
    const char *option;
    size_t len;

    while (next_member(&p, end, &option, &len)) {
        if (is_word(option, len, "keep-alive"))
            head->connection |= SAYS_KEEP_ALIVE;
        else if (is_word(option, len, "close"))
            head->connection |= SAYS_CLOSE;
        else if (is_word(option, len, "upgrade"))
            head->has_connection_upgrade = true;
    }
    return 0;
}

/* RFC 9110, 10.1.1 */
static int read_expect(hf_http1_head *head, const char *p, const char *end)
{
    if (head->minor == 0)
        return 0;
    if (!is_word(p, (size_t)(end - p), "100-continue"))
        return refuse(head, 417, "Expect with something else than 100-continue");
    head->expect_continue = true;
    return 0;
}

static int read_known_field(hf_http1_head *head, uint8_t id, hf_slice value, const char *p, const char *end)
{
    switch (id) {
    case HF_HDR_HOST:
        return read_host(head, value, p, end);
    case HF_HDR_CONNECTION:
        return read_connection(head, p, end);
    case HF_HDR_CONTENT_LENGTH:
        return read_content_length(head, p, end);
    case HF_HDR_TRANSFER_ENCODING:
        return read_transfer_encoding(head, p, end);
    case HF_HDR_EXPECT:
        return read_expect(head, p, end);
    default:
        return 0;
    }
}

/* ---- the fields ---- */

static const char *what_stopped_value(char c)
{
    return c == '\n' ? "bare LF in a header field" : c == 0 ? "NUL in a header field" : "control character in a header field";
}

/* What is wrong with a line whose name stops at `p` with something else than ':'. */
static const char *what_stopped_name(const char *line, const char *p)
{
    if (p == line)
        return is_space(*p) ? "folded header field" : "header field without a name";
    return is_space(*p) ? "space before the colon of a header field" : "malformed header field name";
}

/* field-line CRLF until the empty line (RFC 9112, 5). On HF_PARSE_DONE the empty line has been read as well. */
static int read_fields(hf_http1_head *head, const char *buf, const char *end, uint32_t max)
{
    const hf_scanner *scan = hf_scan;
    const char *line = buf + head->pos;
    const char *value = NULL; /* of the current line, once its name is known */
    const char *p = line;

    if (head->scanned) {
        p = buf + head->scanned;
        value = head->colon ? buf + head->colon : NULL;
        head->scanned = head->colon = 0;
    }

    for (;;) {
        if (HF_LIKELY(value == NULL)) {
            if (p == line) {
                if (p == end)
                    break;
                if (*p == '\r') {
                    if (p + 1 == end)
                        break;
                    if (p[1] != '\n')
                        return refuse(head, 400, "bare CR in a header field");
                    head->pos = (uint32_t)(p + 2 - buf);
                    return HF_PARSE_DONE;
                }
                if (HF_UNLIKELY(head->n_fields >= max))
                    return refuse(head, 431, "too many header fields");
            }
            p = scan->token_end(p, end);
            if (HF_UNLIKELY(p == end))
                break;
            if (HF_UNLIKELY(*p != ':' || p == line))
                return refuse(head, 400, what_stopped_name(line, p));
            value = ++p;
        }

        p = scan->value_end(p, end);
        if (HF_UNLIKELY(p == end))
            break;
        if (HF_UNLIKELY(*p != '\r'))
            return refuse(head, 400, what_stopped_value(*p));
        if (HF_UNLIKELY(p + 1 == end))
            break;
        if (HF_UNLIKELY(p[1] != '\n'))
            return refuse(head, 400, "bare CR in a header field");

        const char *from = value;
        const char *to = p;
        while (from < to && is_space(*from))
            from++;
        while (from < to && is_space(to[-1]))
            to--;

        hf_field *field = &head->fields[head->n_fields++];
        const size_t name_len = (size_t)(value - 1 - line);
        field->name = slice(buf, line, value - 1);
        field->value = slice(buf, from, to);
        field->id = hf_header_lookup(line, name_len);
        field->underscore = false;
        if (field->id == HF_HDR_OTHER) {
            if (memchr(line, '_', name_len))
                field->underscore = head->any_underscore = true;
        } else if (field->id <= HF_HDR_EXPECT) {
            const int status = read_known_field(head, field->id, field->value, from, to);
            if (HF_UNLIKELY(status))
                return status;
        }
        value = NULL;
        line = p = p + 2;
    }

    head->pos = (uint32_t)(line - buf);
    if (p > line) {
        head->scanned = (uint32_t)(p - buf);
        head->colon = value ? (uint32_t)(value - buf) : 0;
    }
    return HF_PARSE_MORE;
}

_Static_assert(HF_HDR_HOST <= 5 && HF_HDR_CONNECTION <= 5 && HF_HDR_CONTENT_LENGTH <= 5 &&
                   HF_HDR_TRANSFER_ENCODING <= 5 && HF_HDR_EXPECT == 5,
               "the fields that the parser itself reads come first in HF_HEADER_LIST, Expect last of them");

/* CRLF before the request line; what makes the server not answer a client that sends one too many after a body. */
static int skip_empty_lines(hf_http1_head *head, const char *buf, const char *end)
{
    const char *p = buf + head->pos;

    for (; p < end && (*p == '\r' || *p == '\n'); p += 2) {
        if (*p == '\n')
            return refuse(head, 400, "bare LF before the request line");
        if (p + 1 == end)
            break;
        if (p[1] != '\n')
            return refuse(head, 400, "bare CR before the request line");
        if (p - buf == MAX_EMPTY_LINES * 2)
            return refuse(head, 400, "too many empty lines before the request line");
    }
    head->pos = head->start = (uint32_t)(p - buf);
    if (p == end || *p == '\r')
        return HF_PARSE_MORE;
    head->state = REQUEST_LINE;
    return HF_PARSE_DONE;
}

/* What is only known once all fields are. */
static int finish(hf_http1_head *head)
{
    if (HF_UNLIKELY(head->n_host == 0 && head->minor == 1))
        return refuse(head, 400, "no Host field");
    if (head->minor == 1)
        head->keep_alive = !(head->connection & SAYS_CLOSE);
    else
        head->keep_alive = head->connection == SAYS_KEEP_ALIVE;
    head->head_len = head->pos;
    head->state = COMPLETE;
    return HF_PARSE_DONE;
}

void hf_http1_head_reset(hf_http1_head *head)
{
    memset(head, 0, offsetof(hf_http1_head, fields));
    head->content_length = -1;
}

int hf_http1_parse(hf_http1_head *head, const char *buf, size_t len, const hf_http1_limits *limits)
{
    /* Bytes beyond the limit are not looked at, so that a head that is too large is told from a malformed one by where
     * it goes wrong and not by how much of it was there. */
    const char *end = buf + (len > limits->max_head ? limits->max_head : len);
    int rc = HF_PARSE_DONE;

    if (head->state == EMPTY_LINES)
        rc = skip_empty_lines(head, buf, end);
    if (head->state == REQUEST_LINE)
        rc = read_request_line(head, buf, end, limits->max_request_line);
    if (head->state == FIELDS) {
        const uint32_t max = limits->max_fields < HF_HTTP1_MAX_FIELDS ? limits->max_fields : HF_HTTP1_MAX_FIELDS;
        rc = read_fields(head, buf, end, max);
        if (rc == HF_PARSE_DONE)
            rc = finish(head);
    } else if (head->state == REFUSED) {
        return head->status;
    }
    if (rc == HF_PARSE_MORE && len > limits->max_head)
        return refuse(head, 431, "header fields too large");
    return rc;
}

/* ---- percent-decoding (RFC 3986, 2.1) ---- */

/* The value of a hexadecimal digit, -1 for any other byte. */
static inline int hex_value(char c)
{
    if (is_digit(c))
        return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

ptrdiff_t hf_percent_decode(char *dst, const char *src, size_t len)
{
    const char *const end = src + len;
    char *out = dst;

    while (src < end) {
        const char *percent = memchr(src, '%', (size_t)(end - src));
        const size_t plain = (size_t)((percent ? percent : end) - src);
        if (out != src)
            memmove(out, src, plain);
        out += plain;
        src += plain;
        if (!percent)
            break;

        const int high = end - src >= 3 ? hex_value(src[1]) : -1;
        const int low = high >= 0 ? hex_value(src[2]) : -1;
        if (low < 0) {
            *out++ = *src++;
            continue;
        }
        if (high == 0 && low == 0)
            return -1;
        *out++ = (char)(high << 4 | low);
        src += 3;
    }
    return out - dst;
}
