/* worker.c - a worker's life: options in, the loop, requests handed to the application. */
#include "bridge.h"

#include "../engine/runqueue.h"
#include "../engine/standby.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

/* --- the log --- */

/* A line as Hydrofoil::Log writes it; by write(2), since the engine's lines come while it holds its lock. */
static void engine_log(void *arg, const char *line)
{
    char stamp[32];
    time_t now = time(NULL);
    struct tm tm;
    STRLEN len = strlen(line);
    (void)arg;
    while (len && line[len - 1] == '\n')
        len--;
    localtime_r(&now, &tm);
    strftime(stamp, sizeof(stamp), "%Y-%m-%d %H:%M:%S", &tm);
    dprintf(2, "%s [%d] %.*s\n", stamp, (int)getpid(), (int)len, line);
}

void hf_worker_log(pTHX_ hf_worker *w, const char *fmt, ...)
{
    SV *line = newSVpvs("");
    va_list ap;
    PERL_UNUSED_ARG(w);
    va_start(ap, fmt);
    sv_vcatpvf(line, fmt, &ap);
    va_end(ap);
    engine_log(NULL, SvPVX(line));
    SvREFCNT_dec(line);
}

/* --- processes that the application forks --- */

static unsigned forks;    /* that this process came out of */
static _Atomic unsigned children; /* that it forked itself */

static void count_fork(void)
{
    forks++;
    children = 0;
}

static void count_child(void)
{
    children++;
}

void hf_worker_setup(void)
{
    static bool once;
    if (!once)
        pthread_atfork(NULL, count_child, count_fork);
    once = TRUE;
}

bool hf_in_child(const hf_worker *w)
{
    return w->forks != forks;
}

/* --- calling the application --- */

/* The text of $@, which may be an object whose overloading dies. */
static const char *error_text(pTHX)
{
    dSP;
    SV *text = &PL_sv_undef;
    if (!SvROK(ERRSV))
        return SvPV_nolen(ERRSV);
    PUSHMARK(SP);
    mXPUSHs(newSVsv(ERRSV));
    PUTBACK;
    if (call_pv("Hydrofoil::_error_text", G_SCALAR | G_EVAL) == 1) {
        SPAGAIN;
        text = POPs;
        PUTBACK;
    }
    return SvOK(text) && !SvROK(text) ? SvPV_nolen(text) : "an exception that cannot be printed";
}

/* The application died: its message goes to the log, unless it is the bridge's own way to stop it. */
static void log_death(pTHX_ hf_worker *w, const char *what, hf_env *env)
{
    const char *text = error_text(aTHX);
    if (strncmp(text, "Hydrofoil: the ", 15) == 0)
        return;
    hf_worker_log(aTHX_ w, "%s: %s%s%s", hf_env_describe(aTHX_ w, env), what ? what : "", what ? ": " : "", text);
}

void hf_end_child(pTHX_ hf_worker *w, hf_env *env)
{
    hf_worker_log(aTHX_ w, "%s: a forked process returned from the application (it should have called exit or exec); it ends",
                  env ? hf_env_describe(aTHX_ w, env) : "between requests");
    _exit(1);
}

bool hf_call_guarded(pTHX_ hf_worker *w, SV *code, SV *arg, const char *what, hf_env *env)
{
    dSP;
    bool ok;
    ENTER;
    SAVETMPS;
    PUSHMARK(SP);
    if (arg)
        XPUSHs(arg);
    PUTBACK;
    call_sv(code, G_VOID | G_DISCARD | G_EVAL);
    ok = !SvTRUE(ERRSV);
    if (!ok)
        log_death(aTHX_ w, what, env);
    hf_check_process(aTHX_ w, env);
    FREETMPS;
    LEAVE;
    return ok;
}

static bool is_code(pTHX_ SV *sv)
{
    return SvROK(sv) && (SvTYPE(SvRV(sv)) == SVt_PVCV ||
                         (SvTYPE(SvRV(sv)) != SVt_PVAV && SvOBJECT(SvRV(sv)) && SvAMAGIC(sv)));
}

