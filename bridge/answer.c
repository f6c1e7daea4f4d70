/* answer.c - the response (PSGI 1.1, "The Response"): array, file handle and IO::Handle-like bodies. */
#include "bridge.h"

#include "perliol.h"

#ifndef isPRINT_A
#define isPRINT_A(c) ((U8)(c) >= 0x20 && (U8)(c) < 0x7f)
#endif

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

/* --- failing --- */

void hf_answer_fail(pTHX_ hf_call *call)
{
    hf_request *r = call->r;
    PERL_UNUSED_CONTEXT;
    if (!r)
        return;
    call->r = NULL;
    hf_engine_lock(call->w->engine);
    if (r->begun)
        hf_response_abort(r);
    else
        hf_response_simple(r, 500);
    hf_engine_unlock(call->w->engine);
}

/* The application broke the specification: says so, and answers 500. */
static bool reject(pTHX_ hf_call *call, const char *why)
{
    hf_worker_log(aTHX_ call->w, "%s: illegal PSGI response: %s", hf_env_describe(aTHX_ call->w, call->env), why);
    hf_answer_fail(aTHX_ call);
    return FALSE;
}

/* --- gathering --- */

/* Ordinary: its string can be had without running Perl code. */
static bool is_plain(SV *sv)
{
    return sv && !SvROK(sv) && !SvGMAGICAL(sv);
}

static bool all_plain(AV *av)
{
    SSize_t i;
    if (SvRMAGICAL(av))
        return FALSE;
    for (i = 0; i <= AvFILLp(av); i++)
        if (AvARRAY(av)[i] && !is_plain(AvARRAY(av)[i]))
            return FALSE;
    return TRUE;
}

/* The strings of an array's elements as plain scalars, in a mortal array; NULL if that died. */
static AV *flattened(pTHX_ hf_call *call, AV *av)
{
    dSP;
    AV *flat = NULL;
    PUSHMARK(SP);
    mXPUSHs(newRV_inc((SV *)av));
    PUTBACK;
    if (call_pv("Hydrofoil::_strings", G_SCALAR | G_EVAL) == 1) {
        hf_check_process(aTHX_ call->w, call->env);
        SPAGAIN;
        SV *rv = POPs;
        PUTBACK;
        if (!SvTRUE(ERRSV) && SvROK(rv) && SvTYPE(SvRV(rv)) == SVt_PVAV)
            flat = (AV *)SvRV(rv);
        else
            hf_worker_log(aTHX_ call->w, "%s: %s", hf_env_describe(aTHX_ call->w, call->env), SvPV_nolen(ERRSV));
    }
    return flat;
}

/* Where the digits of a number go: an application's Content-Length is one more often than not, and to make a string of it
 * perl would have to allocate one. */
static char *number_space(hf_worker *w)
{
    return w->n_numbers < HF_NUMBERS ? w->numbers[w->n_numbers++] : NULL;
}

/* The bytes of a scalar without magic; of a character string only if each character is one byte. False for wide characters. */
static inline bool bytes_of(pTHX_ hf_worker *w, SV *sv, const char **bytes, STRLEN *len)
{
    const U32 is = SvFLAGS(sv) & (SVf_POK | SVf_UTF8 | SVf_IOK | SVp_IOK | SVf_NOK | SVp_NOK);
    char *digits;
    if (HF_LIKELY((is & (SVf_POK | SVf_UTF8)) == SVf_POK)) {
        *bytes = SvPVX_const(sv);
        *len = SvCUR(sv);
        return TRUE;
    }
    if (is == (SVf_IOK | SVp_IOK) && !SvPOKp(sv) && (SvIsUV(sv) || SvIVX(sv) >= 0) && (digits = number_space(w)) != NULL) {
        *bytes = digits;
        *len = hf_format_u64(digits, (uint64_t)SvUVX(sv));
        return TRUE;
    }
    if (SvUTF8(sv)) {
        sv = sv_2mortal(newSVsv(sv));
        if (!sv_utf8_downgrade(sv, TRUE))
            return FALSE;
    }
    *bytes = SvPV_const(sv, *len);
    return TRUE;
}

