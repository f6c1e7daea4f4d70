/* util.h - what other parts of the toolkit take from Plack::Util. */
#ifndef HF_ACC_UTIL_H
#define HF_ACC_UTIL_H

#include "contract.h"

#if defined(__GNUC__)
#pragma GCC visibility push(hidden)
#endif

/* The XSUB of Plack::Util::content_length. */
void hf_util_content_length(pTHX_ CV *cv);

/* The length of a body that is an array of plain values, in characters. False if it is not one. */
bool hf_util_sum(pTHX_ SV *body, UV *length);

/* A new sub that is closed over `kept`, of which it takes a reference. `ix` is what XSANY.any_i32 says. A new reference. */
SV *hf_closure(pTHX_ XSUBADDR_t xsub, SV *kept, I32 ix);

/* What a sub is closed over, NULL if it was not made by hf_closure(). Borrowed. */
SV *hf_closed(pTHX_ CV *cv);

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif

#endif
