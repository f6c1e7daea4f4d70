/* util.c - in C, what the path of a request takes through Plack::Util, Plack::Component and Plack::Middleware. */
#include "util.h"

#define ORIGINAL(name) do { hf_acc_original(aTHX_ "Plack::Util::" name, ax, items); return; } while (0)

/* --- closures --- */

static const MGVTBL closure_magic;

SV *hf_closure(pTHX_ XSUBADDR_t xsub, SV *kept, I32 ix)
{
    CV *cv = (CV *)newSV_type(SVt_PVCV); /* newXS() would look up a name and a file for it, each time */
    CvISXSUB_on(cv);
    CvANON_on(cv);
    CvXSUB(cv) = xsub;
    CvFILE(cv) = (char *)"toolkit";
    CvXSUBANY(cv).any_i32 = ix;
    (void)sv_magicext((SV *)cv, kept, PERL_MAGIC_ext, &closure_magic, NULL, 0);
    return newRV_noinc((SV *)cv);
}

SV *hf_closed(pTHX_ CV *cv)
{
    for (MAGIC *mg = SvMAGIC((SV *)cv); mg; mg = mg->mg_moremagic)
        if (mg->mg_virtual == &closure_magic)
            return mg->mg_obj;
    PERL_UNUSED_CONTEXT;
    return NULL;
}

/* Puts a value before the arguments of the XSUB that is running. */
static void unshift(pTHX_ SV *first, I32 ax, I32 items)
{
    SV **sp = PL_stack_base + ax - 1 + items;
    EXTEND(sp, 1);
    Move(&ST(0), &ST(1), items, SV *);
    ST(0) = first;
}

/* --- arrays of header names and values --- */

/* An array whose elements can be read where they are, NULL if it is not one. */
static AV *plain_array(SV *rv)
{
    AV *av = SvROK(rv) && !SvGMAGICAL(rv) ? (AV *)SvRV(rv) : NULL;
    return av && SvTYPE(av) == SVt_PVAV && !SvRMAGICAL(av) && !SvREADONLY(av) && !SvOBJECT(av) && AvREAL(av) ? av : NULL;
}

PERL_STATIC_INLINE bool is_name(SV *sv)
{
    return sv && (SvFLAGS(sv) & (SVf_POK | SVf_ROK | SVs_GMG | SVf_UTF8)) == SVf_POK && SvTYPE(sv) < SVt_PVGV;
}

PERL_STATIC_INLINE bool is_same_name(pTHX_ SV *a, SV *b)
{
    return SvCUR(a) == SvCUR(b) && foldEQ(SvPVX_const(a), SvPVX_const(b), (I32)SvCUR(a));
}

/* Headers in which names can be looked for: all names are plain. */
static AV *plain_headers(SV *rv, SV *name)
{
    AV *av = plain_array(rv);
    if (!av || !is_name(name))
        return NULL;
    for (SSize_t i = 0; i <= AvFILLp(av); i += 2)
        if (!is_name(AvARRAY(av)[i]))
            return NULL;
    return av;
}

/* Takes the fields of that name out from index `from` on. */
static void remove_from(pTHX_ AV *av, SSize_t from, SV *name)
{
    SV **list = AvARRAY(av);
    SSize_t n = AvFILLp(av) + 1, to = from;
    AV *gone = NULL; /* freed when the array is whole again: a destructor may look at it */
    for (SSize_t i = from; i < n; i += 2) {
        bool pair = i + 1 < n;
        if (is_same_name(aTHX_ list[i], name)) {
            if (!gone)
                gone = (AV *)sv_2mortal((SV *)newAV());
            av_push(gone, list[i]);
            if (pair && list[i + 1])
                av_push(gone, list[i + 1]);
            continue;
        }
        list[to++] = list[i];
        if (pair)
            list[to++] = list[i + 1];
    }
    AvFILLp(av) = to - 1;
}

static XS(util_header_get)
{
    dXSARGS;
    AV *av = items == 2 ? plain_headers(ST(0), ST(1)) : NULL;
    if (!av)
        ORIGINAL("header_get");
    SV *name = ST(1);
    if (GIMME_V == G_LIST) {
        SP -= items;
        for (SSize_t i = 0; i + 1 <= AvFILLp(av); i += 2)
            if (is_same_name(aTHX_ AvARRAY(av)[i], name))
                XPUSHs(AvARRAY(av)[i + 1] ? hf_mortal_copy(aTHX_ AvARRAY(av)[i + 1]) : &PL_sv_undef);
        PUTBACK;
        return;
    }
    ST(0) = &PL_sv_undef;
    for (SSize_t i = 0; i <= AvFILLp(av); i += 2) {
        if (is_same_name(aTHX_ AvARRAY(av)[i], name)) {
            if (i < AvFILLp(av) && AvARRAY(av)[i + 1])
                ST(0) = hf_mortal_copy(aTHX_ AvARRAY(av)[i + 1]);
            break;
        }
    }
    XSRETURN(1);
}

