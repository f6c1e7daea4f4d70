/* request_parameters.c - Plack::Request in C: parameters of the query string and of the body, and uploads, by name. */
#include "multivalue.h"
#include "request.h"

#define MY_CXT_KEY "Hydrofoil::Accelerate::Request::_parameters"
typedef struct {
    GV *parse;       /* of the function that is called by name */
    bool skip_first; /* how hf_acc_parse_urlencoded() does the same, if it is ours */
} my_cxt_t;
START_MY_CXT

/* --- lists of names and values --- */

/* A sub of the toolkit needs no call: it does not look at where it is called from. */
static bool is_ours(pTHX_ CV *cv)
{
    const HV *stash = CvISXSUB(cv) && CvGV(cv) ? GvSTASH(CvGV(cv)) : NULL;
    const char *name = stash ? HvNAME(stash) : NULL;
    return name && strEQ(name, "Hydrofoil::Accelerate::UrlEncoded");
}

/* A value of the environment that is parsed when somebody looks at it. Few do: parameters are asked for by name. */
static int unparsed_get(pTHX_ SV *sv, MAGIC *mg);
static int unparsed_set(pTHX_ SV *sv, MAGIC *mg);
static const MGVTBL unparsed = {unparsed_get, unparsed_set, NULL, NULL, NULL, NULL, NULL, NULL};

static int unparsed_get(pTHX_ SV *sv, MAGIC *mg)
{
    const SV *source = mg->mg_obj;
    AV *av = newAV();
    SV *list = sv_2mortal(newRV_noinc((SV *)av));
    hf_acc_parse_urlencoded(aTHX_ av, SvPVX_const(source), SvCUR(source), mg->mg_private != 0);
    sv_unmagicext(sv, PERL_MAGIC_ext, (MGVTBL *)&unparsed);
    sv_setsv(sv, list);
    return 0;
}

/* Somebody has put something else there. */
static int unparsed_set(pTHX_ SV *sv, MAGIC *mg)
{
    PERL_UNUSED_ARG(mg);
    sv_unmagicext(sv, PERL_MAGIC_ext, (MGVTBL *)&unparsed);
    return 0;
}

/* The query string, if parsing it calls nothing but ours, and nothing has been made of it yet: borrowed; or NULL. */
static SV *unparsed_query(pTHX_ const hf_request *r)
{
    dMY_CXT;
    SV *query;
    if (!(r->ours & BIT(QUERY_LIST)) || hf_word_fetch(aTHX_ r->env, KEY(QUERY_LIST)))
        return NULL;
    query = hf_word_fetch(aTHX_ r->env, KEY(QUERY_STRING));
    return query && is_ours(aTHX_ GvCV(MY_CXT.parse)) && hf_acc_is_plain(query) && SvPOK(query) && !SvUTF8(query) ? query : NULL;
}

/* Keeps the list of what is in the query string, as such a value. Returns the string as it is now, borrowed. */
static SV *keep_unparsed(pTHX_ const hf_request *r, SV *query)
{
    dMY_CXT;
    SV *sv = newSV_type(SVt_PVMG), *source = hf_copy(aTHX_ query);
    sv_magicext(sv, source, PERL_MAGIC_ext, &unparsed, NULL, 0)->mg_private = MY_CXT.skip_first;
    SvREFCNT_dec_NN(source); /* the magic holds it */
    hf_word_store(aTHX_ r->env, KEY(QUERY_LIST), sv);
    return source;
}

/* $self->_query_parameters, borrowed or mortal. */
static SV *query_list(pTHX_ const hf_request *r)
{
    dMY_CXT;
    SV *query, *slot;
    if (!(r->ours & BIT(QUERY_LIST)))
        return hf_call_method(aTHX_ r->self, "_query_parameters", NULL, NULL);
    query = unparsed_query(aTHX_ r);
    if (query)
        (void)keep_unparsed(aTHX_ r, query);
    slot = hf_word_lvalue(aTHX_ r->env, KEY(QUERY_LIST));
    if (SvTRUE(slot))
        return slot;
    sv_2mortal(SvREFCNT_inc_simple_NN(slot));
    query = hf_word_fetch(aTHX_ r->env, KEY(QUERY_STRING));
    if (!query)
        query = sv_newmortal();
    hf_fill_slot(aTHX_ slot, newSVsv(hf_acc_call(aTHX_ (SV *)GvCV(MY_CXT.parse), &query, 1)));
    return slot;
}

