/* urlencoded.c - WWW::Form::UrlEncoded in C.
 *
 * Its two implementations differ in details, and so do ours: XS reads the bytes of a string whatever it is marked as, PP
 * reads characters; PP keeps a space at the beginning of the string; PP in scalar context counts; what they write as it
 * is. Hydrofoil::UrlEncoded does as XS does.
 */
#include "acc.h"
#include "core_urlencoded.h"

enum { OF_XS, OF_PP, OWN };

static const char *const parse_names[] = {
    "WWW::Form::UrlEncoded::XS::parse_urlencoded",
    "WWW::Form::UrlEncoded::PP::parse_urlencoded",
};
static const char *const arrayref_names[] = {
    "WWW::Form::UrlEncoded::XS::parse_urlencoded_arrayref",
    "WWW::Form::UrlEncoded::PP::parse_urlencoded_arrayref",
};
static const char *const build_names[] = {
    "WWW::Form::UrlEncoded::XS::build_urlencoded",
    "WWW::Form::UrlEncoded::PP::build_urlencoded",
};
static const char *const build_utf8_names[] = {
    "WWW::Form::UrlEncoded::XS::build_urlencoded_utf8",
    "WWW::Form::UrlEncoded::PP::build_urlencoded_utf8",
};

/* --- parsing --- */

/* The least that buffers of names and of values have. Into either, sixteen bytes can be copied without asking how many they
 * are. That they differ is for malloc(3), which is quick for no more than seven buffers of a size (glibc's tcache). */
#define LEAST_NAME 24
#define LEAST_VALUE 40

/* A new string; `limit` is the end of what may be read behind it. */
PERL_STATIC_INLINE SV *new_token(pTHX_ const hf_urlencoded_token *token, STRLEN least, const char *limit)
{
    const STRLEN len = token->len;
    /* One byte more than the NUL takes lets perl share the buffer (copy on write). */
    const STRLEN size = len + 2 <= least ? least : ((len + 2 + 7) | 15) - 7;
    SV *sv = newSV_type(SVt_PV);
    char *buffer;
    STRLEN cur = len;
    Newx(buffer, size, char);
    if (token->coded)
        cur = hf_urlencoded_decode(buffer, token->p, len);
    else if (len <= 16 && limit - token->p >= 16)
        memcpy(buffer, token->p, 16);
    else
        memcpy(buffer, token->p, len);
    buffer[cur] = '\0';
    SvPV_set(sv, buffer);
    SvCUR_set(sv, cur);
    SvLEN_set(sv, size);
    SvPOK_on(sv);
    return sv;
}

void hf_acc_parse_urlencoded(pTHX_ AV *av, const char *text, STRLEN len, bool skip_first)
{
    const SSize_t had = av_len(av) + 1;
    const STRLEN n = hf_urlencoded_count(text, len);
    hf_urlencoded_scan scan;
    hf_urlencoded_pair pair;
    SV **at;
    if (n == 0)
        return;
    av_extend(av, had + (SSize_t)n * 2 - 1);
    at = AvARRAY(av) + had;
    hf_urlencoded_begin(&scan, text, len, skip_first);
    while (hf_urlencoded_next(&scan, &pair)) {
        *at++ = new_token(aTHX_ &pair.name, LEAST_NAME, scan.end);
        *at++ = new_token(aTHX_ &pair.value, LEAST_VALUE, scan.end);
    }
    AvFILLp(av) = (SSize_t)(at - AvARRAY(av)) - 1;
}

void hf_acc_parse_urlencoded_into(pTHX_ HV *hv, const char *text, STRLEN len, bool skip_first)
{
    hf_urlencoded_scan scan;
    hf_urlencoded_pair pair;
    char small[128];
    if (len == 0)
        return;
    hf_urlencoded_begin(&scan, text, len, skip_first);
    while (hf_urlencoded_next(&scan, &pair)) {
        const hf_urlencoded_token *name = &pair.name;
        const char *key = name->p;
        STRLEN n = name->len;
        HE *he;
        if (UNLIKELY(name->coded)) {
            char *buffer = n <= sizeof(small) ? small : SvPVX(sv_2mortal(newSV(n)));
            n = hf_urlencoded_decode(buffer, name->p, n);
            key = buffer;
        }
        he = (HE *)hv_common(hv, NULL, key, n, 0, HV_FETCH_LVALUE | HV_FETCH_EMPTY_HE, NULL, 0);
        SvREFCNT_dec(HeVAL(he));
        HeVAL(he) = new_token(aTHX_ &pair.value, LEAST_VALUE, scan.end);
    }
}

