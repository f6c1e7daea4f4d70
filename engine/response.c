/* response.c - answers, as HTTP/1.1 (RFC 9112) writes them. */
#include "connection.h"
#include "engine.h"
#include "header_names.h"
#include "request.h"
#include "scan.h"

#include <string.h>
#include <strings.h>
#include <unistd.h>

#define FRAME_MAX 24    /* bytes around a chunk: its size line and its end */
#define INLINE_ROOM 12288 /* bytes of a body that are put behind the head in one buffer */

/* --- requests --- */

const char *hf_request_base(const hf_request *r)
{
    static const char empty[1] = "";
    const hf_conn *c = r->conn;
    return c && c->in ? c->in->data + c->in->start : empty;
}

void hf_request_ref(hf_request *r)
{
    r->refs++;
}

void hf_request_unref(hf_request *r)
{
    if (--r->refs || r->queued)
        return;
    hf_body_clear(&r->body);
    r->next = r->engine->request_pool;
    r->engine->request_pool = r;
}

/* The caller's interest ends. */
static void let_go(hf_request *r)
{
    r->running = r->suspended = false;
    if (r->engine->running == r)
        r->engine->running = NULL;
    hf_request_unref(r);
}

void hf_request_suspend(hf_request *r)
{
    r->suspended = true;
    if (!r->conn)
        hf_engine_ready(r, HF_REQ_GONE, false);
    else
        hf_conn_flush(r->conn);
}

void hf_request_notify_writable(hf_request *r, size_t below)
{
    if (!r->conn)
        return;
    r->writable_below = below;
    hf_conn_flush(r->conn);
    if (r->conn && r->writable_below && hf_output_empty(&r->conn->out)) {
        r->writable_below = 0;
        hf_engine_ready(r, HF_REQ_WRITABLE, false);
    }
}

int hf_request_expose_io(hf_request *r)
{
    if (!r->conn)
        return -1;
    r->io_exposed = true;
    hf_conn_flush(r->conn); /* the answers before go first */
    return r->conn ? r->conn->fd : -1;
}

void hf_request_detach(hf_request *r)
{
    if (r->conn) {
        r->suspended = false; /* the caller knows: no HF_REQ_GONE */
        hf_conn_flush(r->conn);
        if (r->conn)
            hf_conn_close(r->conn);
    }
    let_go(r);
}

/* --- names of fields --- */

static inline uint64_t eight(const char *p)
{
    uint64_t v;
    memcpy(&v, p, 8);
    return v;
}

/* Is `name`, a token, this one, which is in lower case and has 8 to 16 characters? 0x20 is what the letters' cases differ in. */
static inline bool is_name(const char *name, size_t len, const char *lower, size_t lower_len)
{
    const uint64_t lower_bits = UINT64_C(0x2020202020202020);
    return len == lower_len && (eight(name) | lower_bits) == eight(lower) &&
           (eight(name + len - 8) | lower_bits) == eight(lower + len - 8);
}

#define IS_NAME(f, literal) is_name((f)->name, (f)->name_len, (literal), sizeof(literal) - 1)

/* --- checking --- */

/* Characters of a token (RFC 9110, section 5.6.2). */
static bool is_token(const char *p, size_t len)
{
    return len && hf_scan->token_end(p, p + len) == p + len;
}

const char *hf_response_check(int status, const hf_field_out *fields, size_t n, size_t *bad)
{
    *bad = 0;
    if (status < 200 && status != 101)
        return status < 100 ? "the status is below 100" : "the status is an interim one (1xx)";
    if (status > 999)
        return "the status is above 999";
    for (size_t i = 0; i < n; i++) {
        const hf_field_out *f = &fields[i];
        *bad = i;
        if (HF_UNLIKELY(!is_token(f->name, f->name_len)))
            return f->name_len ? "a header name has a character that is not allowed" : "a header name is empty";
        const char *end = f->value + f->value_len;
        const char *stop = hf_scan->value_end(f->value, end);
        if (HF_UNLIKELY(stop != end))
            return *stop == '\r' || *stop == '\n' ? "a header value has a CR or LF in it"
                   : *stop == '\0'                ? "a header value has a NUL in it"
                                                  : "a header value has a control character in it";
        if (IS_NAME(f, "content-length")) {
            if (f->value_len == 0 || f->value_len > 18)
                return "Content-Length is not a number";
            for (size_t k = 0; k < f->value_len; k++)
                if (f->value[k] < '0' || f->value[k] > '9')
                    return "Content-Length is not a number";
        }
    }
    return NULL;
}

