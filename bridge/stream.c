/* stream.c - delayed responses and the streaming writer (PSGI 1.1, "Delayed Response and Streaming Body"), and
 * psgix.informational. */
#include "bridge.h"

#include <errno.h>
#include <poll.h>

/* What a writer dies with when the application goes on after it was told that its client has left. */
#define CLIENT_LEFT "Hydrofoil: the client has left"
#define IN_CHILD "A forked process cannot answer requests: that is the worker's"

/* --- calls --- */

hf_call *hf_call_keep(pTHX_ hf_call *call)
{
    hf_call *kept;
    if (call->kept) {
        call->refs++;
        return call;
    }
    Newx(kept, 1, hf_call);
    *kept = *call;
    kept->kept = TRUE;
    kept->refs = 1;
    kept->w->refs++;
    call->r = NULL; /* nothing is left for the owner of the one on the stack to do */
    call->env = NULL;
    call->body = NULL;
    return kept;
}

void hf_call_unref(pTHX_ hf_call *call)
{
    if (call->kept && --call->refs == 0) {
        hf_worker_unref(aTHX_ call->w);
        Safefree(call);
    }
}

void hf_call_park(pTHX_ hf_call *call)
{
    if (!call->parked) {
        call->parked = TRUE;
        call->refs++;
        call->r->user = call;
    }
    hf_request_suspend(call->r);
}

static void run_cleanup(pTHX_ hf_call *call, hf_env *env, AV *handlers)
{
    SSize_t i;
    for (i = 0; i <= av_len(handlers); i++) {
        SV **handler = av_fetch(handlers, i, 0);
        if (handler && SvOK(*handler)) {
            SV *code = newSVsv(*handler);
            hf_call_guarded(aTHX_ call->w, code, env->rv, "a cleanup handler died", env);
            SvREFCNT_dec(code);
        }
    }
    av_clear(handlers);
}

void hf_call_settle(pTHX_ hf_call *call)
{
    hf_env *env = call->env;
    hf_worker *w = call->w;
    SV *sv;
    bool untouched;
    if (call->r || call->in_app)
        return;
    if (env) {
        call->env = NULL;
        env->request_of_lazy = NULL;
        if (HF_UNLIKELY(AvFILLp(env->cleanup) >= 0))
            run_cleanup(aTHX_ call, env, env->cleanup);
        untouched = hf_env_is_untouched(aTHX_ w, env);
        if (!untouched) { /* the application added something */
            SvREADONLY_off((SV *)env->hv); /* Hash::Util::lock_keys() makes looking for an absent key an exception */
            sv = hf_env_cleanup_handlers(aTHX_ w, env);
            if (sv && SvROK(sv) && SvTYPE(SvRV(sv)) == SVt_PVAV && SvRV(sv) != (SV *)env->cleanup)
                run_cleanup(aTHX_ call, env, (AV *)SvRV(sv));
            sv = hf_env_value(aTHX_ env, "psgix.harakiri.commit");
            if (sv && w->harakiri && SvTRUE(sv)) {
                hf_engine_lock(w->engine);
                hf_engine_begin_drain(w->engine, HF_HARAKIRI);
                hf_engine_unlock(w->engine);
            }
            untouched = hf_env_mend(aTHX_ w, env);
        }
        hf_env_finish(aTHX_ w, env, untouched);
    }
    if (call->parked) {
        call->parked = FALSE;
        hf_call_unref(aTHX_ call);
    }
}

/* --- magic that ties a call or a request to a code reference --- */

/* A thread that the application starts gets copies of all that perl knows. They stand for nothing. */
static int forget(pTHX_ MAGIC *mg, CLONE_PARAMS *params)
{
    PERL_UNUSED_CONTEXT;
    PERL_UNUSED_ARG(params);
    mg->mg_ptr = NULL;
    return 0;
}

static int responder_free(pTHX_ SV *sv, MAGIC *mg);
static const MGVTBL responder_vtbl = {NULL, NULL, NULL, NULL, responder_free, NULL, forget, NULL};

static int informational_free(pTHX_ SV *sv, MAGIC *mg);
static const MGVTBL informational_vtbl = {NULL, NULL, NULL, NULL, informational_free, NULL, forget, NULL};

