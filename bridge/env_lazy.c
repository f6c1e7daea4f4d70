/* env_lazy.c - values of the environment that are made when they are asked for. */
#include "bridge.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

/* psgix.io and psgix.informational cost more to make than a whole request and few applications look at them. Their values
 * have get magic that makes them. */
static int lazy_io_get(pTHX_ SV *sv, MAGIC *mg);
static int lazy_informational_get(pTHX_ SV *sv, MAGIC *mg);

static int lazy_dup(pTHX_ MAGIC *mg, CLONE_PARAMS *params);

/* The application puts something else there. */
static int lazy_io_set(pTHX_ SV *sv, MAGIC *mg);
static int lazy_informational_set(pTHX_ SV *sv, MAGIC *mg);

static const MGVTBL lazy_io = {lazy_io_get, lazy_io_set, NULL, NULL, NULL, NULL, lazy_dup, NULL};
static const MGVTBL lazy_informational = {lazy_informational_get, lazy_informational_set, NULL, NULL, NULL, NULL, lazy_dup, NULL};

typedef struct lazy_data {
    hf_worker *w;
    hf_env *env;
} lazy_data;

/* The request that it stands for. A copy that a thread of the application got stands for none. */
static hf_request *lazy_request(const lazy_data *d)
{
    return d->env ? d->env->request_of_lazy : NULL;
}

static int lazy_dup(pTHX_ MAGIC *mg, CLONE_PARAMS *params)
{
    PERL_UNUSED_CONTEXT;
    PERL_UNUSED_ARG(params);
    ((lazy_data *)mg->mg_ptr)->env = NULL;
    return 0;
}

static int lazy_set(pTHX_ SV *sv, const MGVTBL *vtbl, SV *value)
{
    sv_unmagicext(sv, PERL_MAGIC_ext, (MGVTBL *)vtbl);
    sv_setsv(sv, value ? value : &PL_sv_undef);
    SvREFCNT_dec(value);
    return 0;
}

static SV *make_io(pTHX_ hf_worker *w, hf_request *r)
{
    dSP;
    SV *io = NULL;
    int fd, family;
    if (hf_in_child(w))
        return NULL;
    hf_engine_lock(w->engine);
    fd = r ? hf_request_expose_io(r) : -1;
    if (fd >= 0) /* the engine's own may be closed, and its number used again, as soon as the lock is free */
        fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    family = r && r->conn ? r->conn->peer.family : 0;
    hf_engine_unlock(w->engine);
    if (fd < 0)
        return NULL;
    ENTER;
    SAVETMPS;
    PUSHMARK(SP);
    EXTEND(SP, 2);
    mPUSHi(fd);
    mPUSHp(family == AF_INET ? "inet" : family == AF_INET6 ? "inet6" : "unix",
           family == AF_INET ? 4 : family == AF_INET6 ? 5 : 4);
    PUTBACK;
    if (call_pv("Hydrofoil::_io_handle", G_SCALAR | G_EVAL) == 1) {
        SPAGAIN;
        io = newSVsv(POPs);
        PUTBACK;
    }
    FREETMPS;
    LEAVE;
    close(fd);
    return io;
}

static int lazy_io_get(pTHX_ SV *sv, MAGIC *mg)
{
    lazy_data *d = (lazy_data *)mg->mg_ptr;
    hf_request *r = lazy_request(d);
    hf_worker *w = d->w;
    return lazy_set(aTHX_ sv, &lazy_io, r ? make_io(aTHX_ w, r) : NULL);
}

static int lazy_informational_get(pTHX_ SV *sv, MAGIC *mg)
{
    lazy_data *d = (lazy_data *)mg->mg_ptr;
    hf_request *r = lazy_request(d);
    return lazy_set(aTHX_ sv, &lazy_informational, r ? hf_stream_informational(aTHX_ d->w, r) : NULL);
}

static int lazy_io_set(pTHX_ SV *sv, MAGIC *mg)
{
    PERL_UNUSED_ARG(mg);
    return sv_unmagicext(sv, PERL_MAGIC_ext, (MGVTBL *)&lazy_io);
}

static int lazy_informational_set(pTHX_ SV *sv, MAGIC *mg)
{
    PERL_UNUSED_ARG(mg);
    return sv_unmagicext(sv, PERL_MAGIC_ext, (MGVTBL *)&lazy_informational);
}

static SV *lazy_new(pTHX_ hf_worker *w, hf_env *env, const MGVTBL *vtbl)
{
    SV *sv = newSV_type(SVt_PVMG);
    lazy_data d;
    d.w = w;
    d.env = env;
    sv_magicext(sv, NULL, PERL_MAGIC_ext, (MGVTBL *)vtbl, (const char *)&d, sizeof(d))->mg_flags |= MGf_DUP;
    return sv;
}

SV *hf_lazy_io_new(pTHX_ hf_worker *w, hf_env *env)
{
    return lazy_new(aTHX_ w, env, &lazy_io);
}

SV *hf_lazy_informational_new(pTHX_ hf_worker *w, hf_env *env)
{
    return lazy_new(aTHX_ w, env, &lazy_informational);
}

static void lazy_free(pTHX_ SV *sv, const MGVTBL *vtbl)
{
    if (SvREFCNT(sv) > 1) /* the application keeps it longer than env lives */
        sv_unmagicext(sv, PERL_MAGIC_ext, (MGVTBL *)vtbl);
    SvREFCNT_dec(sv);
}

void hf_lazy_free(pTHX_ hf_env *env)
{
    lazy_free(aTHX_ env->io, &lazy_io);
    lazy_free(aTHX_ env->informational, &lazy_informational);
}