/* --- heads --- */

enum field_kind { PLAIN, CONTENT_LENGTH, TRANSFER_ENCODING, CONNECTION, DATE, SERVER };

static inline enum field_kind kind_of(const hf_field_out *f)
{
    switch (f->name_len) {
    case 4:
        return strncasecmp(f->name, "Date", 4) == 0 ? DATE : PLAIN;
    case 6:
        return strncasecmp(f->name, "Server", 6) == 0 ? SERVER : PLAIN;
    case 10:
        return IS_NAME(f, "connection") ? CONNECTION : PLAIN;
    case 14:
        return IS_NAME(f, "content-length") ? CONTENT_LENGTH : PLAIN;
    case 17:
        return strncasecmp(f->name, "Transfer-Encoding", 17) == 0 ? TRANSFER_ENCODING : PLAIN;
    default:
        return PLAIN;
    }
}

/* Is `word` one of the comma-separated tokens of this value? */
static bool has_token(const char *v, size_t len, const char *word)
{
    size_t n = strlen(word), i = 0;
    while (i < len) {
        while (i < len && (v[i] == ' ' || v[i] == '\t' || v[i] == ','))
            i++;
        size_t from = i;
        while (i < len && v[i] != ',' && v[i] != ' ' && v[i] != '\t')
            i++;
        if (i - from == n && strncasecmp(v + from, word, n) == 0)
            return true;
    }
    return false;
}

static inline char *put(char *p, const char *data, size_t len)
{
    memcpy(p, data, len);
    return p + len;
}

#define PUT(p, literal) put((p), (literal), sizeof(literal) - 1)

static inline char *put_field(char *p, const hf_field_out *f)
{
    p = put(p, f->name, f->name_len);
    *p++ = ':';
    *p++ = ' ';
    p = put(p, f->value, f->value_len);
    *p++ = '\r';
    *p++ = '\n';
    return p;
}

static size_t fields_size(const hf_field_out *fields, size_t n)
{
    size_t size = 0;
    for (size_t i = 0; i < n; i++)
        size += (size_t)fields[i].name_len + fields[i].value_len + 4;
    return size;
}

static bool asks_to_close(const hf_conn *c, const hf_request *r)
{
    const hf_config *cf = &c->engine->config;
    return !r->head.keep_alive || !cf->keepalive || (hf_engine_draining(c->engine) && !c->engine->handover) ||
           (cf->max_keepalive_requests && c->n_requests + 1 >= cf->max_keepalive_requests);
}

static bool is_head_request(const hf_request *r)
{
    return r->head.method.len == 4 && memcmp(hf_request_base(r) + r->head.method.off, "HEAD", 4) == 0;
}

