/* multipart.c - HTTP::Entity::Parser::MultiPart in C: what core_multipart.c finds becomes parameters and uploads.
 *
 * An object is the hash that the original makes, but that {parser} is an object of ours; one that the original made
 * (for it was given what is out of the ordinary) stays with the original.
 */
#include "entity.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct hf_form {
    hf_multipart parser;
    SV *env;      /* reference to the environment */
    AV *params;   /* name, value, ... */
    AV *uploads;  /* name, { ... }, ... */
    SV *on_error; /* code reference, NULL: die */
    SV *tempdir;  /* hf_tempdir_new(), NULL before the first file */
    HV *self;     /* borrowed, while bytes are being parsed */

    /* the part that is being read; name is NULL when there is none that counts */
    SV *name;
    SV *filename; /* NULL: not a file */
    SV *value;
    AV *headers;
    hf_upload *upload;

    size_t expected;  /* bytes of body to come, 0: not known */
    size_t in_memory; /* bytes of files that are not on disk */
    size_t parts;
    size_t memory_limit, max_parts, max_field_size, max_file_size; /* 0: none, but memory_limit */

    const char *error; /* what the sink found wrong */
    bool is_refusal;   /* on_error is told of it; otherwise it is an exception */
    int error_number;
};

/* ---- errors: they name the same place in the original's source, so they are thrown from Perl ---- */

static void call_with_message(pTHX_ SV *code, const char *message)
{
    dSP;

    ENTER;
    SAVETMPS;
    PUSHMARK(SP);
    mXPUSHs(newSVpv(message, 0));
    PUTBACK;
    call_sv(code, G_VOID | G_DISCARD);
    FREETMPS;
    LEAVE;
}

static void throw(pTHX_ const char *sub, const char *message)
{
    CV *cv = get_cv(sub, 0);

    if (cv)
        call_with_message(aTHX_ (SV *)cv, message);
    croak("%s", message);
}

/* The parser has failed. What on_error returns does not matter; that it returns makes what is there the result. */
static void report(pTHX_ hf_form *form, bool finishing)
{
    const char *message = hf_multipart_error(&form->parser);

    if (message || form->is_refusal) {
        if (!message)
            message = form->error;
        form->error = form->parser.error = NULL;
        form->is_refusal = false;
        if (form->on_error)
            call_with_message(aTHX_ form->on_error, message);
        else
            throw(aTHX_ finishing ? "Hydrofoil::Accelerate::Entity::refuse_end" : "Hydrofoil::Accelerate::Entity::refuse",
                  message);
    }
    else if (form->error) {
        message = form->error;
        form->error = NULL;
        if (form->error_number) {
            errno = form->error_number;
            throw(aTHX_ "Hydrofoil::Accelerate::Entity::die_write", message);
        }
        throw(aTHX_ message[0] == 'P' ? "Hydrofoil::Accelerate::Entity::die_name"
                                      : "Hydrofoil::Accelerate::Entity::die_disposition",
              message);
    }
}

static bool refuse(hf_form *form, const char *message)
{
    form->error = message;
    form->is_refusal = true;
    return false;
}

static bool die_with(hf_form *form, const char *message, int error_number)
{
    form->error = message;
    form->error_number = error_number;
    return false;
}

/* ---- the header of a part ---- */

static const char *find_crlf(const char *p, const char *end)
{
    while ((p = (const char *)memchr(p, '\r', (size_t)(end - p))) && end - p > 1) {
        if (p[1] == '\n')
            return p;
        p++;
    }
    return NULL;
}

/* Begins with a name and a colon? Control characters are not for names; anything else is, a space at the beginning too. */
static bool is_header_line(const char *p, size_t n)
{
    size_t i;

    for (i = 0; i < n; i++) {
        const unsigned char c = (unsigned char)p[i];
        if (c == ':')
            return i > 0;
        if (c < 0x20 || c == 0x7f)
            return false;
    }
    return false;
}