static int status_of(pTHX_ SV *sv)
{
    STRLEN len, i;
    const char *p;
    if (HF_LIKELY(sv && SvIOK(sv) && !SvPOK(sv)))
        return SvIVX(sv) < 0 || SvIVX(sv) > 99999 ? 0 : (int)SvIVX(sv);
    if (!is_plain(sv) || !SvOK(sv))
        return -1;
    p = SvPV_const(sv, len);
    for (i = 0; i < len; i++)
        if (p[i] < '0' || p[i] > '9')
            return -1;
    return len && len < 6 ? (int)SvIV(sv) : -1;
}

/* Fills w->fields from a list of names and values. NULL, or what is wrong with it. */
static const char *gather_fields(pTHX_ hf_worker *w, AV *av, size_t *n)
{
    SSize_t i, count = AvFILLp(av) + 1;
    SV **sv = AvARRAY(av);
    *n = (size_t)count / 2;
    if (count & 1)
        return "an odd number of elements in the header list";
    if (HF_UNLIKELY(*n > w->cap_fields)) {
        w->cap_fields = *n + 16;
        Renew(w->fields, w->cap_fields, hf_field_out);
    }
    for (i = 0; i < count; i += 2) {
        hf_field_out *f = &w->fields[i / 2];
        STRLEN name_len, value_len;
        if (HF_UNLIKELY(!sv[i] || !SvOK(sv[i])))
            return "an undefined header name";
        if (HF_UNLIKELY(!sv[i + 1] || !SvOK(sv[i + 1])))
            return SvPV_nolen(sv_2mortal(newSVpvf("an undefined value for header %.80s", SvPV_nolen(sv[i]))));
        if (HF_UNLIKELY(!bytes_of(aTHX_ w, sv[i], &f->name, &name_len) ||
                        !bytes_of(aTHX_ w, sv[i + 1], &f->value, &value_len)))
            return SvPV_nolen(sv_2mortal(newSVpvf("a wide character in header %.80s", SvPV_nolen(sv[i]))));
        f->name_len = (uint32_t)name_len;
        f->value_len = (uint32_t)value_len;
    }
    return NULL;
}

static const char *check_fields(pTHX_ hf_worker *w, int status, size_t n)
{
    size_t bad;
    const char *why = hf_response_check(status, w->fields, n, &bad);
    if (HF_LIKELY(!why))
        return NULL;
    if (strncmp(why, "the status", 10) == 0)
        return why;
    {
        const hf_field_out *f = &w->fields[bad];
        SV *name = sv_2mortal(newSVpvn(f->name, f->name_len < 80 ? f->name_len : 80));
        char *p;
        for (p = SvPVX(name); p < SvEND(name); p++)
            if (!isPRINT_A(*p)) /* a line of the log stays one line */
                *p = '?';
        return SvPV_nolen(sv_2mortal(newSVpvf("%s (header %s)", why, SvPVX(name))));
    }
}

/* Fills w->parts from a body array and adds up their lengths. */
static const char *gather_parts(pTHX_ hf_worker *w, AV *av, size_t *n, int64_t *total)
{
    SSize_t i, count = AvFILLp(av) + 1;
    SV **sv = AvARRAY(av);
    *n = (size_t)count;
    *total = 0;
    if (HF_UNLIKELY(*n > w->cap_parts)) {
        w->cap_parts = *n + 16;
        Renew(w->parts, w->cap_parts, hf_part);
    }
    for (i = 0; i < count; i++) {
        hf_part *part = &w->parts[i];
        if (HF_UNLIKELY(!sv[i] || !SvOK(sv[i])))
            return "an undefined element in the body";
        if (HF_UNLIKELY(!bytes_of(aTHX_ w, sv[i], &part->bytes, &part->len)))
            return "a wide character in the body (encode it first)";
        part->sv = sv[i];
        *total += (int64_t)part->len;
    }
    return NULL;
}

/* --- sending --- */

/* A scalar that keeps the bytes of a part as they are until they are sent. If nobody else has the array's element, that is
 * the element; otherwise a copy, which shares the bytes when perl can (copy on write). */
