/* request_body.c - Plack::Request in C: reading the body, and what it is parsed into. */
#include "entity.h"
#include "multivalue.h"
#include "request.h"

/* What is done here in place of other modules, as long as they are what they were. */
enum { IS_PARSER, IS_SEEK, IS_UPLOAD, N_MODULES };

static const hf_module modules[N_MODULES] = {
    [IS_PARSER] = {"HTTP::Entity::Parser", "HTTP/Entity/Parser.pm", {"new", "register", "parse"}},
    [IS_SEEK] = {"IO::File", "IO/Seekable.pm", {"seek"}},
    [IS_UPLOAD] = {"Plack::Request::Upload", "Plack/Request/Upload.pm", {"new"}},
};

#define MY_CXT_KEY "Hydrofoil::Accelerate::Request::_body"
typedef struct {
    hf_trust trust[N_MODULES];
    SV *types[4]; /* content types and their parsers, as Plack::Request registers them */
    /* What a request without a body needs and leaves as it was: used again when nobody holds it any more. */
    AV *spare_parser, *spare_list;
    HV *spare_upload;
} my_cxt_t;
START_MY_CXT

static bool is_itself(pTHX_ int module)
{
    dMY_CXT;
    return hf_module_is_itself(aTHX_ &MY_CXT.trust[module], &modules[module]);
}

/* --- the parser --- */

static SV *buffer_length(pTHX_ HV *env)
{
    HV *process = GvHVn(PL_envgv);
    const MAGIC *magic = SvMAGIC(process);
    SV *length;
    /* %ENV has magic for what is set, not for what is fetched. */
    if (LIKELY(magic && magic->mg_type == PERL_MAGIC_env && !magic->mg_moremagic)) {
        const HE *he = hf_word_entry(process, KEY(PLACK_BUFFER_LENGTH));
        length = he ? HeVAL(he) : NULL;
    }
    else
        length = hf_word_fetch(aTHX_ process, KEY(PLACK_BUFFER_LENGTH));
    if (length) {
        SvGETMAGIC(length);
        if (SvOK(length))
            return newSVsv_nomg(length);
    }
    return newSViv(hf_true_value(aTHX_ env, KEY(BUFFERED)) ? 1024 * 1024 : 1024 * 64);
}

void hf_request_buffer_length_for(pTHX_ CV *cv)
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
static SV *build_parser(pTHX_ const hf_request *r)
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

void hf_request_build_body_parser(pTHX_ CV *cv)
{
    dXSARGS;
    hf_request r;
    SV *parser;
    if (!items || !hf_request_of(aTHX_ &r, ST(0), 0) || !(parser = build_parser(aTHX_ &r)))
        ORIGINAL("_build_body_parser");
    ST(0) = sv_2mortal(parser);
    XSRETURN(1);
}

/* $self->request_body_parser, borrowed or mortal. */
static SV *body_parser(pTHX_ const hf_request *r)
{
    SV *parser, *slot;
    if (!(r->ours & BIT(BODY_PARSER)))
        return hf_call_method(aTHX_ r->self, "request_body_parser", NULL, NULL);
    slot = hf_word_lvalue(aTHX_ r->hv, KEY(BODY_PARSER));
    if (SvTRUE(slot))
        return slot;
    sv_2mortal(SvREFCNT_inc_simple_NN(slot));
    parser = r->ours & BIT(BUILD_BODY_PARSER) ? build_parser(aTHX_ r) : NULL;
    if (!parser)
        parser = newSVsv(hf_call_method(aTHX_ r->self, "_build_body_parser", NULL, NULL));
    hf_fill_slot(aTHX_ slot, parser);
    return slot;
}

void hf_request_body_parser(pTHX_ CV *cv)
{
    dXSARGS;
    hf_request r;
    if (!items || !hf_request_of(aTHX_ &r, ST(0), 0))
        ORIGINAL("request_body_parser");
    hf_request_hold(aTHX_ &r);
    ST(0) = sv_mortalcopy(body_parser(aTHX_ &r));
    XSRETURN(1);
}

/* --- the handle --- */

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
        (void)hf_call_method(aTHX_ input, "seek", sv_2mortal(newSViv(0)), sv_2mortal(newSViv(0)));
}

/* --- a request without a body --- */

