/* accesslog.c - Apache::LogFormat::Compiler and Plack::Middleware::AccessLog in C.
 *
 * The original compiles a format into Perl. Here it becomes a program besides (accesslog_format.h), and the sub that runs
 * it stands for the original's. That also has the Perl code, and calls it for all that is unusual.
 */
#include "accesslog_format.h"
#include "methods.h"
#include "util.h"

/* --- the sub that stands for a compiled format: (env, answer, length, reqtime, time) --- */

/* Fills a line from the arguments of the original's code. False if it has to be the original. */
static bool line_of(pTHX_ hf_log_line *line, SV **argument, I32 items)
{
    Zero(line, 1, hf_log_line);
    if (items < 2 || items > 5)
        return false;
    line->env_rv = argument[0];
    line->answer = argument[1];
    line->length = items > 2 ? argument[2] : NULL;
    line->reqtime = items > 3 ? argument[3] : NULL;
    if (items < 5) {
        line->time = time(NULL);
        return true;
    }
    if (!hf_acc_is_plain(argument[4]) || !looks_like_number(argument[4])) /* undef is replaced by the time, in place */
        return false;
    NV seconds = SvNV(argument[4]);
    line->time = seconds >= 0 && seconds <= 0x7fffffff ? (time_t)seconds : -1;
    return true;
}

static AV *program_of(pTHX_ CV *cv)
{
    SV *kept = hf_closed(aTHX_ cv);
    return kept && SvTYPE(kept) == SVt_PVAV ? (AV *)kept : NULL;
}

static XS(accesslog_code)
{
    dXSARGS;
    AV *program = program_of(aTHX_ cv);
    hf_log_line line;
    SV *text;
    if (!program)
        croak("Not a compiled format");
    if (line_of(aTHX_ &line, &ST(0), items) && (text = hf_log_write(aTHX_ program, &line))) {
        ST(0) = text;
        XSRETURN(1);
    }
    SV *code = hf_log_code(program);
    PL_stack_sp = PL_stack_base + ax + items - 1;
    PUSHMARK(PL_stack_base + ax - 1);
    call_sv(code, GIMME_V);
}

/* The program of an Apache::LogFormat::Compiler object, NULL if it has none. */
static AV *program_of_compiler(pTHX_ SV *self)
{
    AV *av = SvROK(self) && SvTYPE(SvRV(self)) == SVt_PVAV && !SvRMAGICAL(SvRV(self)) ? (AV *)SvRV(self) : NULL;
    SV *code = av && AvFILLp(av) >= 0 ? AvARRAY(av)[0] : NULL;
    if (!code || !SvROK(code) || SvTYPE(SvRV(code)) != SVt_PVCV || CvXSUB((CV *)SvRV(code)) != accesslog_code)
        return NULL;
    return program_of(aTHX_ (CV *)SvRV(code));
}

static void end_line(pTHX_ SV *text)
{
    sv_catpvs_nomg(text, "\n");
}

static XS(compiler_log_line)
{
    dXSARGS;
    AV *program = items >= 1 ? program_of_compiler(aTHX_ ST(0)) : NULL;
    hf_log_line line;
    SV *text;
    if (program && line_of(aTHX_ &line, &ST(1), items - 1) && (text = hf_log_write(aTHX_ program, &line))) {
        end_line(aTHX_ text);
        ST(0) = text;
        XSRETURN(1);
    }
    hf_acc_original(aTHX_ "Apache::LogFormat::Compiler::log_line", ax, items);
}

static const hf_term compiler_terms[] = {
    {"log_line", compiler_log_line, -1},
    {NULL, NULL, 0}
};

/* compile(FORMAT, block handlers, character handlers): the original's code, and a program around it. An XSUB, for the
 * original's complaints to name the line that they name. */
