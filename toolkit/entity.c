/* entity.c - HTTP::Entity::Parser in C: reading a request's body, and what is url-encoded or JSON in it; multipart bodies
 * are multipart.c. And Plack::Request::_parse_request_body, which makes its uploads of what the parser found. */
#include "entity.h"

#include <string.h>

#define PIECE (64 * 1024) /* bytes read at a time where the original reads more; they stay in the processor's cache */
#define PATIENCE 2000     /* reads of nothing before the client is taken to be gone, as the original has it */

/* ---- calls into Perl ---- */

/* Calls a method on args[0] and answers with a copy of what it returned. A new mortal, or NULL with G_DISCARD. */
static SV *call(pTHX_ SV *code_or_name, bool is_method, SV **args, int count, I32 flags)
{
    SV *answer = NULL;
    int i;
    dSP;

    ENTER;
    SAVETMPS;
    PUSHMARK(SP);
    EXTEND(SP, count);
    for (i = 0; i < count; i++)
        PUSHs(args[i]);
    PUTBACK;
    if (is_method)
        call_method(SvPV_nolen(code_or_name), flags);
    else
        call_sv(code_or_name, flags);
    if (!(flags & G_DISCARD)) {
        SPAGAIN;
        answer = POPs;
        answer = newSVsv(answer);
        PUTBACK;
    }
    FREETMPS;
    LEAVE;
    return answer ? sv_2mortal(answer) : NULL;
}

static SV *call_named(pTHX_ const char *method, SV **args, int count)
{
    return call(aTHX_ sv_2mortal(newSVpv(method, 0)), true, args, count, G_SCALAR);
}

static void say(pTHX_ const char *method, SV **args, int count)
{
    (void)call(aTHX_ sv_2mortal(newSVpv(method, 0)), true, args, count, G_VOID | G_DISCARD);
}

/* The same from a sub of Hydrofoil::Accelerate::Entity that stands for the line of the original that does it. */
static SV *call_at(pTHX_ const char *place, const char *method, SV **args, int count, I32 flags)
{
    CV *cv = get_cv(Perl_form(aTHX_ "Hydrofoil::Accelerate::Entity::%s", place), 0);

    return cv ? call(aTHX_ (SV *)cv, false, args, count, flags)
              : call(aTHX_ sv_2mortal(newSVpv(method, 0)), true, args, count, flags);
}

/* Throws from a place that has the name of the original's. */
static void throw(pTHX_ const char *sub, SV *message)
{
    CV *cv = get_cv(sub, 0);

    if (cv)
        (void)call(aTHX_ (SV *)cv, false, &message, 1, G_VOID | G_DISCARD);
    croak_sv(message);
}

/* ---- HTTP::Entity::Parser::UrlEncoded and ::JSON: an array with the body ---- */

enum { URL_ENCODED, JSON };

static const char *const body_originals[][3] = {
    {"HTTP::Entity::Parser::UrlEncoded::new", "HTTP::Entity::Parser::UrlEncoded::add",
     "HTTP::Entity::Parser::UrlEncoded::finalize"},
    {"HTTP::Entity::Parser::JSON::new", "HTTP::Entity::Parser::JSON::add", "HTTP::Entity::Parser::JSON::finalize"},
};

/* The body so far, or NULL when the object is not as "new" made it. */
static SV *body_of(pTHX_ SV *self)
{
    SV **body;

    if (!SvROK(self) || SvTYPE(SvRV(self)) != SVt_PVAV || SvRMAGICAL(SvRV(self)))
        return NULL;
    body = av_fetch((AV *)SvRV(self), 0, 0);
    return body && SvPOK(*body) && hf_acc_is_plain(*body) ? *body : NULL;
}

XS(xs_body_new)
{
    dXSARGS;
    dXSI32;
    AV *self;
    SV *object;

    if (items < 1 || !hf_acc_is_plain(ST(0))) {
        hf_acc_original(aTHX_ body_originals[ix][0], ax, items);
        return;
    }
    self = newAV();
    object = sv_2mortal(newRV_noinc((SV *)self));
    av_push(self, newSVpvs(""));
    ST(0) = sv_bless(object, gv_stashsv(ST(0), GV_ADD));
    XSRETURN(1);
}

