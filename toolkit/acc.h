/* acc.h - what the parts of the accelerated toolkit share.
 *
 * Each part is a C file with a boot function that registers its XSUBs in Hydrofoil::Accelerate::<Part>, and a module
 * lib/Hydrofoil/Accelerate/<Part>.pm that says which subs of which modules they stand for. A parser's core is in a
 * core_*.c without Perl, so that it can be fuzzed.
 *
 * An XSUB that meets what it was not made for (magic, an object, an overridden method, an option it does not know) hands
 * its arguments as they are to the original sub: hf_acc_original().
 */
#ifndef HF_ACC_H
#define HF_ACC_H

#define PERL_NO_GET_CONTEXT
/* Copies share the bytes of long strings, as those that perl itself makes (copy on write): perl does not do that for C outside
 * of it unless told so, as some of it may write to the bytes of a copy. Here nothing does. */
#define SV_DO_COW_SVSETSV SV_COW_SHARED_HASH_KEYS
#include "EXTERN.h"
#include "perl.h"
#include "XSUB.h"

#include <stdbool.h>
#include <stdint.h>

#ifndef SvREFCNT_dec_NN
#define SvREFCNT_dec_NN(sv) SvREFCNT_dec(sv)
#endif
#ifndef PERL_STATIC_INLINE
#define PERL_STATIC_INLINE static inline
#endif
#ifndef LIKELY
#define LIKELY(x) (x)
#define UNLIKELY(x) (x)
#endif

/* The interpreter that is running, to tell a thread from the one that it was cloned from. A perl without threads has one. */
#ifdef MULTIPLICITY
#define HF_INTERPRETER ((PerlInterpreter *)aTHX)
#else
#define HF_INTERPRETER NULL
#endif

#if defined(__GNUC__)
#pragma GCC visibility push(hidden)
#endif

void hf_acc_boot_urlencoded(pTHX);
void hf_acc_boot_cookie(pTHX);
void hf_acc_boot_multivalue(pTHX);
void hf_acc_boot_request(pTHX);
void hf_acc_boot_headers(pTHX);
void hf_acc_boot_response(pTHX);
void hf_acc_boot_entity(pTHX);
void hf_acc_boot_accesslog(pTHX);

/* Registers an XSUB: hf_acc_sub(aTHX_ "UrlEncoded::parse_urlencoded", parse_urlencoded, 0). `ix` is what XSANY.any_i32
 * of the CV says in the XSUB (dXSI32). */
CV *hf_acc_sub(pTHX_ const char *name, XSUBADDR_t xsub, I32 ix);

typedef struct hf_sub {
    const char *name; /* NULL ends a table */
    XSUBADDR_t xsub;
    I32 ix;
} hf_sub;

/* Registers a table of subs as Hydrofoil::Accelerate::AREA::name. */
void hf_acc_subs(pTHX_ const char *area, const hf_sub *table);

/* The sub that ours replaced: "Plack::Request::param". NULL when there is none. The framework keeps it in
 * Hydrofoil::Accelerate::Original::Plack::Request::param. Borrowed. */
CV *hf_acc_original_cv(pTHX_ const char *name);

/* Calls it with the arguments of the XSUB that is running, none of them taken or changed, in its context, and leaves what
 * it returns where the XSUB returns it: `hf_acc_original(aTHX_ "Plack::Request::param", ax, items); return;`. Dies if
 * there is no such sub. */
void hf_acc_original(pTHX_ const char *name, I32 ax, I32 items);

/* The sub of another module that is called by name: "Cookie::Baker::bake_cookie". Dies as Perl does if there is none.
 * Borrowed. */
SV *hf_acc_sub_named(pTHX_ const char *name);

/* Calls a sub with these n arguments in scalar context: a mortal, or a value that somebody else owns. It has no scope of
 * its own, for what it returns is wanted: other temporaries stay until the statement is over. */
SV *hf_acc_call(pTHX_ SV *code, SV **arguments, I32 n);

/* Appends the names and values of a query string to `av`, which must be a plain array (core_urlencoded.h says how it is
 * read). `skip_first`: a space at the very beginning is left out, as WWW::Form::UrlEncoded::XS does and its ::PP does not. */
void hf_acc_parse_urlencoded(pTHX_ AV *av, const char *text, STRLEN len, bool skip_first);

/* The same into a hash, where the last of several values stays: keys that have no value in `hv` yet get one. */
void hf_acc_parse_urlencoded_into(pTHX_ HV *hv, const char *text, STRLEN len, bool skip_first);

/* Can its bytes be read as they are: defined, a plain string or number, no reference, glob, magic or overloading? */
PERL_STATIC_INLINE bool hf_acc_is_plain(SV *sv)
{
    return (SvFLAGS(sv) & (SVf_ROK | SVs_GMG | SVs_SMG | SVs_RMG)) == 0 && SvTYPE(sv) < SVt_PVGV && SvOK(sv);
}

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif

#endif