static XS(compiler_compile)
{
    dXSARGS;
    CV *original = hf_acc_original_cv(aTHX_ "Apache::LogFormat::Compiler::compile");
    CV *translate = get_cv("Hydrofoil::Accelerate::AccessLog::translate", 0);
    AV *arguments = (AV *)sv_2mortal((SV *)newAV());
    if (!original || !translate || items != 3) {
        hf_acc_original(aTHX_ "Apache::LogFormat::Compiler::compile", ax, items);
        return;
    }
    for (I32 i = 0; i < items; i++)
        av_push(arguments, hf_new_copy(aTHX_ ST(i)));

    PUSHMARK(PL_stack_base + ax - 1);
    PL_stack_sp = PL_stack_base + ax + items - 1;
    I32 n = call_sv((SV *)original, G_LIST);
    SPAGAIN;
    if (n != 2)
        croak("Apache::LogFormat::Compiler::compile gives something else");
    SV *text = hf_mortal_copy(aTHX_ POPs);
    SV *code = hf_mortal_copy(aTHX_ POPs);

    PUSHMARK(SP);
    EXTEND(SP, 4);
    PUSHs(code);
    for (I32 i = 0; i < 3; i++)
        PUSHs(AvARRAY(arguments)[i]);
    PUTBACK;
    call_sv((SV *)translate, G_SCALAR);
    SPAGAIN;
    SV *fast = hf_mortal_copy(aTHX_ POPs);
    SP = PL_stack_base + ax - 1;
    EXTEND(SP, 2);
    PUSHs(fast);
    if (GIMME_V == G_LIST)
        PUSHs(text);
    PUTBACK;
}

/* program(CODE, OPS, HANDLERS, ARGUMENT, ...): a sub that runs it, or the code itself if it has to stay. */
static XS(accesslog_program)
{
    dXSARGS;
    if (items < 3)
        croak("Usage: program(code, ops, has_handlers, argument, ...)");
    AV *program = hf_log_program(aTHX_ &ST(0), items);
    if (program) {
        (void)sv_2mortal((SV *)program);
        ST(0) = sv_2mortal(hf_closure(aTHX_ accesslog_code, (SV *)program, 0));
    }
    XSRETURN(1);
}

/* --- Plack::Middleware::AccessLog --- */

enum { LOGGER, FORMAT, COMPILED_FORMAT, CHAR_HANDLERS, BLOCK_HANDLERS, APP, N_FIELDS };
static struct {
    hf_word name;
    const char *original;
} fields[N_FIELDS] = {
#define FIELD(package, name) {{name, sizeof name - 1, 0}, package "::" name}
    FIELD("Plack::Middleware::AccessLog", "logger"),        FIELD("Plack::Middleware::AccessLog", "format"),
    FIELD("Plack::Middleware::AccessLog", "compiled_format"), FIELD("Plack::Middleware::AccessLog", "char_handlers"),
    FIELD("Plack::Middleware::AccessLog", "block_handlers"), FIELD("Plack::Middleware", "app"),
};

/* An accessor of Plack::Util::Accessor. */
static XS(middleware_accessor)
{
    dXSARGS;
    dXSI32;
    HV *hv = items >= 1 && SvROK(ST(0)) && SvTYPE(SvRV(ST(0))) == SVt_PVHV ? (HV *)SvRV(ST(0)) : NULL;
    if (!hv || SvGMAGICAL(ST(0)) || SvRMAGICAL(hv) || SvREADONLY(hv) || items > 2) {
        hf_acc_original(aTHX_ fields[ix].original, ax, items);
        return;
    }
    SV **svp = hv_fetch(hv, fields[ix].name.name, fields[ix].name.len, items == 2);
    if (items == 2) {
        hf_assign(aTHX_ *svp, ST(1));
        if (GIMME_V == G_VOID)
            XSRETURN(0);
    }
    ST(0) = svp ? hf_mortal_copy(aTHX_ *svp) : &PL_sv_undef;
    XSRETURN(1);
}

static XS(middleware_log_line);
static XS(middleware_call);

static const hf_term middleware_terms[] = {
    {"app", middleware_accessor, APP},
    {"logger", middleware_accessor, LOGGER},
    {"compiled_format", middleware_accessor, COMPILED_FORMAT},
    {"log_line", middleware_log_line, -1},
    {NULL, NULL, 0}
};

PERL_STATIC_INLINE SV *field(pTHX_ HV *hv, int which)
{
    SV *sv = hf_word_fetch(aTHX_ hv, &fields[which].name);
    return sv ? sv : &PL_sv_undef;
}

/* The program of the middleware's format, if nothing would notice that no method is called to run it. */
static AV *program_of_middleware(pTHX_ HV *hv)
{
    SV *compiler = field(aTHX_ hv, COMPILED_FORMAT);
    if (!SvROK(compiler) || !SvOBJECT(SvRV(compiler)) || !hf_class_keeps(aTHX_ SvSTASH(SvRV(compiler)), compiler_terms))
        return NULL;
    return program_of_compiler(aTHX_ compiler);
}

PERL_STATIC_INLINE bool is_sub(SV *code)
{
    return SvROK(code) && SvTYPE(SvRV(code)) == SVt_PVCV && (CvROOT((CV *)SvRV(code)) || CvXSUB((CV *)SvRV(code)));
}