XS(xs_body_add)
{
    dXSARGS;
    dXSI32;
    SV *body = items > 1 && hf_acc_is_plain(ST(1)) ? body_of(aTHX_ ST(0)) : NULL;

    if (!body) {
        hf_acc_original(aTHX_ body_originals[ix][1], ax, items);
        return;
    }
    sv_catsv(body, ST(1));
    ST(0) = body;
    XSRETURN(1);
}

/* Room for n more bytes at the end of a body, which is made one that can be written to. */
static char *body_reserve(pTHX_ SV *body, size_t n)
{
    STRLEN len;

    SvPV_force_nolen(body);
    len = SvCUR(body);
    if (n > (STRLEN)-1 / 2 - len)
        croak("Out of memory");
    if (SvLEN(body) < len + n + 1)
        SvGROW(body, len + n + len / 2 + 1);
    return SvPVX(body) + len;
}

static void body_commit(pTHX_ SV *body, size_t n)
{
    SvCUR_set(body, SvCUR(body) + n);
    *SvEND(body) = '\0';
    SvPOK_only_UTF8(body);
}

XS(xs_url_encoded_finalize)
{
    dXSARGS;
    SV *body = items > 0 ? body_of(aTHX_ ST(0)) : NULL;
    CV *parse = get_cv("HTTP::Entity::Parser::UrlEncoded::parse_urlencoded_arrayref", 0);

    if (!body || !parse) {
        hf_acc_original(aTHX_ body_originals[URL_ENCODED][2], ax, items);
        return;
    }
    SP -= items;
    PUSHMARK(SP);
    XPUSHs(body);
    PUTBACK;
    (void)call_sv((SV *)parse, G_ARRAY);
    SPAGAIN;
    mXPUSHs(newRV_noinc((SV *)newAV()));
    PUTBACK;
}

/* ---- what JSON says, its strings in UTF-8 ---- */

static SV *encode(pTHX_ SV *data);

static SV *encode_key(pTHX_ HE *entry)
{
    STRLEN len;
    const char *key = HePV(entry, len);
    SV *sv = newSVpvn_flags(key, len, HeUTF8(entry) ? SVf_UTF8 : 0);

    sv_utf8_encode(sv);
    return sv;
}

static SV *encode_string(pTHX_ SV *data)
{
    STRLEN len;
    const char *bytes = SvPV(data, len);
    SV *sv = newSVpvn_flags(bytes, len, SvUTF8(data));

    sv_utf8_encode(sv);
    return sv;
}

static SV *encode(pTHX_ SV *data)
{
    SvGETMAGIC(data);
    if (SvROK(data) && !SvOBJECT(SvRV(data)) && SvTYPE(SvRV(data)) == SVt_PVAV) {
        AV *from = (AV *)SvRV(data), *to = newAV();
        SSize_t i, last = av_len(from);
        for (i = 0; i <= last; i++) {
            SV **item = av_fetch(from, i, 0);
            av_push(to, item ? encode(aTHX_ *item) : newSV(0));
        }
        return newRV_noinc((SV *)to);
    }
    if (SvROK(data) && !SvOBJECT(SvRV(data)) && SvTYPE(SvRV(data)) == SVt_PVHV) {
        HV *from = (HV *)SvRV(data), *to = newHV();
        HE *entry;
        hv_iterinit(from);
        while ((entry = hv_iternext(from))) {
            SV *key = sv_2mortal(encode_key(aTHX_ entry));
            (void)hv_store_ent(to, key, encode(aTHX_ HeVAL(entry)), 0);
        }
        return newRV_noinc((SV *)to);
    }
    if (SvROK(data)) {
        /* true and false are objects that say what they are as a string */
        SV *text = newSVsv(data);
        sv_utf8_encode(text);
        return text;
    }
    return SvOK(data) ? encode_string(aTHX_ data) : newSV(0);
}

