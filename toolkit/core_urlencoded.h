/* core_urlencoded.h - application/x-www-form-urlencoded, without Perl (WHATWG URL, 5; with ";" beside "&", as HTML 4.01
 * B.2.2 recommends).
 *
 * Reading: a string is cut at every "&" and ";" into parts; a part is a name and a value, cut at its first "=" (without
 * one the value is empty). A space behind a separator belongs to the separator. In both, "+" is a space and "%XX" the byte
 * XX; a "%" that two hexadecimal digits do not follow stands for itself. The empty string has no parts.
 *
 *   hf_urlencoded_scan scan;
 *   hf_urlencoded_pair pair;
 *   hf_urlencoded_begin(&scan, text, len, true);
 *   while (hf_urlencoded_next(&scan, &pair))
 *       ...
 */
#ifndef HF_CORE_URLENCODED_H
#define HF_CORE_URLENCODED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#pragma GCC visibility push(hidden)
#endif

/* How text is searched. */
enum hf_urlencoded_level {
    HF_URLENCODED_SCALAR,
    HF_URLENCODED_SSE2,
    HF_URLENCODED_AVX2,
};

/* Chooses the best level that this machine has, but none above `most`. Returns it. Not while another thread parses. Without
 * a call it is SSE2 where the compiler knows that the machine has it. */
enum hf_urlencoded_level hf_urlencoded_select(enum hf_urlencoded_level most);

typedef struct hf_urlencoded_token {
    const char *p; /* into the text */
    size_t len;    /* bytes, as written */
    bool coded;    /* has a "+" or a "%": to be decoded */
} hf_urlencoded_token;

typedef struct hf_urlencoded_pair {
    hf_urlencoded_token name, value;
} hf_urlencoded_pair;

typedef struct hf_urlencoded_scan {
    const char *text;
    const char *part;   /* where the next part begins */
    const char *block;  /* the 64 bytes that the masks are about */
    const char *ahead;  /* where the block after them begins */
    const char *end;
    uint64_t ends;      /* separators and "=" in the block, from the current position on; bit 0 is its first byte */
    uint64_t coded;     /* "+" and "%" likewise */
    bool over;
    bool skip_space;    /* at the beginning of the next part */
} hf_urlencoded_scan;

/* `text` must stay as it is while it is read. With `skip_first` a space at its very beginning is left out too. */
void hf_urlencoded_begin(hf_urlencoded_scan *scan, const char *text, size_t len, bool skip_first);

/* The next part; false if there is none. */
bool hf_urlencoded_next(hf_urlencoded_scan *scan, hf_urlencoded_pair *pair);

/* How many parts there are. */
size_t hf_urlencoded_count(const char *text, size_t len);

/* Decodes `len` bytes into `dst`, which has room for as many and does not overlap. Returns the length of the result. */
size_t hf_urlencoded_decode(char *dst, const char *src, size_t len);

/* What stands for itself in a name or value that is written. A space becomes "+", the rest "%XX". */
enum hf_urlencoded_plain {
    HF_URLENCODED_MARKS,      /* letters, digits and - _ . ~ ! ' ( ) * */
    HF_URLENCODED_UNRESERVED, /* letters, digits and - _ . ~ (RFC 3986, 2.3) */
};

/* The most that encoding `len` bytes takes: room that `dst` must have. */
size_t hf_urlencoded_room(size_t len, bool latin1);

/* Encodes `len` bytes into `dst`; with `latin1` each byte is a character of ISO 8859-1 and is written in UTF-8. Returns the
 * length of the result. */
size_t hf_urlencoded_encode(char *dst, const char *src, size_t len, enum hf_urlencoded_plain plain, bool latin1);

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif

#endif