static XS(util_header_exists)
{
    dXSARGS;
    AV *av = items == 2 ? plain_headers(ST(0), ST(1)) : NULL;
    if (!av)
        ORIGINAL("header_exists");
    SV *name = ST(1);
    ST(0) = &PL_sv_no;
    for (SSize_t i = 0; i <= AvFILLp(av); i += 2) {
        if (is_same_name(aTHX_ AvARRAY(av)[i], name)) {
            ST(0) = sv_2mortal(newSViv(1));
            break;
        }
    }
    XSRETURN(1);
}

static void return_nothing(pTHX_ I32 ax)
{
    if (GIMME_V == G_SCALAR)
        XSRETURN_UNDEF;
    XSRETURN(0);
}

static XS(util_header_set)
{
    dXSARGS;
    AV *av = items == 3 ? plain_headers(ST(0), ST(1)) : NULL;
    SSize_t i, n;
    if (!av || SvGMAGICAL(ST(2)))
        ORIGINAL("header_set");
    n = AvFILLp(av) + 1;
    for (i = 0; i < n && !is_same_name(aTHX_ AvARRAY(av)[i], ST(1)); i += 2)
        ;
    if (i >= n) {
        SV *name = hf_new_copy(aTHX_ ST(1)), *value = hf_new_copy(aTHX_ ST(2));
        av_push(av, name);
        av_push(av, value);
    }
    else {
        SV *name = sv_2mortal(hf_new_copy(aTHX_ ST(1))); /* it may be an element itself */
        SV **svp = av_fetch(av, i + 1, 1);
        if (SvREADONLY(*svp) || SvSMAGICAL(*svp))
            ORIGINAL("header_set");
        hf_assign(aTHX_ *svp, ST(2));
        if (AvFILLp(av) >= i + 2)
            remove_from(aTHX_ av, i + 2, name);
    }
    return_nothing(aTHX_ ax);
}

static XS(util_header_push)
{
    dXSARGS;
    AV *av = items == 3 ? plain_array(ST(0)) : NULL;
    if (!av || SvGMAGICAL(ST(1)) || SvGMAGICAL(ST(2)))
        ORIGINAL("header_push");
    SV *name = hf_new_copy(aTHX_ ST(1)), *value = hf_new_copy(aTHX_ ST(2));
    av_push(av, name);
    av_push(av, value);
    if (GIMME_V == G_VOID)
        XSRETURN(0);
    ST(0) = sv_2mortal(newSViv((IV)AvFILLp(av) + 1));
    XSRETURN(1);
}

static XS(util_header_remove)
{
    dXSARGS;
    AV *av = items == 2 ? plain_headers(ST(0), ST(1)) : NULL;
    if (!av)
        ORIGINAL("header_remove");
    SV *name = sv_2mortal(hf_new_copy(aTHX_ ST(1)));
    remove_from(aTHX_ av, 0, name);
    return_nothing(aTHX_ ax);
}

static XS(util_header_iter)
{
    dXSARGS;
    AV *av = items == 2 && GIMME_V == G_VOID && SvROK(ST(1)) ? plain_array(ST(0)) : NULL;
    if (!av)
        ORIGINAL("header_iter");
    AV *copy = (AV *)sv_2mortal((SV *)newAV());
    SV *code = hf_mortal_copy(aTHX_ ST(1));
    for (SSize_t i = 0; i <= AvFILLp(av); i++)
        av_push(copy, AvARRAY(av)[i] ? hf_new_copy(aTHX_ AvARRAY(av)[i]) : newSV(0));
    if (AvFILLp(copy) % 2 == 0)
        av_push(copy, newSV(0));
    for (SSize_t i = 0; i <= AvFILLp(copy); i += 2) {
        dSP;
        ENTER;
        SAVETMPS;
        PUSHMARK(SP);
        EXTEND(SP, 2);
        PUSHs(AvARRAY(copy)[i]);
        PUSHs(AvARRAY(copy)[i + 1]);
        PUTBACK;
        call_sv(code, G_VOID | G_DISCARD);
        FREETMPS;
        LEAVE;
    }
    XSRETURN(0);
}