XS(xs_json_finalize)
{
    dXSARGS;
    SV *body = items > 0 ? body_of(aTHX_ ST(0)) : NULL;
    CV *decode = get_cv("Hydrofoil::Accelerate::Entity::decode", 0);
    AV *params;
    SV *data;

    if (!body || !decode) {
        hf_acc_original(aTHX_ body_originals[JSON][2], ax, items);
        return;
    }
    data = call(aTHX_ (SV *)decode, false, &body, 1, G_SCALAR);
    params = (AV *)sv_2mortal((SV *)newAV());
    if (SvROK(data) && !SvOBJECT(SvRV(data)) && SvTYPE(SvRV(data)) == SVt_PVHV) {
        HV *from = (HV *)SvRV(data);
        HE *entry;
        hv_iterinit(from);
        while ((entry = hv_iternext(from))) {
            av_push(params, encode_key(aTHX_ entry));
            av_push(params, encode(aTHX_ HeVAL(entry)));
        }
    }
    SPAGAIN;
    SP -= items;
    EXTEND(SP, 2);
    mPUSHs(newRV_inc((SV *)params));
    mPUSHs(newRV_noinc((SV *)newAV()));
    PUTBACK;
}

/* ---- HTTP::Entity::Parser::parse ---- */

/* What takes the body. */
typedef struct taker {
    enum { TAKE_FORM, TAKE_BODY, TAKE_NOTHING, TAKE_BY_METHOD } kind;
    SV *object;
    hf_form *form;
    SV *body;
} taker;

static CV *method_of(pTHX_ HV *stash, const char *name)
{
    GV *gv = gv_fetchmethod_autoload(stash, name, FALSE);

    return gv && isGV(gv) ? GvCV(gv) : NULL;
}

static taker taker_of(pTHX_ SV *object)
{
    taker t = {TAKE_BY_METHOD, object, NULL, NULL};
    CV *add = SvROK(object) && SvOBJECT(SvRV(object)) ? method_of(aTHX_ SvSTASH(SvRV(object)), "add") : NULL;

    if (!add)
        return t;
    if (hf_form_is_add(aTHX_ add)) {
        t.form = hf_form_of(aTHX_ object);
        if (t.form)
            t.kind = TAKE_FORM;
    }
    else if (CvISXSUB(add) && CvXSUB(add) == xs_body_add) {
        t.body = body_of(aTHX_ object);
        if (t.body)
            t.kind = TAKE_BODY;
    }
    else if (add == get_cv("HTTP::Entity::Parser::OctetStream::add", 0))
        t.kind = TAKE_NOTHING;
    return t;
}

static void take(pTHX_ taker *t, SV *chunk)
{
    STRLEN len;
    const char *bytes;

    switch (t->kind) {
    case TAKE_NOTHING:
        break;
    case TAKE_BODY:
        if (SvOK(chunk))
            sv_catsv(t->body, chunk);
        break;
    case TAKE_FORM:
        if (!SvUTF8(chunk)) {
            if (!SvOK(chunk))
                break;
            bytes = SvPV(chunk, len);
            memcpy(hf_form_reserve(aTHX_ t->form, len ? len : 1), bytes, len);
            hf_form_commit(aTHX_ t->form, t->object, len, false);
            break;
        }
        /* fall through */
    case TAKE_BY_METHOD:
        {
            SV *args[2];
            args[0] = t->object;
            args[1] = chunk;
            (void)call_at(aTHX_ "call_add", "add", args, 2, G_VOID | G_DISCARD);
        }
    }
}

/* The file behind psgi.input, if its read() is the one of IO::Handle and gives bytes. */
static PerlIO *file_of(pTHX_ SV *input)
{
    IO *io;
    HV *stash;
    CV *read;

    if (!SvROK(input) || !isGV_with_GP(SvRV(input)))
        return NULL;
    io = GvIO((GV *)SvRV(input));
    if (!io || !IoIFP(io) || IoTYPE(io) == IoTYPE_WRONLY || SvRMAGICAL((SV *)io) || PerlIO_isutf8(IoIFP(io)))
        return NULL;
    stash = SvOBJECT(SvRV(input)) ? SvSTASH(SvRV(input)) : SvOBJECT((SV *)io) ? SvSTASH((SV *)io) : NULL;
    read = stash ? method_of(aTHX_ stash, "read") : NULL;
    return read && read == get_cv("IO::Handle::read", 0) ? IoIFP(io) : NULL;
}

