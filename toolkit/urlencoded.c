/* urlencoded.c - WWW::Form::UrlEncoded in C. */
#include "acc.h"

void hf_acc_boot_urlencoded(pTHX)
{
    PERL_UNUSED_CONTEXT;
}
