/* request.c - Plack::Request in C.
 *
 * What is parsed is kept in the environment under the keys that the original uses, in the same objects. A method that the
 * original calls on the way is passed over only while it is one of these here: a subclass that overrides `env` or
 * `_parse_request_body` gets its own called, by the original.
 */
#include "entity.h"
#include "multivalue.h"

enum {
    /* those that read the environment, in the order of the words below */
    ADDRESS, REMOTE_HOST, PROTOCOL, METHOD, PORT, USER, REQUEST_URI, PATH_INFO, QUERY_STRING, SCRIPT_NAME, SCHEME, BODY, INPUT,
    CONTENT_LENGTH, CONTENT_TYPE, SESSION, SESSION_OPTIONS, LOGGER, N_ACCESSORS,
    NEW = N_ACCESSORS, ENV, PATH, SECURE, COOKIES, CONTENT, RAW_BODY, HEADERS, CONTENT_ENCODING, HEADER, REFERER, USER_AGENT,
    BODY_LIST, QUERY_LIST, QUERY_PARAMETERS, BODY_PARAMETERS, PARAMETERS, UPLOADS, PARAM, UPLOAD, URI, BASE, URI_BASE,
    NEW_RESPONSE, BODY_PARSER, BUILD_BODY_PARSER, BUFFER_LENGTH_FOR, PARSE_BODY, N_METHODS
};

#define WORD(name) {name, sizeof(name) - 1, 0}

static hf_word word[] = {
    WORD("REMOTE_ADDR"), WORD("REMOTE_HOST"), WORD("SERVER_PROTOCOL"), WORD("REQUEST_METHOD"), WORD("SERVER_PORT"),
    WORD("REMOTE_USER"), WORD("REQUEST_URI"), WORD("PATH_INFO"), WORD("QUERY_STRING"), WORD("SCRIPT_NAME"),
    WORD("psgi.url_scheme"), WORD("psgi.input"), WORD("psgi.input"), WORD("CONTENT_LENGTH"), WORD("CONTENT_TYPE"),
    WORD("psgix.session"), WORD("psgix.session.options"), WORD("psgix.logger"),
#define W_HTTP_COOKIE (&word[N_ACCESSORS])
    WORD("HTTP_COOKIE"),
#define W_COOKIE_PARSED (&word[N_ACCESSORS + 1])
    WORD("plack.cookie.parsed"),
#define W_COOKIE_STRING (&word[N_ACCESSORS + 2])
    WORD("plack.cookie.string"),
#define W_BUFFERED (&word[N_ACCESSORS + 3])
    WORD("psgix.input.buffered"),
#define W_BODY_LIST (&word[N_ACCESSORS + 4])
    WORD("plack.request.body_parameters"),
#define W_QUERY_LIST (&word[N_ACCESSORS + 5])
    WORD("plack.request.query_parameters"),
#define W_QUERY (&word[N_ACCESSORS + 6])
    WORD("plack.request.query"),
#define W_BODY (&word[N_ACCESSORS + 7])
    WORD("plack.request.body"),
#define W_MERGED (&word[N_ACCESSORS + 8])
    WORD("plack.request.merged"),
#define W_UPLOAD (&word[N_ACCESSORS + 9])
    WORD("plack.request.upload"),
#define W_TRANSFER_ENCODING (&word[N_ACCESSORS + 10])
    WORD("HTTP_TRANSFER_ENCODING"),
#define W_HTTP_HOST (&word[N_ACCESSORS + 11])
    WORD("HTTP_HOST"),
#define W_SERVER_NAME (&word[N_ACCESSORS + 12])
    WORD("SERVER_NAME"),
#define W_ENV (&word[N_ACCESSORS + 13])
    WORD("env"),
#define W_HEADERS (&word[N_ACCESSORS + 14])
    WORD("headers"),
#define W_BODY_PARSER (&word[N_ACCESSORS + 15])
    WORD("request_body_parser"),
#define W_PLACK_BUFFER_LENGTH (&word[N_ACCESSORS + 16])
    WORD("PLACK_BUFFER_LENGTH"),
};

/* What is done here in place of other modules, as long as they are what they were. */
enum { IS_HEADERS, IS_PARSER, IS_SEEK, IS_UPLOAD, IS_URI, IS_SERVER, IS_HTTP, IS_HTTPS, N_MODULES };

static const hf_module modules[N_MODULES] = {
    [IS_HEADERS] = {"HTTP::Headers::Fast", "HTTP/Headers/Fast.pm", {"new", "header", "_header_set", "_standardize_field_name"}},
    [IS_PARSER] = {"HTTP::Entity::Parser", "HTTP/Entity/Parser.pm", {"new", "register", "parse"}},
    [IS_SEEK] = {"IO::File", "IO/Seekable.pm", {"seek"}},
    [IS_UPLOAD] = {"Plack::Request::Upload", "Plack/Request/Upload.pm", {"new"}},
    [IS_URI] = {"URI", "URI.pm", {"new", "implementor", "_init", "canonical", "_uric_escape", "clone", "_scheme"}},
    [IS_SERVER] = {"URI::_server", "URI/_server.pm", {"canonical", "_uric_escape", "host", "_port"}},
    [IS_HTTP] = {"URI::http", "URI/http.pm", {"canonical", "default_port"}},
    [IS_HTTPS] = {"URI::https", "URI/https.pm", {"default_port"}},
};

#define MY_CXT_KEY "Hydrofoil::Accelerate::Request::_state"
typedef struct {
    hf_classes classes;
    hf_trust trust[N_MODULES];
    HV *fields;                    /* key of the environment => name of the header */
    GV *parse, *crush, *translate; /* of what is called by name */
    HV *implements;                /* URI's: which class has a scheme */
    bool skip_first;               /* how `parse` is to be called, if it is ours */
    bool loose;                    /* which keys are headers: is_header() */
    bool brackets;                 /* URI leaves "[" and "]" as they are, as it did before 5.11 */
    /* What a request without a body needs and leaves as it was: used again when nobody holds it any more. */
    AV *spare_parser, *spare_list;
    HV *spare_upload;
    SV *types[4];                  /* content types and their parsers, as Plack::Request registers them */
} my_cxt_t;
START_MY_CXT

#define MAX_FIELDS 256 /* names of headers that are remembered */

static const hf_method methods[];

#define BIT(method) ((U64)1 << (method))

#define ORIGINAL(name)                                                                                                           \
    do {                                                                                                                         \
        hf_acc_original(aTHX_ "Plack::Request::" name, ax, items);                                                               \
        return;                                                                                                                  \
    } while (0)

/* --- requests and environments --- */

typedef struct request {
    SV *self;
    HV *hv, *env;
    U64 ours; /* methods of its class */
} request;

/* False if it takes the original: the object or the environment is out of the ordinary, or methods are not ours. */
PERL_STATIC_INLINE bool request_of(pTHX_ request *r, SV *self, U64 wanted)
{
    dMY_CXT;
    SV *env;
    r->self = self;
    r->hv = hf_plain_hash(aTHX_ self);
    if (UNLIKELY(!r->hv || !SvOBJECT(r->hv)))
        return false;
    r->ours = hf_methods(aTHX_ &MY_CXT.classes, SvSTASH(r->hv), methods, N_METHODS);
    wanted |= BIT(ENV);
    if (UNLIKELY((r->ours & wanted) != wanted))
        return false;
    env = hf_word_fetch(aTHX_ r->hv, W_ENV);
    r->env = env ? hf_plain_hash(aTHX_ env) : NULL;
    return r->env != NULL;
}

static bool is_itself(pTHX_ int module)
{
    dMY_CXT;
    return hf_module_is_itself(aTHX_ &MY_CXT.trust[module], &modules[module]);
}

/* The value of a key if it is true. */
static SV *true_value(pTHX_ HV *hv, const hf_word *w)
{
    SV *sv = hf_word_fetch(aTHX_ hv, w);
    return sv && SvTRUE(sv) ? sv : NULL;
}

/* `$hash->{key} ||= ...` makes the entry before it evaluates what is on the right, which may die. */
static SV *slot_of(pTHX_ HV *hv, const hf_word *w)
{
    return hf_word_lvalue(aTHX_ hv, w);
}