static SV *keeper(pTHX_ hf_part *part, bool ours)
{
    SV *sv = part->sv;
    if (ours && SvREFCNT(sv) == 1 && SvPOK(sv) && SvPVX_const(sv) == part->bytes)
        return SvREFCNT_inc(sv);
    sv = hf_share(aTHX_ sv);
    if (SvUTF8(sv))
        sv_utf8_downgrade(sv, TRUE);
    part->bytes = SvPV_const(sv, part->len);
    return sv;
}

/* Ends an answer with the lock held, and lets go of the lock. */
static void end_and_unlock(pTHX_ hf_call *call)
{
    hf_request *r = call->r;
    bool had_client = r->conn != NULL;
    int rc;
    call->r = NULL;
    r->flush_now = call->env && AvFILLp(call->env->cleanup) >= 0;
    rc = hf_response_end(r);
    hf_engine_unlock(call->w->engine);
    if (HF_UNLIKELY(rc && had_client))
        hf_worker_log(aTHX_ call->w, "%s: the body is %s than its Content-Length; %s",
                      hf_env_describe(aTHX_ call->w, call->env), rc < 0 ? "shorter" : "longer",
                      rc < 0 ? "the connection is closed" : "the rest is dropped");
}

void hf_answer_end(pTHX_ hf_call *call)
{
    hf_engine_lock(call->w->engine);
    end_and_unlock(aTHX_ call);
}

static void send_array(pTHX_ hf_call *call, int status, size_t n_fields, size_t n_parts, int64_t total, bool ours)
{
    hf_worker *w = call->w;
    hf_request *r = call->r;
    size_t i;
    hf_engine_lock(w->engine);
    /* A HEAD request's body may have been dropped already by the application: then its length is not known. */
    bool head = r->conn && r->head.method.len == 4 && !total && memcmp(hf_request_base(r), "HEAD", 4) == 0;
    if (HF_LIKELY(hf_response_begin(r, status, w->fields, n_fields, head ? HF_LENGTH_OMIT : total,
                                    total <= HF_SMALL_BODY ? (size_t)total : 0) == 0)) {
        for (i = 0; i < n_parts; i++) {
            hf_part *part = &w->parts[i];
            if (HF_LIKELY(part->len < HF_LARGE_PART)) {
                hf_response_write(r, part->bytes, part->len);
            } else {
                SV *kept = keeper(aTHX_ part, ours);
                hf_response_write_ref(r, part->bytes, part->len, kept);
            }
        }
    }
    end_and_unlock(aTHX_ call);
}

/* --- handles --- */

/* The PerlIO handle behind a body, NULL if it is none. */
static PerlIO *perlio_of(pTHX_ SV *body)
{
    SV *sv = SvROK(body) ? SvRV(body) : body;
    IO *io = NULL;
    if (SvTYPE(sv) == SVt_PVGV && isGV_with_GP(sv))
        io = GvIO((GV *)sv);
    else if (SvTYPE(sv) == SVt_PVIO)
        io = (IO *)sv;
    PERL_UNUSED_CONTEXT;
    return io && !SvRMAGICAL(io) ? IoIFP(io) : NULL;
}

/* Are the bytes that it reads the bytes of its file? */
static bool is_raw(PerlIO *fp)
{
    PerlIO *f;
    for (f = fp; PerlIOValid(f); f = PerlIONext(f)) {
        const char *layer = PerlIOBase(f)->tab->name;
        if (PerlIOBase(f)->flags & (PERLIO_F_UTF8 | PERLIO_F_CRLF))
            return FALSE;
        if (strcmp(layer, "unix") != 0 && strcmp(layer, "perlio") != 0 && strcmp(layer, "stdio") != 0)
            return FALSE;
    }
    return TRUE;
}

static bool can(pTHX_ SV *obj, const char *method)
{
    return sv_isobject(obj) && gv_fetchmethod_autoload(SvSTASH(SvRV(obj)), method, FALSE) != NULL;
}