/* --- objects made of subs --- */

static const struct {
    const char *method, *function;
} header_methods[] = {
    {"iter", "Plack::Util::header_iter"},     {"get", "Plack::Util::header_get"},
    {"set", "Plack::Util::header_set"},       {"push", "Plack::Util::header_push"},
    {"exists", "Plack::Util::header_exists"}, {"remove", "Plack::Util::header_remove"},
    {"headers", NULL},
};

static XS(headers_method)
{
    dXSARGS;
    dXSI32;
    SV *headers = hf_closed(aTHX_ cv);
    CV *function;
    if (!headers)
        croak("Not a sub of Plack::Util::headers");
    (void)sv_2mortal(SvREFCNT_inc_simple_NN(headers));
    if (!header_methods[ix].function) {
        EXTEND(SP, 1);
        ST(0) = hf_mortal_copy(aTHX_ headers);
        XSRETURN(1);
    }
    function = get_cv(header_methods[ix].function, 0);
    if (!function)
        croak("Undefined subroutine &%s called", header_methods[ix].function);
    unshift(aTHX_ headers, ax, items);
    hf_go(aTHX_ function, ax, items + 1);
}

static XS(util_headers)
{
    dXSARGS;
    HV *stash;
    if (items != 1 || !(stash = gv_stashpvs("Plack::Util::Prototype", 0)))
        ORIGINAL("headers");
    HV *hv = newHV();
    SV *self = sv_2mortal(newRV_noinc((SV *)hv));
    SV *headers = hf_mortal_copy(aTHX_ ST(0));
    for (I32 i = 0; i < (I32)C_ARRAY_LENGTH(header_methods); i++)
        (void)hv_store(hv, header_methods[i].method, (I32)strlen(header_methods[i].method), hf_closure(aTHX_ headers_method, headers, i), 0);
    ST(0) = sv_bless(self, stash);
    XSRETURN(1);
}

static XS(util_inline_object)
{
    dXSARGS;
    HV *stash;
    if (items % 2 || !(stash = gv_stashpvs("Plack::Util::Prototype", 0)))
        ORIGINAL("inline_object");
    for (I32 i = 0; i < items; i++)
        if (SvGMAGICAL(ST(i)) || (i % 2 == 0 && !hf_acc_is_plain(ST(i))))
            ORIGINAL("inline_object");
    HV *hv = newHV();
    SV *self = sv_2mortal(newRV_noinc((SV *)hv));
    for (I32 i = 0; i < items; i += 2)
        (void)hv_store_ent(hv, ST(i), hf_new_copy(aTHX_ ST(i + 1)), 0);
    EXTEND(SP, 1);
    ST(0) = sv_bless(self, stash);
    XSRETURN(1);
}

/* Perl leaves the name of the method that it looked for in the $AUTOLOAD of the package that the sub comes from: ours. */
static XS(prototype_autoload)
{
    dXSARGS;
    SV *wanted = get_sv("Hydrofoil::Accelerate::Util::AUTOLOAD", GV_ADD);
    SV **svp = NULL;
    if (items >= 1 && SvPOK(wanted) && !SvUTF8(wanted) && SvROK(ST(0)) && SvTYPE(SvRV(ST(0))) == SVt_PVHV && !SvRMAGICAL(SvRV(ST(0)))) {
        const char *p = SvPVX_const(wanted), *end = SvEND(wanted), *method = end;
        while (method > p && method[-1] != ':')
            method--;
        svp = hv_fetch((HV *)SvRV(ST(0)), method, (I32)(end - method), 0);
    }
    if (!svp || !SvROK(*svp) || SvTYPE(SvRV(*svp)) != SVt_PVCV || SvOBJECT(SvRV(*svp))) {
        hf_assign(aTHX_ get_sv("Plack::Util::Prototype::AUTOLOAD", GV_ADD), wanted);
        ORIGINAL("Prototype::AUTOLOAD");
    }
    CV *code = (CV *)sv_2mortal(SvREFCNT_inc_simple_NN(SvRV(*svp)));
    (void)sv_2mortal(SvREFCNT_inc_simple_NN(SvRV(ST(0))));
    Move(&ST(1), &ST(0), items - 1, SV *);
    hf_go(aTHX_ code, ax, items - 1);
}

/* --- bodies --- */

