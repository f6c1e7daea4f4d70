/* input.c - psgi.input: always a real file handle, so that read(), <$fh>, seek(), sysread() on large bodies, and code that
 * hands it to other modules work alike; in memory for small bodies, on the temporary file for large ones. */
#include "bridge.h"

#include <unistd.h>

static SV *handle_on(pTHX_ PerlIO *fp)
{
    GV *gv = (GV *)newSV(0);
    IO *io;
    if (!fp) {
        SvREFCNT_dec(gv);
        return NULL;
    }
    gv_init(gv, gv_stashpvs("Hydrofoil::Input", GV_ADD), "$input", 6, 0);
    io = GvIOn(gv);
    IoTYPE(io) = IoTYPE_RDONLY;
    IoIFP(io) = fp;
    return newRV_noinc((SV *)gv);
}

static PerlIO *open_memory(pTHX_ SV *bytes)
{
    SV *ref = newRV_noinc(bytes);
    PerlIO *fp = PerlIO_openn(aTHX_ NULL, "r", -1, 0, 0, NULL, 1, &ref);
    SvREFCNT_dec(ref);
    return fp;
}

SV *hf_input_new(pTHX_ hf_body *body)
{
    int fd;
    if (body->fd < 0)
        return handle_on(aTHX_ open_memory(aTHX_ newSVpvn(body->mem, body->len)));
    fd = hf_body_take_fd(body);
    lseek(fd, 0, SEEK_SET);
    return handle_on(aTHX_ PerlIO_fdopen(fd, "r"));
}

SV *hf_input_empty(pTHX)
{
    return handle_on(aTHX_ open_memory(aTHX_ newSVpvs("")));
}

bool hf_input_is_usable(pTHX_ SV *rv)
{
    IO *io = GvIO((GV *)SvRV(rv));
    PERL_UNUSED_CONTEXT;
    return io && IoIFP(io) && !SvOBJECT(SvRV(rv));
}
