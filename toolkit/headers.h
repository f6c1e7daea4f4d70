/* headers.h - what other parts of the toolkit do with HTTP::Headers::Fast objects without a call. */
#ifndef HF_ACC_HEADERS_H
#define HF_ACC_HEADERS_H

#include "contract.h"

#if defined(__GNUC__)
#pragma GCC visibility push(hidden)
#endif

/* The hash behind an object whose methods are all ours, NULL otherwise. */
HV *hf_headers_hash(pTHX_ SV *self);

/* HTTP::Headers::Fast->new, without fields. A new reference, or NULL if the class is not ours alone. */
SV *hf_headers_new(pTHX);

/* $headers->header(NAME => VALUE, ...) for pairs at `pair`. False, and nothing is done, if the original has to. */
bool hf_headers_set_pairs(pTHX_ HV *headers, SV **pair, I32 n);

/* Appends names and values in the order of scan() to `out`, values without line breaks as Plack::Response->finalize and
 * psgi_flatten have them. `sorted`: in the order of names; else in the order of the hash. `stored`: values of repeated
 * fields are also changed where they are stored, as psgi_flatten does. False, and nothing is done, if the original has to. */
bool hf_headers_flatten(pTHX_ HV *headers, AV *out, bool sorted, bool stored);

/* The method of HTTP::Headers::Fast that stands for one of Plack::Response: header, content_length and so on. */
typedef enum { HF_HEADERS_HEADER, HF_HEADERS_LENGTH, HF_HEADERS_TYPE, HF_HEADERS_ENCODING } hf_headers_method;
void hf_headers_call(pTHX_ hf_headers_method method, I32 ax, I32 items);

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif

#endif