bool hf_util_sum(pTHX_ SV *body, UV *length)
{
    AV *av = SvROK(body) && SvTYPE(SvRV(body)) == SVt_PVAV && !SvOBJECT(SvRV(body)) && !SvRMAGICAL(SvRV(body)) ? (AV *)SvRV(body) : NULL;
    UV sum = 0;
    if (!av)
        return false;
    for (SSize_t i = 0; i <= AvFILLp(av); i++) {
        SV *sv = AvARRAY(av)[i];
        if (!sv || !hf_acc_is_plain(sv))
            return false;
        sum += SvPOK(sv) && !SvUTF8(sv) ? SvCUR(sv) : sv_len_utf8(sv);
    }
    *length = sum;
    return true;
}

void hf_util_content_length(pTHX_ CV *cv)
{
    dXSARGS;
    UV length;
    PERL_UNUSED_VAR(cv);
    if (items != 1 || !hf_util_sum(aTHX_ ST(0), &length))
        ORIGINAL("content_length");
    ST(0) = sv_2mortal(newSVuv(length));
    XSRETURN(1);
}

static XS(util_foreach)
{
    dXSARGS;
    if (items != 2 || GIMME_V != G_VOID || !SvROK(ST(1)) || !plain_array(ST(0)))
        ORIGINAL("foreach");
    AV *av = (AV *)sv_2mortal(SvREFCNT_inc_simple_NN(SvRV(ST(0))));
    SV *code = hf_mortal_copy(aTHX_ ST(1));
    for (SSize_t i = 0; i <= av_len(av); i++) {
        SV **svp = av_fetch(av, i, 1);
        STRLEN len;
        if (!svp || !SvOK(*svp))
            continue;
        (void)SvPV_const(*svp, len);
        if (!len)
            continue;
        dSP;
        ENTER;
        SAVETMPS;
        PUSHMARK(SP);
        XPUSHs(*svp);
        PUTBACK;
        call_sv(code, G_VOID | G_DISCARD);
        FREETMPS;
        LEAVE;
    }
    XSRETURN(0);
}

static XS(util_no_entity_body)
{
    dXSARGS;
    if (items != 1 || !SvIOK(ST(0)) || SvROK(ST(0)) || SvGMAGICAL(ST(0)))
        ORIGINAL("status_with_no_entity_body");
    IV status = SvIV(ST(0));
    ST(0) = boolSV(status < 200 || status == 204 || status == 304);
    XSRETURN(1);
}

static void answer_callback(pTHX_ I32 ax, I32 items)
{
    if (items != 2 || !SvROK(ST(1)) || !plain_array(ST(0)))
        ORIGINAL("response_cb"); /* a delayed response */

    SV *answer = hf_mortal_copy(aTHX_ ST(0));
    SV *callback = hf_mortal_copy(aTHX_ ST(1));
    AV *av = (AV *)SvRV(answer);
    SV *filter = hf_acc_call(aTHX_ callback, &answer, 1);

    if (!SvROK(filter) || SvTYPE(SvRV(filter)) != SVt_PVCV || SvOBJECT(SvRV(filter))) {
        ST(0) = answer;
        XSRETURN(1);
    }
    filter = hf_mortal_copy(aTHX_ filter);
    SV **headers = SvRMAGICAL(av) ? NULL : av_fetch(av, 1, 0);
    SV **body = SvRMAGICAL(av) ? NULL : av_fetch(av, 2, 0);
    SV *name = sv_2mortal(newSVpvs("Content-Length"));
    AV *fields = headers ? plain_headers(*headers, name) : NULL;
    AV *lines = body ? plain_array(*body) : NULL;
    if (!fields || (body && SvOK(*body) && !lines)) {
        /* The original does the rest, with a callback that gives it the filter. */
        ST(0) = answer;
        ST(1) = sv_2mortal(newRV_noinc((SV *)newCONSTSUB(NULL, NULL, SvREFCNT_inc_simple_NN(filter))));
        ORIGINAL("response_cb");
    }
    remove_from(aTHX_ fields, 0, name);
    if (lines) {
        (void)sv_2mortal(SvREFCNT_inc_simple_NN((SV *)lines));
        for (SSize_t i = 0; i <= av_len(lines); i++) {
            SV **svp = av_fetch(lines, i, 1);
            SV *line = SvREFCNT_inc_simple_NN(*svp);
            (void)sv_2mortal(line);
            SV *filtered = hf_acc_call(aTHX_ filter, &line, 1);
            sv_setsv_mg(line, filtered);
        }
        SV *end = &PL_sv_undef;
        SV *rest = hf_acc_call(aTHX_ filter, &end, 1);
        if (SvOK(rest)) {
            body = av_fetch(av, 2, 0);
            if (body && SvROK(*body) && SvTYPE(SvRV(*body)) == SVt_PVAV)
                lines = (AV *)SvRV(*body);
            av_push(lines, hf_new_copy(aTHX_ rest));
        }
    }
    ST(0) = answer;
    XSRETURN(1);
}

