/* headers_single.c - the accessors of single header fields: content_length and the like, content_type and what it is. */
#include "headers_parts.h"

static const struct {
    const char *field, *original;
    STRLEN len;
} accessors[HF_N_SINGLE] = {
#define ACCESSOR(sub, field) {field, "HTTP::Headers::Fast::" sub, sizeof field - 1}
    [HF_CONTENT_LENGTH] = ACCESSOR("content_length", "content-length"),
    [HF_CONTENT_LANGUAGE] = ACCESSOR("content_language", "content-language"),
    [HF_CONTENT_ENCODING] = ACCESSOR("content_encoding", "content-encoding"),
    [HF_TITLE] = ACCESSOR("title", "title"),
    [HF_USER_AGENT] = ACCESSOR("user_agent", "user-agent"),
    [HF_SERVER] = ACCESSOR("server", "server"),
    [HF_FROM] = ACCESSOR("from", "from"),
    [HF_WARNINGS] = ACCESSOR("warnings", "warnings"),
    [HF_WWW_AUTHENTICATE] = ACCESSOR("www_authenticate", "www-authenticate"),
    [HF_AUTHORIZATION] = ACCESSOR("authorization", "authorization"),
    [HF_PROXY_AUTHENTICATE] = ACCESSOR("proxy_authenticate", "proxy-authenticate"),
    [HF_PROXY_AUTHORIZATION] = ACCESSOR("proxy_authorization", "proxy-authorization"),
};

void hf_headers_call_single(pTHX_ I32 ix, I32 ax, I32 items)
{
    hf_field_names *names = hf_field_names_here(aTHX);
    HV *hv = items >= 1 ? hf_headers_hash(aTHX_ ST(0)) : NULL;
    SV *old;

    if (!hv || (items >= 2 && !hf_is_storable(ST(1)))) {
        hf_acc_original(aTHX_ accessors[ix].original, ax, items);
        return;
    }
    if (items == 1) {
        SV **svp = hv_fetch(hv, accessors[ix].field, (I32)accessors[ix].len, 0);
        old = svp ? *svp : &PL_sv_undef;
        AV *av = hf_value_array(old);
        ST(0) = hf_mortal_copy(aTHX_ av ? hf_value_element(aTHX_ av, 0) : old);
        XSRETURN(1);
    }
    SV *key = hf_field_key(aTHX_ names, accessors[ix].field, accessors[ix].len);
    SV *result = NULL;
    if (GIMME_V != G_VOID) {
        old = hf_field_value(aTHX_ hv, key);
        AV *av = old ? hf_value_array(old) : NULL;
        if (av ? av_len(av) >= 0 : old && SvOK(old))
            result = hf_mortal_copy(aTHX_ av ? hf_value_element(aTHX_ av, 0) : old);
    }
    hf_field_set(aTHX_ hv, key, ST(1));
    if (!result && GIMME_V == G_LIST)
        XSRETURN(0);
    ST(0) = result ? result : &PL_sv_undef;
    XSRETURN(1);
}

void hf_headers_single(pTHX_ CV *cv)
{
    dXSARGS;
    dXSI32;
    hf_headers_call_single(aTHX_ ix, ax, items);
}

/* \s of a string of bytes: since Perl 5.18 with the vertical tab. */
PERL_STATIC_INLINE bool is_space(char c)
{
#if PERL_VERSION >= 18
    if (c == '\v')
        return true;
#endif
    return c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\f';
}

/* The media type of a content-type without blanks, in lower case, and what follows the first semicolon. */
static SV *media_type(pTHX_ const char *p, STRLEN len, const char **rest)
{
    const char *semicolon = (const char *)memchr(p, ';', len);
    STRLEN type_len = semicolon ? (STRLEN)(semicolon - p) : len;
    SV *type = sv_2mortal(newSV(type_len + 1));
    char *to = SvPVX(type);
    for (STRLEN i = 0; i < type_len; i++)
        if (!is_space(p[i]))
            *to++ = hf_lower(p[i]);
    *to = 0;
    SvCUR_set(type, (STRLEN)(to - SvPVX(type)));
    SvPOK_only(type);
    *rest = NULL;
    if (semicolon) {
        semicolon++;
        while (semicolon < p + len && is_space(*semicolon))
            semicolon++;
        *rest = semicolon;
    }
    return type;
}