/* The same for a format that was compiled before this was loaded, as under plackup: it is compiled again, once. */
static AV *adopted_program(pTHX_ SV *self, HV *hv)
{
    static const MGVTBL adopted;
    SV *compiler = field(aTHX_ hv, COMPILED_FORMAT);
    AV *av = SvROK(compiler) && SvTYPE(SvRV(compiler)) == SVt_PVAV && !SvRMAGICAL(SvRV(compiler)) ? (AV *)SvRV(compiler) : NULL;
    SV *code = av && AvFILLp(av) >= 0 ? AvARRAY(av)[0] : NULL;
    CV *adopt = get_cv("Hydrofoil::Accelerate::AccessLog::adopt", 0);
    if (!adopt || !code || !is_sub(code) || mg_findext(SvRV(code), PERL_MAGIC_ext, &adopted))
        return NULL;
    sv_magicext(SvRV(code), NULL, PERL_MAGIC_ext, &adopted, NULL, 0);

    dSP;
    PUSHMARK(SP);
    XPUSHs(self);
    PUTBACK;
    call_sv((SV *)adopt, G_VOID | G_DISCARD);
    return program_of_middleware(aTHX_ hv);
}

/* log_line(status, headers, env, { content_length, time }) */
static XS(middleware_log_line)
{
    dXSARGS;
    HV *hv = items == 5 ? hf_object_keeping(aTHX_ ST(0), middleware_terms) : NULL;
    AV *program = hv ? program_of_middleware(aTHX_ hv) : NULL;
    HV *options = program && SvROK(ST(4)) ? (HV *)SvRV(ST(4)) : NULL;
    if (options && (SvTYPE(options) != SVt_PVHV || SvRMAGICAL(options)))
        options = NULL;
    if (options && !SvGMAGICAL(ST(1)) && !SvGMAGICAL(ST(2))) {
        hf_log_line line;
        SV **svp, *text;
        Zero(&line, 1, hf_log_line);
        line.status = ST(1);
        line.headers = ST(2);
        line.env_rv = ST(3);
        svp = hv_fetchs(options, "content_length", 0);
        line.length = svp ? *svp : NULL;
        svp = hv_fetchs(options, "time", 0);
        line.reqtime = svp ? *svp : NULL;
        line.time = time(NULL);
        if ((text = hf_log_write(aTHX_ program, &line))) {
            end_line(aTHX_ text);
            ST(0) = text;
            XSRETURN(1);
        }
    }
    hf_acc_original(aTHX_ "Plack::Middleware::AccessLog::log_line", ax, items);
}

/* Can a line be printed to it: a handle, or an object that has the method? */
static bool is_printable_to(pTHX_ SV *to)
{
    if (!to || !SvROK(to) || SvGMAGICAL(to))
        return false;
    if (SvOBJECT(SvRV(to)))
        return gv_fetchmeth_pvn(SvSTASH(SvRV(to)), "print", 5, 0, 0) != NULL;
    return SvTYPE(SvRV(to)) == SVt_PVGV && GvIOp((GV *)SvRV(to));
}

/* After the application: what `call` does with its answer, in Perl. */
static SV *finish_in_perl(pTHX_ SV *self, SV *env, SV *answer)
{
    CV *cv = get_cv("Hydrofoil::Accelerate::AccessLog::finish", 0);
    SV *argument[] = {self, env, answer};
    if (!cv)
        croak("Hydrofoil::Accelerate::AccessLog is not loaded");
    return hf_acc_call(aTHX_ (SV *)cv, argument, C_ARRAY_LENGTH(argument));
}

#define MY_CXT_KEY "Hydrofoil::Accelerate::AccessLog" XS_VERSION
typedef struct {
    PerlInterpreter *owner;
    GV *content_length; /* where the original's code finds Plack::Util::content_length: its place, bound once as there */
} my_cxt_t;
START_MY_CXT

static GV *content_length_gv(pTHX)
{
    dMY_CXT;
    my_cxt_t *c = &MY_CXT;
#ifdef USE_ITHREADS
    if (UNLIKELY(c->owner != HF_INTERPRETER)) { /* a thread that was cloned from another's */
        MY_CXT_CLONE;
        c = &MY_CXT;
        c->owner = HF_INTERPRETER;
        c->content_length = NULL;
    }
#endif
    if (UNLIKELY(!c->content_length))
        c->content_length = (GV *)SvREFCNT_inc(gv_fetchpvs("Plack::Util::content_length", 0, SVt_PVCV));
    return c->content_length;
}