/* Into lines, those that go on in the next one put together. NULL: refused. */
static AV *split_lines(pTHX_ hf_form *form, const char *p, size_t n)
{
    AV *lines = (AV *)sv_2mortal((SV *)newAV());
    SV *latest = NULL;
    const char *end = p + n;

    /* Only empty lines at the end do not count. */
    while (end - p >= 2 && end[-1] == '\n' && end[-2] == '\r')
        end -= 2;
    while (p < end) {
        const char *eol = find_crlf(p, end);
        size_t len = (size_t)((eol ? eol : end) - p);
        const char *line = p;

        p = eol ? eol + 2 : end;
        if (is_header_line(line, len)) {
            latest = newSVpvn(line, len);
            av_push(lines, latest);
        }
        else if (len && (*line == ' ' || *line == '\t')) {
            const char *before;
            STRLEN before_len;
            if (!latest) {
                refuse(form, "Continuation line seen before first header");
                return NULL;
            }
            while (len && (*line == ' ' || *line == '\t')) {
                line++;
                len--;
            }
            if (!len)
                continue;
            before = SvPV(latest, before_len);
            if (before[before_len - 1] != ' ' && before[before_len - 1] != '\t')
                sv_catpvs(latest, " ");
            sv_catpvn(latest, line, len);
        }
        else {
            refuse(form, "Malformed header line");
            return NULL;
        }
    }
    return lines;
}

static bool has_prefix(const char *p, const char *end, const char *prefix)
{
    const size_t n = strlen(prefix);

    return (size_t)(end - p) >= n && memcmp(p, prefix, n) == 0;
}

/* The value of Content-Disposition, up to a line feed that stands alone. */
static bool find_disposition(pTHX_ AV *lines, const char **value, size_t *value_len)
{
    static const char name[] = "content-disposition:";
    SSize_t i;

    for (i = 0; i <= av_len(lines); i++) {
        STRLEN n, j;
        const char *p = SvPV(AvARRAY(lines)[i], n), *eol;
        if (n < sizeof name - 1)
            continue;
        for (j = 0; j < sizeof name - 1; j++) {
            const char c = p[j] >= 'A' && p[j] <= 'Z' ? (char)(p[j] | 0x20) : p[j];
            if (c != name[j])
                break;
        }
        if (j < sizeof name - 1)
            continue;
        p += j;
        n -= j;
        while (n && (*p == ' ' || *p == '\t')) {
            p++;
            n--;
        }
        eol = (const char *)memchr(p, '\n', n);
        *value = p;
        *value_len = eol ? (size_t)(eol - p) : n;
        return true;
    }
    return false;
}

/* What browsers write: form-data; name="..." or form-data; name="..."; filename="...", without a backslash in it. */
static bool read_usual_disposition(const char *p, size_t n, const char **name, size_t *name_len, const char **filename,
                                   size_t *filename_len)
{
    const char *end = p + n, *quote;

    *filename = NULL;
    if (memchr(p, '\\', n) || !has_prefix(p, end, "form-data; name=\""))
        return false;
    p += 17;
    quote = (const char *)memchr(p, '"', (size_t)(end - p));
    if (!quote)
        return false;
    *name = p;
    *name_len = (size_t)(quote - p);
    p = quote + 1;
    if (p == end)
        return true;
    if (!has_prefix(p, end, "; filename=\""))
        return false;
    p += 12;
    quote = (const char *)memchr(p, '"', (size_t)(end - p));
    if (!quote || quote + 1 != end)
        return false;
    *filename = p;
    *filename_len = (size_t)(quote - p);
    return true;
}

/* Anything else is read by the original's own function. */
static void read_any_disposition(pTHX_ const char *p, size_t n, SV **name, SV **filename)
{
    CV *cv = get_cv("HTTP::Entity::Parser::MultiPart::extract_form_data", 0);
    SSize_t count;
    dSP;

    *name = *filename = NULL;
    if (!cv)
        return;
    ENTER;
    SAVETMPS;
    PUSHMARK(SP);
    mXPUSHs(newSVpvn(p, n));
    PUTBACK;
    count = call_sv((SV *)cv, G_ARRAY);
    SPAGAIN;
    if (count > 0) {
        SV **answer = SP - count + 1;
        if (SvOK(answer[0]))
            *name = newSVsv(answer[0]);
        if (count > 1 && SvOK(answer[1]))
            *filename = newSVsv(answer[1]);
        SP -= count;
    }
    PUTBACK;
    FREETMPS;
    LEAVE;
}