static void *magic_of(pTHX_ CV *cv, const MGVTBL *vtbl)
{
    MAGIC *mg;
    for (mg = SvMAGIC((SV *)cv); mg; mg = mg->mg_moremagic)
        if (mg->mg_type == PERL_MAGIC_ext && mg->mg_virtual == vtbl)
            return mg->mg_ptr;
    return NULL;
}

static CV *code_with(pTHX_ XSUBADDR_t xsub, const MGVTBL *vtbl, void *ptr)
{
    CV *cv = newXS(NULL, xsub, (char *)__FILE__);
    MAGIC *mg = sv_magicext((SV *)cv, NULL, PERL_MAGIC_ext, (MGVTBL *)vtbl, NULL, 0);
    mg->mg_ptr = (char *)ptr;
    mg->mg_flags |= MGf_DUP;
    return cv;
}

/* --- the responder --- */

static void end_streaming(pTHX_ hf_call *call)
{
    call->streaming = FALSE;
    if (call->r)
        hf_answer_end(aTHX_ call);
}

/* The responder is gone and was never called. */
static void never_answered(pTHX_ hf_call *call)
{
    hf_worker *w = call->w;
    hf_request *r = call->r;
    if (r->io_exposed) { /* the application speaks on psgix.io itself, as WebSocket servers do */
        call->r = NULL;
        hf_engine_lock(w->engine);
        hf_request_detach(r);
        hf_engine_unlock(w->engine);
        return;
    }
    hf_worker_log(aTHX_ w, "%s: illegal PSGI response: the delayed response was never given",
                  hf_env_describe(aTHX_ w, call->env));
    hf_answer_fail(aTHX_ call);
}

static int responder_free(pTHX_ SV *sv, MAGIC *mg)
{
    hf_call *call = (hf_call *)mg->mg_ptr;
    PERL_UNUSED_ARG(sv);
    if (!call || hf_in_child(call->w))
        return 0;
    call->responder_alive = FALSE;
    if (!call->in_app && !call->responded && call->r && !PL_dirty) {
        never_answered(aTHX_ call);
        hf_call_settle(aTHX_ call);
    }
    hf_call_unref(aTHX_ call);
    return 0;
}

XS(XS_Hydrofoil_responder)
{
    dXSARGS;
    hf_call *call = (hf_call *)magic_of(aTHX_ cv, &responder_vtbl);
    bool refused = FALSE;
    if (items != 1)
        croak("Usage: $responder->([ $status, $headers, $body ])");
    if (!call)
        croak("A thread of the application cannot answer requests: that is the worker's");
    if (call->responded)
        croak("The responder was called twice");
    if (hf_in_child(call->w))
        croak(IN_CHILD);
    call->responded = TRUE;
    call->refs++;
    if (hf_answer(aTHX_ call, ST(0), TRUE)) {
        SV *writer = newSV(0);
        call->streaming = TRUE;
        call->refs++;
        sv_setref_pv(writer, "Hydrofoil::Writer", call);
        ST(0) = sv_2mortal(writer);
    } else {
        refused = SvROK(ST(0)) && SvTYPE(SvRV(ST(0))) == SVt_PVAV && av_len((AV *)SvRV(ST(0))) == 1;
        ST(0) = &PL_sv_undef;
    }
    hf_call_settle(aTHX_ call);
    hf_call_unref(aTHX_ call);
    if (refused) /* the application waits for a writer that it will not get; the log has the reason already */
        croak("Hydrofoil: the response was refused");
    XSRETURN(1);
}

void hf_stream_delayed(pTHX_ hf_call *on_stack, SV *code)
{
    hf_call *call = hf_call_keep(aTHX_ on_stack);
    hf_worker *w = call->w;
    SV *responder = newRV_noinc((SV *)code_with(aTHX_ XS_Hydrofoil_responder, &responder_vtbl, call));
    bool ok;
    call->refs++;
    call->responder_alive = TRUE;
    call->in_app = TRUE;
    ok = hf_call_guarded(aTHX_ w, code, responder, NULL, call->env);
    SvREFCNT_dec(responder);
    call->in_app = FALSE;
    if (call->r) {
        if (!ok)
            hf_answer_fail(aTHX_ call);
        else if (!call->responded && !call->responder_alive)
            never_answered(aTHX_ call);
        else if (call->streaming && call->dropped)
            end_streaming(aTHX_ call);
        else if (!call->parked) {
            hf_engine_lock(w->engine);
            hf_call_park(aTHX_ call);
            hf_engine_unlock(w->engine);
        }
    }
    hf_call_settle(aTHX_ call);
    hf_call_unref(aTHX_ call);
}

