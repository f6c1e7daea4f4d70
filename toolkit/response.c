/* response.c - Plack::Response and Plack::Util in C. */
#include "acc.h"

void hf_acc_boot_response(pTHX)
{
    PERL_UNUSED_CONTEXT;
}