/* Reads a piece straight to where it is parsed. */
static size_t read_into(pTHX_ PerlIO *fp, taker *t, SV *scratch, size_t want)
{
    size_t got = 0;
    bool more = true;

    while (more) {
        const size_t n = want - got < PIECE ? want - got : PIECE;
        char *room = t->kind == TAKE_FORM   ? hf_form_reserve(aTHX_ t->form, n)
                     : t->kind == TAKE_BODY ? body_reserve(aTHX_ t->body, n)
                                            : SvPVX(scratch);
        SSize_t done = PerlIO_read(fp, room, n);
        if (done < 0)
            done = 0;
        got += (size_t)done;
        more = (size_t)done == n && got < want;
        if (t->kind == TAKE_FORM)
            hf_form_commit(aTHX_ t->form, t->object, (size_t)done, more);
        else if (t->kind == TAKE_BODY)
            body_commit(aTHX_ t->body, (size_t)done);
    }
    return got;
}

static size_t read_by_method(pTHX_ SV *input, SV *chunk, size_t want)
{
    SV *args[3];

    sv_setsv(chunk, &PL_sv_undef);
    args[0] = input;
    args[1] = chunk;
    args[2] = sv_2mortal(newSVuv(want));
    (void)call_at(aTHX_ "call_read", "read", args, 3, G_VOID | G_DISCARD);
    return SvOK(chunk) ? (size_t)sv_len_utf8(chunk) : 0;
}

/* Reads as many bytes as CONTENT_LENGTH says. */
static void read_body(pTHX_ SV *input, taker *t, SV *buffer, UV remaining, size_t piece)
{
    PerlIO *fp = file_of(aTHX_ input);
    const bool straight = fp && !buffer && t->kind != TAKE_BY_METHOD;
    SV *chunk = sv_2mortal(newSVpvs(""));
    int spin = 0;

    if (straight && t->kind == TAKE_NOTHING)
        SvGROW(chunk, PIECE + 1);
    if (t->kind == TAKE_FORM)
        hf_form_expect(t->form, remaining);
    while (remaining > 0) {
        const size_t want = remaining < piece ? (size_t)remaining : piece;
        size_t got;
        if (straight)
            got = read_into(aTHX_ fp, t, chunk, want);
        else {
            if (fp) {
                SSize_t done = PerlIO_read(fp, SvGROW(chunk, want + 1), want);
                got = done > 0 ? (size_t)done : 0;
                SvCUR_set(chunk, got);
                *SvEND(chunk) = '\0';
                SvPOK_only(chunk);
            }
            else
                got = read_by_method(aTHX_ input, chunk, want);
            take(aTHX_ t, chunk);
            if (buffer) {
                SV *args[2];
                args[0] = buffer;
                args[1] = chunk;
                say(aTHX_ "print", args, 2);
            }
        }
        remaining = got < remaining ? remaining - got : 0;
        if (got == 0 && spin++ > PATIENCE)
            throw(aTHX_ "Hydrofoil::Accelerate::Entity::refuse_length",
                  sv_2mortal(newSVpvf("Bad Content-Length: maybe client disconnect? (%" UVuf " bytes remaining)", remaining)));
    }
}

static HV *plain_hash(SV *sv)
{
    return SvROK(sv) && SvTYPE(SvRV(sv)) == SVt_PVHV && !SvRMAGICAL(SvRV(sv)) && !SvOBJECT(SvRV(sv)) ? (HV *)SvRV(sv) : NULL;
}

static AV *plain_array(SV *sv)
{
    return SvROK(sv) && SvTYPE(SvRV(sv)) == SVt_PVAV && !SvRMAGICAL(SvRV(sv)) ? (AV *)SvRV(sv) : NULL;
}