/* Takes the reference to value over. */
static void fill_slot(pTHX_ SV *slot, SV *value)
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

static SV *copy_of(pTHX_ SV *sv)
{
    return sv ? sv_mortalcopy(sv) : sv_newmortal();
}

/* Calls ->name(args...) in scalar context. The result is mortal. */
static SV *call_scalar(pTHX_ SV *self, const char *name, SV *arg1, SV *arg2)
{
    dSP;
    SV *result;
    PUSHMARK(SP);
    EXTEND(SP, 3);
    PUSHs(self);
    if (arg1)
        PUSHs(arg1);
    if (arg2)
        PUSHs(arg2);
    PUTBACK;
    call_method(name, G_SCALAR);
    SPAGAIN;
    result = POPs;
    PUTBACK;
    return result;
}

static void keep(pTHX_ const request *r)
{
    sv_2mortal(SvREFCNT_inc_simple_NN((SV *)r->hv));
    sv_2mortal(SvREFCNT_inc_simple_NN((SV *)r->env));
}

XS_INTERNAL(rq_new)
{
    dXSARGS;
    HV *hv, *stash;
    SV *env = items > 1 ? ST(1) : NULL, *self;
    if (!env || !SvROK(env) || SvTYPE(SvRV(env)) != SVt_PVHV || SvOBJECT(SvRV(env)) || !hf_acc_is_plain(ST(0)) || !SvPOK(ST(0)) || !SvCUR(ST(0)))
        ORIGINAL("new");
    stash = gv_stashsv(ST(0), 0);
    if (!stash)
        ORIGINAL("new");
    hv = newHV();
    self = sv_2mortal(newRV_noinc((SV *)hv));
    hf_word_store(aTHX_ hv, W_ENV, newRV_inc(SvRV(env)));
    ST(0) = sv_bless(self, stash);
    XSRETURN(1);
}

XS_INTERNAL(rq_env)
{
    dXSARGS;
    HV *hv = items ? hf_plain_hash(aTHX_ ST(0)) : NULL;
    if (!hv)
        ORIGINAL("env");
    ST(0) = copy_of(aTHX_ hf_word_fetch(aTHX_ hv, W_ENV));
    XSRETURN(1);
}

XS_INTERNAL(rq_accessor)
{
    dXSARGS;
    dXSI32;
    request r;
    if (!items || !request_of(aTHX_ &r, ST(0), 0)) {
        hf_acc_original(aTHX_ Perl_form(aTHX_ "Plack::Request::%s", methods[ix].name), ax, items);
        return;
    }
    ST(0) = copy_of(aTHX_ hf_word_fetch(aTHX_ r.env, &word[ix]));
    XSRETURN(1);
}

XS_INTERNAL(rq_path)
{
    dXSARGS;
    request r;
    SV *path;
    if (!items || !request_of(aTHX_ &r, ST(0), 0))
        ORIGINAL("path");
    path = true_value(aTHX_ r.env, &word[PATH_INFO]);
    ST(0) = path ? sv_mortalcopy(path) : sv_2mortal(newSVpvs("/"));
    XSRETURN(1);
}

XS_INTERNAL(rq_secure)
{
    dXSARGS;
    request r;
    SV *scheme;
    if (!items || !request_of(aTHX_ &r, ST(0), BIT(SCHEME)) || !(scheme = hf_word_fetch(aTHX_ r.env, &word[SCHEME]))
        || !hf_acc_is_plain(scheme))
        ORIGINAL("secure");
    {
        STRLEN len;
        const char *p = SvPV_const(scheme, len);
        ST(0) = sv_mortalcopy(boolSV(len == 5 && memEQ(p, "https", 5)));
    }
    XSRETURN(1);
}

XS_INTERNAL(rq_cookies)
{
    dXSARGS;
    dMY_CXT;
    request r;
    SV *cookie, *parsed, *string;
    if (!items || !request_of(aTHX_ &r, ST(0), 0))
        ORIGINAL("cookies");
    cookie = true_value(aTHX_ r.env, W_HTTP_COOKIE);
    if (!cookie) {
        ST(0) = sv_2mortal(newRV_noinc((SV *)newHV()));
        XSRETURN(1);
    }
    if (!hf_acc_is_plain(cookie))
        ORIGINAL("cookies");
    if ((parsed = true_value(aTHX_ r.env, W_COOKIE_PARSED))) {
        string = hf_word_fetch(aTHX_ r.env, W_COOKIE_STRING);
        if (!string || !hf_acc_is_plain(string))
            ORIGINAL("cookies");
        if (sv_eq(string, cookie)) {
            ST(0) = sv_mortalcopy(parsed);
            XSRETURN(1);
        }
    }
    if (!MY_CXT.crush || !GvCV(MY_CXT.crush))
        ORIGINAL("cookies");
    keep(aTHX_ &r);
    string = newSVsv(cookie);
    hf_word_store(aTHX_ r.env, W_COOKIE_STRING, string);
    PUSHMARK(SP);
    XPUSHs(string);
    PUTBACK;
    call_sv((SV *)GvCV(MY_CXT.crush), G_SCALAR);
    SPAGAIN;
    parsed = newSVsv(POPs);
    PUTBACK;
    hf_word_store(aTHX_ r.env, W_COOKIE_PARSED, parsed);
    ST(0) = sv_mortalcopy(parsed);
    XSRETURN(1);
}

/* --- headers --- */

/* Does the key begin with HTTP_ or CONTENT_? Before Plack 1.0051, with HTTP or CONTENT, in letters of either case? */
static bool is_header(pTHX_ const char *key, I32 len, bool loose)
{
    if (loose)
        return len >= 4 && (foldEQ(key, "HTTP", 4) || (len >= 7 && foldEQ(key, "CONTENT", 7)));
    return len >= 5 && (memEQ(key, "HTTP_", 5) || (len >= 8 && memEQ(key, "CONTENT_", 8)));
}

/* The name under which HTTP::Headers::Fast keeps it. It makes a note of how names are written (which header_field_names and
 * as_string show), so it is asked the first time. Mortal or remembered; NULL if there is none. */
static SV *field_of(pTHX_ const HE *he)
{
    dMY_CXT;
    SV **known = (SV **)hv_common(MY_CXT.fields, NULL, HeKEY(he), HeKLEN(he), 0, HV_FETCH_JUST_SV, NULL, HeHASH(he));
    const char *p = HeKEY(he);
    I32 len = HeKLEN(he), i;
    SV *name;
    CV *standardize;
    if (known)
        return *known;
    if (len >= 5 && memEQ(p, "HTTP_", 5))
        p += 5, len -= 5;
    else if (len >= 6 && memEQ(p, "HTTPS_", 6))
        p += 6, len -= 6;
    if (!len || *p == ':' || !(standardize = get_cv("HTTP::Headers::Fast::_standardize_field_name", 0)))
        return NULL;
    name = sv_2mortal(newSVpvn(p, len));
    for (i = 0; i < len; i++) {
        if ((U8)SvPVX(name)[i] > 127)
            return NULL;
        SvPVX(name)[i] = toLOWER(SvPVX(name)[i]);
    }
    {
        dSP;
        PUSHMARK(SP);
        XPUSHs(name);
        PUTBACK;
        call_sv((SV *)standardize, G_SCALAR);
        SPAGAIN;
        name = newSVsv(POPs);
        PUTBACK;
    }
    if (HvUSEDKEYS(MY_CXT.fields) < MAX_FIELDS)
        (void)hv_common(MY_CXT.fields, NULL, HeKEY(he), HeKLEN(he), 0, HV_FETCH_ISSTORE, name, HeHASH(he));
    else
        sv_2mortal(name);
    return name;
}

