/* Hydrofoil.xs - the bridge's doors into Perl. */
#include "bridge.h"

#include "../engine/runqueue.h"
#include "../engine/scan.h"

#include <sys/resource.h>

static hf_worker *worker_of(pTHX_ SV *self)
{
    if (!SvROK(self) || !sv_derived_from(self, "Hydrofoil::Engine"))
        croak("Not a Hydrofoil::Engine");
    return INT2PTR(hf_worker *, SvIV(SvRV(self)));
}

MODULE = Hydrofoil    PACKAGE = Hydrofoil

PROTOTYPES: DISABLE

BOOT:
    hf_stream_setup(aTHX);
    hf_worker_setup();

SV *
engine_info()
  CODE:
    {
        HV *hv = newHV();
        (void)hv_stores(hv, "poller", newSVpv(hf_poller_name, 0));
        (void)hv_stores(hv, "scanner", newSVpv(hf_scan_select(HF_SCAN_AVX2)->name, 0));
        RETVAL = newRV_noinc((SV *)hv);
    }
  OUTPUT:
    RETVAL

void
run_queue()
  PPCODE:
    {
        int fds[2];
        if (hf_runqueue_create(fds) < 0)
            croak("Cannot make the run queue: %s", strerror(errno));
        EXTEND(SP, 2);
        mPUSHi(fds[0]);
        mPUSHi(fds[1]);
    }

UV
raise_open_files()
  CODE:
    {
        struct rlimit limit;
        RETVAL = 0;
        if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
            rlim_t before = limit.rlim_cur;
            limit.rlim_cur = limit.rlim_max;
            if (setrlimit(RLIMIT_NOFILE, &limit) < 0)
                limit.rlim_cur = before;
            RETVAL = (UV)limit.rlim_cur;
        }
    }
  OUTPUT:
    RETVAL

MODULE = Hydrofoil    PACKAGE = Hydrofoil::Engine

SV *
new(const char *class, ...)
  CODE:
    {
        HV *options = (HV *)sv_2mortal((SV *)newHV());
        int i;
        if (items % 2 == 0)
            croak("Usage: Hydrofoil::Engine->new(%%options)");
        for (i = 1; i < items; i += 2)
            (void)hv_store_ent(options, ST(i), newSVsv(ST(i + 1)), 0);
        RETVAL = newSV(0);
        sv_setref_pv(RETVAL, class, hf_worker_new(aTHX_ options));
    }
  OUTPUT:
    RETVAL

void
listen(SV *self, int fd, const char *host, const char *port)
  CODE:
    if (hf_engine_listen(worker_of(aTHX_ self)->engine, fd, host, port) < 0)
        croak("Cannot listen on descriptor %d: %s", fd, strerror(errno));

const char *
run(SV *self)
  CODE:
    RETVAL = hf_worker_run(aTHX_ worker_of(aTHX_ self));
  OUTPUT:
    RETVAL

void
stop(SV *self)
  CODE:
    hf_engine_stop(worker_of(aTHX_ self)->engine);

void
drain(SV *self)
  CODE:
    hf_engine_drain(worker_of(aTHX_ self)->engine);

void
leave(SV *self)
  CODE:
    hf_engine_leave(worker_of(aTHX_ self)->engine);

SV *
stats(SV *self)
  CODE:
    {
        hf_engine *e = worker_of(aTHX_ self)->engine;
        HV *hv = newHV();
        (void)hv_stores(hv, "requests", newSVuv((UV)e->n_requests));
        (void)hv_stores(hv, "accepted", newSVuv((UV)e->n_accepted));
        (void)hv_stores(hv, "connections", newSVuv(e->n_conns));
        (void)hv_stores(hv, "moved_in", newSVuv((UV)e->n_moved_in));
        (void)hv_stores(hv, "moved_out", newSVuv((UV)e->n_moved_out));
        RETVAL = newRV_noinc((SV *)hv);
    }
  OUTPUT:
    RETVAL

int
CLONE_SKIP(...)
  CODE:
    PERL_UNUSED_VAR(items);
    RETVAL = 1;
  OUTPUT:
    RETVAL

void
DESTROY(SV *self)
  CODE:
    hf_worker_close(aTHX_ worker_of(aTHX_ self));