/* Calls a method without arguments in an eval; its result, to be freed by the caller, or NULL if it died (with *died). */
static SV *call_method_guarded(pTHX_ hf_call *call, SV *obj, const char *method, bool *died)
{
    dSP;
    SV *result = NULL;
    *died = FALSE;
    ENTER;
    SAVETMPS;
    PUSHMARK(SP);
    XPUSHs(obj);
    PUTBACK;
    call_method(method, G_SCALAR | G_EVAL);
    hf_check_process(aTHX_ call->w, call->env);
    SPAGAIN;
    if (HF_UNLIKELY(SvTRUE(ERRSV))) {
        (void)POPs;
        *died = TRUE;
        hf_worker_log(aTHX_ call->w, "%s: %s of the body died: %s", hf_env_describe(aTHX_ call->w, call->env), method,
                      SvPV_nolen(ERRSV));
    } else {
        result = hf_share(aTHX_ POPs);
    }
    PUTBACK;
    FREETMPS;
    LEAVE;
    return result;
}

void hf_answer_close_body(pTHX_ hf_call *call)
{
    SV *body = call->body;
    bool died;
    if (!body)
        return;
    call->body = NULL;
    if (SvTYPE(SvROK(body) ? SvRV(body) : body) == SVt_PVGV && !sv_isobject(body))
        do_close((GV *)(SvROK(body) ? SvRV(body) : body), FALSE);
    else if (can(aTHX_ body, "close"))
        SvREFCNT_dec(call_method_guarded(aTHX_ call, body, "close", &died));
    SvREFCNT_dec(body);
}

/* A file that can be sent without reading it: its descriptor (not ours) and what to send of it. */
typedef struct plain_file {
    int fd;
    int64_t offset;
    int64_t len;
    bool opened; /* the descriptor is ours after all */
} plain_file;

static bool find_file(pTHX_ hf_call *call, SV *body, plain_file *f)
{
    struct stat st;
    PerlIO *fp = perlio_of(aTHX_ body);
    f->fd = -1;
    f->opened = FALSE;
    f->offset = 0;
    if (fp && PerlIO_fileno(fp) >= 0) {
        if (!is_raw(fp))
            return FALSE;
        f->fd = PerlIO_fileno(fp);
        if (PerlIOBase(fp)->flags & PERLIO_F_WRBUF)
            PerlIO_flush(fp);
        /* Not PerlIO_tell(), which does not notice sysseek. */
        f->offset = (int64_t)lseek(f->fd, 0, SEEK_CUR) - (PerlIO_has_cntptr(fp) ? (int64_t)PerlIO_get_cnt(fp) : 0);
    } else if (!fp && can(aTHX_ body, "path")) {
        bool died;
        SV *path = call_method_guarded(aTHX_ call, body, "path", &died);
        if (path && SvOK(path))
            f->fd = open(SvPV_nolen(path), O_RDONLY | O_CLOEXEC);
        SvREFCNT_dec(path);
        f->opened = f->fd >= 0;
    }
    if (f->fd < 0)
        return FALSE;
    if (fstat(f->fd, &st) < 0 || !S_ISREG(st.st_mode) || f->offset < 0) {
        if (f->opened)
            close(f->fd);
        return FALSE;
    }
    f->len = st.st_size > f->offset ? (int64_t)st.st_size - f->offset : 0;
    return TRUE;
}

static void send_file(pTHX_ hf_call *call, int status, size_t n_fields, const plain_file *f)
{
    hf_worker *w = call->w;
    hf_request *r = call->r;
    ssize_t small = -1;
    int fd = -1;
    if (f->len <= HF_SMALL_FILE) {
        small = f->len ? pread(f->fd, w->file_space, (size_t)f->len, (off_t)f->offset) : 0;
    }
    if (small < 0)
        fd = f->opened ? f->fd : fcntl(f->fd, F_DUPFD_CLOEXEC, 0); /* the application may close its own at any time */
    else if (f->opened)
        close(f->fd);
    if (small < 0 && fd < 0) {
        hf_worker_log(aTHX_ w, "%s: cannot send a file: %s", hf_env_describe(aTHX_ w, call->env), strerror(errno));
        hf_answer_fail(aTHX_ call);
        return;
    }
    hf_engine_lock(w->engine);
    if (hf_response_begin(r, status, w->fields, n_fields, small >= 0 ? small : f->len, small >= 0 ? (size_t)small : 0) < 0) {
        if (fd >= 0)
            close(fd);
    } else { /* a Content-Length of the application's own may ask for less than the rest of the file */
        int64_t len = small >= 0 ? small : f->len;
        if (r->length_left >= 0 && r->length_left < len)
            len = r->length_left;
        if (small >= 0)
            hf_response_write(r, w->file_space, (size_t)len);
        else
            hf_response_sendfile(r, fd, f->offset, (size_t)len);
    }
    end_and_unlock(aTHX_ call);
}