/* Is it a call that is ours? Then *text is what to parse, NULL if that is undef. */
static bool to_parse(pTHX_ SV **args, I32 items, I32 of, SV **text)
{
    SV *sv;
    *text = NULL;
    if (items < 1)
        return of == OF_PP;
    if (items > 1 && of != OF_PP)
        return false;
    sv = args[0];
    if (of == OWN) {
        SvGETMAGIC(sv);
        if (SvOK(sv))
            *text = sv;
        return true;
    }
    if (SvGMAGICAL(sv))
        return false;
    if (!SvOK(sv))
        return true;
    *text = sv;
    return hf_acc_is_plain(sv) && !(of == OF_PP && SvUTF8(sv));
}

XS_INTERNAL(parse_urlencoded)
{
    dXSARGS;
    dXSI32;
    SV *text;
    const char *p;
    STRLEN len, n;
    hf_urlencoded_scan scan;
    hf_urlencoded_pair pair;

    if (!to_parse(aTHX_ &ST(0), items, ix, &text) || (ix == OF_PP && GIMME_V == G_SCALAR)) {
        if (ix == OWN)
            croak("Usage: parse_urlencoded(STRING)");
        hf_acc_original(aTHX_ parse_names[ix], ax, items);
        return;
    }
    SP -= items;
    if (!text)
        XSRETURN_EMPTY;
    /* The string may be changed by nothing here, but it may be an argument on the stack that results overwrite. */
    p = SvPV_nomg_const(text, len);
    if (len == 0)
        XSRETURN_EMPTY;
    /* Room on the stack is cheaper than counting. */
    n = len < 256 ? len + 1 : hf_urlencoded_count(p, len);
    if (n > (STRLEN)I32_MAX)
        croak("Too many parameters");
    EXTEND(SP, (SSize_t)n * 2);
    EXTEND_MORTAL((SSize_t)n * 2);
    hf_urlencoded_begin(&scan, p, len, ix != OF_PP);
    while (hf_urlencoded_next(&scan, &pair)) {
        SV *name = new_token(aTHX_ &pair.name, LEAST_NAME, scan.end), *value;
        PL_tmps_stack[++PL_tmps_ix] = name;
        SvTEMP_on(name);
        PUSHs(name);
        value = new_token(aTHX_ &pair.value, LEAST_VALUE, scan.end);
        PL_tmps_stack[++PL_tmps_ix] = value;
        SvTEMP_on(value);
        PUSHs(value);
    }
    PUTBACK;
}

XS_INTERNAL(parse_urlencoded_arrayref)
{
    dXSARGS;
    dXSI32;
    SV *text;
    AV *av;

    if (!to_parse(aTHX_ &ST(0), items, ix, &text)) {
        if (ix == OWN)
            croak("Usage: parse_urlencoded_arrayref(STRING)");
        hf_acc_original(aTHX_ arrayref_names[ix], ax, items);
        return;
    }
    av = newAV();
    if (items == 0)
        EXTEND(SP, 1);
    ST(0) = sv_2mortal(newRV_noinc((SV *)av));
    if (text) {
        STRLEN len;
        const char *p = SvPV_nomg_const(text, len);
        hf_acc_parse_urlencoded(aTHX_ av, p, len, ix != OF_PP);
    }
    XSRETURN(1);
}

/* --- building --- */

typedef struct builder {
    SV *out;
    char *at, *limit;
    const char *delim;
    STRLEN delim_len;
    I32 of;
    bool utf8;
} builder;

static void builder_need(pTHX_ builder *b, STRLEN n)
{
    if ((STRLEN)(b->limit - b->at) < n) {
        const STRLEN used = (STRLEN)(b->at - SvPVX(b->out)), want = used + used / 2 + n + 1;
        char *p = SvGROW(b->out, want);
        b->at = p + used;
        b->limit = p + SvLEN(b->out) - 1;
    }
}