static SV *env_of(pTHX_ HV *env, const char *name)
{
    SV **value = hv_fetch(env, name, (I32)strlen(name), 0);

    return value && SvOK(*value) ? *value : NULL;
}

/* Is it an ordinary call? Then `length` is CONTENT_LENGTH. Without one there may be chunks, which the original reads. */
static bool is_ordinary(pTHX_ SV **args, I32 items, UV *length, size_t *piece)
{
    AV *self;
    HV *env;
    SV **handlers, **buffer_length, *content_length;

    if (items != 2 || !(self = plain_array(args[0])) || !(env = plain_hash(args[1])))
        return false;
    handlers = av_fetch(self, 0, 0);
    buffer_length = av_fetch(self, 1, 0);
    if (!handlers || !plain_array(*handlers) || !buffer_length || !hf_acc_is_plain(*buffer_length) ||
        SvIV(*buffer_length) <= 0)
        return false;
    *piece = (size_t)SvIV(*buffer_length);
    content_length = env_of(aTHX_ env, "CONTENT_LENGTH");
    *length = 0;
    if (content_length && (!hf_acc_is_plain(content_length) || SvTRUE(content_length))) {
        STRLEN len;
        const char *digits = hf_acc_is_plain(content_length) ? SvPV(content_length, len) : NULL;
        return digits && grok_number(digits, len, length) == IS_NUMBER_IN_UV;
    }
    return !env_of(aTHX_ env, "HTTP_TRANSFER_ENCODING");
}

/* The parser that is registered for the type of the body. A mortal. */
static SV *make_parser(pTHX_ AV *handlers, SV *env_ref, SV *type)
{
    STRLEN type_len = 0;
    const char *bytes = type && SvTRUE(type) ? SvPV(type, type_len) : "";
    SSize_t i;

    for (i = 0; i <= av_len(handlers); i++) {
        SV **row = av_fetch(handlers, i, 0);
        AV *handler = row ? plain_array(*row) : NULL;
        SV **prefix = handler ? av_fetch(handler, 0, 0) : NULL, **class_name, **opts, *args[3];
        STRLEN prefix_len;
        const char *prefix_bytes;
        if (!prefix)
            continue;
        prefix_bytes = SvPV(*prefix, prefix_len);
        if (prefix_len > type_len || memcmp(bytes, prefix_bytes, prefix_len) != 0)
            continue;
        class_name = av_fetch(handler, 1, 0);
        opts = av_fetch(handler, 2, 0);
        args[0] = class_name ? *class_name : &PL_sv_undef;
        args[1] = env_ref;
        args[2] = opts ? *opts : &PL_sv_undef;
        return call_at(aTHX_ "call_new", "new", args, 3, G_SCALAR);
    }
    {
        SV *class_sv = sv_2mortal(newSVpvs("HTTP::Entity::Parser::OctetStream"));
        return call_named(aTHX_ "new", &class_sv, 1);
    }
}

static void rewind_input(pTHX_ SV *input)
{
    SV *args[3];

    args[0] = input;
    args[1] = args[2] = sv_2mortal(newSViv(0));
    say(aTHX_ "seek", args, 3);
}

