/* methods.c - whose code a class runs: the accelerated methods, or somebody's own. */
#include "methods.h"

#ifndef PadlistARRAY /* before 5.18 a list of pads is an array of arrays */
typedef AV PADNAMELIST;
typedef SV PADNAME;
#define PadlistARRAY(list) ((PAD **)AvARRAY(list))
#define PadlistNAMES(list) ((PADNAMELIST *)AvARRAY(list)[0])
#define PadlistMAX(list) AvFILLp(list)
#define PadnamelistARRAY(names) AvARRAY(names)
#define PadnamelistMAX(names) AvFILLp(names)
#define PadnamePV(name) (SvPOK(name) ? SvPVX(name) : NULL)
#endif

void hf_methods_register(pTHX_ const char *area, const hf_method *methods, unsigned n)
{
    unsigned i;
    for (i = 0; i < n; i++) {
        SV *name = newSVpvf("%s::%s", area, methods[i].name);
        hf_acc_sub(aTHX_ SvPVX(name), methods[i].xsub, (I32)i);
        SvREFCNT_dec_NN(name);
    }
}

hf_generation hf_generation_of(pTHX_ HV *stash)
{
    hf_generation g;
    const struct mro_meta *meta;
    (void)mro_get_linear_isa(stash); /* makes the record if the class has none yet */
    meta = HvAUX(stash)->xhv_mro_meta;
    g.global = PL_sub_generation;
    g.cache = meta->cache_gen;
    g.package = meta->pkg_gen;
    return g;
}

static bool same_generation(hf_generation a, hf_generation b)
{
    return a.global == b.global && a.cache == b.cache && a.package == b.package;
}

U64 hf_methods_look_up(pTHX_ hf_classes *classes, HV *stash, const hf_method *methods, unsigned n)
{
    const char *label = HvNAME(stash);
    hf_class c;
    unsigned i;

    c.stash = stash;
    c.methods = 0;
    if (!label) /* a class without a name */
        return 0;
    c.name = HvNAME_HEK(stash);
    c.generation = hf_generation_of(aTHX_ stash);
    for (i = 0; i < HF_CLASSES; i++) {
        hf_class *k = &classes->kept[i];
        if (k->stash == stash && k->name == c.name && same_generation(k->generation, c.generation)) {
            c = *k; /* to the front, where the next look is */
            classes->kept[i] = classes->kept[0];
            return (classes->kept[0] = c).methods;
        }
    }
    for (i = 0; i < n; i++) {
        GV *gv = gv_fetchmeth_pvn(stash, methods[i].name, strlen(methods[i].name), 0, 0);
        CV *cv = gv && isGV((SV *)gv) ? GvCV(gv) : NULL;
        if (cv && CvISXSUB(cv) && CvXSUB(cv) == methods[i].xsub && CvXSUBANY(cv).any_i32 == (I32)i)
            c.methods |= (U64)1 << i;
    }
    c.generation = hf_generation_of(aTHX_ stash); /* looking may have changed it */
    classes->next = classes->next % (HF_CLASSES - 1) + 1;
    classes->kept[classes->next] = classes->kept[0];
    classes->kept[0] = c;
    return c.methods;
}

bool hf_module_look_up(pTHX_ hf_trust *trust, const hf_module *module)
{
    static const char ours[] = "Hydrofoil::Accelerate::";
    HV *stash = gv_stashpv(module->package, 0);
    HV *inc = GvHVn(PL_incgv);
    SV **file;
    const char *path;
    unsigned i;

    if (!stash || SvMAGICAL(inc))
        return false;
    file = hv_fetch(inc, module->file, (I32)strlen(module->file), 0);
    if (!file || !SvPOK(*file)) /* not loaded yet */
        return false;
    path = SvPV_nolen_const(*file);
    trust->stash = NULL;
    trust->trusted = true;
    for (i = 0; i < C_ARRAY_LENGTH(module->subs) && module->subs[i]; i++) {
        GV *gv = gv_fetchmeth_pvn(stash, module->subs[i], strlen(module->subs[i]), 0, 0);
        CV *cv = gv && isGV((SV *)gv) ? GvCV(gv) : NULL;
        if (!cv || !(CvROOT(cv) || CvXSUB(cv)))
            trust->trusted = false;
        else if (CvISXSUB(cv)) {
            HV *from = CvGV(cv) ? GvSTASH(CvGV(cv)) : NULL;
            const char *name = from ? HvNAME(from) : NULL;
            if (!name || strncmp(name, ours, sizeof ours - 1) != 0)
                trust->trusted = false;
        }
        else if (!CvFILE(cv) || strcmp(CvFILE(cv), path) != 0)
            trust->trusted = false;
    }
    trust->generation = hf_generation_of(aTHX_ stash);
    trust->stash = stash;
    return trust->trusted;
}

SV *hf_closed_over(pTHX_ CV *cv, const char *name)
{
    PADLIST *list = CvISXSUB(cv) ? NULL : CvPADLIST(cv);
    PADNAMELIST *names;
    PAD *pad;
    SSize_t i;
    PERL_UNUSED_CONTEXT;
    if (!list || PadlistMAX(list) < 1)
        return NULL;
    names = PadlistNAMES(list);
    pad = PadlistARRAY(list)[1];
    for (i = 0; i <= (SSize_t)PadnamelistMAX(names) && i <= AvFILLp(pad); i++) {
        PADNAME *pn = PadnamelistARRAY(names)[i];
        if (pn && PadnamePV(pn) && strcmp(PadnamePV(pn), name) == 0)
            return AvARRAY(pad)[i];
    }
    return NULL;
}
