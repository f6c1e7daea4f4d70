/* headers_parts.h - what headers.c, headers_fields.c and headers_single.c share: the values of fields, and their XSUBs. */
#ifndef HF_ACC_HEADERS_PARTS_H
#define HF_ACC_HEADERS_PARTS_H

#include "headers.h"
#include "headers_names.h"

#if defined(__GNUC__)
#pragma GCC visibility push(hidden)
#endif

#define ORIGINAL(name) do { hf_acc_original(aTHX_ "HTTP::Headers::Fast::" name, ax, items); return; } while (0)

/* --- values: what a field has is a value, or an array of values --- */

/* NULL if there is no such field. */
PERL_STATIC_INLINE SV *hf_field_value(pTHX_ HV *hv, SV *key)
{
    HE *he = hv_fetch_ent(hv, key, 0, SvSHARED_HASH(key));
    return he ? HeVAL(he) : NULL;
}

/* The array of `ref($value) eq 'ARRAY'`. */
PERL_STATIC_INLINE AV *hf_value_array(SV *value)
{
    return SvROK(value) && SvTYPE(SvRV(value)) == SVt_PVAV && !SvOBJECT(SvRV(value)) ? (AV *)SvRV(value) : NULL;
}

PERL_STATIC_INLINE bool hf_is_odd_array(SV *value)
{
    return SvROK(value) && SvTYPE(SvRV(value)) == SVt_PVAV && (SvOBJECT(SvRV(value)) || SvRMAGICAL(SvRV(value)));
}

/* May it be stored: no magic that would want to be read once and in its order? */
PERL_STATIC_INLINE bool hf_is_storable(SV *value)
{
    return !SvGMAGICAL(value) && !hf_is_odd_array(value);
}

PERL_STATIC_INLINE SV *hf_value_element(pTHX_ AV *av, SSize_t i)
{
    SV **svp = av_fetch(av, i, 0);
    return svp && *svp ? *svp : &PL_sv_undef;
}

/* A field becomes this value; undef deletes it. */
void hf_field_set(pTHX_ HV *hv, SV *key, SV *value);

/* --- XSUBs of all fields: headers_fields.c --- */

void hf_headers_psgi_flatten(pTHX_ CV *cv);      /* ix: HF_SORTED or HF_UNSORTED */
void hf_headers_as_string(pTHX_ CV *cv);         /* likewise */
void hf_headers_field_names(pTHX_ CV *cv);       /* ix: HF_NAMES_SHOWN or HF_NAMES_AS_KEYS */
void hf_headers_scan(pTHX_ CV *cv);
void hf_headers_remove_content(pTHX_ CV *cv);
void hf_headers_clone(pTHX_ CV *cv);

enum { HF_SORTED, HF_UNSORTED };
enum { HF_NAMES_SHOWN, HF_NAMES_AS_KEYS };

/* --- of a single field: headers_single.c --- */

enum { HF_CONTENT_LENGTH, HF_CONTENT_LANGUAGE, HF_CONTENT_ENCODING, HF_TITLE, HF_USER_AGENT, HF_SERVER, HF_FROM, HF_WARNINGS,
       HF_WWW_AUTHENTICATE, HF_AUTHORIZATION, HF_PROXY_AUTHENTICATE, HF_PROXY_AUTHORIZATION, HF_N_SINGLE };
enum { HF_IS_TEXT, HF_IS_HTML, HF_IS_XHTML, HF_IS_XML };

void hf_headers_single(pTHX_ CV *cv);            /* ix: HF_CONTENT_LENGTH and so on */
void hf_headers_content_type(pTHX_ CV *cv);
void hf_headers_content_is(pTHX_ CV *cv);        /* ix: HF_IS_TEXT and so on */

/* What the first two do, for an XSUB that stands for one of them. */
void hf_headers_call_single(pTHX_ I32 ix, I32 ax, I32 items);
void hf_headers_call_content_type(pTHX_ I32 ax, I32 items);

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif

#endif