/* $self->_body_parameters, borrowed or mortal */
static SV *body_list(pTHX_ const hf_request *r)
{
    SV *list;
    if (!(r->ours & BIT(BODY_LIST)))
        return hf_call_method(aTHX_ r->self, "_body_parameters", NULL, NULL);
    if ((list = hf_true_value(aTHX_ r->env, KEY(BODY_LIST))))
        return list;
    hf_request_parse(aTHX_ r);
    list = hf_word_fetch(aTHX_ r->env, KEY(BODY_LIST));
    return list ? list : &PL_sv_undef;
}

static bool can_parse(pTHX)
{
    dMY_CXT;
    return MY_CXT.parse && GvCV(MY_CXT.parse);
}

void hf_request_query_list(pTHX_ CV *cv)
{
    dXSARGS;
    hf_request r;
    if (!items || !can_parse(aTHX) || !hf_request_of(aTHX_ &r, ST(0), BIT(QUERY_LIST)))
        ORIGINAL("_query_parameters");
    hf_request_hold(aTHX_ &r);
    ST(0) = sv_mortalcopy(query_list(aTHX_ &r));
    XSRETURN(1);
}

void hf_request_body_list(pTHX_ CV *cv)
{
    dXSARGS;
    hf_request r;
    if (!items || !hf_request_of(aTHX_ &r, ST(0), BIT(BODY_LIST)))
        ORIGINAL("_body_parameters");
    hf_request_hold(aTHX_ &r);
    ST(0) = sv_mortalcopy(body_list(aTHX_ &r));
    XSRETURN(1);
}

/* --- objects of parameters and uploads --- */

/* The parameters that the environment keeps under a key, or those from one list or two. Borrowed. NULL if it takes the
 * original, which starts from what has been parsed by then. */
static SV *kept_parameters(pTHX_ const hf_request *r, const hf_word *where, bool query, bool body)
{
    SV *slot = hf_word_lvalue(aTHX_ r->env, where), *sv = NULL, *source = NULL;
    AV *first = NULL, *second = NULL;
    dMY_CXT;
    if (SvTRUE(slot))
        return slot;
    if (!can_parse(aTHX))
        return NULL;
    hf_request_hold(aTHX_ r);
    sv_2mortal(SvREFCNT_inc_simple_NN(slot));
    if (query && (!body || (r->ours & BIT(BODY_LIST) && r->ours & BIT(PARSE_BODY))) && (source = unparsed_query(aTHX_ r)))
        source = keep_unparsed(aTHX_ r, source);
    else if (query && !(first = hf_plain_array(aTHX_ query_list(aTHX_ r))))
        return NULL;
    if (body) {
        sv_2mortal(SvREFCNT_inc_simple(source ? source : (SV *)first));
        if (!(second = hf_plain_array(aTHX_ body_list(aTHX_ r))))
            return NULL;
        /* no body: that took no call of others either, and the string is still what the list will be made of */
        if (source && !hf_request_is_no_list(aTHX_ second)) {
            source = NULL;
            if (!(first = hf_plain_array(aTHX_ query_list(aTHX_ r))))
                return NULL;
        }
    }
    if (source)
        sv = hf_mv_new_parsed(aTHX_ source, MY_CXT.skip_first);
    if (!sv) {
        if (query && !first && !(first = hf_plain_array(aTHX_ query_list(aTHX_ r))))
            return NULL;
        sv = hf_mv_new(aTHX_ first, second);
    }
    if (!sv)
        return NULL;
    hf_fill_slot(aTHX_ slot, sv);
    return slot;
}

void hf_request_query_parameters(pTHX_ CV *cv)
{
    dXSARGS;
    hf_request r;
    SV *sv;
    if (!items || !hf_request_of(aTHX_ &r, ST(0), 0) || !(sv = kept_parameters(aTHX_ &r, KEY(QUERY_PARAMETERS), true, false)))
        ORIGINAL("query_parameters");
    ST(0) = sv_mortalcopy(sv);
    XSRETURN(1);
}

void hf_request_body_parameters(pTHX_ CV *cv)
{
    dXSARGS;
    hf_request r;
    SV *sv;
    if (!items || !hf_request_of(aTHX_ &r, ST(0), 0) || !(sv = kept_parameters(aTHX_ &r, KEY(BODY_PARAMETERS), false, true)))
        ORIGINAL("body_parameters");
    ST(0) = sv_mortalcopy(sv);
    XSRETURN(1);
}

void hf_request_parameters(pTHX_ CV *cv)
{
    dXSARGS;
    hf_request r;
    SV *sv;
    if (!items || !hf_request_of(aTHX_ &r, ST(0), 0) || !(sv = kept_parameters(aTHX_ &r, KEY(PARAMETERS), true, true)))
        ORIGINAL("parameters");
    ST(0) = sv_mortalcopy(sv);
    XSRETURN(1);
}