/* The next piece of a body that is read: NULL at its end, or when that died. */
static SV *next_piece(pTHX_ hf_call *call, bool *died)
{
    SV *piece;
    GV *rs = gv_fetchpvs("/", GV_ADD, SVt_PV);
    ENTER;
    /* getline reads blocks rather than lines, as servers do by convention (Plack::Util::foreach). By way of $/, so that a
     * getline that is written in Perl sees it too. */
    save_scalar(rs);
    sv_setsv_mg(GvSVn(rs), call->w->pull_size);
    piece = call_method_guarded(aTHX_ call, call->body, "getline", died);
    LEAVE;
    if (piece && !SvOK(piece)) {
        SvREFCNT_dec(piece);
        piece = NULL;
    }
    return piece;
}

void hf_answer_pull(pTHX_ hf_call *call)
{
    hf_worker *w = call->w;
    hf_request *r = call->r;
    const size_t limit = (size_t)w->engine->config.max_write_buffer, ahead = limit < HF_PULL_AHEAD ? limit : HF_PULL_AHEAD;
    bool died = FALSE;
    if (r->no_body) {
        hf_answer_end(aTHX_ call);
        hf_answer_close_body(aTHX_ call);
        return;
    }
    for (;;) {
        const char *bytes;
        STRLEN len;
        int64_t pending;
        bool wide;
        SV *piece = next_piece(aTHX_ call, &died);
        if (!piece)
            break;
        wide = !SvROK(piece) && SvUTF8(piece) && !sv_utf8_downgrade(piece, TRUE);
        if (wide) {
            SvREFCNT_dec(piece);
            hf_worker_log(aTHX_ w, "%s: illegal PSGI response: a wide character in the body (encode it first)",
                          hf_env_describe(aTHX_ w, call->env));
            died = TRUE;
            break;
        }
        bytes = SvPV_const(piece, len);
        hf_engine_lock(w->engine);
        if (len >= HF_LARGE_PART)
            hf_response_write_ref(r, bytes, len, SvREFCNT_inc(piece));
        else
            hf_response_write(r, bytes, len);
        pending = hf_response_flush(r);
        hf_worker_release(aTHX_ w, TRUE);
        if (pending > (int64_t)ahead) {
            call = hf_call_keep(aTHX_ call);
            hf_call_park(aTHX_ call);
            hf_request_notify_writable(r, ahead / 2 + 1);
            hf_engine_unlock(w->engine);
            hf_call_unref(aTHX_ call);
            SvREFCNT_dec(piece);
            return;
        }
        hf_engine_unlock(w->engine);
        SvREFCNT_dec(piece);
        if (pending < 0) /* the client has left: nobody reads the rest */
            break;
    }
    if (died) {
        hf_answer_fail(aTHX_ call);
    } else {
        hf_answer_end(aTHX_ call);
    }
    hf_answer_close_body(aTHX_ call);
}

static bool send_handle(pTHX_ hf_call *call, int status, size_t n_fields, SV *body)
{
    hf_worker *w = call->w;
    plain_file f;
    SV *target = SvROK(body) ? SvRV(body) : body;
    bool is_handle = SvTYPE(target) == SVt_PVGV || SvTYPE(target) == SVt_PVIO;
    if (!is_handle && !can(aTHX_ body, "getline") && !can(aTHX_ body, "path"))
        return reject(aTHX_ call, "the body is neither an array nor a handle");
    call->body = newSVsv(body);
    if (find_file(aTHX_ call, body, &f)) {
        send_file(aTHX_ call, status, n_fields, &f);
        hf_answer_close_body(aTHX_ call);
        return FALSE;
    }
    if (!is_handle && !can(aTHX_ body, "getline")) {
        hf_answer_close_body(aTHX_ call);
        return reject(aTHX_ call, "the file that the body's path names cannot be opened");
    }
    hf_engine_lock(w->engine);
    hf_response_begin(call->r, status, w->fields, n_fields, HF_LENGTH_UNKNOWN, 0);
    hf_engine_unlock(w->engine);
    hf_answer_pull(aTHX_ call);
    return FALSE;
}