/* --- the writer --- */

static hf_call *call_of(pTHX_ SV *self)
{
    if (!SvROK(self) || !sv_derived_from(self, "Hydrofoil::Writer"))
        croak("Not a Hydrofoil::Writer");
    return INT2PTR(hf_call *, SvIV(SvRV(self)));
}

/* The reader is slow and enough waits for it: blocks the application, not the others' data, until half of it has gone.
 * With the lock, which is released meanwhile. Returns -1 when the client leaves, or takes nothing for write_timeout. */
static int64_t wait_for_reader(pTHX_ hf_call *call, int64_t pending)
{
    hf_engine *e = call->w->engine;
    hf_request *r = call->r;
    uint64_t progress = hf_monotonic_ms();
    while (pending > (int64_t)(e->config.max_write_buffer / 2)) {
        struct pollfd p;
        int64_t before = pending;
        p.fd = r->conn->fd;
        p.events = POLLOUT;
        hf_engine_unlock(e);
        poll(&p, 1, 500);
        if (PL_sig_pending)
            PERL_ASYNC_CHECK();
        if (hf_in_child(call->w))
            croak(IN_CHILD);
        hf_engine_lock(e);
        pending = hf_response_flush(r);
        if (pending < 0)
            return -1;
        if (e->stop_asked) { /* nobody waits for a slow reader then */
            hf_conn_close(r->conn);
            return -1;
        }
        e->now = hf_monotonic_ms();
        if (pending < before) {
            progress = e->now;
            if (e->running == r)
                e->app_since = e->now; /* it is the client that takes its time, not the application: no --request-timeout */
        } else if (e->config.write_timeout && e->now - progress > e->config.write_timeout) {
            hf_conn_close(r->conn);
            return -1;
        }
    }
    return pending;
}

XS(XS_Hydrofoil_Writer_write)
{
    dXSARGS;
    hf_call *call;
    hf_worker *w;
    hf_request *r;
    const char *bytes;
    STRLEN len;
    int64_t pending;
    SV *data;
    if (items != 2)
        croak("Usage: $writer->write($bytes)");
    call = call_of(aTHX_ ST(0));
    w = call->w;
    r = call->r;
    data = ST(1);
    if (!call->streaming || !r)
        croak("The writer is closed");
    if (hf_in_child(w))
        croak(IN_CHILD);
    SvGETMAGIC(data);
    if (!SvOK(data))
        XSRETURN_YES;
    if (SvUTF8(data)) {
        data = sv_2mortal(newSVsv(data));
        if (!sv_utf8_downgrade(data, TRUE))
            croak("Wide character in $writer->write (encode it first)");
    }
    bytes = SvPV_nomg_const(data, len);
    hf_engine_lock(w->engine);
    if (len >= HF_LARGE_PART && !SvROK(data)) {
        SV *kept = hf_share(aTHX_ data);
        bytes = SvPV_const(kept, len);
        hf_response_write_ref(r, bytes, len, kept);
    } else {
        hf_response_write(r, bytes, len);
    }
    pending = hf_response_flush(r);
    if (HF_UNLIKELY(pending > (int64_t)w->engine->config.max_write_buffer))
        pending = wait_for_reader(aTHX_ call, pending);
    hf_worker_release(aTHX_ w, TRUE);
    hf_engine_unlock(w->engine);
    if (HF_UNLIKELY(pending < 0)) {
        if (call->told_gone)
            croak(CLIENT_LEFT);
        call->told_gone = TRUE;
        errno = EPIPE;
        XSRETURN_NO;
    }
    XSRETURN_YES;
}

XS(XS_Hydrofoil_Writer_close)
{
    dXSARGS;
    hf_call *call;
    if (items != 1)
        croak("Usage: $writer->close");
    call = call_of(aTHX_ ST(0));
    if (hf_in_child(call->w))
        croak(IN_CHILD);
    if (call->streaming) {
        call->refs++;
        end_streaming(aTHX_ call);
        hf_call_settle(aTHX_ call);
        hf_call_unref(aTHX_ call);
    }
    XSRETURN_EMPTY;
}