/* The bytes of a string; false if the original has to do this. *latin1: they are to be written in UTF-8. */
static bool bytes_of(pTHX_ const builder *b, SV *sv, const char **p, STRLEN *len, bool *latin1)
{
    if (b->of == OWN)
        SvGETMAGIC(sv);
    if (!SvOK(sv)) {
        *p = "";
        *len = 0;
        *latin1 = false;
        return !SvGMAGICAL(sv) || b->of == OWN;
    }
    if (b->of != OWN && (!hf_acc_is_plain(sv) || (b->of == OF_PP && SvUTF8(sv))))
        return false;
    *p = SvPV_nomg_const(sv, *len);
    *latin1 = b->utf8 && !SvUTF8(sv);
    return *len < (STRLEN)1 << 40;
}

typedef struct text {
    const char *p;
    STRLEN len;
    bool latin1;
} text;

static void put(pTHX_ builder *b, const text *t)
{
    builder_need(aTHX_ b, hf_urlencoded_room(t->len, t->latin1));
    b->at += hf_urlencoded_encode(b->at, t->p, t->len, b->of == OF_PP ? HF_URLENCODED_UNRESERVED : HF_URLENCODED_MARKS,
                                  t->latin1);
}

static void put_pair(pTHX_ builder *b, const text *name, const text *value)
{
    put(aTHX_ b, name);
    builder_need(aTHX_ b, 1);
    *b->at++ = '=';
    put(aTHX_ b, value);
    builder_need(aTHX_ b, b->delim_len);
    memcpy(b->at, b->delim, b->delim_len);
    b->at += b->delim_len;
}

/* A name with its value, or its list of values. */
static bool add(pTHX_ builder *b, const text *name, SV *value)
{
    text t = {"", 0, false};
    if (value && SvROK(value) && SvTYPE(SvRV(value)) == SVt_PVAV && (b->of == OWN || !SvOBJECT(SvRV(value)))) {
        AV *av = (AV *)SvRV(value);
        SSize_t i;
        if (SvRMAGICAL(av) && b->of != OWN)
            return false;
        for (i = 0; i <= av_len(av); i++) {
            SV **one = av_fetch(av, i, 0);
            if (one && !bytes_of(aTHX_ b, *one, &t.p, &t.len, &t.latin1))
                return false;
            if ((!one || !SvOK(*one)) && b->of != OWN)
                return false; /* XS leaves out the separator then */
            put_pair(aTHX_ b, name, &t);
        }
        return true;
    }
    if (value && !bytes_of(aTHX_ b, value, &t.p, &t.len, &t.latin1))
        return false;
    put_pair(aTHX_ b, name, &t);
    return true;
}

static bool add_sv(pTHX_ builder *b, SV *name, SV *value)
{
    text t = {"", 0, false};
    if (name && !bytes_of(aTHX_ b, name, &t.p, &t.len, &t.latin1))
        return false;
    return add(aTHX_ b, &t, value);
}

static bool add_hash(pTHX_ builder *b, HV *hv)
{
    HE *he;
    if (SvRMAGICAL(hv) && b->of != OWN)
        return false;
    /* "each" goes on where it stopped. */
    if (b->of == OF_PP && SvOOK(hv) && HvRITER_get(hv) != -1)
        return false;
    hv_iterinit(hv);
    while ((he = hv_iternext(hv)) != NULL) {
        SV *value = hv_iterval(hv, he);
        text name;
        bool done;
        if (HeKLEN(he) == HEf_SVKEY || HeKUTF8(he) || HeKWASUTF8(he)) {
            done = add_sv(aTHX_ b, hv_iterkeysv(he), value);
        } else {
            name.p = HeKEY(he);
            name.len = (STRLEN)HeKLEN(he);
            name.latin1 = b->utf8;
            done = add(aTHX_ b, &name, value);
        }
        if (!done) {
            hv_iterinit(hv);
            return false;
        }
    }
    return true;
}

static bool set_delim(pTHX_ builder *b, SV *sv)
{
    bool latin1;
    if (b->of != OWN && !SvOK(sv))
        return false;
    if (!bytes_of(aTHX_ b, sv, &b->delim, &b->delim_len, &latin1))
        return false;
    if (latin1) {
        STRLEN len = b->delim_len;
        U8 *copy = bytes_to_utf8((const U8 *)b->delim, &len);
        SAVEFREEPV(copy);
        b->delim = (const char *)copy;
        b->delim_len = len;
    }
    return true;
}