/* With the lock. */
static void run_request(pTHX_ hf_worker *w, hf_request *r)
{
    dSP;
    hf_call call;
    SV *answer;
    memset(&call, 0, sizeof(call));
    call.w = w;
    call.r = r;
    call.env = hf_env_build(aTHX_ w, r);
    if (HF_UNLIKELY(!call.env))
        return;
    hf_standby_enter_app(w->engine, r);
    ENTER;
    SAVETMPS;
    PUSHMARK(SP);
    XPUSHs(call.env->rv);
    PUTBACK;
    call_sv(w->app, G_SCALAR | G_EVAL);
    SPAGAIN;
    answer = POPs;
    PUTBACK;
    if (HF_UNLIKELY(SvTRUE(ERRSV)))
        log_death(aTHX_ w, NULL, call.env);
    hf_check_process(aTHX_ w, call.env);
    if (HF_UNLIKELY(SvTRUE(ERRSV))) {
        hf_answer_fail(aTHX_ &call);
    } else if (HF_UNLIKELY(is_code(aTHX_ answer))) {
        hf_stream_delayed(aTHX_ &call, answer);
    } else {
        hf_answer(aTHX_ &call, answer, FALSE);
    }
    FREETMPS;
    LEAVE;
    hf_call_settle(aTHX_ &call);
    hf_standby_leave_app(w->engine);
}

/* A request that is answered later has news. With the lock. */
static void resume(pTHX_ hf_worker *w, hf_request *r, unsigned events)
{
    hf_call *call = (hf_call *)r->user;
    if (!call || !call->parked || call->r != r)
        return;
    hf_standby_enter_app(w->engine, r);
    hf_call_keep(aTHX_ call);
    if (call->body && (events & (HF_REQ_WRITABLE | HF_REQ_GONE)))
        hf_answer_pull(aTHX_ call); /* with the client gone, its first flush says so, and it ends */
    hf_call_settle(aTHX_ call);
    hf_call_unref(aTHX_ call);
    hf_standby_leave_app(w->engine);
}

/* --- the loop --- */

void hf_worker_release(pTHX_ hf_worker *w, bool in_app)
{
    SV *sv;
    while ((sv = (SV *)hf_engine_released(w->engine)) != NULL) {
        if (HF_LIKELY(SvTYPE(sv) < SVt_PVMG)) {
            SvREFCNT_dec_NN(sv);
        } else if (in_app) { /* it may be blessed, and its DESTROY is Perl code */
            hf_engine_unlock(w->engine);
            SvREFCNT_dec_NN(sv);
            hf_engine_lock(w->engine);
        } else {
            hf_standby_enter_app(w->engine, NULL);
            SvREFCNT_dec_NN(sv);
            hf_standby_leave_app(w->engine);
        }
    }
}

static void run_signals(pTHX_ hf_worker *w)
{
    hf_standby_enter_app(w->engine, NULL);
    PERL_ASYNC_CHECK();
    hf_check_process(aTHX_ w, NULL);
    hf_standby_leave_app(w->engine);
}

static void handle_ready(pTHX_ hf_worker *w)
{
    hf_request *r;
    unsigned events;
    while ((r = hf_engine_next(w->engine, &events)) != NULL) {
        if (HF_LIKELY(events & HF_REQ_RUN))
            run_request(aTHX_ w, r);
        else
            resume(aTHX_ w, r, events);
        hf_worker_release(aTHX_ w, FALSE);
        if (HF_UNLIKELY(PL_sig_pending))
            run_signals(aTHX_ w);
        if (HF_UNLIKELY(w->engine->stop_asked))
            return;
    }
}

static const char *const finish_names[] = {"running", "stopped", "drained", "max-requests", "harakiri", "orphaned", "left",
                                           "max-memory"};

/* The supervisor starts a successor now rather than when the last slow client has its answer. */
static void tell_drain(pTHX_ hf_worker *w)
{
    SV *callback = w->on_drain;
    dSP;
    w->on_drain = NULL;
    hf_standby_enter_app(w->engine, NULL);
    ENTER;
    SAVETMPS;
    PUSHMARK(SP);
    mXPUSHp(finish_names[w->engine->finish_as], strlen(finish_names[w->engine->finish_as]));
    PUTBACK;
    call_sv(callback, G_VOID | G_DISCARD | G_EVAL);
    FREETMPS;
    LEAVE;
    SvREFCNT_dec(callback);
    hf_standby_leave_app(w->engine);
}

/* Bytes of this process that are in memory, those shared with others included; 0 where there is no /proc. */
static uint64_t resident_bytes(void)
{
    char text[128];
    unsigned long pages = 0;
    int fd = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, text, sizeof(text) - 1) : -1;
    if (fd >= 0)
        close(fd);
    if (n <= 0)
        return 0;
    text[n] = '\0';
    return sscanf(text, "%*u %lu", &pages) == 1 ? (uint64_t)pages * (uint64_t)sysconf(_SC_PAGESIZE) : 0;
}

/* --max-memory: looked at once a second, between requests. */
static void look_at_memory(hf_worker *w)
{
    hf_engine *e = w->engine;
    if (e->now < w->memory_due)
        return;
    w->memory_due = e->now + 1000;
    if (resident_bytes() > w->max_memory)
        hf_engine_begin_drain(e, HF_MEMORY);
}