/* $self->uploads, borrowed */
static SV *kept_uploads(pTHX_ const hf_request *r)
{
    SV *sv = hf_true_value(aTHX_ r->env, KEY(UPLOADS));
    if (sv)
        return sv;
    hf_request_parse(aTHX_ r);
    sv = hf_word_fetch(aTHX_ r->env, KEY(UPLOADS));
    return sv ? sv : &PL_sv_undef;
}

void hf_request_uploads(pTHX_ CV *cv)
{
    dXSARGS;
    hf_request r;
    if (!items || !hf_request_of(aTHX_ &r, ST(0), 0))
        ORIGINAL("uploads");
    hf_request_hold(aTHX_ &r);
    ST(0) = sv_mortalcopy(kept_uploads(aTHX_ &r));
    XSRETURN(1);
}

/* --- by name --- */

/* keys of a hash, or the value or values of a key, as the running XSUB's result. False if it takes the original. */
static bool look_up(pTHX_ SV *multivalue, I32 ax, I32 items)
{
    HV *hv = hf_plain_hash(aTHX_ multivalue);
    const U8 gimme = GIMME_V;
    if (!hv)
        return false;
    if (items == 1) {
        SV **sp = PL_stack_base + ax - 1;
        (void)hv_iterinit(hv);
        if (gimme == G_ARRAY) {
            HE *he;
            EXTEND(sp, (SSize_t)HvUSEDKEYS(hv));
            while ((he = hv_iternext(hv)))
                PUSHs(hv_iterkeysv(he));
        }
        else if (gimme == G_SCALAR)
            XPUSHs(sv_2mortal(newSViv((IV)HvUSEDKEYS(hv))));
        PL_stack_sp = sp;
        return true;
    }
    if (gimme == G_ARRAY)
        return hf_mv_get_all(aTHX_ multivalue, ST(1), ax);
    if (!hf_acc_is_plain(ST(1)))
        return false;
    {
        HE *he = hv_fetch_ent(hv, ST(1), 0, 0);
        ST(0) = hf_or_undef(aTHX_ he ? HeVAL(he) : NULL);
        PL_stack_sp = PL_stack_base + ax;
    }
    return true;
}

void hf_request_param(pTHX_ CV *cv)
{
    dXSARGS;
    hf_request r;
    SV *sv;
    if (!items || !hf_request_of(aTHX_ &r, ST(0), BIT(PARAMETERS))
        || !(sv = kept_parameters(aTHX_ &r, KEY(PARAMETERS), true, true)) || !look_up(aTHX_ sv, ax, items))
        ORIGINAL("param");
}

void hf_request_upload(pTHX_ CV *cv)
{
    dXSARGS;
    hf_request r;
    if (!items || !hf_request_of(aTHX_ &r, ST(0), BIT(UPLOADS)))
        ORIGINAL("upload");
    hf_request_hold(aTHX_ &r);
    if (!look_up(aTHX_ kept_uploads(aTHX_ &r), ax, items))
        ORIGINAL("upload");
}

/* --- setting up --- */

/* The two originals of the parser differ in a space at the very beginning. */
static bool skips_first(pTHX_ CV *parse)
{
    dSP;
    bool skips = false;
    if (!parse)
        return false;
    ENTER;
    SAVETMPS;
    PUSHMARK(SP);
    mXPUSHp(" a", 2);
    PUTBACK;
    if (call_sv((SV *)parse, G_SCALAR | G_EVAL) == 1) {
        SV *rv, **name;
        SPAGAIN;
        rv = POPs;
        PUTBACK;
        name = SvROK(rv) && SvTYPE(SvRV(rv)) == SVt_PVAV ? av_fetch((AV *)SvRV(rv), 0, 0) : NULL;
        skips = name && strEQ(SvPV_nolen_const(*name), "a");
    }
    FREETMPS;
    LEAVE;
    return skips;
}

static void find_parser(pTHX)
{
    dMY_CXT;
    MY_CXT.parse = hf_request_glob(aTHX_ "Plack::Request::parse_urlencoded_arrayref", SVt_PVCV);
    MY_CXT.skip_first = MY_CXT.parse && skips_first(aTHX_ GvCV(MY_CXT.parse));
}

void hf_request_parameters_on(pTHX)
{
    dMY_CXT;
    SvREFCNT_dec((SV *)MY_CXT.parse);
    find_parser(aTHX);
}

void hf_request_parameters_clone(pTHX)
{
    MY_CXT_CLONE;
    find_parser(aTHX);
}

void hf_acc_boot_request_parameters(pTHX)
{
    MY_CXT_INIT;
    Zero(&MY_CXT, 1, my_cxt_t);
}