static XS(util_response_cb)
{
    dXSARGS;
    answer_callback(aTHX_ ax, items);
}

/* --- components --- */

static XS(component_response_cb)
{
    dXSARGS;
    GV *gv = gv_fetchpvs("Plack::Util::response_cb", 0, SVt_PVCV);
    if (items != 3 || !hf_function_is(gv, util_response_cb)) {
        hf_acc_original(aTHX_ "Plack::Component::response_cb", ax, items);
        return;
    }
    ST(0) = ST(1);
    ST(1) = ST(2);
    answer_callback(aTHX_ ax, 2);
}

/* The method `call` of an object, if it is one in C. */
static CV *call_of(pTHX_ SV *self)
{
    HV *stash = SvROK(self) && SvOBJECT(SvRV(self)) ? SvSTASH(SvRV(self)) : NULL;
    GV *gv = stash ? gv_fetchmeth_pvn(stash, "call", 4, 0, 0) : NULL;
    CV *method = gv && isGV_with_GP(gv) ? GvCV(gv) : NULL;
    return method && CvISXSUB(method) ? method : NULL;
}

/* The sub that to_app() gives for a component in C: $self->call(@_). Around a method that is Perl, Perl's own closure is
 * the faster one, and shows in stack traces. */
static XS(component_app)
{
    dXSARGS;
    SV *self = hf_closed(aTHX_ cv);
    if (!self)
        croak("Not a sub of Plack::Component::to_app");
    (void)sv_2mortal(SvREFCNT_inc_simple_NN(self));
    unshift(aTHX_ self, ax, items);
    items++;

    CV *method = call_of(aTHX_ self);
    if (method) {
        hf_go(aTHX_ method, ax, items);
        return;
    }
    PL_stack_sp = PL_stack_base + ax + items - 1;
    PUSHMARK(PL_stack_base + ax - 1);
    call_method("call", GIMME_V);
}

static XS(component_to_app)
{
    dXSARGS;
    if (items != 1 || SvGMAGICAL(ST(0)) || !call_of(aTHX_ ST(0))) {
        hf_acc_original(aTHX_ "Plack::Component::to_app", ax, items);
        return;
    }
    SV *self = hf_mortal_copy(aTHX_ ST(0));
    PUSHMARK(SP);
    XPUSHs(self);
    PUTBACK;
    call_method("prepare_app", G_VOID | G_DISCARD);
    ST(0) = sv_2mortal(hf_closure(aTHX_ component_app, self, 0));
    XSRETURN(1);
}

void hf_acc_boot_util(pTHX)
{
    (void)hf_acc_sub(aTHX_ "Util::header_get", util_header_get, 0);
    (void)hf_acc_sub(aTHX_ "Util::header_set", util_header_set, 0);
    (void)hf_acc_sub(aTHX_ "Util::header_push", util_header_push, 0);
    (void)hf_acc_sub(aTHX_ "Util::header_exists", util_header_exists, 0);
    (void)hf_acc_sub(aTHX_ "Util::header_remove", util_header_remove, 0);
    (void)hf_acc_sub(aTHX_ "Util::header_iter", util_header_iter, 0);
    (void)hf_acc_sub(aTHX_ "Util::headers", util_headers, 0);
    (void)hf_acc_sub(aTHX_ "Util::inline_object", util_inline_object, 0);
    (void)hf_acc_sub(aTHX_ "Util::prototype_autoload", prototype_autoload, 0);
    (void)hf_acc_sub(aTHX_ "Util::content_length", hf_util_content_length, 0);
    (void)hf_acc_sub(aTHX_ "Util::foreach", util_foreach, 0);
    (void)hf_acc_sub(aTHX_ "Util::status_with_no_entity_body", util_no_entity_body, 0);
    (void)hf_acc_sub(aTHX_ "Util::response_cb", util_response_cb, 0);
    (void)hf_acc_sub(aTHX_ "Util::component_response_cb", component_response_cb, 0);
    (void)hf_acc_sub(aTHX_ "Util::component_to_app", component_to_app, 0);
}