/* Arguments are looked up anew each time: magic may have moved the stack. */
#define ARG(i) PL_stack_base[ax + (i)]

static bool build(pTHX_ builder *b, I32 ax, I32 items)
{
    SV *first = items ? ARG(0) : NULL;
    SV *of = NULL;
    I32 i;
    if (first && b->of == OWN)
        SvGETMAGIC(first);
    if (first && SvROK(first) && (SvTYPE(SvRV(first)) == SVt_PVAV || SvTYPE(SvRV(first)) == SVt_PVHV))
        of = SvRV(first);
    if (of) {
        if (b->of != OWN && SvOBJECT(of))
            return false;
        if (items > 1) {
            if (b->of == OWN)
                SvGETMAGIC(ARG(1));
            else if (SvGMAGICAL(ARG(1)))
                return false;
            if (SvOK(ARG(1)) && !set_delim(aTHX_ b, ARG(1)))
                return false;
        }
        if (SvTYPE(of) == SVt_PVHV)
            return add_hash(aTHX_ b, (HV *)of);
        if (SvRMAGICAL(of) && b->of != OWN)
            return false;
        for (i = 0; i <= av_len((AV *)of); i += 2) {
            SV **name = av_fetch((AV *)of, i, 0), **value = av_fetch((AV *)of, i + 1, 0);
            if (!add_sv(aTHX_ b, name ? *name : NULL, value ? *value : NULL))
                return false;
        }
        return true;
    }
    if (items > 2 && items % 2 == 1 && !set_delim(aTHX_ b, ARG(--items)))
        return false;
    for (i = 0; i < items; i += 2)
        if (!add_sv(aTHX_ b, ARG(i), i + 1 < items ? ARG(i + 1) : NULL))
            return false;
    return true;
}

static void build_any(pTHX_ CV *cv, bool utf8)
{
    dXSARGS;
    dXSI32;
    builder b = {NULL, NULL, NULL, "&", 1, 0, false};
    bool done;
    STRLEN len;

    b.of = ix;
    b.utf8 = utf8;
    b.out = sv_2mortal(newSV(120));
    b.at = SvPVX(b.out);
    b.limit = b.at + SvLEN(b.out) - 1;
    ENTER;
    done = build(aTHX_ &b, ax, items);
    LEAVE;
    if (done && ix == OF_PP) {
        if (items && b.at == SvPVX(b.out))
            done = false; /* dies: there is no separator to take off */
        else if (!utf8)
            done = !SvTRUE(get_sv("WWW::Form::UrlEncoded::PP::NEED_UPGRADE", GV_ADD));
    }
    if (!done) {
        hf_acc_original(aTHX_ (utf8 ? build_utf8_names : build_names)[ix], ax, items);
        return;
    }
    len = (STRLEN)(b.at - SvPVX(b.out));
    if (len > b.delim_len)
        len -= b.delim_len;
    SvPVX(b.out)[len] = '\0';
    SvCUR_set(b.out, len);
    SvPOK_only(b.out);
    if (items == 0)
        EXTEND(SP, 1);
    ST(0) = b.out;
    XSRETURN(1);
}

XS_INTERNAL(build_urlencoded)
{
    build_any(aTHX_ cv, false);
}

XS_INTERNAL(build_urlencoded_utf8)
{
    build_any(aTHX_ cv, true);
}

void hf_acc_boot_urlencoded(pTHX)
{
    static const char *const prefix[] = {"UrlEncoded::xs_", "UrlEncoded::pp_", "UrlEncoded::"};
    char name[64];
    I32 of;
    hf_urlencoded_select(HF_URLENCODED_AVX2);
    for (of = OF_XS; of <= OWN; of++) {
#define SUB(xsub)                                                                                                      \
    my_snprintf(name, sizeof name, "%s%s", prefix[of], #xsub);                                                         \
    hf_acc_sub(aTHX_ name, xsub, of)
        SUB(parse_urlencoded);
        SUB(parse_urlencoded_arrayref);
        SUB(build_urlencoded);
        SUB(build_urlencoded_utf8);
#undef SUB
    }
}