/* my ($params, $uploads) = $parser->parse($env) */
XS(xs_parse)
{
    dXSARGS;
    HV *env;
    UV length;
    size_t piece;
    SV *object, *input, *buffer = NULL, *flag;
    taker t;

    if (!is_ordinary(aTHX_ &ST(0), items, &length, &piece)) {
        hf_acc_original(aTHX_ "HTTP::Entity::Parser::parse", ax, items);
        return;
    }
    env = (HV *)sv_2mortal(SvREFCNT_inc_simple_NN(SvRV(ST(1))));
    object = make_parser(aTHX_ (AV *)SvRV(*av_fetch((AV *)SvRV(ST(0)), 0, 0)), ST(1), env_of(aTHX_ env, "CONTENT_TYPE"));

    input = env_of(aTHX_ env, "psgi.input");
    if (!input || !SvTRUE(input)) {
        SPAGAIN;
        SP -= items;
        EXTEND(SP, 2);
        mPUSHs(newRV_noinc((SV *)newAV()));
        mPUSHs(newRV_noinc((SV *)newAV()));
        PUTBACK;
        return;
    }
    input = sv_2mortal(newSVsv(input));

    flag = env_of(aTHX_ env, "psgix.input.buffered");
    if (flag && SvTRUE(flag))
        rewind_input(aTHX_ input);
    else {
        SV *class_sv = sv_2mortal(newSVpvs("Stream::Buffered"));
        buffer = call_named(aTHX_ "new", &class_sv, 1);
    }
    (void)hv_delete(env, "HTTP_TRANSFER_ENCODING", 22, G_DISCARD);

    t = taker_of(aTHX_ object);
    read_body(aTHX_ input, &t, buffer, length, piece);

    if (buffer) {
        (void)hv_stores(env, "psgix.input.buffered", newSViv(1));
        (void)hv_stores(env, "psgi.input", SvREFCNT_inc(call_named(aTHX_ "rewind", &buffer, 1)));
    }
    else
        rewind_input(aTHX_ input);

    PL_stack_sp = PL_stack_base + ax - 1;
    {
        CV *finalize = get_cv("Hydrofoil::Accelerate::Entity::call_finalize", 0);
        dSP;
        PUSHMARK(SP);
        XPUSHs(object);
        PUTBACK;
        if (finalize && t.kind == TAKE_BY_METHOD)
            (void)call_sv((SV *)finalize, GIMME_V);
        else
            (void)call_method("finalize", GIMME_V);
    }
}

/* ---- Plack::Request ---- */

/* Plack::Request::Upload->new(headers => ..., tempname => ..., size => ..., filename => ...) */
XS(xs_upload_new)
{
    dXSARGS;
    static const char *const fields[] = {"headers", "tempname", "size", "filename"};
    HV *self;
    SV *object;
    I32 i;
    int f;

    if (items % 2 == 0 || !hf_acc_is_plain(ST(0))) {
        hf_acc_original(aTHX_ "Plack::Request::Upload::new", ax, items);
        return;
    }
    self = newHV();
    object = sv_2mortal(newRV_noinc((SV *)self));
    for (f = 0; f < 4; f++) {
        SV *value = NULL;
        for (i = 1; i < items; i += 2) {
            STRLEN len;
            const char *name = SvPV(ST(i), len);
            if (len == strlen(fields[f]) && memcmp(name, fields[f], len) == 0)
                value = ST(i + 1);
        }
        (void)hv_store(self, fields[f], (I32)strlen(fields[f]), value ? hf_upload_name_copy(aTHX_ value) : newSV(0), 0);
    }
    ST(0) = sv_bless(object, gv_stashsv(ST(0), GV_ADD));
    XSRETURN(1);
}

/* Plack::Request::Upload->new(%$found, headers => HTTP::Headers::Fast->new(...)) */
static SV *make_upload(pTHX_ SV *found)
{
    HV *fields = SvROK(found) && SvTYPE(SvRV(found)) == SVt_PVHV ? (HV *)SvRV(found) : NULL;
    AV *list = (AV *)sv_2mortal((SV *)newAV());
    SV **headers;
    HE *entry;
    SSize_t i;

    if (!fields)
        croak("Not a HASH reference");
    headers = hv_fetchs(fields, "headers", 0);
    av_push(list, newSVpvs("HTTP::Headers::Fast"));
    if (headers && SvROK(*headers) && SvTYPE(SvRV(*headers)) == SVt_PVAV) {
        AV *from = (AV *)SvRV(*headers);
        for (i = 0; i <= av_len(from); i++) {
            SV **item = av_fetch(from, i, 0);
            av_push(list, item ? SvREFCNT_inc_simple_NN(*item) : newSV(0));
        }
    }
    {
        SV *object = call_named(aTHX_ "new", AvARRAY(list), (int)av_len(list) + 1);
        list = (AV *)sv_2mortal((SV *)newAV());
        av_push(list, newSVpvs("Plack::Request::Upload"));
        hv_iterinit(fields);
        while ((entry = hv_iternext(fields))) {
            SV *key = hv_iterkeysv(entry);
            if (strEQ(SvPV_nolen(key), "headers"))
                continue;
            av_push(list, SvREFCNT_inc_simple_NN(key));
            av_push(list, SvREFCNT_inc_simple_NN(HeVAL(entry)));
        }
        av_push(list, newSVpvs("headers"));
        av_push(list, SvREFCNT_inc_simple_NN(object));
    }
    return call_named(aTHX_ "new", AvARRAY(list), (int)av_len(list) + 1);
}