const char *hf_worker_run(pTHX_ hf_worker *w)
{
    hf_engine *e = w->engine;
    enum hf_finish why;
    if (w->running)
        croak("The engine is running already");
    w->running = TRUE;
    w->thread = pthread_self();
    if (hf_standby_start(e) < 0)
        croak("Cannot start the standby thread: %s", strerror(errno));
    hf_engine_lock(e);
    while ((why = hf_engine_finished(e)) == HF_RUNNING) {
        hf_engine_poll(e, -1);
        if (HF_UNLIKELY(PL_sig_pending))
            run_signals(aTHX_ w);
        handle_ready(aTHX_ w);
        hf_worker_release(aTHX_ w, FALSE);
        if (HF_UNLIKELY(w->max_memory && !hf_engine_draining(e)))
            look_at_memory(w);
        if (HF_UNLIKELY(w->on_drain && hf_engine_draining(e)))
            tell_drain(aTHX_ w);
    }
    hf_engine_unlock(e);
    hf_standby_stop(e);
    hf_engine_lock(e);
    hf_engine_close_all(e);
    e->stop_asked = 0;
    handle_ready(aTHX_ w); /* those that were answered late are told that their clients are gone */
    hf_worker_release(aTHX_ w, FALSE);
    hf_engine_unlock(e);
    w->running = FALSE;
    return finish_names[why];
}

/* On the standby thread, a second before the end of a stuck call: has Perl's handler of SIGURG, if the application comes to
 * run Perl code at all, write to the log where it is. */
static void ask_for_stack(void *arg)
{
    pthread_kill(((hf_worker *)arg)->thread, SIGURG);
}

/* On the standby thread: has the supervisor start a successor now, in the words of Hydrofoil::Worker's reports. */
static void report_given_up(void *arg)
{
    static const char line[] = "leaving request-timeout\n";
    int fd = ((hf_worker *)arg)->report_fd;
    ssize_t n = fd >= 0 ? write(fd, line, sizeof(line) - 1) : 0;
    (void)n; /* without a supervisor nobody replaces it */
}

/* --- options --- */

static SV *option(pTHX_ HV *o, const char *name)
{
    SV **sv = hv_fetch(o, name, (I32)strlen(name), 0);
    return sv && SvOK(*sv) ? *sv : NULL;
}

static uint32_t option_ms(pTHX_ HV *o, const char *name, uint32_t otherwise)
{
    SV *sv = option(aTHX_ o, name);
    NV seconds = sv ? SvNV(sv) : 0;
    if (!sv)
        return otherwise;
    if (seconds < 0 || seconds > 4000000)
        croak("%s: not a number of seconds from 0 to 4000000", name);
    return seconds > 0 && seconds < 0.001 ? 1 : (uint32_t)(seconds * 1000);
}

static uint64_t option_count(pTHX_ HV *o, const char *name, uint64_t otherwise)
{
    SV *sv = option(aTHX_ o, name);
    if (!sv)
        return otherwise;
    if (SvNV(sv) < 0)
        croak("%s: less than 0", name);
    return (uint64_t)SvUV(sv);
}

static uint32_t option_u32(pTHX_ HV *o, const char *name, uint32_t otherwise)
{
    uint64_t n = option_count(aTHX_ o, name, otherwise);
    if (n > INT32_MAX)
        croak("%s: too large", name);
    return (uint32_t)n;
}

static bool option_flag(pTHX_ HV *o, const char *name, bool otherwise)
{
    SV *sv = option(aTHX_ o, name);
    return sv ? cBOOL(SvTRUE(sv)) : otherwise;
}