/* $self->headers, borrowed. NULL if it takes the original. */
static SV *headers_of(pTHX_ const request *r)
{
    dMY_CXT;
    SV *headers = hf_word_fetch(aTHX_ r->hv, W_HEADERS), *translate;
    HV *hv;
    HE *he;
    if (headers && (SvGMAGICAL(headers) || SvOK(headers)))
        return headers;
    translate = MY_CXT.translate ? GvSV(MY_CXT.translate) : NULL;
    if (!translate || SvGMAGICAL(translate) || !SvTRUE(translate) || !is_itself(aTHX_ IS_HEADERS))
        return NULL;
    keep(aTHX_ r);
    hv = newHV();
    headers = sv_2mortal(newRV_noinc((SV *)hv));
    hv_iterinit(r->env);
    while ((he = hv_iternext(r->env))) {
        SV *value = HeVAL(he), *field;
        HE *entry;
        if (HeKLEN(he) == HEf_SVKEY || (!is_header(aTHX_ HeKEY(he), HeKLEN(he), MY_CXT.loose) && LIKELY(HeKLEN(he) >= 0)))
            continue;
        if (HeKUTF8(he) || HeKWASUTF8(he) || !hf_acc_is_plain(value) || !(field = field_of(aTHX_ he)))
            return NULL;
        entry = (HE *)hv_common(hv, field, NULL, 0, 0, HV_FETCH_LVALUE | HV_FETCH_EMPTY_HE, NULL, 0);
        if (HeVAL(entry)) /* HTTP_CONTENT_TYPE beside CONTENT_TYPE: values of one header */
            return NULL;
        HeVAL(entry) = newSVsv(value);
    }
    sv_bless(headers, MY_CXT.trust[IS_HEADERS].stash);
    headers = newSVsv(headers);
    hf_word_store(aTHX_ r->hv, W_HEADERS, headers);
    return headers;
}

XS_INTERNAL(rq_headers)
{
    dXSARGS;
    request r;
    SV *headers;
    if (!items || !request_of(aTHX_ &r, ST(0), 0) || !(headers = headers_of(aTHX_ &r)))
        ORIGINAL("headers");
    ST(0) = sv_mortalcopy(headers);
    XSRETURN(1);
}

/* Methods of the headers: the object on the stack is replaced by them. */
XS_INTERNAL(rq_of_headers)
{
    dXSARGS;
    dXSI32;
    request r;
    SV *headers;
    if (!items || !request_of(aTHX_ &r, ST(0), BIT(HEADERS)) || !(headers = headers_of(aTHX_ &r))) {
        hf_acc_original(aTHX_ Perl_form(aTHX_ "Plack::Request::%s", methods[ix].name), ax, items);
        return;
    }
    ST(0) = sv_mortalcopy(headers);
    PUSHMARK(PL_stack_base + ax - 1);
    call_method(methods[ix].name, GIMME_V);
}

/* --- the body --- */

static SV *buffer_length(pTHX_ HV *env)
{
    HV *process = GvHVn(PL_envgv);
    const MAGIC *magic = SvMAGIC(process);
    SV *length;
    /* %ENV has magic for what is set, not for what is fetched. */
    if (LIKELY(magic && magic->mg_type == PERL_MAGIC_env && !magic->mg_moremagic)) {
        const HE *he = hf_word_entry(process, W_PLACK_BUFFER_LENGTH);
        length = he ? HeVAL(he) : NULL;
    }
    else
        length = hf_word_fetch(aTHX_ process, W_PLACK_BUFFER_LENGTH);
    if (length) {
        SvGETMAGIC(length);
        if (SvOK(length))
            return newSVsv_nomg(length);
    }
    return newSViv(true_value(aTHX_ env, W_BUFFERED) ? 1024 * 1024 : 1024 * 64);
}

XS_INTERNAL(rq_buffer_length_for)
{
    dXSARGS;
    HV *env = items > 1 ? hf_plain_hash(aTHX_ ST(1)) : NULL;
    if (!env)
        ORIGINAL("_buffer_length_for");
    ST(0) = sv_2mortal(buffer_length(aTHX_ env));
    XSRETURN(1);
}

static void add_handler(pTHX_ AV *handlers, SV *type, SV *class)
{
    AV *handler = newAV();
    av_extend(handler, 2);
    hf_append(handler, hf_copy(aTHX_ type));
    hf_append(handler, hf_copy(aTHX_ class));
    hf_append(handler, newSV(0));
    hf_append(handlers, newRV_noinc((SV *)handler));
}

static bool is_unused(AV *av, SSize_t n)
{
    return SvREFCNT(av) == 1 && AvFILLp(av) == n - 1 && !SvMAGIC(av) && !SvREADONLY(av);
}

static AV *unused_element(AV *av, SSize_t i, SSize_t n)
{
    SV *rv = AvARRAY(av)[i];
    AV *element = rv && SvTYPE(rv) < SVt_PVMG && SvROK(rv) && !SvWEAKREF(rv) ? (AV *)SvRV(rv) : NULL;
    return element && SvTYPE(element) == SVt_PVAV && !SvOBJECT(element) && is_unused(element, n) ? element : NULL;
}

/* The string whose buffer it was given, and nothing else? */
static bool is_still(SV *sv, SV *type)
{
    return sv && SvREFCNT(sv) == 1 && SvTYPE(sv) == SVt_PV && SvPOK(sv) && !SvUTF8(sv) && SvPVX(sv) == SvPVX(type)
           && SvCUR(sv) == SvCUR(type);
}

/* Is it as it was made? Its buffer's length is looked at by the caller. */
static bool is_unused_parser(pTHX_ AV *parser)
{
    dMY_CXT;
    AV *handlers, *handler;
    SSize_t i;
    if (!is_unused(parser, 2) || !SvOBJECT(parser) || SvSTASH(parser) != MY_CXT.trust[IS_PARSER].stash
        || !(handlers = unused_element(parser, 0, 2)))
        return false;
    for (i = 0; i < 2; i++) {
        if (!(handler = unused_element(handlers, i, 3)) || !is_still(AvARRAY(handler)[0], MY_CXT.types[2 * i])
            || !is_still(AvARRAY(handler)[1], MY_CXT.types[2 * i + 1]) || !AvARRAY(handler)[2]
            || SvREFCNT(AvARRAY(handler)[2]) != 1 || SvTYPE(AvARRAY(handler)[2]) != SVt_NULL)
            return false;
    }
    return true;
}

/* What _build_body_parser makes, a new reference. NULL if it takes the original. */
static SV *build_parser(pTHX_ const request *r)
{
    dMY_CXT;
    AV *parser, *handlers;
    SV *length, *known, *rv;
    if (!(r->ours & BIT(BUFFER_LENGTH_FOR)) || !is_itself(aTHX_ IS_PARSER))
        return NULL;
    length = buffer_length(aTHX_ r->env);
    parser = MY_CXT.spare_parser;
    if (parser && is_unused_parser(aTHX_ parser) && (known = AvARRAY(parser)[1]) && SvREFCNT(known) == 1
        && SvTYPE(known) == SVt_IV && SvTYPE(length) == SVt_IV && SvIOK(known) && SvIVX(known) == SvIVX(length)) {
        SvREFCNT_dec_NN(length);
        return newRV_inc((SV *)parser);
    }
    parser = newAV();
    handlers = newAV();
    av_extend(parser, 1);
    av_extend(handlers, 1);
    hf_append(parser, newRV_noinc((SV *)handlers));
    hf_append(parser, length);
    add_handler(aTHX_ handlers, MY_CXT.types[0], MY_CXT.types[1]);
    add_handler(aTHX_ handlers, MY_CXT.types[2], MY_CXT.types[3]);
    rv = sv_bless(newRV_noinc((SV *)parser), MY_CXT.trust[IS_PARSER].stash);
    SvREFCNT_dec((SV *)MY_CXT.spare_parser);
    MY_CXT.spare_parser = (AV *)SvREFCNT_inc_simple_NN((SV *)parser);
    return rv;
}

XS_INTERNAL(rq_build_body_parser)
{
    dXSARGS;
    request r;
    SV *parser;
    if (!items || !request_of(aTHX_ &r, ST(0), 0) || !(parser = build_parser(aTHX_ &r)))
        ORIGINAL("_build_body_parser");
    ST(0) = sv_2mortal(parser);
    XSRETURN(1);
}

/* $self->request_body_parser, borrowed or mortal. */
static SV *body_parser(pTHX_ const request *r)
{
    SV *parser, *slot;
    if (!(r->ours & BIT(BODY_PARSER)))
        return call_scalar(aTHX_ r->self, "request_body_parser", NULL, NULL);
    slot = slot_of(aTHX_ r->hv, W_BODY_PARSER);
    if (SvTRUE(slot))
        return slot;
    sv_2mortal(SvREFCNT_inc_simple_NN(slot));
    parser = r->ours & BIT(BUILD_BODY_PARSER) ? build_parser(aTHX_ r) : NULL;
    if (!parser)
        parser = newSVsv(call_scalar(aTHX_ r->self, "_build_body_parser", NULL, NULL));
    fill_slot(aTHX_ slot, parser);
    return slot;
}

