/* headers_names.h - the names of header fields: the hash keys they stand for, how they are shown, and their order.
 *
 * Names as applications write them are remembered with their keys, so that neither case nor hash value is worked out again.
 * The spelling that a name is shown in stays in %HTTP::Headers::Fast::standard_case.
 */
#ifndef HF_ACC_HEADERS_NAMES_H
#define HF_ACC_HEADERS_NAMES_H

#include "contract.h"

#if defined(__GNUC__)
#pragma GCC visibility push(hidden)
#endif

/* What is remembered, of one interpreter. */
typedef struct hf_field_names hf_field_names;
hf_field_names *hf_field_names_here(pTHX);

/* The hash key of a name: in lower case, with dashes for underscores if $TRANSLATE_UNDERSCORE says so. Names that begin with
 * a colon are keys as they are. A shared string; borrowed, good until the statement ends. */
SV *hf_field_key(pTHX_ hf_field_names *names, const char *name, STRLEN len);

/* Are underscores dashes? */
bool hf_field_translates(pTHX_ hf_field_names *names);

/* Where a key stands in the order of names, from 1 on. Those that have no place of their own share the last. */
U32 hf_field_place(pTHX_ hf_field_names *names, HEK *hek);

/* Is it one that describes the body, by its place or as "content-" says? */
bool hf_field_is_entity(pTHX_ hf_field_names *names, HEK *hek);

/* What a key is shown as: an element of %standard_case, or NULL for the key itself. Borrowed. */
SV *hf_field_spelling(pTHX_ hf_field_names *names, HEK *hek);

/* The same as a new value. */
SV *hf_field_shown(pTHX_ hf_field_names *names, HEK *hek);

/* Can a name be worked on by bytes? */
PERL_STATIC_INLINE bool hf_is_field_name(SV *sv)
{
    return (SvFLAGS(sv) & (SVf_POK | SVf_ROK | SVs_GMG | SVf_UTF8)) == SVf_POK && SvTYPE(sv) < SVt_PVGV;
}

PERL_STATIC_INLINE SV *hf_field_key_of(pTHX_ hf_field_names *names, SV *name)
{
    return hf_field_key(aTHX_ names, SvPVX_const(name), SvCUR(name));
}

PERL_STATIC_INLINE char hf_lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c + 32) : c;
}

void hf_field_names_boot(pTHX);

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif

#endif