static XS(middleware_call)
{
    dXSARGS;
    HV *hv = items >= 2 ? hf_object_keeping(aTHX_ ST(0), middleware_terms) : NULL;
    SV *app = hv ? field(aTHX_ hv, APP) : NULL;
    if (!app || !is_sub(app) || SvGMAGICAL(ST(1))) {
        hf_acc_original(aTHX_ "Plack::Middleware::AccessLog::call", ax, items);
        return;
    }
    SV *self = hf_mortal_copy(aTHX_ ST(0));
    SV *env = hf_mortal_copy(aTHX_ ST(1));
    SV *answer = hf_acc_call(aTHX_ hf_mortal_copy(aTHX_ app), &env, 1);
    if (!SvTEMP(answer))
        answer = hf_mortal_copy(aTHX_ answer);

    /* The application may have changed anything. */
    hv = hf_object_keeping(aTHX_ self, middleware_terms);
    AV *program = hv ? program_of_middleware(aTHX_ hv) : NULL;
    if (hv && !program)
        program = adopted_program(aTHX_ self, hv);
    SV *logger = program ? field(aTHX_ hv, LOGGER) : NULL;
    GV *length_gv = content_length_gv(aTHX);
    AV *av = SvROK(answer) ? (AV *)SvRV(answer) : NULL;
    if (av && (SvTYPE(av) != SVt_PVAV || SvOBJECT(av) || SvRMAGICAL(av)))
        av = NULL;
    UV length = 0;
    SV *text = NULL, **errors = NULL;
    bool writable = logger && is_sub(logger);
    if (logger && !writable && !SvROK(logger) && !SvTRUE(logger) && SvROK(env) && SvTYPE(SvRV(env)) == SVt_PVHV
        && !SvRMAGICAL(SvRV(env))) {
        errors = hv_fetchs((HV *)SvRV(env), "psgi.errors", 0);
        writable = errors && is_printable_to(aTHX_ *errors);
    }
    if (av && writable && AvFILLp(av) >= 2 && AvARRAY(av)[0] && AvARRAY(av)[1] && AvARRAY(av)[2]
        && hf_function_is(length_gv, hf_util_content_length) && hf_util_sum(aTHX_ AvARRAY(av)[2], &length)) {
        hf_log_line line;
        Zero(&line, 1, hf_log_line);
        line.env_rv = env;
        line.status = AvARRAY(av)[0];
        line.headers = AvARRAY(av)[1];
        line.length = sv_2mortal(newSVuv(length));
        line.time = time(NULL);
        if (!SvGMAGICAL(line.status) && !SvGMAGICAL(line.headers))
            text = hf_log_write(aTHX_ program, &line);
    }
    if (!text) {
        ST(0) = finish_in_perl(aTHX_ self, env, answer);
        XSRETURN(1);
    }
    end_line(aTHX_ text);

    SPAGAIN;
    if (SvROK(logger)) {
        logger = hf_mortal_copy(aTHX_ logger);
        PUSHMARK(SP);
        XPUSHs(text);
        PUTBACK;
        call_sv(logger, G_VOID | G_DISCARD);
    }
    else {
        PUSHMARK(SP);
        EXTEND(SP, 2);
        PUSHs(hf_mortal_copy(aTHX_ *errors));
        PUSHs(text);
        PUTBACK;
        call_method("print", G_VOID | G_DISCARD);
    }
    ST(0) = answer;
    XSRETURN(1);
}

static const hf_sub subs[] = {
    {"program", accesslog_program, 0},
    {"compile", compiler_compile, 0},
    {"compiler_log_line", compiler_log_line, 0},
    {"log_line", middleware_log_line, 0},
    {"call", middleware_call, 0},
    {NULL, NULL, 0}
};

void hf_acc_boot_accesslog(pTHX)
{
    MY_CXT_INIT;
    MY_CXT.owner = HF_INTERPRETER;
    MY_CXT.content_length = NULL;
    hf_log_boot(aTHX);
    hf_acc_subs(aTHX_ "AccessLog", subs);
    for (I32 i = 0; i < N_FIELDS; i++) {
        PERL_HASH(fields[i].name.hash, fields[i].name.name, (STRLEN)fields[i].name.len);
        (void)hf_acc_sub(aTHX_ Perl_form(aTHX_ "AccessLog::%s", fields[i].name.name), middleware_accessor, i);
    }
}
