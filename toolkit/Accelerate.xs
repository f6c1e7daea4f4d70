/* Accelerate.xs - loads the parts of the toolkit; each registers its own XSUBs. */
#include "acc.h"

MODULE = Hydrofoil::Accelerate    PACKAGE = Hydrofoil::Accelerate

PROTOTYPES: DISABLE

BOOT:
    hf_acc_boot_urlencoded(aTHX);
    hf_acc_boot_cookie(aTHX);
    hf_acc_boot_multivalue(aTHX);
    hf_acc_boot_request(aTHX);
    hf_acc_boot_headers(aTHX);
    hf_acc_boot_response(aTHX);
    hf_acc_boot_entity(aTHX);
    hf_acc_boot_accesslog(aTHX);