static void forget_part(pTHX_ hf_form *form)
{
    SvREFCNT_dec(form->name);
    SvREFCNT_dec(form->filename);
    SvREFCNT_dec(form->value);
    SvREFCNT_dec((SV *)form->headers);
    hf_upload_free(form->upload);
    form->name = form->filename = form->value = NULL;
    form->headers = NULL;
    form->upload = NULL;
}

static void make_tempdir(pTHX_ hf_form *form)
{
    SV **slot;
    HV *env = (HV *)SvRV(form->env);

    if (form->tempdir)
        return;
    form->tempdir = hf_tempdir_new(aTHX);
    (void)hv_stores(form->self, "tempdir", newSVsv(form->tempdir));
    slot = hv_fetchs(env, "http.entity.parser.multipart.tempdir", 1);
    if (!SvROK(*slot) || SvTYPE(SvRV(*slot)) != SVt_PVAV)
        sv_setsv(*slot, sv_2mortal(newRV_noinc((SV *)newAV())));
    av_push((AV *)SvRV(*slot), newSVsv(form->tempdir));
}

static bool on_header(void *user, const char *block, size_t len)
{
    hf_form *form = (hf_form *)user;
    const char *value, *name, *filename = NULL;
    size_t value_len, name_len, filename_len = 0;
    AV *lines;
    dTHX;

    forget_part(aTHX_ form);
    if (form->max_parts && form->parts >= form->max_parts)
        return refuse(form, "Number of parts exceeds maximum allowed");
    form->parts++;
    lines = split_lines(aTHX_ form, block, len);
    if (!lines)
        return false;
    if (!find_disposition(aTHX_ lines, &value, &value_len))
        return die_with(form, "Content-Disposition header is missing in part", 0);
    if (read_usual_disposition(value, value_len, &name, &name_len, &filename, &filename_len)) {
        form->name = newSVpvn(name, name_len);
        form->filename = filename ? newSVpvn(filename, filename_len) : NULL;
    }
    else {
        SV *any_name, *any_filename;
        read_any_disposition(aTHX_ value, value_len, &any_name, &any_filename);
        if (!any_name) {
            SvREFCNT_dec(any_filename);
            return die_with(form, "Parameter 'name' is missing from Content-Disposition header", 0);
        }
        form->name = any_name;
        form->filename = any_filename;
    }
    if (form->filename) {
        form->headers = (AV *)SvREFCNT_inc_simple_NN((SV *)lines);
        make_tempdir(aTHX_ form);
        form->upload = hf_upload_new(aTHX_ form->tempdir);
    }
    return true;
}

/* ---- the body of a part ---- */

/* White space of a regular expression, in bytes. */
static bool is_space(char c)
{
#if PERL_VERSION >= 18
    if (c == '\v')
        return true;
#endif
    return c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\f';
}

/* name, value, name, value, ... */
static AV *split_headers(pTHX_ AV *lines)
{
    AV *fields = newAV();
    SSize_t i;

    for (i = 0; i <= av_len(lines); i++) {
        STRLEN n;
        const char *p = SvPV(AvARRAY(lines)[i], n), *end = p + n;
        const char *colon = (const char *)memchr(p, ':', n), *name_end, *value;
        for (name_end = colon; name_end > p && is_space(name_end[-1]); name_end--)
            ;
        for (value = colon + 1; value < end && is_space(*value); value++)
            ;
        av_push(fields, newSVpvn(p, (STRLEN)(name_end - p)));
        av_push(fields, newSVpvn(value, (STRLEN)(end - value)));
    }
    return fields;
}

static void add_upload(pTHX_ hf_form *form)
{
    HV *upload = newHV();
    const size_t size = hf_upload_size(form->upload);

    (void)hv_stores(upload, "name", newSVsv(form->name));
    (void)hv_stores(upload, "headers", newRV_noinc((SV *)split_headers(aTHX_ form->headers)));
    /* what -s says about an empty file depends on the version of Perl */
    (void)hv_stores(upload, "size", size ? newSVuv(size) : newSVsv(get_sv("Hydrofoil::Accelerate::Entity::EMPTY", GV_ADD)));
    (void)hv_stores(upload, "filename", newSVsv(form->filename));
    (void)hv_stores(upload, "tempname", hf_upload_name(aTHX_ form->upload));
    av_push(form->uploads, newSVsv(form->name));
    av_push(form->uploads, newRV_noinc((SV *)upload));
}

