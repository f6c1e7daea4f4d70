/* request_address.c - Plack::Request in C: the URI of a request and its base, as URI makes them. */
#include "request.h"

/* What is done here in place of other modules, as long as they are what they were. */
enum { IS_URI, IS_SERVER, IS_HTTP, IS_HTTPS, N_MODULES };

static const hf_module modules[N_MODULES] = {
    [IS_URI] = {"URI", "URI.pm", {"new", "implementor", "_init", "canonical", "_uric_escape", "clone", "_scheme"}},
    [IS_SERVER] = {"URI::_server", "URI/_server.pm", {"canonical", "_uric_escape", "host", "_port"}},
    [IS_HTTP] = {"URI::http", "URI/http.pm", {"canonical", "default_port"}},
    [IS_HTTPS] = {"URI::https", "URI/https.pm", {"default_port"}},
};

#define MY_CXT_KEY "Hydrofoil::Accelerate::Request::_address"
typedef struct {
    hf_trust trust[N_MODULES];
    HV *implements; /* URI's: which class has a scheme */
    bool brackets;  /* URI leaves "[" and "]" as they are, as it did before 5.11 */
} my_cxt_t;
START_MY_CXT

static bool is_itself(pTHX_ int module)
{
    dMY_CXT;
    return hf_module_is_itself(aTHX_ &MY_CXT.trust[module], &modules[module]);
}

/* --- bytes --- */

#define IN_PATH 1    /* stands for itself in the path of a URI that the original makes */
#define IN_URI 2     /* stands for itself anywhere in it */
#define IN_HOST 4    /* in a host that need not be looked at further */
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

/* --- addresses --- */

typedef struct parts {
    bytes scheme, authority, script; /* script: the path of the application */
} parts;

/* $self->_uri_base, mortal; its parts are in there but for the scheme. NULL if it takes the original. */
static SV *uri_base(pTHX_ HV *env, parts *base)
{
    bytes *scheme = &base->scheme, *script = &base->script, host, name, port;
    SV *sv;
    if (!bytes_of(aTHX_ env, KEY(SCHEME), scheme) || !bytes_of(aTHX_ env, KEY(HTTP_HOST), &host)
        || !bytes_of(aTHX_ env, KEY(SERVER_NAME), &name) || !bytes_of(aTHX_ env, KEY(PORT), &port)
        || !bytes_of(aTHX_ env, KEY(SCRIPT_NAME), script))
        return NULL;
    if (!scheme->len)
        scheme->p = "http", scheme->len = 4;
    if (!port.len)
        port.p = "80", port.len = 2;
    if (!script->len)
        script->p = "/", script->len = 1;
    sv = sv_2mortal(newSV(scheme->len + 3 + host.len + name.len + 1 + port.len + script->len + 1));
    SvPOK_only(sv);
    SvCUR_set(sv, 0);
    add_bytes(sv, scheme->p, scheme->len);
    add_bytes(sv, "://", 3);
    base->authority.p = SvEND(sv);
    if (host.len)
        add_bytes(sv, host.p, host.len);
    else {
        add_bytes(sv, name.p, name.len);
        add_bytes(sv, ":", 1);
        add_bytes(sv, port.p, port.len);
    }
    base->authority.len = SvEND(sv) - base->authority.p;
    add_bytes(sv, script->p, script->len);
    script->p = SvEND(sv) - script->len;
    *SvEND(sv) = '\0';
    return sv;
}

