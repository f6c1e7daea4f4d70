/* response.c - Plack::Response in C. */
#include "headers.h"

#define ORIGINAL(name) do { hf_acc_original(aTHX_ "Plack::Response::" name, ax, items); return; } while (0)

static HV *object(pTHX_ SV *self);

/* Returns one value from an XSUB in any context, as the last statement of a sub does. */
#define RETURN_ONE(sv) do { ST(0) = (sv); XSRETURN(1); } while (0)

enum { STATUS, BODY, HEADERS, COOKIES, N_FIELDS };
static struct {
    const char *name;
    I32 len;
    U32 hash;
} fields[N_FIELDS] = {{"status", 6, 0}, {"body", 4, 0}, {"headers", 7, 0}, {"cookies", 7, 0}};

PERL_STATIC_INLINE SV *field(pTHX_ HV *hv, int which)
{
    SV **svp = (SV **)hv_common(hv, NULL, fields[which].name, (STRLEN)fields[which].len, 0, HV_FETCH_JUST_SV, NULL, fields[which].hash);
    return svp ? *svp : NULL;
}

PERL_STATIC_INLINE SV *lvalue(pTHX_ HV *hv, int which)
{
    return *(SV **)hv_common(hv, NULL, fields[which].name, (STRLEN)fields[which].len, 0, HV_FETCH_JUST_SV | HV_FETCH_LVALUE, NULL,
                             fields[which].hash);
}

/* The object of $self->headers, made if there is none: a reference. NULL if the original has to. Borrowed. */
static SV *headers_of(pTHX_ HV *hv)
{
    SV *headers = field(aTHX_ hv, HEADERS);
    if (headers && SvROK(headers))
        return SvAMAGIC(headers) ? NULL : headers;
    if (headers && SvTRUE(headers))
        return NULL;
    SV *fresh = hf_headers_new(aTHX);
    if (!fresh)
        return NULL;
    (void)sv_2mortal(fresh);
    SV *to = lvalue(aTHX_ hv, HEADERS);
    hf_assign(aTHX_ to, fresh);
    return to;
}

/* --- accessors --- */

enum { A_BODY, A_STATUS, A_CONTENT, A_CODE };
static const struct {
    int field;
    const char *original;
} accessors[] = {
    {BODY, "Plack::Response::body"},
    {STATUS, "Plack::Response::status"},
    {BODY, "Plack::Response::content"},
    {STATUS, "Plack::Response::code"},
};

/* What is stored by a call of an accessor: its argument, or an array of its arguments. */
static void store(pTHX_ SV *to, I32 ax, I32 items)
{
    if (items == 2) {
        hf_assign(aTHX_ to, ST(1));
        return;
    }
    AV *av = newAV();
    SV *rv = sv_2mortal(newRV_noinc((SV *)av));
    for (I32 i = 1; i < items; i++)
        av_push(av, hf_new_copy(aTHX_ ST(i)));
    hf_assign(aTHX_ to, rv);
}

static XS(response_accessor)
{
    dXSARGS;
    dXSI32;
    HV *hv;
    if (items < 1 || !(hv = object(aTHX_ ST(0)))) {
        hf_acc_original(aTHX_ accessors[ix].original, ax, items);
        return;
    }
    if (items == 1) {
        SV *value = field(aTHX_ hv, accessors[ix].field);
        RETURN_ONE(value ? hf_mortal_copy(aTHX_ value) : &PL_sv_undef);
    }
    SV *to = lvalue(aTHX_ hv, accessors[ix].field);
    store(aTHX_ to, ax, items);
    if (GIMME_V == G_VOID)
        XSRETURN(0);
    RETURN_ONE(hf_mortal_copy(aTHX_ to));
}