void hf_headers_call_content_type(pTHX_ I32 ax, I32 items)
{
    HV *hv = items >= 1 ? hf_headers_hash(aTHX_ ST(0)) : NULL;
    if (!hv || (items >= 2 && SvGMAGICAL(ST(1))))
        ORIGINAL("content_type");

    U8 gimme = GIMME_V;
    SV *type = NULL;
    SV *rest_sv = NULL;
    HE *he = (HE *)hv_common(hv, NULL, "content-type", 12, 0, items >= 2 ? HV_FETCH_LVALUE : 0, NULL, 0);
    if (gimme != G_VOID && he && SvOK(HeVAL(he))) {
        SV *old = HeVAL(he);
        if (hf_is_odd_array(old))
            ORIGINAL("content_type");
        AV *av = hf_value_array(old);
        if (av)
            old = hf_value_element(aTHX_ av, 0);
        if (SvOK(old)) {
            STRLEN len;
            const char *p, *rest;
            if (!hf_acc_is_plain(old) || SvUTF8(old))
                ORIGINAL("content_type");
            p = SvPV_const(old, len);
            if (len > 0) {
                type = media_type(aTHX_ p, len, &rest);
                if (rest && gimme == G_LIST)
                    rest_sv = sv_2mortal(newSVpvn(rest, (STRLEN)(p + len - rest)));
            }
        }
    }
    if (items >= 2)
        hf_assign(aTHX_ HeVAL(he), ST(1));
    if (gimme == G_VOID)
        XSRETURN(0);
    if (!type)
        type = sv_2mortal(newSVpvs(""));
    SV **sp = PL_stack_base + ax - 1;
    EXTEND(sp, 2);
    ST(0) = type;
    if (!rest_sv)
        XSRETURN(1);
    ST(1) = rest_sv;
    XSRETURN(2);
}

void hf_headers_content_type(pTHX_ CV *cv)
{
    dXSARGS;
    hf_headers_call_content_type(aTHX_ ax, items);
}

static const char *const content_is_original[] = {
    [HF_IS_TEXT] = "HTTP::Headers::Fast::content_is_text",
    [HF_IS_HTML] = "HTTP::Headers::Fast::content_is_html",
    [HF_IS_XHTML] = "HTTP::Headers::Fast::content_is_xhtml",
    [HF_IS_XML] = "HTTP::Headers::Fast::content_is_xml",
};

#define IS(text) (len == sizeof text - 1 && memEQ(p, text, sizeof text - 1))

void hf_headers_content_is(pTHX_ CV *cv)
{
    dXSARGS;
    dXSI32;
    HV *hv = items == 1 ? hf_headers_hash(aTHX_ ST(0)) : NULL;
    SV **svp;
    SV *value = NULL;
    const char *p = "", *rest;
    STRLEN len = 0;

    if (!hv)
        goto original;
    svp = hv_fetchs(hv, "content-type", 0);
    if (svp && hf_is_odd_array(*svp))
        goto original;
    if (svp)
        value = hf_value_array(*svp) ? hf_value_element(aTHX_ hf_value_array(*svp), 0) : *svp;
    if (value && SvOK(value)) {
        if (!hf_acc_is_plain(value) || SvUTF8(value))
            goto original;
        p = SvPV_const(value, len);
        SV *type = media_type(aTHX_ p, len, &rest);
        p = SvPVX_const(type);
        len = SvCUR(type);
    }
    {
        bool is;
        switch (ix) {
        case HF_IS_TEXT:
            is = len >= 5 && memEQ(p, "text/", 5);
            if (!is && GIMME_V == G_LIST)
                XSRETURN(0);
            break;
        case HF_IS_HTML:
            is = IS("text/html") || IS("application/xhtml+xml") || IS("application/vnd.wap.xhtml+xml");
            break;
        case HF_IS_XHTML:
            is = IS("application/xhtml+xml") || IS("application/vnd.wap.xhtml+xml");
            break;
        default:
            is = IS("text/xml") || IS("application/xml") || (len >= 4 && memEQ(p + len - 4, "+xml", 4));
            ST(0) = sv_2mortal(newSViv(is ? 1 : 0));
            XSRETURN(1);
        }
        ST(0) = boolSV(is);
        XSRETURN(1);
    }
original:
    hf_acc_original(aTHX_ content_is_original[ix], ax, items);
}
