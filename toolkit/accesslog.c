/* accesslog.c - Plack::Middleware::AccessLog and Apache::LogFormat::Compiler in C. */
#include "acc.h"

void hf_acc_boot_accesslog(pTHX)
{
    PERL_UNUSED_CONTEXT;
}