hf_worker *hf_worker_new(pTHX_ HV *o)
{
    hf_config c = hf_config_default;
    hf_worker *w;
    SV *app = option(aTHX_ o, "app"), *sv;
    if (!app || !is_code(aTHX_ app))
        croak("app: not a PSGI application (a code reference)");
    c.keepalive = option_flag(aTHX_ o, "keepalive", c.keepalive);
    c.keepalive_timeout = option_ms(aTHX_ o, "keepalive_timeout", c.keepalive_timeout);
    c.header_timeout = option_ms(aTHX_ o, "header_timeout", c.header_timeout);
    c.read_timeout = option_ms(aTHX_ o, "read_timeout", c.read_timeout);
    c.write_timeout = option_ms(aTHX_ o, "write_timeout", c.write_timeout);
    c.shutdown_timeout = option_ms(aTHX_ o, "shutdown_timeout", c.shutdown_timeout);
    c.max_requests = option_count(aTHX_ o, "max_requests", 0);
    c.max_keepalive_requests = option_u32(aTHX_ o, "max_keepalive_requests", 0);
    c.max_body = option_count(aTHX_ o, "max_body", c.max_body);
    c.body_memory = option_u32(aTHX_ o, "body_memory", (uint32_t)c.body_memory);
    c.max_write_buffer = option_count(aTHX_ o, "max_write_buffer", c.max_write_buffer);
    c.limits.max_request_line = option_u32(aTHX_ o, "max_request_line", c.limits.max_request_line);
    c.limits.max_head = option_u32(aTHX_ o, "max_header_size", c.limits.max_head);
    c.limits.max_fields = option_u32(aTHX_ o, "max_header_fields", c.limits.max_fields);
    c.accept_batch = option_u32(aTHX_ o, "accept_batch", c.accept_batch);
    c.parent_pid = (int)option_u32(aTHX_ o, "parent_pid", 0);
    if (hv_exists(o, "server_name", 11)) {
        sv = option(aTHX_ o, "server_name");
        c.server_name = sv && SvCUR(sv) ? SvPV_nolen(sv) : NULL;
    }
    if ((sv = option(aTHX_ o, "tmpdir")))
        c.tmpdir = SvPV_nolen(sv);
    c.log = engine_log;
    c.children = &children;
    c.standby = option_flag(aTHX_ o, "standby", FALSE);
    c.alone = option_flag(aTHX_ o, "alone", FALSE);
    c.workers = option_u32(aTHX_ o, "workers", 1);
    c.standby_grace = option_ms(aTHX_ o, "standby_grace", c.standby_grace);
    c.request_timeout = c.standby ? option_ms(aTHX_ o, "request_timeout", 0) : 0;
    if ((sv = option(aTHX_ o, "run_queue")) && SvROK(sv) && SvTYPE(SvRV(sv)) == SVt_PVAV && av_len((AV *)SvRV(sv)) == 1) {
        c.run_send_fd = (int)SvIV(*av_fetch((AV *)SvRV(sv), 0, 1));
        c.run_receive_fd = (int)SvIV(*av_fetch((AV *)SvRV(sv), 1, 1));
    }

    Newxz(w, 1, hf_worker);
    w->forks = forks;
    w->report_fd = (sv = option(aTHX_ o, "report_fd")) ? (int)SvIV(sv) : -1;
    c.stuck = ask_for_stack;
    c.given_up = report_given_up;
    c.log_arg = w;
    w->engine = hf_engine_create(&c);
    if (!w->engine) {
        Safefree(w);
        croak("Cannot create the engine: %s", strerror(errno));
    }
    w->refs = 1;
    w->app = newSVsv(app);
    sv = option(aTHX_ o, "logger");
    w->logger = sv ? newSVsv(sv) : NULL;
    sv = option(aTHX_ o, "on_drain");
    w->on_drain = sv ? newSVsv(sv) : NULL;
    w->multiprocess = option_flag(aTHX_ o, "multiprocess", FALSE);
    w->multithread = option_flag(aTHX_ o, "multithread", FALSE);
    w->harakiri = option_flag(aTHX_ o, "harakiri", FALSE);
    w->max_memory = option_count(aTHX_ o, "max_memory", 0);
    w->pull_size = newRV_noinc(newSViv(HF_PULL_SIZE));
    Newx(w->file_space, HF_SMALL_FILE, char);
    hf_env_setup(aTHX_ w);
    return w;
}

void hf_worker_close(pTHX_ hf_worker *w)
{
    if (hf_in_child(w)) /* its sockets and its poller are the worker's */
        return;
    hf_standby_stop(w->engine);
    hf_engine_lock(w->engine);
    if (w->running) { /* the application called exit: its client gets an answer, the others another worker */
        hf_request *r = w->engine->running;
        if (r && r->conn && !r->begun)
            hf_conn_refuse(r->conn, 500);
        hf_standby_evacuate(w->engine);
    }
    hf_engine_close_all(w->engine);
    handle_ready(aTHX_ w);
    hf_worker_release(aTHX_ w, FALSE);
    hf_engine_unlock(w->engine);
    hf_worker_unref(aTHX_ w);
}

void hf_worker_unref(pTHX_ hf_worker *w)
{
    if (--w->refs)
        return;
    hf_env_teardown(aTHX_ w);
    hf_engine_destroy(w->engine);
    SvREFCNT_dec(w->app);
    SvREFCNT_dec(w->logger);
    SvREFCNT_dec(w->on_drain);
    SvREFCNT_dec(w->pull_size);
    Safefree(w->fields);
    Safefree(w->parts);
    Safefree(w->file_space);
    Safefree(w);
}
