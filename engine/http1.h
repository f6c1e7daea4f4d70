/* http1.h - the HTTP/1 request head parser (RFC 9112, sections 2 to 6; field syntax RFC 9110, section 5).
 *
 * It reads a request line and its header fields from a byte buffer that may hold only a part of them. Call
 * hf_http1_parse() again with the same buffer start and more bytes; what was read is not read again, apart from the
 * line that was not yet complete. Everything in the result is an offset into the buffer, so the buffer may be moved
 * between calls. No allocation, no state outside the struct.
 *
 * It is strict where laxness lets two parties disagree about where a request ends (request smuggling), and everything
 * refused is refused with the status that the client should be told.
 */
#ifndef HF_HTTP1_H
#define HF_HTTP1_H

#include "base.h"
#include "header_names.h"

#define HF_HTTP1_MAX_FIELDS 256 /* hard upper bound of max_fields below */

typedef struct hf_http1_limits {
    uint32_t max_request_line; /* bytes of the request line without CRLF; above: 414 */
    uint32_t max_head;         /* bytes of the whole head with the last CRLF CRLF; above: 431 */
    uint32_t max_fields;       /* header fields, at most HF_HTTP1_MAX_FIELDS; above: 431 */
} hf_http1_limits;

#define HF_HTTP1_LIMITS_DEFAULT ((hf_http1_limits){.max_request_line = 16384, .max_head = 65536, .max_fields = 128})

enum hf_target_form { HF_TARGET_ORIGIN, HF_TARGET_ABSOLUTE, HF_TARGET_AUTHORITY, HF_TARGET_ASTERISK };

typedef struct hf_field {
    hf_slice name;
    hf_slice value;    /* without the white space around it; may be empty */
    uint8_t id;        /* enum hf_header_id */
    bool underscore;   /* the name has a '_' in it */
} hf_field;

typedef struct hf_http1_head {
    /* The result, complete when hf_http1_parse() has returned HF_PARSE_DONE. */
    uint32_t head_len;  /* bytes of the head, the empty line included (and any CRLF skipped before the request line) */
    hf_slice method;
    hf_slice target;    /* as sent */
    hf_slice authority; /* absolute-form: host[:port] of the target; authority-form: the target; else empty */
    hf_slice path;      /* still percent-encoded, without the query; "/" may be missing: empty for "*", authority-form
                           and an absolute-form target without a path */
    hf_slice query;     /* after the first '?', without it; empty if there is none */
    hf_slice host;      /* value of the Host field; empty if there is none */
    uint8_t target_form;
    uint8_t minor;      /* HTTP/1.minor: 0 or 1 */
    bool has_query;     /* there was a '?' */
    bool path_encoded;  /* the path has at least one '%' */
    bool chunked;       /* Transfer-Encoding: chunked is the framing */
    bool keep_alive;    /* the connection may go on: 1.1 without "close", 1.0 with "keep-alive" and without "close" */
    bool expect_continue; /* Expect: 100-continue from a 1.1 client (ignored from 1.0, RFC 9110 10.1.1) */
    bool has_connection_upgrade; /* Connection lists "upgrade" */
    bool any_underscore; /* at least one field has a '_' in its name */
    int64_t content_length; /* -1 when there is no Content-Length */
    uint32_t n_fields;

    /* Where parsing goes on. */
    uint8_t state;
    uint32_t pos;       /* start of the first line that is not read yet */
    uint32_t start;     /* start of the request line, after any empty lines */
    uint8_t n_host;
    uint8_t connection; /* what the Connection fields listed so far, as bits */
    uint16_t status;    /* after an error: its status, returned again should parsing be called again */
    uint32_t colon;     /* of the line at `pos`: where its value begins; 0 while the name is not complete */
    uint32_t scanned;   /* of the line at `pos`: the bytes before this offset are known to be good; 0: none are */
    const char *error;  /* after an error: what was wrong, a constant English phrase for the log */

    hf_field fields[HF_HTTP1_MAX_FIELDS]; /* the first n_fields are valid; last, so that a reset is cheap */
} hf_http1_head;

enum {
    HF_PARSE_MORE = 0, /* not all of the head is there yet */
    HF_PARSE_DONE = 1, /* the whole head has been read; head_len says where the body begins */
    /* any other value is the HTTP status to refuse the request with:
     * 400 malformed; 414 request line too long; 417 Expect with something else than 100-continue;
     * 431 head or number of fields too large; 501 a transfer coding that is not known; 505 not HTTP/1.x */
};

/* Makes `head` ready for a new request. Does not touch the fields array (it is large). */
void hf_http1_head_reset(hf_http1_head *head);

/* Reads as much of the head as is in buf[0..len). Returns HF_PARSE_MORE, HF_PARSE_DONE or a status (above); after a
 * status the result is unspecified but for `error` and, if the request line was read, method and minor. */
int hf_http1_parse(hf_http1_head *head, const char *buf, size_t len, const hf_http1_limits *limits);

/* Percent-decodes src[0..len) into dst, which has room for len bytes. Escapes that are cut short or not hexadecimal
 * stay as they are. Returns the number of bytes written, or -1 if an escape decodes to NUL. dst may be src. */
ptrdiff_t hf_percent_decode(char *dst, const char *src, size_t len);

#endif