static bool add_to_file(pTHX_ hf_form *form, const char *bytes, size_t len, bool final)
{
    hf_upload *upload = form->upload;

    if (form->max_file_size && len > form->max_file_size - hf_upload_size(upload))
        return refuse(form, "Size of file exceeds maximum allowed");
    if (hf_upload_in_memory(upload)) {
        if (len > form->memory_limit - form->in_memory) {
            form->in_memory -= hf_upload_size(upload);
            if (!hf_upload_spill(upload))
                return die_with(form, "", errno);
        }
        else {
            const size_t room = form->memory_limit - form->in_memory;
            if (!final && hf_upload_size(upload) == 0 && form->expected > len)
                hf_upload_expect(upload, form->expected < room ? form->expected : room);
            form->in_memory += len;
        }
    }
    if (!hf_upload_append(upload, bytes, len))
        return die_with(form, "", errno ? errno : ENOMEM);
    if (!final)
        return true;
    if (!hf_upload_close(upload))
        return die_with(form, "", errno);
    if (SvCUR(form->filename) > 0)
        add_upload(aTHX_ form);
    else if (hf_upload_in_memory(upload))
        form->in_memory -= hf_upload_size(upload);
    return true;
}

static bool on_body(void *user, const char *bytes, size_t len, bool final)
{
    hf_form *form = (hf_form *)user;
    dTHX;

    if (!form->name)
        return true;
    if (form->upload) {
        if (!add_to_file(aTHX_ form, bytes, len, final))
            return false;
        if (!final)
            return true;
    }
    else {
        const size_t before = form->value ? SvCUR(form->value) : 0;
        if (form->max_field_size && len > form->max_field_size - before)
            return refuse(form, "Size of field exceeds maximum allowed");
        if (form->value)
            sv_catpvn(form->value, bytes, len);
        else
            form->value = newSVpvn(bytes, len);
        if (!final)
            return true;
        av_push(form->params, form->name);
        av_push(form->params, form->value);
        form->name = form->value = NULL;
    }
    forget_part(aTHX_ form);
    return true;
}

static const hf_multipart_sink sink = {on_header, on_body};

/* ---- the object ---- */

static int form_free(pTHX_ SV *sv, MAGIC *mg)
{
    hf_form *form = (hf_form *)mg->mg_ptr;

    PERL_UNUSED_ARG(sv);
    mg->mg_ptr = NULL;
    if (form) {
        forget_part(aTHX_ form);
        hf_multipart_free(&form->parser);
        SvREFCNT_dec(form->env);
        SvREFCNT_dec((SV *)form->params);
        SvREFCNT_dec((SV *)form->uploads);
        SvREFCNT_dec(form->on_error);
        SvREFCNT_dec(form->tempdir);
        free(form);
    }
    return 0;
}

#ifdef USE_ITHREADS
/* A body that is half read does not go on in another thread. */
static int form_dup(pTHX_ MAGIC *mg, CLONE_PARAMS *param)
{
    PERL_UNUSED_CONTEXT;
    PERL_UNUSED_ARG(param);
    mg->mg_ptr = NULL;
    return 0;
}
static const MGVTBL form_vtbl = {NULL, NULL, NULL, NULL, form_free, NULL, form_dup, NULL};
#else
static const MGVTBL form_vtbl = {NULL, NULL, NULL, NULL, form_free, NULL, NULL, NULL};
#endif

hf_form *hf_form_of(pTHX_ SV *self)
{
    SV **parser;
    MAGIC *mg;
    hf_form *form;

    if (!SvROK(self) || SvTYPE(SvRV(self)) != SVt_PVHV || SvRMAGICAL(SvRV(self)))
        return NULL;
    parser = hv_fetchs((HV *)SvRV(self), "parser", 0);
    if (!parser || !SvROK(*parser) || SvTYPE(SvRV(*parser)) < SVt_PVMG)
        return NULL;
    mg = mg_findext(SvRV(*parser), PERL_MAGIC_ext, &form_vtbl);
    form = mg ? (hf_form *)mg->mg_ptr : NULL;
    return form;
}

void hf_form_expect(hf_form *form, size_t n)
{
    form->expected = n;
}

