/* request.h - what the files that stand for Plack::Request share: request.c (the object, its accessors and headers),
 * request_body.c (the body and what it is parsed into), request_parameters.c (parameters and uploads by name) and
 * request_address.c (URIs).
 *
 * What is parsed is kept in the environment under the keys that the original uses, in the same objects. A method that the
 * original calls on the way is passed over only while it is one of these here: a subclass that overrides `env` or
 * `_parse_request_body` gets its own called, by the original.
 *
 * Each file keeps for itself what it has found out about other modules, once for every interpreter.
 */
#ifndef HF_REQUEST_H
#define HF_REQUEST_H

#include "methods.h"

#if defined(__GNUC__)
#pragma GCC visibility push(hidden)
#endif

/* The methods. The first ones read a key of the environment each, and have the same number as that key. */
enum {
    RQ_ADDRESS, RQ_REMOTE_HOST, RQ_PROTOCOL, RQ_METHOD, RQ_PORT, RQ_USER, RQ_REQUEST_URI, RQ_PATH_INFO, RQ_QUERY_STRING,
    RQ_SCRIPT_NAME, RQ_SCHEME, RQ_BODY, RQ_INPUT, RQ_CONTENT_LENGTH, RQ_CONTENT_TYPE, RQ_SESSION, RQ_SESSION_OPTIONS, RQ_LOGGER,
    RQ_ACCESSORS,
    RQ_NEW = RQ_ACCESSORS, RQ_ENV, RQ_PATH, RQ_SECURE, RQ_COOKIES, RQ_CONTENT, RQ_RAW_BODY, RQ_HEADERS, RQ_CONTENT_ENCODING,
    RQ_HEADER, RQ_REFERER, RQ_USER_AGENT, RQ_BODY_LIST, RQ_QUERY_LIST, RQ_QUERY_PARAMETERS, RQ_BODY_PARAMETERS, RQ_PARAMETERS,
    RQ_UPLOADS, RQ_PARAM, RQ_UPLOAD, RQ_URI, RQ_BASE, RQ_URI_BASE, RQ_NEW_RESPONSE, RQ_BODY_PARSER, RQ_BUILD_BODY_PARSER,
    RQ_BUFFER_LENGTH_FOR, RQ_PARSE_BODY, RQ_METHODS
};

/* The keys of the environment, of the object, and of %ENV. KEY(PATH_INFO) is one with its hash value. */
enum {
    KEY_ADDRESS, KEY_REMOTE_HOST, KEY_PROTOCOL, KEY_METHOD, KEY_PORT, KEY_USER, KEY_REQUEST_URI, KEY_PATH_INFO, KEY_QUERY_STRING,
    KEY_SCRIPT_NAME, KEY_SCHEME, KEY_BODY, KEY_INPUT, KEY_CONTENT_LENGTH, KEY_CONTENT_TYPE, KEY_SESSION, KEY_SESSION_OPTIONS,
    KEY_LOGGER,
    KEY_HTTP_HOST, KEY_SERVER_NAME, KEY_HTTP_COOKIE, KEY_TRANSFER_ENCODING, KEY_BUFFERED, KEY_COOKIE_PARSED, KEY_COOKIE_STRING,
    KEY_BODY_LIST, KEY_QUERY_LIST, KEY_QUERY_PARAMETERS, KEY_BODY_PARAMETERS, KEY_PARAMETERS, KEY_UPLOADS,
    KEY_ENV, KEY_HEADERS, KEY_BODY_PARSER, KEY_PLACK_BUFFER_LENGTH, KEYS
};
extern hf_word hf_request_keys[KEYS];
#define KEY(name) (&hf_request_keys[KEY_##name])

#define BIT(method) ((U64)1 << RQ_##method)

#define ORIGINAL(name)                                                                                                           \
    do {                                                                                                                         \
        hf_acc_original(aTHX_ "Plack::Request::" name, ax, items);                                                               \
        return;                                                                                                                  \
    } while (0)

typedef struct hf_request {
    SV *self;
    HV *hv, *env;
    U64 ours; /* methods of its class: BIT(ENV) | ... */
} hf_request;

