/* request.c - Plack::Request in C: the object, what it reads from the environment, cookies and headers. request.h tells
 * what the other methods are in. */
#include "request.h"

#define WORD(name) {name, sizeof(name) - 1, 0}

hf_word hf_request_keys[KEYS] = {
    [KEY_ADDRESS] = WORD("REMOTE_ADDR"),
    [KEY_REMOTE_HOST] = WORD("REMOTE_HOST"),
    [KEY_PROTOCOL] = WORD("SERVER_PROTOCOL"),
    [KEY_METHOD] = WORD("REQUEST_METHOD"),
    [KEY_PORT] = WORD("SERVER_PORT"),
    [KEY_USER] = WORD("REMOTE_USER"),
    [KEY_REQUEST_URI] = WORD("REQUEST_URI"),
    [KEY_PATH_INFO] = WORD("PATH_INFO"),
    [KEY_QUERY_STRING] = WORD("QUERY_STRING"),
    [KEY_SCRIPT_NAME] = WORD("SCRIPT_NAME"),
    [KEY_SCHEME] = WORD("psgi.url_scheme"),
    [KEY_BODY] = WORD("psgi.input"),
    [KEY_INPUT] = WORD("psgi.input"),
    [KEY_CONTENT_LENGTH] = WORD("CONTENT_LENGTH"),
    [KEY_CONTENT_TYPE] = WORD("CONTENT_TYPE"),
    [KEY_SESSION] = WORD("psgix.session"),
    [KEY_SESSION_OPTIONS] = WORD("psgix.session.options"),
    [KEY_LOGGER] = WORD("psgix.logger"),
    [KEY_HTTP_HOST] = WORD("HTTP_HOST"),
    [KEY_SERVER_NAME] = WORD("SERVER_NAME"),
    [KEY_HTTP_COOKIE] = WORD("HTTP_COOKIE"),
    [KEY_TRANSFER_ENCODING] = WORD("HTTP_TRANSFER_ENCODING"),
    [KEY_BUFFERED] = WORD("psgix.input.buffered"),
    [KEY_COOKIE_PARSED] = WORD("plack.cookie.parsed"),
    [KEY_COOKIE_STRING] = WORD("plack.cookie.string"),
    [KEY_BODY_LIST] = WORD("plack.request.body_parameters"),
    [KEY_QUERY_LIST] = WORD("plack.request.query_parameters"),
    [KEY_QUERY_PARAMETERS] = WORD("plack.request.query"),
    [KEY_BODY_PARAMETERS] = WORD("plack.request.body"),
    [KEY_PARAMETERS] = WORD("plack.request.merged"),
    [KEY_UPLOADS] = WORD("plack.request.upload"),
    [KEY_ENV] = WORD("env"),
    [KEY_HEADERS] = WORD("headers"),
    [KEY_BODY_PARSER] = WORD("request_body_parser"),
    [KEY_PLACK_BUFFER_LENGTH] = WORD("PLACK_BUFFER_LENGTH"),
};

_Static_assert((int)KEY_LOGGER == (int)RQ_LOGGER, "the methods that read the environment are in the order of their keys");

static const hf_module headers_module = {
    "HTTP::Headers::Fast", "HTTP/Headers/Fast.pm", {"new", "header", "_header_set", "_standardize_field_name"}};

#define MY_CXT_KEY "Hydrofoil::Accelerate::Request::_state"
typedef struct {
    hf_classes classes;
    hf_trust trust_headers;
    HV *fields;            /* key of the environment => name of the header */
    GV *crush, *translate; /* of what is called by name */
    bool loose;            /* which keys are headers: is_header() */
} my_cxt_t;
START_MY_CXT

#define MAX_FIELDS 256 /* names of headers that are remembered */

static const hf_method methods[];

/* --- what the files share --- */

bool hf_request_of(pTHX_ hf_request *r, SV *self, U64 wanted)
{
    dMY_CXT;
    SV *env;
    r->self = self;
    r->hv = hf_plain_hash(aTHX_ self);
    if (UNLIKELY(!r->hv || !SvOBJECT(r->hv)))
        return false;
    r->ours = hf_methods(aTHX_ &MY_CXT.classes, SvSTASH(r->hv), methods, RQ_METHODS);
    wanted |= BIT(ENV);
    if (UNLIKELY((r->ours & wanted) != wanted))
        return false;
    env = hf_word_fetch(aTHX_ r->hv, KEY(ENV));
    r->env = env ? hf_plain_hash(aTHX_ env) : NULL;
    return r->env != NULL;
}