char *hf_form_reserve(pTHX_ hf_form *form, size_t n)
{
    char *room = hf_multipart_reserve(&form->parser, n);

    if (!room)
        croak("Out of memory");
    return room;
}

void hf_form_commit(pTHX_ hf_form *form, SV *self, size_t n, bool more)
{
    bool ok;

    if (hf_multipart_failed(&form->parser))
        return;
    form->self = (HV *)SvRV(self);
    ok = hf_multipart_commit(&form->parser, n, more);
    form->self = NULL;
    form->expected = form->expected > n ? form->expected - n : 0;
    if (!ok)
        report(aTHX_ form, false);
}

/* The regular expression boundary="?([^";]+)"? on bytes. */
static bool find_boundary(const char *type, size_t n, const char **boundary, size_t *len)
{
    const char *p = type, *end = type + n;

    while ((p = hf_multipart_find(p, (size_t)(end - p), "boundary=", 9))) {
        const char *q;
        p += 9;
        q = p < end && *p == '"' ? p + 1 : p;
        for (*boundary = q; q < end && *q != '"' && *q != ';'; q++)
            ;
        if (q > *boundary) {
            *len = (size_t)(q - *boundary);
            return true;
        }
    }
    return false;
}

#define MEMORY_LIMIT (1024 * 1024)

static size_t setting(pTHX_ const char *name, size_t otherwise)
{
    SV *sv = get_sv(name, 0);

    return sv && SvOK(sv) ? (size_t)SvUV(sv) : otherwise;
}

/* HTTP::Entity::Parser::MultiPart->new($env, $opts) */
XS(xs_multipart_new)
{
    dXSARGS;
    static const char original[] = "HTTP::Entity::Parser::MultiPart::new";
    SV **type, **on_error = NULL;
    const char *boundary;
    size_t boundary_len;
    STRLEN type_len;
    const char *type_bytes;
    HV *self;
    SV *object, *parser;
    MAGIC *mg;
    hf_form *form;

    if (items < 2 || !hf_acc_is_plain(ST(0)) || !SvROK(ST(1)) || SvTYPE(SvRV(ST(1))) != SVt_PVHV ||
        SvRMAGICAL(SvRV(ST(1))) || SvOBJECT(SvRV(ST(1)))) {
        hf_acc_original(aTHX_ original, ax, items);
        return;
    }
    type = hv_fetchs((HV *)SvRV(ST(1)), "CONTENT_TYPE", 0);
    if (items > 2 && SvROK(ST(2)) && SvTYPE(SvRV(ST(2))) == SVt_PVHV && !SvRMAGICAL(SvRV(ST(2))) &&
        !SvOBJECT(SvRV(ST(2)))) {
        on_error = hv_fetchs((HV *)SvRV(ST(2)), "on_error", 0);
        if (on_error && !SvOK(*on_error))
            on_error = NULL;
    }
    else if (items > 2 && SvOK(ST(2)))
        type = NULL;
    if (!type || !hf_acc_is_plain(*type) || SvUTF8(*type) ||
        (on_error && (!SvROK(*on_error) || SvTYPE(SvRV(*on_error)) != SVt_PVCV || SvOBJECT(SvRV(*on_error))))) {
        hf_acc_original(aTHX_ original, ax, items);
        return;
    }
    type_bytes = SvPV(*type, type_len);
    if (!find_boundary(type_bytes, type_len, &boundary, &boundary_len) ||
        !hf_multipart_is_boundary(boundary, boundary_len)) {
        hf_acc_original(aTHX_ original, ax, items);
        return;
    }

    self = newHV();
    object = sv_2mortal(newRV_noinc((SV *)self));
    parser = newSV_type(SVt_PVMG);
    mg = sv_magicext(parser, NULL, PERL_MAGIC_ext, &form_vtbl, NULL, 0);
#ifdef USE_ITHREADS
    mg->mg_flags |= MGf_DUP;
#endif
    (void)hv_stores(self, "parser", sv_bless(newRV_noinc(parser), gv_stashpvs("Hydrofoil::Accelerate::Entity::Form", GV_ADD)));
    form = (hf_form *)calloc(1, sizeof *form);
    if (!form)
        croak("Out of memory");
    mg->mg_ptr = (char *)form;
    if (!hf_multipart_init(&form->parser, boundary, boundary_len, &sink, form))
        croak("Out of memory");
    form->env = newSVsv(ST(1));
    form->params = newAV();
    form->uploads = newAV();
    form->on_error = on_error ? newSVsv(*on_error) : NULL;
    form->memory_limit = setting(aTHX_ "Hydrofoil::Accelerate::Entity::MEMORY_LIMIT", MEMORY_LIMIT);
    form->max_parts = setting(aTHX_ "Hydrofoil::Accelerate::Entity::MAX_PARTS", 0);
    form->max_field_size = setting(aTHX_ "Hydrofoil::Accelerate::Entity::MAX_FIELD_SIZE", 0);
    form->max_file_size = setting(aTHX_ "Hydrofoil::Accelerate::Entity::MAX_FILE_SIZE", 0);
    (void)hv_stores(self, "params", newRV_inc((SV *)form->params));
    (void)hv_stores(self, "uploads", newRV_inc((SV *)form->uploads));
    sv_bless(object, gv_stashsv(ST(0), GV_ADD));
    ST(0) = object;
    XSRETURN(1);
}