/* A parser that knows no content type but named ones, and a request that has neither a type nor a body? */
static bool has_no_body(pTHX_ const hf_request *r, SV *parser)
{
    dMY_CXT;
    AV *av, *handlers;
    SV *input;
    SSize_t i;
    if (hf_true_value(aTHX_ r->env, KEY(CONTENT_LENGTH)) || hf_true_value(aTHX_ r->env, KEY(CONTENT_TYPE))
        || hf_word_fetch(aTHX_ r->env, KEY(TRANSFER_ENCODING)) || !hf_true_value(aTHX_ r->env, KEY(BUFFERED)))
        return false;
    input = hf_true_value(aTHX_ r->env, KEY(INPUT));
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
        rv = newSVsv(hf_call_method(aTHX_ sv_2mortal(newSVpvs("Hash::MultiValue")), "new", NULL, NULL));
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

bool hf_request_is_no_list(pTHX_ const AV *list)
{
    dMY_CXT;
    return list == MY_CXT.spare_list;
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

/* --- parsing --- */

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
static bool parse_body(pTHX_ const hf_request *r)
{
    SV *parser, *params, *uploads_rv, *hash;
    AV *uploads = NULL;
    SSize_t i;
    I32 n;

    hf_request_hold(aTHX_ r);
    parser = body_parser(aTHX_ r);
    if (has_no_body(aTHX_ r, parser)) {
        SV *input = sv_mortalcopy(hf_word_fetch(aTHX_ r->env, KEY(INPUT)));
        rewind_input(aTHX_ input, 2);
        hf_word_store(aTHX_ r->env, KEY(BODY_LIST), no_list(aTHX));
        hf_word_store(aTHX_ r->env, KEY(UPLOADS), no_uploads(aTHX));
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
    hf_word_store(aTHX_ r->env, KEY(BODY_LIST), newSVsv(params));
    hash = sv_2mortal(new_multivalue(aTHX));
    for (i = 0; i < AvFILLp(uploads); i += 2) {
        SV *name = AvARRAY(uploads)[i];
        HV *part = (HV *)SvRV(AvARRAY(uploads)[i + 1]);
        SV *upload = new_upload(aTHX_ part, (AV *)SvRV(*hv_fetchs(part, "headers", 0)));
        (void)hf_call_method(aTHX_ hash, "add", name, upload);
    }
    av_clear(uploads); /* the original takes them out one by one */
    hf_word_store(aTHX_ r->env, KEY(UPLOADS), newSVsv(hash));
    return true;
}

void hf_request_parse_body(pTHX_ CV *cv)
{
    dXSARGS;
    hf_request r;
    if (!items || !hf_request_of(aTHX_ &r, ST(0), 0) || !parse_body(aTHX_ &r))
        ORIGINAL("_parse_request_body");
    ST(0) = sv_2mortal(newSViv(1));
    XSRETURN(1);
}

void hf_request_parse(pTHX_ const hf_request *r)
{
    if (!(r->ours & BIT(PARSE_BODY)) || !parse_body(aTHX_ r)) {
        hf_request_hold(aTHX_ r);
        (void)hf_call_method(aTHX_ r->self, "_parse_request_body", NULL, NULL);
    }
}

/* --- the body as it is --- */

void hf_request_content(pTHX_ CV *cv)
{
    dXSARGS;
    hf_request r;
    SV *input, *length, *content;
    if (!items || !hf_request_of(aTHX_ &r, ST(0), BIT(INPUT)))
        ORIGINAL("content");
    if (!hf_true_value(aTHX_ r.env, KEY(BUFFERED)))
        hf_request_parse(aTHX_ &r);
    input = hf_true_value(aTHX_ r.env, KEY(INPUT));
    length = input ? hf_true_value(aTHX_ r.env, KEY(CONTENT_LENGTH)) : NULL;
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

void hf_request_raw_body(pTHX_ CV *cv)
{
    dXSARGS;
    if (!items || !SvROK(ST(0)) || !SvOBJECT(SvRV(ST(0))))
        ORIGINAL("raw_body");
    PL_stack_sp = PL_stack_base + ax;
    PUSHMARK(PL_stack_base + ax - 1);
    call_method("content", GIMME_V);
}

/* --- setting up --- */

static void begin(pTHX)
{
    static const char *const types[] = {"application/x-www-form-urlencoded", "HTTP::Entity::Parser::UrlEncoded",
                                        "multipart/form-data", "HTTP::Entity::Parser::MultiPart"};
    dMY_CXT;
    unsigned i;
    Zero(&MY_CXT, 1, my_cxt_t);
    for (i = 0; i < C_ARRAY_LENGTH(types); i++)
        MY_CXT.types[i] = newSVpv(types[i], 0);
}

void hf_request_body_on(pTHX)
{
    dMY_CXT;
    unsigned i;
    SvREFCNT_dec((SV *)MY_CXT.spare_parser);
    SvREFCNT_dec((SV *)MY_CXT.spare_list);
    SvREFCNT_dec((SV *)MY_CXT.spare_upload);
    for (i = 0; i < C_ARRAY_LENGTH(MY_CXT.types); i++)
        SvREFCNT_dec(MY_CXT.types[i]);
    begin(aTHX);
}

void hf_request_body_clone(pTHX)
{
    MY_CXT_CLONE;
    begin(aTHX);
}

void hf_acc_boot_request_body(pTHX)
{
    MY_CXT_INIT;
    Zero(&MY_CXT, 1, my_cxt_t);
}