/* Fills in what is behind an object. False if it takes the original: the object or the environment is out of the ordinary,
 * or `env` and the methods that are wanted, BIT(SCHEME) | ..., are not all ours. */
bool hf_request_of(pTHX_ hf_request *r, SV *self, U64 wanted);

/* Calls self->name(arg1, arg2), or with fewer if they are NULL, in scalar context. A mortal, or a value that somebody else
 * owns. */
SV *hf_call_method(pTHX_ SV *self, const char *name, SV *arg1, SV *arg2);

/* What has a name, so that it is found again when it is something else. A new reference; NULL if there is no such thing. */
GV *hf_request_glob(pTHX_ const char *name, svtype type);

/* The object and its environment stay until the statement is over, whatever is called. */
PERL_STATIC_INLINE void hf_request_hold(pTHX_ const hf_request *r)
{
    sv_2mortal(SvREFCNT_inc_simple_NN((SV *)r->hv));
    sv_2mortal(SvREFCNT_inc_simple_NN((SV *)r->env));
}

/* The value of a key if it is true, NULL otherwise. Borrowed. */
PERL_STATIC_INLINE SV *hf_true_value(pTHX_ HV *hv, const hf_word *key)
{
    SV *sv = hf_word_fetch(aTHX_ hv, key);
    return sv && SvTRUE(sv) ? sv : NULL;
}

/* A mortal copy of a value, or of undef where there is none. */
PERL_STATIC_INLINE SV *hf_or_undef(pTHX_ SV *sv)
{
    return sv ? sv_mortalcopy(sv) : sv_newmortal();
}

/* `$hash->{key} ||= ...` makes the entry before it evaluates what is on the right, which may die: hf_word_lvalue(), then
 * this. It takes the reference to value over. */
PERL_STATIC_INLINE void hf_fill_slot(pTHX_ SV *slot, SV *value)
{
    if (LIKELY(SvTYPE(slot) == SVt_NULL && SvROK(value) && !SvREADONLY(slot))) { /* as it was made: nothing to give up */
        (void)SvUPGRADE(slot, SVt_IV);
        SvRV_set(slot, SvREFCNT_inc_simple_NN(SvRV(value)));
        SvROK_on(slot);
    }
    else
        sv_setsv_mg(slot, value);
    SvREFCNT_dec_NN(value);
}

/* Each file's part of what happens at start, after Plack::Request's subs have been replaced, and in a new thread. */
void hf_acc_boot_request_body(pTHX);
void hf_request_body_on(pTHX);
void hf_request_body_clone(pTHX);
void hf_acc_boot_request_parameters(pTHX);
void hf_request_parameters_on(pTHX);
void hf_request_parameters_clone(pTHX);
void hf_acc_boot_request_address(pTHX);
void hf_request_address_on(pTHX);
void hf_request_address_clone(pTHX);

/* ---- request_body.c ---- */

/* $self->_parse_request_body, ours or not. */
void hf_request_parse(pTHX_ const hf_request *r);

/* Is it the list that stands in the environment for the parameters of a body that is not there? */
bool hf_request_is_no_list(pTHX_ const AV *list);

/* XSUBs */
void hf_request_content(pTHX_ CV *cv);
void hf_request_raw_body(pTHX_ CV *cv);
void hf_request_body_parser(pTHX_ CV *cv);
void hf_request_build_body_parser(pTHX_ CV *cv);
void hf_request_buffer_length_for(pTHX_ CV *cv);
void hf_request_parse_body(pTHX_ CV *cv);

/* ---- request_parameters.c: XSUBs ---- */

void hf_request_body_list(pTHX_ CV *cv);
void hf_request_query_list(pTHX_ CV *cv);
void hf_request_query_parameters(pTHX_ CV *cv);
void hf_request_body_parameters(pTHX_ CV *cv);
void hf_request_parameters(pTHX_ CV *cv);
void hf_request_uploads(pTHX_ CV *cv);
void hf_request_param(pTHX_ CV *cv);
void hf_request_upload(pTHX_ CV *cv);

/* ---- request_address.c: XSUBs ---- */

void hf_request_uri(pTHX_ CV *cv);
void hf_request_base(pTHX_ CV *cv);
void hf_request_uri_base(pTHX_ CV *cv);

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif

#endif