/* Replaces the headers by what an array, a hash or an object says. False if the original has to. */
static bool set_headers(pTHX_ HV *hv, SV *from)
{
    SV *headers = from;
    if (SvGMAGICAL(from))
        return false;
    if (SvROK(from) && (SvTYPE(SvRV(from)) == SVt_PVAV || SvTYPE(SvRV(from)) == SVt_PVHV) && !SvOBJECT(SvRV(from))) {
        SV *pairs[64];
        I32 n = 0;
        if (SvRMAGICAL(SvRV(from)))
            return false;
        if (SvTYPE(SvRV(from)) == SVt_PVAV) {
            AV *av = (AV *)SvRV(from);
            SSize_t len = av_len(av) + 1;
            if (len > 64 || len % 2)
                return false;
            for (; n < len; n++)
                if (!(pairs[n] = AvARRAY(av)[n]))
                    return false;
        }
        else {
            HV *hash = (HV *)SvRV(from);
            HE *he;
            if (HvUSEDKEYS(hash) > 32)
                return false;
            hv_iterinit(hash);
            while ((he = hv_iternext(hash))) {
                pairs[n++] = sv_2mortal(newSVhek(HeKEY_hek(he)));
                pairs[n++] = HeVAL(he);
            }
        }
        headers = hf_headers_new(aTHX);
        if (!headers)
            return false;
        (void)sv_2mortal(headers);
        HV *fresh = n ? hf_headers_hash(aTHX_ headers) : NULL;
        if (n && (!fresh || !hf_headers_set_pairs(aTHX_ fresh, pairs, n)))
            return false;
    }
    SV *to = lvalue(aTHX_ hv, HEADERS);
    hf_assign(aTHX_ to, headers);
    return true;
}

static XS(response_headers)
{
    dXSARGS;
    HV *hv;
    if (items < 1 || !(hv = object(aTHX_ ST(0))))
        ORIGINAL("headers");
    if (items > 1) {
        if (!set_headers(aTHX_ hv, ST(1)))
            ORIGINAL("headers");
        RETURN_ONE(hf_mortal_copy(aTHX_ field(aTHX_ hv, HEADERS)));
    }
    SV *headers = headers_of(aTHX_ hv);
    if (!headers)
        ORIGINAL("headers");
    RETURN_ONE(hf_mortal_copy(aTHX_ headers));
}

static XS(response_cookies)
{
    dXSARGS;
    HV *hv;
    if (items < 1 || !(hv = object(aTHX_ ST(0))))
        ORIGINAL("cookies");
    SV *to = lvalue(aTHX_ hv, COOKIES);
    if (items > 1)
        hf_assign(aTHX_ to, ST(1));
    else if (SvROK(to) ? SvAMAGIC(to) : SvTRUE(to))
        ORIGINAL("cookies");
    else if (!SvROK(to))
        hf_assign(aTHX_ to, sv_2mortal(newRV_noinc((SV *)newHV())));
    RETURN_ONE(hf_mortal_copy(aTHX_ to));
}

/* Header methods go to the object of headers, be it what it may. */
enum { HEADER, LENGTH, TYPE, ENCODING };
static const struct {
    const char *method;
    hf_headers_method direct;
    const char *original;
} shortcuts[] = {
    {"header", HF_HEADERS_HEADER, "Plack::Response::header"},
    {"content_length", HF_HEADERS_LENGTH, "Plack::Response::content_length"},
    {"content_type", HF_HEADERS_TYPE, "Plack::Response::content_type"},
    {"content_encoding", HF_HEADERS_ENCODING, "Plack::Response::content_encoding"},
};

static XS(response_shortcut)
{
    dXSARGS;
    dXSI32;
    HV *hv = items >= (ix == HEADER ? 2 : 1) ? object(aTHX_ ST(0)) : NULL;
    SV *headers = hv ? headers_of(aTHX_ hv) : NULL;
    if (!headers || !hf_headers_hash(aTHX_ headers)) {
        hf_acc_original(aTHX_ shortcuts[ix].original, ax, items);
        return;
    }
    ST(0) = headers;
    hf_headers_call(aTHX_ shortcuts[ix].direct, ax, items);
}

static XS(response_location)
{
    dXSARGS;
    HV *hv = items >= 1 ? object(aTHX_ ST(0)) : NULL;
    SV *headers = hv ? headers_of(aTHX_ hv) : NULL;
    if (!headers || items > 2 || !hf_headers_hash(aTHX_ headers))
        ORIGINAL("location");
    EXTEND(sp, 1);
    if (items == 2)
        ST(2) = ST(1);
    ST(1) = sv_2mortal(newSVpvs("Location"));
    ST(0) = headers;
    hf_headers_call(aTHX_ HF_HEADERS_HEADER, ax, items + 1);
}