XS_INTERNAL(rq_request_body_parser)
{
    dXSARGS;
    request r;
    if (!items || !request_of(aTHX_ &r, ST(0), 0))
        ORIGINAL("request_body_parser");
    keep(aTHX_ &r);
    ST(0) = sv_mortalcopy(body_parser(aTHX_ &r));
    XSRETURN(1);
}

/* A handle of perl's own, whose seek is perl's own? */
static PerlIO *plain_handle(pTHX_ SV *input, GV **gv)
{
    IO *io;
    if (!SvROK(input) || SvTYPE(SvRV(input)) != SVt_PVGV || SvOBJECT(SvRV(input)))
        return NULL;
    *gv = (GV *)SvRV(input);
    io = GvIO(*gv);
    if (!io || SvRMAGICAL(io) || !SvOBJECT(io) || !IoIFP(io) || !is_itself(aTHX_ IS_SEEK))
        return NULL;
    {
        dMY_CXT;
        return SvSTASH(io) == MY_CXT.trust[IS_SEEK].stash ? IoIFP(io) : NULL;
    }
}

static void rewind_input(pTHX_ SV *input, int times)
{
    GV *gv;
    PerlIO *fp = plain_handle(aTHX_ input, &gv);
    if (fp) {
        PL_last_in_gv = gv; /* as seek does */
        (void)PerlIO_seek(fp, 0, SEEK_SET);
        return;
    }
    while (times--)
        (void)call_scalar(aTHX_ input, "seek", sv_2mortal(newSViv(0)), sv_2mortal(newSViv(0)));
}

/* A parser that knows no content type but named ones, and a request that has neither a type nor a body? */
static bool has_no_body(pTHX_ const request *r, SV *parser)
{
    dMY_CXT;
    AV *av, *handlers;
    SV *input;
    SSize_t i;
    if (true_value(aTHX_ r->env, &word[CONTENT_LENGTH]) || true_value(aTHX_ r->env, &word[CONTENT_TYPE])
        || hf_word_fetch(aTHX_ r->env, W_TRANSFER_ENCODING) || !true_value(aTHX_ r->env, W_BUFFERED))
        return false;
    input = true_value(aTHX_ r->env, &word[INPUT]);
    if (!input || !SvROK(input) || !is_itself(aTHX_ IS_PARSER) || !SvROK(parser) || !SvOBJECT(SvRV(parser))
        || SvSTASH(SvRV(parser)) != MY_CXT.trust[IS_PARSER].stash || SvTYPE(SvRV(parser)) != SVt_PVAV)
        return false;
    av = (AV *)SvRV(parser);
    if (SvRMAGICAL(av) || AvFILLp(av) < 0 || !AvARRAY(av)[0] || !(handlers = hf_plain_array(aTHX_ AvARRAY(av)[0])))
        return false;
    for (i = 0; i <= AvFILLp(handlers); i++) {
        AV *handler = AvARRAY(handlers)[i] ? hf_plain_array(aTHX_ AvARRAY(handlers)[i]) : NULL;
        SV *type = handler && AvFILLp(handler) >= 0 ? AvARRAY(handler)[0] : NULL;
        if (!type || !SvPOK(type) || SvGMAGICAL(type) || !SvCUR(type))
            return false;
    }
    return true;
}

static SV *new_multivalue(pTHX)
{
    SV *rv = hf_mv_new(aTHX_ NULL, NULL);
    if (!rv)
        rv = newSVsv(call_scalar(aTHX_ sv_2mortal(newSVpvs("Hash::MultiValue")), "new", NULL, NULL));
    return rv;
}

static SV *no_list(pTHX)
{
    dMY_CXT;
    if (!MY_CXT.spare_list || SvOBJECT(MY_CXT.spare_list) || !is_unused(MY_CXT.spare_list, 0)) {
        SvREFCNT_dec((SV *)MY_CXT.spare_list);
        MY_CXT.spare_list = newAV();
    }
    return newRV_inc((SV *)MY_CXT.spare_list);
}

static SV *no_uploads(pTHX)
{
    dMY_CXT;
    SV *rv;
    if (MY_CXT.spare_upload && hf_mv_is_unused(aTHX_ MY_CXT.spare_upload))
        return newRV_inc((SV *)MY_CXT.spare_upload);
    rv = new_multivalue(aTHX);
    SvREFCNT_dec((SV *)MY_CXT.spare_upload);
    MY_CXT.spare_upload = NULL;
    if (SvROK(rv) && SvTYPE(SvRV(rv)) == SVt_PVHV)
        MY_CXT.spare_upload = (HV *)SvREFCNT_inc_simple_NN(SvRV(rv));
    return rv;
}

/* Plack::Request::Upload->new(%$part, headers => HTTP::Headers::Fast->new(@{$part->{headers}})), mortal */
static SV *new_upload(pTHX_ HV *part, AV *fields)
{
    dMY_CXT;
    static const char *const names[] = {"tempname", "size", "filename"};
    HV *hv = newHV();
    SV *upload = sv_2mortal(newRV_noinc((SV *)hv)), *headers;
    SSize_t i;
    dSP;
    PUSHMARK(SP);
    EXTEND(SP, AvFILLp(fields) + 2);
    mPUSHp("HTTP::Headers::Fast", 19);
    for (i = 0; i <= AvFILLp(fields); i++)
        PUSHs(AvARRAY(fields)[i] ? AvARRAY(fields)[i] : &PL_sv_undef);
    PUTBACK;
    call_method("new", G_SCALAR);
    SPAGAIN;
    headers = POPs;
    PUTBACK;
    (void)hv_stores(hv, "headers", newSVsv(headers));
    for (i = 0; i < (SSize_t)C_ARRAY_LENGTH(names); i++) {
        SV **value = hv_fetch(part, names[i], (I32)strlen(names[i]), 0);
        (void)hv_store(hv, names[i], (I32)strlen(names[i]), value ? hf_upload_name_copy(aTHX_ *value) : newSV(0), 0);
    }
    return sv_bless(upload, MY_CXT.trust[IS_UPLOAD].stash);
}

/* Names and descriptions of uploads, as the parser gives them, are what they should be? */
static bool are_uploads(pTHX_ AV *uploads)
{
    SSize_t i;
    if (AvFILLp(uploads) < 0)
        return true;
    if (!(AvFILLp(uploads) & 1) || !is_itself(aTHX_ IS_UPLOAD))
        return false;
    for (i = 0; i < AvFILLp(uploads); i += 2) {
        SV *part = AvARRAY(uploads)[i + 1], **fields;
        HV *hv = AvARRAY(uploads)[i] && part ? hf_plain_hash(aTHX_ part) : NULL;
        if (!hv || !(fields = hv_fetchs(hv, "headers", 0)) || !hf_plain_array(aTHX_ *fields))
            return false;
    }
    return true;
}