SV *hf_call_method(pTHX_ SV *self, const char *name, SV *arg1, SV *arg2)
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

GV *hf_request_glob(pTHX_ const char *name, svtype type)
{
    GV *gv = gv_fetchpv(name, 0, type);
    return gv && isGV((SV *)gv) ? (GV *)SvREFCNT_inc_simple_NN((SV *)gv) : NULL;
}

/* --- the object and its accessors --- */

XS_INTERNAL(rq_new)
{
    dXSARGS;
    HV *hv, *stash;
    SV *env = items > 1 ? ST(1) : NULL, *self;
    if (!env || !SvROK(env) || SvTYPE(SvRV(env)) != SVt_PVHV || SvOBJECT(SvRV(env)) || !hf_acc_is_plain(ST(0)) || !SvPOK(ST(0))
        || !SvCUR(ST(0)))
        ORIGINAL("new");
    stash = gv_stashsv(ST(0), 0);
    if (!stash)
        ORIGINAL("new");
    hv = newHV();
    self = sv_2mortal(newRV_noinc((SV *)hv));
    hf_word_store(aTHX_ hv, KEY(ENV), newRV_inc(SvRV(env)));
    ST(0) = sv_bless(self, stash);
    XSRETURN(1);
}

XS_INTERNAL(rq_env)
{
    dXSARGS;
    HV *hv = items ? hf_plain_hash(aTHX_ ST(0)) : NULL;
    if (!hv)
        ORIGINAL("env");
    ST(0) = hf_or_undef(aTHX_ hf_word_fetch(aTHX_ hv, KEY(ENV)));
    XSRETURN(1);
}

XS_INTERNAL(rq_accessor)
{
    dXSARGS;
    dXSI32;
    hf_request r;
    if (!items || !hf_request_of(aTHX_ &r, ST(0), 0)) {
        hf_acc_original(aTHX_ Perl_form(aTHX_ "Plack::Request::%s", methods[ix].name), ax, items);
        return;
    }
    ST(0) = hf_or_undef(aTHX_ hf_word_fetch(aTHX_ r.env, &hf_request_keys[ix]));
    XSRETURN(1);
}

XS_INTERNAL(rq_path)
{
    dXSARGS;
    hf_request r;
    SV *path;
    if (!items || !hf_request_of(aTHX_ &r, ST(0), 0))
        ORIGINAL("path");
    path = hf_true_value(aTHX_ r.env, KEY(PATH_INFO));
    ST(0) = path ? sv_mortalcopy(path) : sv_2mortal(newSVpvs("/"));
    XSRETURN(1);
}

