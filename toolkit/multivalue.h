/* multivalue.h - what Plack::Request in C uses of Hash::MultiValue. */
#ifndef HF_MULTIVALUE_H
#define HF_MULTIVALUE_H

#include "methods.h"

/* Hash::MultiValue->new(@$first, @$second), either may be NULL: a new reference. NULL if the class's methods are not
 * ours, or there is something in the arrays that takes more than copying. */
SV *hf_mv_new(pTHX_ AV *first, AV *second);

/* The same for what hf_acc_parse_urlencoded() makes of the query string `source` with `skip_first`. The object keeps the
 * string, and makes its lists of it if somebody asks for more than elements of the hash. NULL if the methods are not ours. */
SV *hf_mv_new_parsed(pTHX_ SV *source, bool skip_first);

/* Is it an object without keys, as it was made, that nobody else holds? */
bool hf_mv_is_unused(pTHX_ HV *hv);

/* What ->get_all(key) returns, onto the stack from ST(0) on as the running XSUB's result, in the context that it is called
 * in. False, and nothing done, if it takes the method. */
bool hf_mv_get_all(pTHX_ SV *self, SV *key, I32 ax);

#endif