XS(XS_Hydrofoil_Writer_DESTROY)
{
    dXSARGS;
    hf_call *call;
    PERL_UNUSED_VAR(items);
    call = call_of(aTHX_ ST(0));
    if (hf_in_child(call->w))
        XSRETURN_EMPTY;
    if (call->streaming && call->in_app) { /* thrown away by an exception, or just let go? */
        call->dropped = TRUE;
    } else if (call->streaming && !PL_dirty) {
        end_streaming(aTHX_ call);
        hf_call_settle(aTHX_ call);
    }
    hf_call_unref(aTHX_ call);
    XSRETURN_EMPTY;
}

/* --- psgix.informational --- */

typedef struct informational {
    hf_worker *w;
    hf_request *r;
} informational;

static int informational_free(pTHX_ SV *sv, MAGIC *mg)
{
    informational *i = (informational *)mg->mg_ptr;
    PERL_UNUSED_ARG(sv);
    if (!i || hf_in_child(i->w))
        return 0;
    hf_engine_lock(i->w->engine);
    hf_request_unref(i->r);
    hf_engine_unlock(i->w->engine);
    hf_worker_unref(aTHX_ i->w);
    Safefree(i);
    return 0;
}

XS(XS_Hydrofoil_informational)
{
    dXSARGS;
    informational *self = (informational *)magic_of(aTHX_ cv, &informational_vtbl);
    hf_request *r;
    hf_field_out fields[64];
    size_t n = 0, bad;
    IV status;
    AV *headers;
    SSize_t i;
    int rc;
    if (items != 2 || !SvROK(ST(1)) || SvTYPE(SvRV(ST(1))) != SVt_PVAV)
        croak("Usage: $env->{'psgix.informational'}->($status, \\@headers)");
    status = SvIV(ST(0));
    if (status < 100 || status > 199 || status == 101)
        croak("psgix.informational: %" IVdf " is not an informational status", status);
    headers = (AV *)SvRV(ST(1));
    if (av_len(headers) % 2 == 0 || av_len(headers) >= 128)
        croak("psgix.informational: the header list has an odd number of elements, or too many");
    for (i = 0; i < av_len(headers); i += 2) {
        SV **name = av_fetch(headers, i, 0), **value = av_fetch(headers, i + 1, 0);
        STRLEN len;
        if (!name || !value || !SvOK(*name) || !SvOK(*value))
            croak("psgix.informational: an undefined header name or value");
        fields[n].name = SvPVbyte(*name, len);
        fields[n].name_len = (uint32_t)len;
        fields[n].value = SvPVbyte(*value, len);
        fields[n].value_len = (uint32_t)len;
        n++;
    }
    {
        const char *why = hf_response_check(200, fields, n, &bad);
        if (why)
            croak("psgix.informational: %s", why);
    }
    if (!self || hf_in_child(self->w))
        XSRETURN_NO;
    r = self->r;
    hf_engine_lock(r->engine);
    rc = hf_response_interim(r, (int)status, fields, n);
    hf_engine_unlock(r->engine);
    if (rc == 0)
        XSRETURN_YES;
    XSRETURN_NO;
}

SV *hf_stream_informational(pTHX_ hf_worker *w, hf_request *r)
{
    informational *i;
    Newx(i, 1, informational);
    i->w = w;
    i->r = r;
    w->refs++;
    hf_engine_lock(w->engine);
    hf_request_ref(r);
    hf_engine_unlock(w->engine);
    return newRV_noinc((SV *)code_with(aTHX_ XS_Hydrofoil_informational, &informational_vtbl, i));
}

XS(XS_Hydrofoil_Writer_CLONE_SKIP)
{
    dXSARGS;
    PERL_UNUSED_VAR(items);
    XSRETURN_YES;
}

void hf_stream_setup(pTHX)
{
    newXS("Hydrofoil::Writer::CLONE_SKIP", XS_Hydrofoil_Writer_CLONE_SKIP, __FILE__);
    newXS("Hydrofoil::Writer::write", XS_Hydrofoil_Writer_write, __FILE__);
    newXS("Hydrofoil::Writer::close", XS_Hydrofoil_Writer_close, __FILE__);
    newXS("Hydrofoil::Writer::DESTROY", XS_Hydrofoil_Writer_DESTROY, __FILE__);
}