static XS(response_redirect)
{
    dXSARGS;
    HV *hv = items >= 1 ? object(aTHX_ ST(0)) : NULL;
    SV *headers = hv ? headers_of(aTHX_ hv) : NULL;
    HV *hash = headers ? hf_headers_hash(aTHX_ headers) : NULL;
    if (!hash || (items >= 2 && GIMME_V != G_VOID) || (items >= 2 && SvGMAGICAL(ST(1))) || (items >= 3 && SvGMAGICAL(ST(2))))
        ORIGINAL("redirect");
    SV *pair[2];
    pair[0] = sv_2mortal(newSVpvs("Location"));
    if (items >= 2) {
        SV **old = hv_fetchs(hash, "location", 0);
        pair[1] = ST(1);
        if ((old && SvROK(*old)) || !hf_headers_set_pairs(aTHX_ hash, pair, 2))
            ORIGINAL("redirect");
        SV *to = lvalue(aTHX_ hv, STATUS);
        if (items >= 3 && SvTRUE(ST(2)))
            hf_assign(aTHX_ to, ST(2));
        else
            sv_setiv(to, 302);
        XSRETURN(0);
    }
    EXTEND(sp, 1);
    ST(0) = headers;
    ST(1) = pair[0];
    hf_headers_call(aTHX_ HF_HEADERS_HEADER, ax, 2);
}

static XS(response_new)
{
    dXSARGS;
    SV *self = items >= 1 ? hf_new_object(aTHX_ ST(0)) : NULL;
    HV *hv = self ? object(aTHX_ self) : NULL;
    if (!hv)
        ORIGINAL("new");
    for (I32 i = 1; i < items; i++)
        if (SvGMAGICAL(ST(i)))
            ORIGINAL("new");
    if (items > 1 && SvOK(ST(1)))
        hf_assign(aTHX_ lvalue(aTHX_ hv, STATUS), ST(1));
    if (items > 2 && SvOK(ST(2)) && !set_headers(aTHX_ hv, ST(2)))
        ORIGINAL("new");
    if (items > 3 && SvOK(ST(3)))
        hf_assign(aTHX_ lvalue(aTHX_ hv, BODY), ST(3));
    RETURN_ONE(self);
}

/* --- the answer --- */

/* Cookies, in the order of their hash. */
static void push_cookies(pTHX_ HV *cookies, AV *out)
{
    HE *he;
    AV *names = (AV *)sv_2mortal((SV *)newAV());
    (void)sv_2mortal(SvREFCNT_inc_simple_NN((SV *)cookies));
    hv_iterinit(cookies);
    while ((he = hv_iternext(cookies)))
        av_push(names, hf_new_copy(aTHX_ hv_iterkeysv(he)));
    for (SSize_t i = 0; i <= av_len(names); i++) {
        SV *name = AvARRAY(names)[i];
        he = hv_fetch_ent(cookies, name, 0, 0);
        SV *argument[] = {name, he ? hf_mortal_copy(aTHX_ HeVAL(he)) : &PL_sv_undef};
        SV *cookie = hf_acc_call(aTHX_ hf_acc_sub_named(aTHX_ "Cookie::Baker::bake_cookie"), argument, C_ARRAY_LENGTH(argument));
        av_push(out, newSVpvs("Set-Cookie"));
        av_push(out, hf_new_copy(aTHX_ cookie));
    }
}

/* The body as PSGI wants it: text becomes an array of one. A reference that is the caller's, or NULL if the original
 * has to look at an object. */
static SV *body_of(pTHX_ HV *hv)
{
    SV *body = field(aTHX_ hv, BODY);
    AV *av;
    if (body && SvROK(body)) {
        if (SvOBJECT(SvRV(body)) && SvAMAGIC(body))
            return NULL;
        return hf_plain_copy(aTHX_ body);
    }
    av = newAV();
    SV *rv = newRV_noinc((SV *)av);
    if (body && SvOK(body)) {
        av_extend(av, 0);
        AvARRAY(av)[0] = hf_plain_copy(aTHX_ body);
        AvFILLp(av) = 0;
    }
    return rv;
}

static XS(response_body)
{
    dXSARGS;
    HV *hv;
    SV *body;
    if (items != 1 || !(hv = object(aTHX_ ST(0))) || !(body = body_of(aTHX_ hv)))
        ORIGINAL("_body");
    RETURN_ONE(sv_2mortal(body));
}

static XS(response_finalize_cookies)
{
    dXSARGS;
    hf_acc_original(aTHX_ "Plack::Response::_finalize_cookies", ax, items);
}