/* Does what _parse_request_body does. False if it takes the original. The parser has been called then, and is again. */
static bool parse_body(pTHX_ const request *r)
{
    SV *parser, *params, *uploads_rv, *hash;
    AV *uploads = NULL;
    SSize_t i;
    I32 n;

    keep(aTHX_ r);
    parser = body_parser(aTHX_ r);
    if (has_no_body(aTHX_ r, parser)) {
        SV *input = sv_mortalcopy(hf_word_fetch(aTHX_ r->env, &word[INPUT]));
        rewind_input(aTHX_ input, 2);
        hf_word_store(aTHX_ r->env, W_BODY_LIST, no_list(aTHX));
        hf_word_store(aTHX_ r->env, W_UPLOAD, no_uploads(aTHX));
        return true;
    }
    {
        dSP;
        PUSHMARK(SP);
        EXTEND(SP, 2);
        PUSHs(sv_mortalcopy(parser));
        mPUSHs(newRV_inc((SV *)r->env));
        PUTBACK;
        n = call_method("parse", G_ARRAY);
        SPAGAIN;
        SP -= n;
        params = n > 0 ? SP[1] : &PL_sv_undef;
        uploads_rv = n > 1 ? SP[2] : NULL;
        PUTBACK;
    }
    params = sv_mortalcopy(params);
    uploads = uploads_rv ? hf_plain_array(aTHX_ uploads_rv) : NULL;
    if (!uploads || !are_uploads(aTHX_ uploads))
        return false;
    sv_2mortal(SvREFCNT_inc_simple_NN((SV *)uploads));
    hf_word_store(aTHX_ r->env, W_BODY_LIST, newSVsv(params));
    hash = sv_2mortal(new_multivalue(aTHX));
    for (i = 0; i < AvFILLp(uploads); i += 2) {
        SV *name = AvARRAY(uploads)[i];
        HV *part = (HV *)SvRV(AvARRAY(uploads)[i + 1]);
        SV *upload = new_upload(aTHX_ part, (AV *)SvRV(*hv_fetchs(part, "headers", 0)));
        (void)call_scalar(aTHX_ hash, "add", name, upload);
    }
    av_clear(uploads); /* the original takes them out one by one */
    hf_word_store(aTHX_ r->env, W_UPLOAD, newSVsv(hash));
    return true;
}

XS_INTERNAL(rq_parse_body)
{
    dXSARGS;
    request r;
    if (!items || !request_of(aTHX_ &r, ST(0), 0) || !parse_body(aTHX_ &r))
        ORIGINAL("_parse_request_body");
    ST(0) = sv_2mortal(newSViv(1));
    XSRETURN(1);
}

static void make_parsed(pTHX_ const request *r)
{
    if (!(r->ours & BIT(PARSE_BODY)) || !parse_body(aTHX_ r)) {
        keep(aTHX_ r);
        (void)call_scalar(aTHX_ r->self, "_parse_request_body", NULL, NULL);
    }
}

XS_INTERNAL(rq_content)
{
    dXSARGS;
    request r;
    SV *input, *length, *content;
    if (!items || !request_of(aTHX_ &r, ST(0), BIT(INPUT)))
        ORIGINAL("content");
    if (!true_value(aTHX_ r.env, W_BUFFERED))
        make_parsed(aTHX_ &r);
    input = true_value(aTHX_ r.env, &word[INPUT]);
    length = input ? true_value(aTHX_ r.env, &word[CONTENT_LENGTH]) : NULL;
    if (!length) {
        ST(0) = sv_2mortal(newSVpvs(""));
        XSRETURN(1);
    }
    input = sv_mortalcopy(input);
    length = sv_mortalcopy(length);
    content = sv_newmortal();
    rewind_input(aTHX_ input, 1);
    SPAGAIN;
    PUSHMARK(SP);
    EXTEND(SP, 4);
    PUSHs(input);
    PUSHs(content);
    PUSHs(length);
    mPUSHi(0);
    PUTBACK;
    call_method("read", G_VOID | G_DISCARD);
    rewind_input(aTHX_ input, 1);
    ST(0) = content;
    XSRETURN(1);
}

/* --- parameters --- */

/* A sub of the toolkit needs no call: it does not look at where it is called from. */
static bool is_ours(pTHX_ CV *cv)
{
    const HV *stash = CvISXSUB(cv) && CvGV(cv) ? GvSTASH(CvGV(cv)) : NULL;
    const char *name = stash ? HvNAME(stash) : NULL;
    return name && strEQ(name, "Hydrofoil::Accelerate::UrlEncoded");
}

/* A value of the environment that is parsed when somebody looks at it. Few do: parameters are asked for by name. */
static int unparsed_get(pTHX_ SV *sv, MAGIC *mg);
static int unparsed_set(pTHX_ SV *sv, MAGIC *mg);
static const MGVTBL unparsed = {unparsed_get, unparsed_set, NULL, NULL, NULL, NULL, NULL, NULL};

static int unparsed_get(pTHX_ SV *sv, MAGIC *mg)
{
    const SV *source = mg->mg_obj;
    AV *av = newAV();
    SV *list = sv_2mortal(newRV_noinc((SV *)av));
    hf_acc_parse_urlencoded(aTHX_ av, SvPVX_const(source), SvCUR(source), mg->mg_private != 0);
    sv_unmagicext(sv, PERL_MAGIC_ext, (MGVTBL *)&unparsed);
    sv_setsv(sv, list);
    return 0;
}

/* Somebody has put something else there. */
static int unparsed_set(pTHX_ SV *sv, MAGIC *mg)
{
    PERL_UNUSED_ARG(mg);
    sv_unmagicext(sv, PERL_MAGIC_ext, (MGVTBL *)&unparsed);
    return 0;
}

/* The query string, if parsing it calls nothing but ours, and nothing has been made of it yet: borrowed; or NULL. */
static SV *unparsed_query(pTHX_ const request *r)
{
    dMY_CXT;
    SV *query;
    if (!(r->ours & BIT(QUERY_LIST)) || hf_word_fetch(aTHX_ r->env, W_QUERY_LIST))
        return NULL;
    query = hf_word_fetch(aTHX_ r->env, &word[QUERY_STRING]);
    return query && is_ours(aTHX_ GvCV(MY_CXT.parse)) && hf_acc_is_plain(query) && SvPOK(query) && !SvUTF8(query) ? query : NULL;
}

/* Keeps the list of what is in the query string, as such a value. Returns the string as it is now, borrowed. */
static SV *keep_unparsed(pTHX_ const request *r, SV *query)
{
    dMY_CXT;
    SV *sv = newSV_type(SVt_PVMG), *source = hf_copy(aTHX_ query);
    sv_magicext(sv, source, PERL_MAGIC_ext, &unparsed, NULL, 0)->mg_private = MY_CXT.skip_first;
    SvREFCNT_dec_NN(source); /* the magic holds it */
    hf_word_store(aTHX_ r->env, W_QUERY_LIST, sv);
    return source;
}

/* $self->_query_parameters, borrowed or mortal. */
static SV *query_list(pTHX_ const request *r)
{
    dMY_CXT;
    dSP;
    SV *list, *query, *slot;
    if (!(r->ours & BIT(QUERY_LIST)))
        return call_scalar(aTHX_ r->self, "_query_parameters", NULL, NULL);
    query = unparsed_query(aTHX_ r);
    if (query)
        (void)keep_unparsed(aTHX_ r, query);
    slot = slot_of(aTHX_ r->env, W_QUERY_LIST);
    if (SvTRUE(slot))
        return slot;
    sv_2mortal(SvREFCNT_inc_simple_NN(slot));
    query = hf_word_fetch(aTHX_ r->env, &word[QUERY_STRING]);
    PUSHMARK(SP);
    XPUSHs(query ? query : sv_newmortal());
    PUTBACK;
    call_sv((SV *)GvCV(MY_CXT.parse), G_SCALAR);
    SPAGAIN;
    list = newSVsv(POPs);
    PUTBACK;
    fill_slot(aTHX_ slot, list);
    return slot;
}

/* $self->_body_parameters, borrowed or mortal */
static SV *body_list(pTHX_ const request *r)
{
    SV *list;
    if (!(r->ours & BIT(BODY_LIST)))
        return call_scalar(aTHX_ r->self, "_body_parameters", NULL, NULL);
    if ((list = true_value(aTHX_ r->env, W_BODY_LIST)))
        return list;
    make_parsed(aTHX_ r);
    list = hf_word_fetch(aTHX_ r->env, W_BODY_LIST);
    return list ? list : &PL_sv_undef;
}

static bool can_parse(pTHX)
{
    dMY_CXT;
    return MY_CXT.parse && GvCV(MY_CXT.parse);
}

XS_INTERNAL(rq_query_list)
{
    dXSARGS;
    request r;
    if (!items || !can_parse(aTHX) || !request_of(aTHX_ &r, ST(0), BIT(QUERY_LIST)))
        ORIGINAL("_query_parameters");
    keep(aTHX_ &r);
    ST(0) = sv_mortalcopy(query_list(aTHX_ &r));
    XSRETURN(1);
}

XS_INTERNAL(rq_body_list)
{
    dXSARGS;
    request r;
    if (!items || !request_of(aTHX_ &r, ST(0), BIT(BODY_LIST)))
        ORIGINAL("_body_parameters");
    keep(aTHX_ &r);
    ST(0) = sv_mortalcopy(body_list(aTHX_ &r));
    XSRETURN(1);
}