XS_INTERNAL(rq_secure)
{
    dXSARGS;
    hf_request r;
    SV *scheme;
    if (!items || !hf_request_of(aTHX_ &r, ST(0), BIT(SCHEME)) || !(scheme = hf_word_fetch(aTHX_ r.env, KEY(SCHEME)))
        || !hf_acc_is_plain(scheme))
        ORIGINAL("secure");
    {
        STRLEN len;
        const char *p = SvPV_const(scheme, len);
        ST(0) = sv_mortalcopy(boolSV(len == 5 && memEQ(p, "https", 5)));
    }
    XSRETURN(1);
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

/* --- cookies --- */

XS_INTERNAL(rq_cookies)
{
    dXSARGS;
    dMY_CXT;
    hf_request r;
    SV *cookie, *parsed, *string;
    if (!items || !hf_request_of(aTHX_ &r, ST(0), 0))
        ORIGINAL("cookies");
    cookie = hf_true_value(aTHX_ r.env, KEY(HTTP_COOKIE));
    if (!cookie) {
        ST(0) = sv_2mortal(newRV_noinc((SV *)newHV()));
        XSRETURN(1);
    }
    if (!hf_acc_is_plain(cookie))
        ORIGINAL("cookies");
    if ((parsed = hf_true_value(aTHX_ r.env, KEY(COOKIE_PARSED)))) {
        string = hf_word_fetch(aTHX_ r.env, KEY(COOKIE_STRING));
        if (!string || !hf_acc_is_plain(string))
            ORIGINAL("cookies");
        if (sv_eq(string, cookie)) {
            ST(0) = sv_mortalcopy(parsed);
            XSRETURN(1);
        }
    }
    if (!MY_CXT.crush || !GvCV(MY_CXT.crush))
        ORIGINAL("cookies");
    hf_request_hold(aTHX_ &r);
    string = newSVsv(cookie);
    hf_word_store(aTHX_ r.env, KEY(COOKIE_STRING), string);
    parsed = newSVsv(hf_acc_call(aTHX_ (SV *)GvCV(MY_CXT.crush), &string, 1));
    hf_word_store(aTHX_ r.env, KEY(COOKIE_PARSED), parsed);
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
    name = newSVsv(hf_acc_call(aTHX_ (SV *)standardize, &name, 1));
    if (HvUSEDKEYS(MY_CXT.fields) < MAX_FIELDS)
        (void)hv_common(MY_CXT.fields, NULL, HeKEY(he), HeKLEN(he), 0, HV_FETCH_ISSTORE, name, HeHASH(he));
    else
        sv_2mortal(name);
    return name;
}

/* $self->headers, borrowed. NULL if it takes the original. */
static SV *headers_of(pTHX_ const hf_request *r)
{
    dMY_CXT;
    SV *headers = hf_word_fetch(aTHX_ r->hv, KEY(HEADERS)), *translate;
    HV *hv;
    HE *he;
    if (headers && (SvGMAGICAL(headers) || SvOK(headers)))
        return headers;
    translate = MY_CXT.translate ? GvSV(MY_CXT.translate) : NULL;
    if (!translate || SvGMAGICAL(translate) || !SvTRUE(translate)
        || !hf_module_is_itself(aTHX_ &MY_CXT.trust_headers, &headers_module))
        return NULL;
    hf_request_hold(aTHX_ r);
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
    sv_bless(headers, MY_CXT.trust_headers.stash);
    headers = newSVsv(headers);
    hf_word_store(aTHX_ r->hv, KEY(HEADERS), headers);
    return headers;
}

XS_INTERNAL(rq_headers)
{
    dXSARGS;
    hf_request r;
    SV *headers;
    if (!items || !hf_request_of(aTHX_ &r, ST(0), 0) || !(headers = headers_of(aTHX_ &r)))
        ORIGINAL("headers");
    ST(0) = sv_mortalcopy(headers);
    XSRETURN(1);
}

/* Methods of the headers: the object on the stack is replaced by them. */
XS_INTERNAL(rq_of_headers)
{
    dXSARGS;
    dXSI32;
    hf_request r;
    SV *headers;
    if (!items || !hf_request_of(aTHX_ &r, ST(0), BIT(HEADERS)) || !(headers = headers_of(aTHX_ &r))) {
        hf_acc_original(aTHX_ Perl_form(aTHX_ "Plack::Request::%s", methods[ix].name), ax, items);
        return;
    }
    ST(0) = sv_mortalcopy(headers);
    PUSHMARK(PL_stack_base + ax - 1);
    call_method(methods[ix].name, GIMME_V);
}

/* --- setting up --- */

static void find_others(pTHX)
{
    dMY_CXT;
    SV *version = get_sv("Plack::Request::VERSION", 0);
    Zero(&MY_CXT, 1, my_cxt_t);
    MY_CXT.fields = newHV();
    MY_CXT.loose = version && SvNV(version) < 1.0051;
    MY_CXT.crush = hf_request_glob(aTHX_ "Cookie::Baker::crush_cookie", SVt_PVCV);
    MY_CXT.translate = hf_request_glob(aTHX_ "HTTP::Headers::Fast::TRANSLATE_UNDERSCORE", SVt_PV);
}

/* The original's subs have been replaced. */
XS_INTERNAL(rq_on)
{
    dXSARGS;
    dMY_CXT;
    PERL_UNUSED_VAR(items);
    SvREFCNT_dec((SV *)MY_CXT.fields);
    SvREFCNT_dec((SV *)MY_CXT.crush);
    SvREFCNT_dec((SV *)MY_CXT.translate);
    find_others(aTHX);
    hf_request_body_on(aTHX);
    hf_request_parameters_on(aTHX);
    hf_request_address_on(aTHX);
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
    hf_request_body_clone(aTHX);
    hf_request_parameters_clone(aTHX);
    hf_request_address_clone(aTHX);
    XSRETURN_EMPTY;
}

static const hf_method methods[] = {
    [RQ_ADDRESS] = {"address", rq_accessor},
    [RQ_REMOTE_HOST] = {"remote_host", rq_accessor},
    [RQ_PROTOCOL] = {"protocol", rq_accessor},
    [RQ_METHOD] = {"method", rq_accessor},
    [RQ_PORT] = {"port", rq_accessor},
    [RQ_USER] = {"user", rq_accessor},
    [RQ_REQUEST_URI] = {"request_uri", rq_accessor},
    [RQ_PATH_INFO] = {"path_info", rq_accessor},
    [RQ_QUERY_STRING] = {"query_string", rq_accessor},
    [RQ_SCRIPT_NAME] = {"script_name", rq_accessor},
    [RQ_SCHEME] = {"scheme", rq_accessor},
    [RQ_BODY] = {"body", rq_accessor},
    [RQ_INPUT] = {"input", rq_accessor},
    [RQ_CONTENT_LENGTH] = {"content_length", rq_accessor},
    [RQ_CONTENT_TYPE] = {"content_type", rq_accessor},
    [RQ_SESSION] = {"session", rq_accessor},
    [RQ_SESSION_OPTIONS] = {"session_options", rq_accessor},
    [RQ_LOGGER] = {"logger", rq_accessor},
    [RQ_NEW] = {"new", rq_new},
    [RQ_ENV] = {"env", rq_env},
    [RQ_PATH] = {"path", rq_path},
    [RQ_SECURE] = {"secure", rq_secure},
    [RQ_COOKIES] = {"cookies", rq_cookies},
    [RQ_CONTENT] = {"content", hf_request_content},
    [RQ_RAW_BODY] = {"raw_body", hf_request_raw_body},
    [RQ_HEADERS] = {"headers", rq_headers},
    [RQ_CONTENT_ENCODING] = {"content_encoding", rq_of_headers},
    [RQ_HEADER] = {"header", rq_of_headers},
    [RQ_REFERER] = {"referer", rq_of_headers},
    [RQ_USER_AGENT] = {"user_agent", rq_of_headers},
    [RQ_BODY_LIST] = {"_body_parameters", hf_request_body_list},
    [RQ_QUERY_LIST] = {"_query_parameters", hf_request_query_list},
    [RQ_QUERY_PARAMETERS] = {"query_parameters", hf_request_query_parameters},
    [RQ_BODY_PARAMETERS] = {"body_parameters", hf_request_body_parameters},
    [RQ_PARAMETERS] = {"parameters", hf_request_parameters},
    [RQ_UPLOADS] = {"uploads", hf_request_uploads},
    [RQ_PARAM] = {"param", hf_request_param},
    [RQ_UPLOAD] = {"upload", hf_request_upload},
    [RQ_URI] = {"uri", hf_request_uri},
    [RQ_BASE] = {"base", hf_request_base},
    [RQ_URI_BASE] = {"_uri_base", hf_request_uri_base},
    [RQ_NEW_RESPONSE] = {"new_response", rq_new_response},
    [RQ_BODY_PARSER] = {"request_body_parser", hf_request_body_parser},
    [RQ_BUILD_BODY_PARSER] = {"_build_body_parser", hf_request_build_body_parser},
    [RQ_BUFFER_LENGTH_FOR] = {"_buffer_length_for", hf_request_buffer_length_for},
    [RQ_PARSE_BODY] = {"_parse_request_body", hf_request_parse_body},
};

void hf_acc_boot_request(pTHX)
{
    unsigned i;
    MY_CXT_INIT;
    Zero(&MY_CXT, 1, my_cxt_t);
    for (i = 0; i < KEYS; i++)
        PERL_HASH(hf_request_keys[i].hash, hf_request_keys[i].name, hf_request_keys[i].len);
    hf_acc_boot_request_body(aTHX);
    hf_acc_boot_request_parameters(aTHX);
    hf_acc_boot_request_address(aTHX);
    hf_methods_register(aTHX_ "Request", methods, RQ_METHODS);
    hf_acc_sub(aTHX_ "Request::on", rq_on, 0);
    hf_acc_sub(aTHX_ "Request::CLONE", rq_clone_thread, 0);
}