int hf_response_begin(hf_request *r, int status, const hf_field_out *fields, size_t n, int64_t length, size_t follows)
{
    hf_conn *c = r->conn;
    hf_engine *e = r->engine;
    if (HF_UNLIKELY(!c))
        return -1;
    size_t room = fields_size(fields, n) + sizeof(e->date_block) + HF_STATUS_LINE_MAX + 128;
    if (follows <= INLINE_ROOM)
        room += follows + FRAME_MAX;
    char *const start = hf_output_room(e, &c->out, room);
    if (HF_UNLIKELY(!start)) {
        hf_conn_close(c);
        return -1;
    }
    char *p = start, *length_field = NULL;
    bool has_date = false, has_server = false, has_length = false, app_framed = false;
    bool empty = status == 204 || status == 101; /* neither content nor a length of it */
    int64_t promised = -1;

    r->begun = true;
    r->status = (int16_t)status;
    r->close = asks_to_close(c, r);
    r->no_body = empty || status == 304 || is_head_request(r);
    p += hf_status_line(p, status);
    for (size_t i = 0; i < n; i++) {
        const hf_field_out *f = &fields[i];
        switch (kind_of(f)) {
        case CONTENT_LENGTH:
            if (has_length || app_framed || empty)
                continue;
            has_length = true;
            length_field = p;
            promised = 0;
            for (uint32_t k = 0; k < f->value_len; k++)
                promised = promised * 10 + (f->value[k] - '0');
            break;
        case TRANSFER_ENCODING: /* the application frames its body itself, as Plack::Middleware::Chunked does */
            if (empty || has_token(f->value, f->value_len, "identity"))
                continue;
            app_framed = true;
            if (!has_token(f->value, f->value_len, "chunked"))
                r->close = true; /* nothing else tells where the body ends */
            if (has_length) { /* never both (RFC 9112, section 6.2): Content-Length is taken out again */
                char *after = memchr(length_field, '\n', (size_t)(p - length_field)) + 1;
                memmove(length_field, after, (size_t)(p - after));
                p -= after - length_field;
                has_length = false;
            }
            break;
        case CONNECTION:
            if (has_token(f->value, f->value_len, "close"))
                r->close = true;
            if (!has_token(f->value, f->value_len, "upgrade"))
                continue;
            break;
        case DATE:
            has_date = true;
            break;
        case SERVER:
            has_server = true;
            break;
        case PLAIN:
            break;
        }
        p = put_field(p, f);
    }
    hf_engine_refresh_date(e);
    if (HF_LIKELY(!has_date && !has_server)) {
        p = put(p, e->date_block, e->date_server_len);
    } else {
        if (!has_date)
            p = put(p, e->date_block, e->date_len);
        if (!has_server)
            p = put(p, e->date_block + e->date_len, e->date_server_len - e->date_len);
    }

    r->length_left = -1;
    r->chunked = false;
    if (has_length) {
        r->length_left = promised;
    } else if (app_framed || empty || length == HF_LENGTH_OMIT || status == 304) {
        if (app_framed && r->head.minor == 0)
            r->close = true;
    } else if (length >= 0) {
        p = PUT(p, "Content-Length: ");
        p += hf_format_u64(p, (uint64_t)length);
        p = PUT(p, "\r\n");
        r->length_left = length;
    } else if (r->no_body) {
        ;
    } else if (r->head.minor >= 1) {
        p = PUT(p, "Transfer-Encoding: chunked\r\n");
        r->chunked = true;
    } else {
        r->close = true; /* HTTP/1.0: the body ends with the connection */
    }
    if (status == 101 || (r->head.target_form == HF_TARGET_AUTHORITY && status / 100 == 2))
        r->close = true; /* whatever comes after belongs to another protocol, or to the tunnel */
    if (status == 101)
        ; /* its Connection is the application's */
    else if (r->close)
        p = PUT(p, "Connection: close\r\n");
    else if (HF_UNLIKELY(r->head.minor == 0))
        p = PUT(p, "Connection: keep-alive\r\n");
    p = PUT(p, "\r\n");
    if (status == 101)
        r->no_body = false;
    hf_output_commit(&c->out, (size_t)(p - start));
    return 0;
}

int hf_response_interim(hf_request *r, int status, const hf_field_out *fields, size_t n)
{
    hf_conn *c = r->conn;
    if (!c || r->begun)
        return -1;
    if (r->head.minor == 0)
        return 1;
    char *const start = hf_output_room(r->engine, &c->out, fields_size(fields, n) + HF_STATUS_LINE_MAX + 2);
    if (!start) {
        hf_conn_close(c);
        return -1;
    }
    char *p = start + hf_status_line(start, status);
    for (size_t i = 0; i < n; i++) {
        enum field_kind kind = kind_of(&fields[i]);
        if (kind != CONTENT_LENGTH && kind != TRANSFER_ENCODING) /* it has no content (RFC 9110, section 8.6) */
            p = put_field(p, &fields[i]);
    }
    p = PUT(p, "\r\n");
    hf_output_commit(&c->out, (size_t)(p - start));
    hf_conn_flush(c);
    return r->conn ? 0 : -1;
}

/* --- bodies --- */

/* How many of len bytes may go out: none for HEAD and the like, no more than promised. */
static size_t allowed(hf_request *r, size_t len)
{
    r->body_sent += len;
    if (r->no_body)
        return 0;
    if (r->length_left >= 0) {
        if ((uint64_t)len > (uint64_t)r->length_left) {
            r->overlong = true;
            len = (size_t)r->length_left;
        }
        r->length_left -= (int64_t)len;
    }
    return len;
}

static size_t chunk_head(char *dst, size_t len)
{
    static const char hex[] = "0123456789abcdef";
    size_t n = 1;
    for (size_t rest = len >> 4; rest; rest >>= 4)
        n++;
    for (size_t i = n; i-- > 0; len >>= 4)
        dst[i] = hex[len & 15];
    dst[n] = '\r';
    dst[n + 1] = '\n';
    return n + 2;
}