/* The parameters that the environment keeps under a key, or those from one list or two. Borrowed. NULL if it takes the
 * original, which starts from what has been parsed by then. */
static SV *kept_parameters(pTHX_ const request *r, const hf_word *where, bool query, bool body)
{
    SV *slot = slot_of(aTHX_ r->env, where), *sv = NULL, *source = NULL;
    AV *first = NULL, *second = NULL;
    dMY_CXT;
    if (SvTRUE(slot))
        return slot;
    if (!can_parse(aTHX))
        return NULL;
    keep(aTHX_ r);
    sv_2mortal(SvREFCNT_inc_simple_NN(slot));
    if (query && (!body || (r->ours & BIT(BODY_LIST) && r->ours & BIT(PARSE_BODY))) && (source = unparsed_query(aTHX_ r)))
        source = keep_unparsed(aTHX_ r, source);
    else if (query && !(first = hf_plain_array(aTHX_ query_list(aTHX_ r))))
        return NULL;
    if (body) {
        sv_2mortal(SvREFCNT_inc_simple(source ? source : (SV *)first));
        if (!(second = hf_plain_array(aTHX_ body_list(aTHX_ r))))
            return NULL;
        /* no body: that took no call of others either, and the string is still what the list will be made of */
        if (source && second != MY_CXT.spare_list) {
            source = NULL;
            if (!(first = hf_plain_array(aTHX_ query_list(aTHX_ r))))
                return NULL;
        }
    }
    if (source)
        sv = hf_mv_new_parsed(aTHX_ source, MY_CXT.skip_first);
    if (!sv) {
        if (query && !first && !(first = hf_plain_array(aTHX_ query_list(aTHX_ r))))
            return NULL;
        sv = hf_mv_new(aTHX_ first, second);
    }
    if (!sv)
        return NULL;
    fill_slot(aTHX_ slot, sv);
    return slot;
}

XS_INTERNAL(rq_query_parameters)
{
    dXSARGS;
    request r;
    SV *sv;
    if (!items || !request_of(aTHX_ &r, ST(0), 0) || !(sv = kept_parameters(aTHX_ &r, W_QUERY, true, false)))
        ORIGINAL("query_parameters");
    ST(0) = sv_mortalcopy(sv);
    XSRETURN(1);
}

XS_INTERNAL(rq_body_parameters)
{
    dXSARGS;
    request r;
    SV *sv;
    if (!items || !request_of(aTHX_ &r, ST(0), 0) || !(sv = kept_parameters(aTHX_ &r, W_BODY, false, true)))
        ORIGINAL("body_parameters");
    ST(0) = sv_mortalcopy(sv);
    XSRETURN(1);
}

XS_INTERNAL(rq_parameters)
{
    dXSARGS;
    request r;
    SV *sv;
    if (!items || !request_of(aTHX_ &r, ST(0), 0) || !(sv = kept_parameters(aTHX_ &r, W_MERGED, true, true)))
        ORIGINAL("parameters");
    ST(0) = sv_mortalcopy(sv);
    XSRETURN(1);
}

/* $self->uploads, borrowed */
static SV *kept_uploads(pTHX_ const request *r)
{
    SV *sv = true_value(aTHX_ r->env, W_UPLOAD);
    if (sv)
        return sv;
    make_parsed(aTHX_ r);
    sv = hf_word_fetch(aTHX_ r->env, W_UPLOAD);
    return sv ? sv : &PL_sv_undef;
}

XS_INTERNAL(rq_uploads)
{
    dXSARGS;
    request r;
    if (!items || !request_of(aTHX_ &r, ST(0), 0))
        ORIGINAL("uploads");
    keep(aTHX_ &r);
    ST(0) = sv_mortalcopy(kept_uploads(aTHX_ &r));
    XSRETURN(1);
}

/* keys of a hash, or the value or values of a key, as the running XSUB's result. False if it takes the original. */
static bool look_up(pTHX_ SV *multivalue, I32 ax, I32 items)
{
    HV *hv = hf_plain_hash(aTHX_ multivalue);
    const U8 gimme = GIMME_V;
    if (!hv)
        return false;
    if (items == 1) {
        SV **sp = PL_stack_base + ax - 1;
        (void)hv_iterinit(hv);
        if (gimme == G_ARRAY) {
            HE *he;
            EXTEND(sp, (SSize_t)HvUSEDKEYS(hv));
            while ((he = hv_iternext(hv)))
                PUSHs(hv_iterkeysv(he));
        }
        else if (gimme == G_SCALAR)
            XPUSHs(sv_2mortal(newSViv((IV)HvUSEDKEYS(hv))));
        PL_stack_sp = sp;
        return true;
    }
    if (gimme == G_ARRAY)
        return hf_mv_get_all(aTHX_ multivalue, ST(1), ax);
    if (!hf_acc_is_plain(ST(1)))
        return false;
    {
        HE *he = hv_fetch_ent(hv, ST(1), 0, 0);
        ST(0) = copy_of(aTHX_ he ? HeVAL(he) : NULL);
        PL_stack_sp = PL_stack_base + ax;
    }
    return true;
}

XS_INTERNAL(rq_param)
{
    dXSARGS;
    request r;
    SV *sv;
    if (!items || !request_of(aTHX_ &r, ST(0), BIT(PARAMETERS)) || !(sv = kept_parameters(aTHX_ &r, W_MERGED, true, true))
        || !look_up(aTHX_ sv, ax, items))
        ORIGINAL("param");
}

XS_INTERNAL(rq_upload)
{
    dXSARGS;
    request r;
    if (!items || !request_of(aTHX_ &r, ST(0), BIT(UPLOADS)))
        ORIGINAL("upload");
    keep(aTHX_ &r);
    if (!look_up(aTHX_ kept_uploads(aTHX_ &r), ax, items))
        ORIGINAL("upload");
}

/* --- addresses --- */

#define IN_PATH 1  /* stands for itself in the path of a URI that the original makes */
#define IN_URI 2   /* stands for itself anywhere in it */
#define IN_HOST 4  /* in a host that need not be looked at further */
#define UNRESERVED 8 /* is not written with "%" in a canonical URI */
static U8 byte_class[256];

static void classify(const char *bytes, U8 class)
{
    for (; *bytes; bytes++)
        byte_class[(U8)*bytes] |= class;
}