void hf_request_uri_base(pTHX_ CV *cv)
{
    dXSARGS;
    hf_request r;
    parts ignored;
    SV *base;
    if (!items || !hf_request_of(aTHX_ &r, ST(0), 0) || !(base = uri_base(aTHX_ r.env, &ignored)))
        ORIGINAL("_uri_base");
    ST(0) = base;
    XSRETURN(1);
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

/* How much of `host[:port]` is left in a canonical URI: not a port that the scheme has anyway. 0 if it takes the original. */
static STRLEN canonical_length(const bytes *authority, const char *default_port)
{
    const char *p = authority->p, *end = p + authority->len, *port;
    STRLEN host;
    while (p < end && byte_class[(U8)*p] & IN_HOST)
        p++;
    host = p - authority->p;
    if (p == end)
        return host;
    if (!host || *p != ':')
        return 0;
    for (port = ++p; p < end; p++)
        if (!isDIGIT(*p))
            return 0;
    if (port == end)
        return host;
    if (end - port > 5 || *port == '0')
        return 0;
    return strlen(default_port) == (STRLEN)(end - port) && memEQ(port, default_port, end - port) ? host : authority->len;
}

/* URI->new($self->_uri_base . ...)->canonical; with `whole` the path and the query behind the base. A new reference. NULL
 * if it takes the original. */
static SV *uri_of(pTHX_ const hf_request *r, bool whole)
{
    parts base;
    bytes path = {"", 0}, query = {"", 0}, *script = &base.script;
    STRLEN kept, i;
    const char *default_port;
    HV *class;
    SV *from = uri_base(aTHX_ r->env, &base), *uri, *sv;

    if (!from || !(class = class_of_scheme(aTHX_ &base.scheme, &default_port)))
        return NULL;
    if (whole) {
        if (!bytes_of(aTHX_ r->env, KEY(PATH_INFO), &path))
            return NULL;
        sv = hf_word_fetch(aTHX_ r->env, KEY(QUERY_STRING));
        if (sv && (SvOK(sv) || SvGMAGICAL(sv))) {
            if (!hf_acc_is_plain(sv) || SvUTF8(sv))
                return NULL;
            query.p = SvPV_const(sv, query.len); /* "0" is a query */
        }
    }
    if (script->p[0] != '/' || !is_printable(aTHX_ script) || !is_printable(aTHX_ &query))
        return NULL;
    kept = canonical_length(&base.authority, default_port);
    if (!kept)
        return NULL;
    kept += base.authority.p - SvPVX(from); /* and what is before it */

    if (path.len && path.p[0] == '/' && script->p[script->len - 1] == '/')
        script->len--;
    sv = newSV(kept + 3 * (script->len + path.len + query.len) + 2);
    uri = newRV_noinc(sv);
    SvPOK_only(sv);
    SvCUR_set(sv, 0);
    add_bytes(sv, SvPVX(from), kept);
    add_canonical(sv, script->p, script->len);
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

void hf_request_uri(pTHX_ CV *cv)
{
    dXSARGS;
    hf_request r;
    SV *uri;
    if (!items || !hf_request_of(aTHX_ &r, ST(0), BIT(URI_BASE)) || !(uri = uri_of(aTHX_ &r, true)))
        ORIGINAL("uri");
    ST(0) = sv_2mortal(uri);
    XSRETURN(1);
}

void hf_request_base(pTHX_ CV *cv)
{
    dXSARGS;
    hf_request r;
    SV *uri;
    if (!items || !hf_request_of(aTHX_ &r, ST(0), BIT(URI_BASE)) || !(uri = uri_of(aTHX_ &r, false)))
        ORIGINAL("base");
    ST(0) = sv_2mortal(uri);
    XSRETURN(1);
}

/* --- setting up --- */

static void find_uri(pTHX)
{
    dMY_CXT;
    CV *implementor = get_cv("URI::implementor", 0);
    SV *implements = implementor ? hf_closed_over(aTHX_ implementor, "%implements") : NULL;
    SV *reserved = get_sv("URI::reserved", 0);
    Zero(&MY_CXT, 1, my_cxt_t);
    MY_CXT.brackets = !reserved || !SvPOK(reserved) || memchr(SvPVX(reserved), '[', SvCUR(reserved));
    MY_CXT.implements = implements && SvTYPE(implements) == SVt_PVHV ? (HV *)SvREFCNT_inc_simple_NN(implements) : NULL;
}

void hf_request_address_on(pTHX)
{
    dMY_CXT;
    SvREFCNT_dec((SV *)MY_CXT.implements);
    find_uri(aTHX);
}

void hf_request_address_clone(pTHX)
{
    MY_CXT_CLONE;
    find_uri(aTHX);
}

void hf_acc_boot_request_address(pTHX)
{
    MY_CXT_INIT;
    Zero(&MY_CXT, 1, my_cxt_t);
    classify_all();
}