static int out_of_memory(hf_conn *c)
{
    hf_engine_log(c->engine, "out of memory while answering; the connection is closed");
    hf_conn_close(c);
    return -1;
}

int hf_response_write(hf_request *r, const char *data, size_t len)
{
    hf_conn *c = r->conn;
    if (HF_UNLIKELY(!c))
        return -1;
    len = allowed(r, len);
    if (!len)
        return 0;
    size_t room = len + (r->chunked ? FRAME_MAX : 0);
    char *const start = hf_output_room(r->engine, &c->out, room);
    if (HF_UNLIKELY(!start))
        return out_of_memory(c);
    char *p = start;
    if (r->chunked)
        p += chunk_head(p, len);
    p = put(p, data, len);
    if (r->chunked)
        p = PUT(p, "\r\n");
    hf_output_commit(&c->out, (size_t)(p - start));
    return 0;
}

/* Bytes that the layer above keeps and that are not needed after all. */
static void release_now(hf_engine *e, void *owner)
{
    hf_output nothing = {0};
    if (hf_output_ref(e, &nothing, "", 0, owner) == 0)
        hf_output_clear(e, &nothing);
}

static int frame_begin(hf_request *r, size_t len)
{
    char frame[FRAME_MAX];
    return r->chunked ? hf_output_copy(r->engine, &r->conn->out, frame, chunk_head(frame, len)) : 0;
}

static int frame_end(hf_request *r)
{
    return r->chunked ? hf_output_copy(r->engine, &r->conn->out, "\r\n", 2) : 0;
}

int hf_response_write_ref(hf_request *r, const char *data, size_t len, void *owner)
{
    hf_conn *c = r->conn;
    if (c)
        len = allowed(r, len);
    if (HF_UNLIKELY(!c || !len)) {
        release_now(r->engine, owner);
        return c ? 0 : -1;
    }
    if (frame_begin(r, len) < 0 || hf_output_ref(r->engine, &c->out, data, len, owner) < 0) {
        release_now(r->engine, owner);
        return out_of_memory(c);
    }
    return frame_end(r) < 0 ? out_of_memory(c) : 0;
}

int hf_response_sendfile(hf_request *r, int fd, int64_t offset, size_t len)
{
    hf_conn *c = r->conn;
    if (c)
        len = allowed(r, len);
    if (HF_UNLIKELY(!c || !len)) {
        close(fd);
        return c ? 0 : -1;
    }
    if (frame_begin(r, len) < 0) {
        close(fd);
        return out_of_memory(c);
    }
    if (hf_output_file(r->engine, &c->out, fd, offset, len) < 0 || frame_end(r) < 0)
        return out_of_memory(c);
    return 0;
}

int64_t hf_response_flush(hf_request *r)
{
    hf_conn *c = r->conn;
    if (!c)
        return -1;
    hf_conn_flush(c);
    return r->conn ? (int64_t)c->out.bytes : -1;
}

int hf_response_end(hf_request *r)
{
    hf_conn *c = r->conn;
    int rc = 0;
    if (HF_UNLIKELY(!r->begun)) { /* nothing was answered: the client must not wait for it */
        hf_response_abort(r);
        return -1;
    }
    if (HF_LIKELY(c != NULL)) {
        if (r->chunked && hf_output_copy(r->engine, &c->out, "0\r\n\r\n", 5) < 0) {
            out_of_memory(c);
            c = NULL;
        }
        if (r->length_left > 0 && !r->no_body) {
            r->close = true; /* fewer bytes than promised: the end of the connection tells the client */
            rc = -1;
        }
        if (r->overlong)
            rc = 1;
        r->running = r->suspended = false;
        if (c)
            hf_conn_request_done(c);
    }
    let_go(r);
    return rc;
}

void hf_response_abort(hf_request *r)
{
    r->suspended = false;
    if (r->conn) { /* the missing end tells the client; what was made, and the answers before, still go out */
        r->close = true;
        hf_conn_request_done(r->conn);
    }
    let_go(r);
}

void hf_response_simple(hf_request *r, int status)
{
    const char *reason = hf_status_reason(status);
    static const hf_field_out type = {"Content-Type", "text/plain", 12, 10};
    size_t len = strlen(reason);
    if (hf_response_begin(r, status, &type, 1, (int64_t)len + 1, len + 1) == 0) {
        hf_response_write(r, reason, len);
        hf_response_write(r, "\n", 1);
    }
    hf_response_end(r);
}