/* $parser->add($bytes) */
XS(xs_multipart_add)
{
    dXSARGS;
    hf_form *form = items > 0 ? hf_form_of(aTHX_ ST(0)) : NULL;
    SV *chunk;
    const char *bytes;
    char *room;
    STRLEN len;

    if (!form) {
        hf_acc_original(aTHX_ "HTTP::Entity::Parser::MultiPart::add", ax, items);
        return;
    }
    if (items < 2)
        XSRETURN_EMPTY;
    chunk = ST(1);
    SvGETMAGIC(chunk);
    if (!SvOK(chunk))
        XSRETURN_EMPTY;
    bytes = SvPV_nomg(chunk, len);
    if (SvUTF8(chunk)) {
        chunk = sv_2mortal(newSVpvn_utf8(bytes, len, 1));
        if (!sv_utf8_downgrade(chunk, TRUE))
            croak("Wide character in a multipart body");
        bytes = SvPV(chunk, len);
    }
    if (hf_multipart_failed(&form->parser))
        XSRETURN_NO;
    if (len) {
        room = hf_form_reserve(aTHX_ form, len);
        memcpy(room, bytes, len);
        hf_form_commit(aTHX_ form, ST(0), len, false);
    }
    ST(0) = boolSV(!hf_multipart_failed(&form->parser));
    XSRETURN(1);
}

/* my ($params, $uploads) = $parser->finalize */
XS(xs_multipart_finalize)
{
    dXSARGS;
    hf_form *form = items > 0 ? hf_form_of(aTHX_ ST(0)) : NULL;
    HV *self;

    if (!form) {
        hf_acc_original(aTHX_ "HTTP::Entity::Parser::MultiPart::finalize", ax, items);
        return;
    }
    self = (HV *)SvRV(ST(0));
    sv_2mortal(SvREFCNT_inc_simple_NN((SV *)self));
    sv_2mortal(SvREFCNT_inc_simple_NN(SvRV(*hv_fetchs(self, "parser", 0)))); /* form lives there */
    (void)hv_delete(self, "parser", 6, G_DISCARD);
    if (!hf_multipart_failed(&form->parser)) {
        form->self = self;
        if (!hf_multipart_finish(&form->parser))
            report(aTHX_ form, true);
        form->self = NULL;
    }
    SP -= items;
    {
        SV **params = hv_fetchs(self, "params", 0), **uploads = hv_fetchs(self, "uploads", 0);
        EXTEND(SP, 2);
        PUSHs(params ? sv_mortalcopy(*params) : &PL_sv_undef);
        PUSHs(uploads ? sv_mortalcopy(*uploads) : &PL_sv_undef);
    }
    PUTBACK;
}

bool hf_form_is_add(pTHX_ CV *cv)
{
    PERL_UNUSED_CONTEXT;
    return CvISXSUB(cv) && CvXSUB(cv) == xs_multipart_add;
}

void hf_acc_boot_multipart(pTHX)
{
    hf_acc_sub(aTHX_ "Entity::multipart_new", xs_multipart_new, 0);
    hf_acc_sub(aTHX_ "Entity::multipart_add", xs_multipart_add, 0);
    hf_acc_sub(aTHX_ "Entity::multipart_finalize", xs_multipart_finalize, 0);
}