bool hf_answer(pTHX_ hf_call *call, SV *answer, bool streaming)
{
    hf_worker *w = call->w;
    AV *av, *headers, *body_av = NULL;
    SV **item, *body = NULL;
    SSize_t count;
    size_t n_fields, n_parts = 0;
    int64_t total = 0;
    int status;
    const char *why;
    bool ours;

    if (HF_UNLIKELY(!SvROK(answer) || SvTYPE(SvRV(answer)) != SVt_PVAV))
        return reject(aTHX_ call, !SvOK(answer) ? "nothing was returned"
                                  : !SvROK(answer) ? "a plain string was returned, not an array or code reference"
                                                   : "what was returned is neither an array nor a code reference");
    av = (AV *)SvRV(answer);
    if (HF_UNLIKELY(SvRMAGICAL(av)))
        return reject(aTHX_ call, "the array is a tied one");
    count = AvFILLp(av) + 1;
    item = AvARRAY(av);
    if (HF_UNLIKELY(count != 3 && !(streaming && count == 2)))
        return reject(aTHX_ call, "the array does not have three elements");
    w->n_numbers = 0;
    status = status_of(aTHX_ item[0]);
    if (HF_UNLIKELY(status < 0))
        return reject(aTHX_ call, "the status is not a number");
    if (HF_UNLIKELY(!item[1] || !SvROK(item[1]) || SvTYPE(SvRV(item[1])) != SVt_PVAV))
        return reject(aTHX_ call, "the headers are not an array reference");
    headers = (AV *)SvRV(item[1]);
    if (count == 3) {
        body = item[2];
        if (HF_UNLIKELY(!body || !SvOK(body)))
            return reject(aTHX_ call, "the body is undefined");
        if (HF_LIKELY(SvROK(body) && SvTYPE(SvRV(body)) == SVt_PVAV && !SvOBJECT(SvRV(body))))
            body_av = (AV *)SvRV(body);
        else if (SvROK(body) && SvTYPE(SvRV(body)) == SVt_PVAV && !can(aTHX_ body, "getline"))
            body_av = (AV *)SvRV(body);
        else if (!SvROK(body) && SvTYPE(body) != SVt_PVGV)
            return reject(aTHX_ call, "the body is a plain string, not an array or a handle");
    }
    ours = SvREFCNT(av) == 1 && body_av && SvREFCNT(body_av) == 1;
    /* Strings first: overloading and ties run Perl code, and what it may do to the arrays must be over before pointers
     * into them are taken. */
    if (HF_UNLIKELY(!all_plain(headers)) && !(headers = flattened(aTHX_ call, headers))) {
        hf_answer_fail(aTHX_ call);
        return FALSE;
    }
    if (HF_UNLIKELY(body_av && !all_plain(body_av)) && !(body_av = flattened(aTHX_ call, body_av))) {
        hf_answer_fail(aTHX_ call);
        return FALSE;
    }
    if (HF_UNLIKELY((why = gather_fields(aTHX_ w, headers, &n_fields)) != NULL))
        return reject(aTHX_ call, why);
    if (HF_UNLIKELY((why = check_fields(aTHX_ w, status, n_fields)) != NULL))
        return reject(aTHX_ call, why);
    if (HF_LIKELY(body_av != NULL)) {
        if (HF_UNLIKELY((why = gather_parts(aTHX_ w, body_av, &n_parts, &total)) != NULL))
            return reject(aTHX_ call, why);
        send_array(aTHX_ call, status, n_fields, n_parts, total, ours);
        return FALSE;
    }
    if (body)
        return send_handle(aTHX_ call, status, n_fields, body);
    hf_engine_lock(w->engine);
    hf_response_begin(call->r, status, w->fields, n_fields, HF_LENGTH_UNKNOWN, 0);
    hf_engine_unlock(w->engine);
    return TRUE;
}