static void classify_all(void)
{
    static const char lower[] = "abcdefghijklmnopqrstuvwxyz", upper[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ", digits[] = "0123456789";
    classify(lower, IN_PATH | IN_URI | IN_HOST | UNRESERVED);
    classify(upper, IN_PATH | IN_URI | UNRESERVED);
    classify(digits, IN_PATH | IN_URI | IN_HOST | UNRESERVED);
    classify("/;:@&=$_.+!*'(),-", IN_PATH);
    classify("-_.!~*'()", UNRESERVED | IN_URI);
    classify(";/?:@&=+$,%#", IN_URI);
    classify("-.", IN_HOST);
}

typedef struct bytes {
    const char *p;
    STRLEN len;
} bytes;

/* The bytes of a value if it is true, "" if it is not. False if it takes more than reading bytes. */
static bool bytes_of(pTHX_ HV *env, const hf_word *w, bytes *b)
{
    SV *sv = hf_word_fetch(aTHX_ env, w);
    b->p = "";
    b->len = 0;
    if (!sv || (!SvOK(sv) && !SvGMAGICAL(sv)))
        return true;
    if (!hf_acc_is_plain(sv) || SvUTF8(sv))
        return false;
    if (SvTRUE(sv))
        b->p = SvPV_const(sv, b->len);
    return true;
}

static void add_bytes(SV *sv, const char *p, STRLEN len)
{
    Copy(p, SvPVX(sv) + SvCUR(sv), len, char);
    SvCUR_set(sv, SvCUR(sv) + len);
}

/* $self->_uri_base, mortal, with room for `room` bytes more; and where its authority is. NULL if it takes the original. */
static SV *uri_base(pTHX_ HV *env, STRLEN room, bytes *scheme, STRLEN *authority, STRLEN *script)
{
    bytes host, name, port, path;
    SV *sv;
    if (!bytes_of(aTHX_ env, &word[SCHEME], scheme) || !bytes_of(aTHX_ env, W_HTTP_HOST, &host)
        || !bytes_of(aTHX_ env, W_SERVER_NAME, &name) || !bytes_of(aTHX_ env, &word[PORT], &port)
        || !bytes_of(aTHX_ env, &word[SCRIPT_NAME], &path))
        return NULL;
    if (!scheme->len)
        scheme->p = "http", scheme->len = 4;
    if (!port.len)
        port.p = "80", port.len = 2;
    if (!path.len)
        path.p = "/", path.len = 1;
    sv = sv_2mortal(newSV(scheme->len + 3 + host.len + name.len + 1 + port.len + path.len + room + 1));
    SvPOK_only(sv);
    SvCUR_set(sv, 0);
    add_bytes(sv, scheme->p, scheme->len);
    add_bytes(sv, "://", 3);
    *authority = SvCUR(sv);
    if (host.len)
        add_bytes(sv, host.p, host.len);
    else {
        add_bytes(sv, name.p, name.len);
        add_bytes(sv, ":", 1);
        add_bytes(sv, port.p, port.len);
    }
    *script = SvCUR(sv);
    add_bytes(sv, path.p, path.len);
    *SvEND(sv) = '\0';
    return sv;
}

XS_INTERNAL(rq_uri_base)
{
    dXSARGS;
    request r;
    bytes scheme;
    STRLEN authority, script;
    SV *base;
    if (!items || !request_of(aTHX_ &r, ST(0), 0) || !(base = uri_base(aTHX_ r.env, 0, &scheme, &authority, &script)))
        ORIGINAL("_uri_base");
    ST(0) = base;
    XSRETURN(1);
}

static int hex_value(U8 c)
{
    return isDIGIT(c) ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

static void add_byte(SV *sv, U8 c)
{
    *SvEND(sv) = (char)c;
    SvCUR_set(sv, SvCUR(sv) + 1);
}

static void add_escaped(SV *sv, U8 c)
{
    static const char digits[] = "0123456789ABCDEF";
    char *p = SvEND(sv);
    p[0] = '%';
    p[1] = digits[c >> 4];
    p[2] = digits[c & 15];
    SvCUR_set(sv, SvCUR(sv) + 3);
}

/* Appends what canonical() makes of text that is not in the authority: "%" sequences in capitals, or what they stand for. */
static void add_canonical(SV *sv, const char *p, STRLEN len)
{
    const char *end = p + len;
    while (p < end) {
        const U8 c = (U8)*p++;
        if (c == '%' && end - p >= 2 && hex_value((U8)p[0]) >= 0 && hex_value((U8)p[1]) >= 0) {
            const U8 value = (U8)(hex_value((U8)p[0]) << 4 | hex_value((U8)p[1]));
            p += 2;
            if (byte_class[value] & UNRESERVED)
                add_byte(sv, value);
            else
                add_escaped(sv, value);
        }
        else if (byte_class[c] & IN_URI)
            add_byte(sv, c);
        else
            add_escaped(sv, c);
    }
}

/* Is what URI->new does to strings of this scheme what it always did, and the class loaded? */
static HV *class_of_scheme(pTHX_ const bytes *scheme, const char **default_port)
{
    dMY_CXT;
    const bool secure = scheme->len == 5 && memEQ(scheme->p, "https", 5);
    SV **class;
    const char *name;
    if (!secure && !(scheme->len == 4 && memEQ(scheme->p, "http", 4)))
        return NULL;
    if (!MY_CXT.implements || !is_itself(aTHX_ IS_URI) || !is_itself(aTHX_ IS_SERVER) || !is_itself(aTHX_ IS_HTTP)
        || (secure && !is_itself(aTHX_ IS_HTTPS)))
        return NULL;
    class = hv_fetch(MY_CXT.implements, scheme->p, (I32)scheme->len, 0);
    name = secure ? "URI::https" : "URI::http";
    if (!class || !SvPOK(*class) || strNE(SvPVX_const(*class), name))
        return NULL;
    *default_port = secure ? "443" : "80";
    return MY_CXT.trust[secure ? IS_HTTPS : IS_HTTP].stash;
}

/* Printable characters of ASCII but the space: nothing that a pattern takes for white space, nor that versions of URI treat
 * differently. */
static bool is_printable(pTHX_ const bytes *b)
{
    dMY_CXT;
    STRLEN i;
    for (i = 0; i < b->len; i++)
        if ((U8)b->p[i] <= 0x20 || (U8)b->p[i] >= 0x7f || (MY_CXT.brackets && (b->p[i] == '[' || b->p[i] == ']')))
            return false;
    return true;
}

/* URI->new($self->_uri_base . ...)->canonical; with `whole` the path and the query behind the base. A new reference. NULL
 * if it takes the original. */
static SV *uri_of(pTHX_ const request *r, bool whole)
{
    bytes scheme, path = {"", 0}, query = {"", 0}, script;
    STRLEN authority, at, i, end, port_at;
    const char *default_port, *p;
    HV *class;
    SV *base, *uri, *sv;

    base = uri_base(aTHX_ r->env, 0, &scheme, &authority, &at);
    if (!base || !(class = class_of_scheme(aTHX_ &scheme, &default_port)))
        return NULL;
    if (whole) {
        if (!bytes_of(aTHX_ r->env, &word[PATH_INFO], &path))
            return NULL;
        sv = hf_word_fetch(aTHX_ r->env, &word[QUERY_STRING]);
        if (sv && (SvOK(sv) || SvGMAGICAL(sv))) {
            if (!hf_acc_is_plain(sv) || SvUTF8(sv))
                return NULL;
            query.p = SvPV_const(sv, query.len); /* "0" is a query */
        }
    }
    script.p = SvPVX(base) + at;
    script.len = SvCUR(base) - at;
    if (script.p[0] != '/' || !is_printable(aTHX_ & script) || !is_printable(aTHX_ & query))
        return NULL;

    /* host[:port] */
    p = SvPVX(base);
    for (i = authority; i < at && byte_class[(U8)p[i]] & IN_HOST; i++)
        ;
    end = i;
    if (end == authority)
        return NULL;
    port_at = at;
    if (i < at) {
        if (p[i++] != ':')
            return NULL;
        port_at = i;
        for (; i < at; i++)
            if (!isDIGIT(p[i]))
                return NULL;
        if (at - port_at > 5 || (at > port_at && p[port_at] == '0'))
            return NULL;
        if (at == port_at || (strlen(default_port) == at - port_at && memEQ(p + port_at, default_port, at - port_at)))
            ; /* is left out */
        else
            end = at;
    }

    if (path.len && path.p[0] == '/' && script.p[script.len - 1] == '/')
        script.len--;
    sv = newSV(end + 3 * (script.len + path.len + query.len) + 2);
    uri = newRV_noinc(sv);
    SvPOK_only(sv);
    SvCUR_set(sv, 0);
    add_bytes(sv, p, end);
    add_canonical(sv, script.p, script.len);
    for (i = 0; i < path.len; i++) {
        const U8 c = (U8)path.p[i];
        if (byte_class[c] & (IN_PATH | UNRESERVED))
            add_byte(sv, c);
        else
            add_escaped(sv, c);
    }
    if (query.len) {
        add_bytes(sv, "?", 1);
        add_canonical(sv, query.p, query.len);
    }
    *SvEND(sv) = '\0';
    return sv_bless(uri, class);
}

XS_INTERNAL(rq_uri)
{
    dXSARGS;
    request r;
    SV *uri;
    if (!items || !request_of(aTHX_ &r, ST(0), BIT(URI_BASE)) || !(uri = uri_of(aTHX_ &r, true)))
        ORIGINAL("uri");
    ST(0) = sv_2mortal(uri);
    XSRETURN(1);
}

XS_INTERNAL(rq_base)
{
    dXSARGS;
    request r;
    SV *uri;
    if (!items || !request_of(aTHX_ &r, ST(0), BIT(URI_BASE)) || !(uri = uri_of(aTHX_ &r, false)))
        ORIGINAL("base");
    ST(0) = sv_2mortal(uri);
    XSRETURN(1);
}

XS_INTERNAL(rq_raw_body)
{
    dXSARGS;
    if (!items || !SvROK(ST(0)) || !SvOBJECT(SvRV(ST(0))))
        ORIGINAL("raw_body");
    PL_stack_sp = PL_stack_base + ax;
    PUSHMARK(PL_stack_base + ax - 1);
    call_method("content", GIMME_V);
}

/* The object on the stack is replaced by the class of responses. */
XS_INTERNAL(rq_new_response)
{
    dXSARGS;
    if (!items || !hv_exists(GvHVn(PL_incgv), "Plack/Response.pm", 17))
        ORIGINAL("new_response");
    ST(0) = sv_2mortal(newSVpvs("Plack::Response"));
    PUSHMARK(PL_stack_base + ax - 1);
    call_method("new", GIMME_V);
}

/* --- setting up --- */

static GV *named(pTHX_ const char *name, svtype type)
{
    GV *gv = gv_fetchpv(name, 0, type);
    return gv && isGV((SV *)gv) ? (GV *)SvREFCNT_inc_simple_NN((SV *)gv) : NULL;
}

/* The two originals of the parser differ in a space at the very beginning. */
static bool skips_first(pTHX_ CV *parse)
{
    dSP;
    bool skips = false;
    if (!parse)
        return false;
    ENTER;
    SAVETMPS;
    PUSHMARK(SP);
    mXPUSHp(" a", 2);
    PUTBACK;
    if (call_sv((SV *)parse, G_SCALAR | G_EVAL) == 1) {
        SV *rv, **name;
        SPAGAIN;
        rv = POPs;
        PUTBACK;
        name = SvROK(rv) && SvTYPE(SvRV(rv)) == SVt_PVAV ? av_fetch((AV *)SvRV(rv), 0, 0) : NULL;
        skips = name && strEQ(SvPV_nolen_const(*name), "a");
    }
    FREETMPS;
    LEAVE;
    return skips;
}

static void find_others(pTHX)
{
    static const char *const types[] = {"application/x-www-form-urlencoded", "HTTP::Entity::Parser::UrlEncoded",
                                        "multipart/form-data", "HTTP::Entity::Parser::MultiPart"};
    dMY_CXT;
    unsigned i;
    CV *implementor = get_cv("URI::implementor", 0);
    SV *implements = implementor ? hf_closed_over(aTHX_ implementor, "%implements") : NULL;
    SV *version = get_sv("Plack::Request::VERSION", 0), *reserved = get_sv("URI::reserved", 0);
    Zero(&MY_CXT, 1, my_cxt_t);
    MY_CXT.fields = newHV();
    for (i = 0; i < C_ARRAY_LENGTH(types); i++)
        MY_CXT.types[i] = newSVpv(types[i], 0);
    MY_CXT.parse = named(aTHX_ "Plack::Request::parse_urlencoded_arrayref", SVt_PVCV);
    MY_CXT.skip_first = MY_CXT.parse && skips_first(aTHX_ GvCV(MY_CXT.parse));
    MY_CXT.loose = version && SvNV(version) < 1.0051;
    MY_CXT.brackets = !reserved || !SvPOK(reserved) || memchr(SvPVX(reserved), '[', SvCUR(reserved));
    MY_CXT.crush = named(aTHX_ "Cookie::Baker::crush_cookie", SVt_PVCV);
    MY_CXT.translate = named(aTHX_ "HTTP::Headers::Fast::TRANSLATE_UNDERSCORE", SVt_PV);
    MY_CXT.implements = implements && SvTYPE(implements) == SVt_PVHV ? (HV *)SvREFCNT_inc_simple_NN(implements) : NULL;
}

/* The original's subs have been replaced. */
XS_INTERNAL(rq_on)
{
    dXSARGS;
    dMY_CXT;
    unsigned i;
    PERL_UNUSED_VAR(items);
    SvREFCNT_dec((SV *)MY_CXT.fields);
    SvREFCNT_dec((SV *)MY_CXT.parse);
    SvREFCNT_dec((SV *)MY_CXT.crush);
    SvREFCNT_dec((SV *)MY_CXT.translate);
    SvREFCNT_dec((SV *)MY_CXT.implements);
    SvREFCNT_dec((SV *)MY_CXT.spare_parser);
    SvREFCNT_dec((SV *)MY_CXT.spare_list);
    SvREFCNT_dec((SV *)MY_CXT.spare_upload);
    for (i = 0; i < C_ARRAY_LENGTH(MY_CXT.types); i++)
        SvREFCNT_dec(MY_CXT.types[i]);
    find_others(aTHX);
    XSRETURN_EMPTY;
}

/* A new thread has variables of its own. */
XS_INTERNAL(rq_clone_thread)
{
    dXSARGS;
    PERL_UNUSED_VAR(items);
    {
        MY_CXT_CLONE;
        find_others(aTHX);
    }
    XSRETURN_EMPTY;
}

static const hf_method methods[] = {
    [ADDRESS] = {"address", rq_accessor},
    [REMOTE_HOST] = {"remote_host", rq_accessor},
    [PROTOCOL] = {"protocol", rq_accessor},
    [METHOD] = {"method", rq_accessor},
    [PORT] = {"port", rq_accessor},
    [USER] = {"user", rq_accessor},
    [REQUEST_URI] = {"request_uri", rq_accessor},
    [PATH_INFO] = {"path_info", rq_accessor},
    [QUERY_STRING] = {"query_string", rq_accessor},
    [SCRIPT_NAME] = {"script_name", rq_accessor},
    [SCHEME] = {"scheme", rq_accessor},
    [BODY] = {"body", rq_accessor},
    [INPUT] = {"input", rq_accessor},
    [CONTENT_LENGTH] = {"content_length", rq_accessor},
    [CONTENT_TYPE] = {"content_type", rq_accessor},
    [SESSION] = {"session", rq_accessor},
    [SESSION_OPTIONS] = {"session_options", rq_accessor},
    [LOGGER] = {"logger", rq_accessor},
    [NEW] = {"new", rq_new},
    [ENV] = {"env", rq_env},
    [PATH] = {"path", rq_path},
    [SECURE] = {"secure", rq_secure},
    [COOKIES] = {"cookies", rq_cookies},
    [CONTENT] = {"content", rq_content},
    [RAW_BODY] = {"raw_body", rq_raw_body},
    [HEADERS] = {"headers", rq_headers},
    [CONTENT_ENCODING] = {"content_encoding", rq_of_headers},
    [HEADER] = {"header", rq_of_headers},
    [REFERER] = {"referer", rq_of_headers},
    [USER_AGENT] = {"user_agent", rq_of_headers},
    [BODY_LIST] = {"_body_parameters", rq_body_list},
    [QUERY_LIST] = {"_query_parameters", rq_query_list},
    [QUERY_PARAMETERS] = {"query_parameters", rq_query_parameters},
    [BODY_PARAMETERS] = {"body_parameters", rq_body_parameters},
    [PARAMETERS] = {"parameters", rq_parameters},
    [UPLOADS] = {"uploads", rq_uploads},
    [PARAM] = {"param", rq_param},
    [UPLOAD] = {"upload", rq_upload},
    [URI] = {"uri", rq_uri},
    [BASE] = {"base", rq_base},
    [URI_BASE] = {"_uri_base", rq_uri_base},
    [NEW_RESPONSE] = {"new_response", rq_new_response},
    [BODY_PARSER] = {"request_body_parser", rq_request_body_parser},
    [BUILD_BODY_PARSER] = {"_build_body_parser", rq_build_body_parser},
    [BUFFER_LENGTH_FOR] = {"_buffer_length_for", rq_buffer_length_for},
    [PARSE_BODY] = {"_parse_request_body", rq_parse_body},
};

void hf_acc_boot_request(pTHX)
{
    unsigned i;
    MY_CXT_INIT;
    Zero(&MY_CXT, 1, my_cxt_t);
    for (i = 0; i < C_ARRAY_LENGTH(word); i++)
        PERL_HASH(word[i].hash, word[i].name, word[i].len);
    classify_all();
    hf_methods_register(aTHX_ "Request", methods, N_METHODS);
    hf_acc_sub(aTHX_ "Request::on", rq_on, 0);
    hf_acc_sub(aTHX_ "Request::CLONE", rq_clone_thread, 0);
}