/* $req->_parse_request_body */
XS(xs_parse_request_body)
{
    dXSARGS;
    CV *parse = get_cv("Hydrofoil::Accelerate::Entity::parse_request", 0);
    SV *self, *env_ref, *args[3], *params, *uploads, *multi;
    AV *found;
    HV *env;
    SSize_t count;

    if (items < 1 || !SvROK(ST(0)) || !parse) {
        hf_acc_original(aTHX_ "Plack::Request::_parse_request_body", ax, items);
        return;
    }
    self = ST(0);
    env_ref = call_named(aTHX_ "env", &self, 1);
    if (!(env = plain_hash(env_ref))) {
        hf_acc_original(aTHX_ "Plack::Request::_parse_request_body", ax, items);
        return;
    }
    args[0] = call_named(aTHX_ "request_body_parser", &self, 1);
    args[1] = env_ref;

    params = uploads = &PL_sv_undef;
    {
        dSP;
        ENTER;
        PUSHMARK(SP);
        XPUSHs(args[0]);
        XPUSHs(args[1]);
        PUTBACK;
        count = call_sv((SV *)parse, G_ARRAY);
        SPAGAIN;
        if (count > 0)
            params = SP[1 - count];
        if (count > 1)
            uploads = SP[2 - count];
        SP -= count;
        PUTBACK;
        LEAVE;
    }
    (void)hv_stores(env, "plack.request.body_parameters", newSVsv(params));

    args[0] = sv_2mortal(newSVpvs("Hash::MultiValue"));
    multi = call_named(aTHX_ "new", args, 1);
    if (!SvOK(uploads))
        found = NULL;
    else if (!(found = plain_array(uploads)))
        croak("Not an ARRAY reference");
    while (found && av_len(found) >= 0) {
        SV *name = sv_2mortal(av_shift(found));
        SV *upload = av_len(found) >= 0 ? sv_2mortal(av_shift(found)) : &PL_sv_undef;
        args[0] = multi;
        args[1] = name;
        args[2] = make_upload(aTHX_ upload);
        say(aTHX_ "add", args, 3);
    }
    (void)hv_stores(env, "plack.request.upload", newSVsv(multi));
    ST(0) = sv_2mortal(newSViv(1));
    XSRETURN(1);
}

void hf_acc_boot_entity(pTHX)
{
    hf_acc_sub(aTHX_ "Entity::parse", xs_parse, 0);
    hf_acc_sub(aTHX_ "Entity::url_encoded_new", xs_body_new, URL_ENCODED);
    hf_acc_sub(aTHX_ "Entity::url_encoded_add", xs_body_add, URL_ENCODED);
    hf_acc_sub(aTHX_ "Entity::url_encoded_finalize", xs_url_encoded_finalize, 0);
    hf_acc_sub(aTHX_ "Entity::json_new", xs_body_new, JSON);
    hf_acc_sub(aTHX_ "Entity::json_add", xs_body_add, JSON);
    hf_acc_sub(aTHX_ "Entity::json_finalize", xs_json_finalize, 0);
    hf_acc_sub(aTHX_ "Entity::upload_new", xs_upload_new, 0);
    hf_acc_sub(aTHX_ "Entity::parse_request_body", xs_parse_request_body, 0);
    hf_acc_boot_multipart(aTHX);
    hf_acc_boot_upload(aTHX);
}