static XS(response_finalize)
{
    dXSARGS;
    HV *hv, *hash, *cookies;
    SV *headers, *status, *jar;

    if (items < 1 || !(hv = object(aTHX_ ST(0))))
        ORIGINAL("finalize");
    status = field(aTHX_ hv, STATUS);
    jar = field(aTHX_ hv, COOKIES);
    if (!status || !hf_acc_is_plain(status) || !SvTRUE(status)
        || (jar && SvOK(jar) && (!SvROK(jar) || SvTYPE(SvRV(jar)) != SVt_PVHV || SvOBJECT(SvRV(jar)) || SvRMAGICAL(SvRV(jar)))))
        ORIGINAL("finalize");
    headers = headers_of(aTHX_ hv);
    if (!headers || !(hash = hf_headers_hash(aTHX_ headers)))
        ORIGINAL("finalize");

    AV *list = newAV();
    SV *list_rv = sv_2mortal(newRV_noinc((SV *)list));
    if (!hf_headers_flatten(aTHX_ hash, list, true, false))
        ORIGINAL("finalize");

    jar = field(aTHX_ hv, COOKIES);
    if (!jar || !SvROK(jar)) {
        jar = lvalue(aTHX_ hv, COOKIES);
        hf_assign(aTHX_ jar, sv_2mortal(newRV_noinc((SV *)newHV())));
    }
    cookies = (HV *)SvRV(jar);
    if (HvUSEDKEYS(cookies) > 0) {
        push_cookies(aTHX_ cookies, list);
        status = field(aTHX_ hv, STATUS);
    }

    AV *answer = newAV();
    SV *answer_rv = sv_2mortal(newRV_noinc((SV *)answer));
    av_extend(answer, 2);
    AvARRAY(answer)[0] = status ? hf_plain_copy(aTHX_ status) : newSV(0);
    AvARRAY(answer)[1] = SvREFCNT_inc_simple_NN(list_rv);
    AvFILLp(answer) = 1;
    SV *body = body_of(aTHX_ hv);
    if (!body) { /* an object with overloading */
        CV *original = hf_acc_original_cv(aTHX_ "Plack::Response::_body");
        dSP;
        PUSHMARK(SP);
        XPUSHs(ST(0));
        PUTBACK;
        call_sv((SV *)original, G_SCALAR);
        SPAGAIN;
        body = hf_new_copy(aTHX_ POPs);
        PUTBACK;
    }
    av_push(answer, body);
    ST(0) = answer_rv;
    XSRETURN(1);
}

static const hf_term methods[] = {
    {"status", response_accessor, A_STATUS},
    {"body", response_accessor, A_BODY},
    {"headers", response_headers, -1},
    {"cookies", response_cookies, -1},
    {"location", response_location, -1},
    {"_body", response_body, -1},
    {"_finalize_cookies", response_finalize_cookies, -1},
    {NULL, NULL, 0}
};

static HV *object(pTHX_ SV *self)
{
    return hf_object_keeping(aTHX_ self, methods);
}

void hf_acc_boot_response(pTHX)
{
    for (int i = 0; i < N_FIELDS; i++)
        PERL_HASH(fields[i].hash, fields[i].name, (STRLEN)fields[i].len);
    hf_acc_boot_util(aTHX);
    (void)hf_acc_sub(aTHX_ "Response::new", response_new, 0);
    (void)hf_acc_sub(aTHX_ "Response::body", response_accessor, A_BODY);
    (void)hf_acc_sub(aTHX_ "Response::status", response_accessor, A_STATUS);
    (void)hf_acc_sub(aTHX_ "Response::content", response_accessor, A_CONTENT);
    (void)hf_acc_sub(aTHX_ "Response::code", response_accessor, A_CODE);
    (void)hf_acc_sub(aTHX_ "Response::headers", response_headers, 0);
    (void)hf_acc_sub(aTHX_ "Response::cookies", response_cookies, 0);
    (void)hf_acc_sub(aTHX_ "Response::header", response_shortcut, HEADER);
    (void)hf_acc_sub(aTHX_ "Response::content_length", response_shortcut, LENGTH);
    (void)hf_acc_sub(aTHX_ "Response::content_type", response_shortcut, TYPE);
    (void)hf_acc_sub(aTHX_ "Response::content_encoding", response_shortcut, ENCODING);
    (void)hf_acc_sub(aTHX_ "Response::location", response_location, 0);
    (void)hf_acc_sub(aTHX_ "Response::redirect", response_redirect, 0);
    (void)hf_acc_sub(aTHX_ "Response::_body", response_body, 0);
    (void)hf_acc_sub(aTHX_ "Response::_finalize_cookies", response_finalize_cookies, 0);
    (void)hf_acc_sub(aTHX_ "Response::finalize", response_finalize, 0);
}
