/* SPDX-License-Identifier: Apache-2.0 */
/* Runs a problem on a backend, whole or cut into calls, with canaries around every output, and
 * compares results. */
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "backend/cpu/cpu_backend.h"
#include "kernels/kernel_tests.h"

enum { GUARD = 96 }; /* elements on each side, more than the widest vector or tile */
static const float canary = -0x1.64p112f; /* the same value in BF16 */

/* ---- device memory ---- */

static dev allocate(struct run *r, enum element kind, size_t elements)
{
    ey_err e = {0};
    dev p = r->be->ops->memory->alloc(
        r->be, (elements ? elements : 1) * r->be->ops->memory->element_size[kind], &e);
    if (!p || r->n == RUN_BUFFERS) {
        printf("%s\n", e.text);
        exit(2);
    }
    r->kind[r->n] = kind;
    r->buffer[r->n++] = p;
    return p;
}

dev run_input(struct run *r, enum element kind, const float *x, size_t n)
{
    dev p = allocate(r, kind, n);
    r->be->ops->memory->write(r->be, p, x, kind, n);
    return p;
}

dev run_output(struct run *r, enum element kind, size_t n)
{
    dev p = allocate(r, kind, n + 2 * GUARD);
    float *values = malloc((n + 2 * GUARD) * sizeof(float));
    for (size_t i = 0; i < n + 2 * GUARD; i++)
        values[i] = canary;
    r->be->ops->memory->write(r->be, p, values, kind, n + 2 * GUARD);
    free(values);
    r->guarded[r->n - 1] = n;
    return r->be->ops->memory->at(r->be, p, kind, GUARD);
}

dev run_at(const struct run *r, dev p, enum element kind, int row, int width)
{
    return r->be->ops->memory->at(r->be, p, kind, (size_t)row * (size_t)width);
}

static void fetch(struct run *r, float *out, enum element kind)
{
    r->be->ops->memory->read(r->be, out, r->out, kind, (size_t)r->p->n * (size_t)r->p->out_width);
}

void run_fetch_residual(struct run *r, float *out)
{
    fetch(r, out, ELEMENT_RESIDUAL);
}

void run_fetch_activation(struct run *r, float *out)
{
    fetch(r, out, ELEMENT_ACTIVATION);
}

void run_fetch_rope(struct run *r, float *out)
{
    fetch(r, out, ELEMENT_ROPE);
}

void run_fetch_feature(struct run *r, float *out)
{
    fetch(r, out, ELEMENT_FEATURE);
}

static bool canaries_live(struct run *r, int i)
{
    float sides[2 * GUARD], expected = canary;
    enum element kind = r->kind[i];
    if (!r->guarded[i]) return true;
    r->be->ops->memory->read(r->be, sides, r->buffer[i], kind, GUARD);
    r->be->ops->memory->read(
        r->be, sides + GUARD,
        r->be->ops->memory->at(r->be, r->buffer[i], kind, GUARD + r->guarded[i]), kind, GUARD);
    for (int j = 0; j < 2 * GUARD; j++)
        if (memcmp(&sides[j], &expected, sizeof(float)) != 0) return false;
    return true;
}

static bool multiplies_image(const struct problem *p)
{
    const struct op *op = p->c->op;
    return op == &op_patch_embed || op == &op_vision_qkv || op == &op_vision_mlp ||
           op == &op_merge || (op == &op_project_add && p->c->other);
}

static struct placed *place(struct run *r, const struct tensor *in)
{
    const enum weight_role role = multiplies_image(r->p) ? ROLE_VISION
                                  : r->p->needs_f32      ? ROLE_ATTENTION
                                                         : ROLE_TEXT;
    struct placed *out = NULL;
    ey_err e = {0};
    if (in->data && !r->be->ops->memory->place(r->be, &out, in, role, PLACE_RESIDENT, &e)) {
        printf("%s\n", e.text);
        exit(2);
    }
    return out;
}

static struct cpu_matrix *fp8_on_cpu(const struct run *r, int i)
{
    const bool is_cpu = strcmp(r->be->ops->name, "cpu") == 0;
    return is_cpu && r->p->int16[i] ? &cpu_weight_of(r->w[i])->m : NULL;
}

void run_start(struct run *r, struct backend *be, const struct problem *p)
{
    ey_err e = {0};
    *r = (struct run){.be = be, .p = p};
    for (int i = 0; i < 4; i++) {
        r->w[i] = place(r, &p->w[i]);
        struct cpu_matrix *m = fp8_on_cpu(r, i);
        if (m) m->int16 = *p->int16[i];
    }
    for (int i = 0; i < 6; i++)
        r->v[i] = place(r, &p->v[i]);
    if (!be->ops->memory->reserve(be, &p->limits, &e)) {
        printf("%s\n", e.text);
        exit(2);
    }
    p->c->op->begin(r);
}

bool run_stop(struct run *r)
{
    bool live = true;
    for (int i = 0; i < 4; i++) {
        const struct cpu_matrix *m = fp8_on_cpu(r, i);
        if (m) *r->p->int16[i] = m->int16;
    }
    for (int i = 0; i < r->n; i++) {
        live = canaries_live(r, i) && live;
        r->be->ops->memory->release(r->be, r->buffer[i]);
    }
    return live;
}

/* ---- cuts of a problem ---- */

/* Runs odd pieces first, then even ones, so that a call's overrun is overwritten by a neighbour or
 * overwrites one. */
static void call_pieces(struct run *r, const struct cut *cut, int parity)
{
    const struct problem *p = r->p;
    for (int first = 0, i = 0, n; first < p->n; first += n, i++) {
        n = cut->n_sizes ? cut->sizes[i % cut->n_sizes] * p->unit : p->n;
        if (n > p->n - first) n = p->n - first;
        if (i % 2 == parity) p->c->op->call(r, first, n);
    }
}

bool run_all(float *out, struct backend *be, const struct problem *p, const struct cut *cut)
{
    struct run r;
    ey_err e = {0};
    run_start(&r, be, p);
    call_pieces(&r, cut, 1);
    call_pieces(&r, cut, 0);
    bool ok = be->ops->compute->finish(be, &e);
    p->c->op->fetch(&r, out);
    return run_stop(&r) && ok;
}

/* ---- bounds ---- */

/* Counts the FP8 matrices whose eligibility for int16 is known and equals `yes`. */
static int matrices_in_int16(const struct problem *p, bool yes)
{
    int n = 0;
    for (size_t i = 0; i < sizeof(p->w) / sizeof(p->w[0]); i++)
        n += p->int16[i] && *p->int16[i] != CPU_INT16_UNKNOWN &&
             (*p->int16[i] != CPU_INT16_NO) == yes;
    return n;
}

bool case_in_int16_groups(const struct test_case *c, const struct cpu_kernels *k)
{
    if (!k->blocks) return false;
    switch (c->dtype) {
#define IN_INT16(id) case DTYPE_##id:
        FOR_CPU_BLOCK_TYPES(IN_INT16) return true;
    default: return false;
    }
}

/* Bound of the error's power, relative to the result's.
 * F32: sums in another order with at most K/4 additions, each off by eps/2 of a partial sum whose
 * power grows with its length: eps^2/4 · K/8, twice (for ref's error, too), plus a few eps^2 for
 * norms, exp and scales.
 * BF16 matmuls: activations are rounded to 8 bits with independent relative errors of at most 2^-9:
 * 2^-18 = 4e-6 at worst (mean square 7e-7); two-pass BF16 squares that.
 * Attention: cached keys and values are BF16 in every kernel set, and a score's error grows with
 * the score: 4 times the BF16 bound. BF16 image attention rounds values and weights. With AMX
 * scores have 16 bits; otherwise they are products of int16 numbers, off by 9e-6 |q| |k|, which is
 * 9e-6 sqrt(dim) of their standard deviation.
 * int16: with FP8 weights, 128 activations have steps of a 26000th of their norm, 2^-26 of the
 * result's power at worst; sums of many weights lose less, of few up to 2^-22. BF16 vision weights
 * have steps of an 80000th of their norm or a 32767th of the largest. With group scales, 256
 * activations have steps of a 26000th of their norm: 2^-25, or more if weights of one sign meet a
 * row with a sum near zero (direct_groups.c has the worst case). */
double case_bound(const struct problem *p, const struct cpu_kernels *k, bool from_cache)
{
    enum dtype d = p->c->dtype;
    if (case_in_int16_groups(p->c, k)) {
        const double f32_too = (double)FLT_EPSILON * (double)FLT_EPSILON * (32 + p->c->k / 8.0);
        return p->slack * (f32_too + 0x1p-22) + (from_cache ? 4 * 0x1p-18 : 0);
    }
    double eps = FLT_EPSILON, f32 = eps * eps * (32 + p->c->k / 8.0),
           bf16 = p->needs_f32 ? f32 + 0x1p-36 : 0x1p-18, int16 = f32 + 0x1p-22;
    bool coarse = k->low_precision && (d == DTYPE_BF16 || d == DTYPE_F8_E4M3 || d == DTYPE_NONE);
    if (k->fp8 && matrices_in_int16(p, true)) {
        const bool others = matrices_in_int16(p, false) || d == DTYPE_NONE;
        bf16 = others && k->low_precision && bf16 > int16 ? bf16 : int16;
        coarse = true;
    }
    if (k->vision && d == DTYPE_BF16 && multiplies_image(p)) {
        bf16 = int16;
        coarse = true;
    }
    double image = p->attends_image && k->vision_attention
                       ? 2 * 0x1p-18 + p->slack * (k->two_pass ? 0x1p-34 : p->c->dim * 0x1p-32)
                       : 0;
    return p->slack * (coarse ? bf16 : f32) + (from_cache ? 4 * 0x1p-18 : 0) + image;
}

static const char *dtype_name(enum dtype d)
{
    return dtype_is_gguf(d)     ? dtype_info(d)->label
           : d == DTYPE_F8_E4M3 ? "fp8"
           : d == DTYPE_BF16    ? "bf16"
           : d == DTYPE_F16     ? "f16"
           : d == DTYPE_F32     ? "f32"
           : d == DTYPE_INT4    ? "int4"
           : d == DTYPE_MXFP8   ? "mxfp8"
                                : "mixed";
}

void case_name(char *out, size_t size, const struct test_case *c)
{
    static const char *const fills[] = {"random", "exact", "codes",       "large",
                                        "tiny",   "zero",  "huge scores", "equal scores"};
    int n = snprintf(out, size, "%s %s n=%d k=%d m=%d", c->op->name, dtype_name(c->dtype), c->n,
                     c->k, c->m);
    if (c->dim)
        n += snprintf(out + n, size - (size_t)n, " heads=%d/%d dim=%d", c->heads, c->kv_heads,
                      c->dim);
    snprintf(out + n, size - (size_t)n, " %s%s", fills[c->fill], c->other ? " other" : "");
}

static bool element_near(float got, float want, double allowed)
{
    if (isnan(want)) return isnan(got);
    if (isinf(want) || isinf(got)) return got == want;
    return !isnan(got) && fabs((double)got - (double)want) <= allowed;
}

static double mean_power(const float *x, size_t n)
{
    double power = 0;
    for (size_t i = 0; i < n; i++)
        if (isfinite(x[i])) power += (double)x[i] * (double)x[i];
    return power / (double)n;
}

static double error_power(const float *got, const float *want, size_t n, double floor)
{
    double power = 0;
    for (size_t i = 0; i < n; i++) {
        double error = fabs((double)got[i] - (double)want[i]) - floor;
        if (isfinite(want[i]) && error > 0) power += error * error;
    }
    return power / (double)n;
}

bool check_near(const char *name, const char *variant, const float *got, const float *want,
                size_t n, int width, double bound, double floor)
{
    double power = mean_power(want, n), error = error_power(got, want, n, floor),
           reach = 8 * sqrt(bound);
    if (!n) return true;
    double luck = 1 + 8 / sqrt((double)n); /* the few sums may all be small by chance */
    for (size_t i = 0; i < n; i++) {
        double allowed = floor + reach * (sqrt(power) + fabs((double)want[i]));
        if (element_near(got[i], want[i], allowed)) continue;
        printf("FAIL %s, %s: row %zu column %zu is %.9g, not %.9g (within %.3g)\n", name, variant,
               i / (size_t)width, i % (size_t)width, (double)got[i], (double)want[i], allowed);
        return false;
    }
    if (error <= luck * bound * power) return true;
    printf("FAIL %s, %s: error power %.3g of the result's, more than %.3g\n", name, variant,
           error / power, bound);
    return false;
}

bool check_same(const char *name, const char *variant, const char *how, const float *got,
                const float *want, size_t n, int width)
{
    for (size_t i = 0; i < n; i++) {
        if (memcmp(&got[i], &want[i], sizeof(float)) == 0 || (isnan(got[i]) && isnan(want[i])))
            continue;
        printf("FAIL %s, %s, %s: row %zu column %zu is %.9g, not the same bits as %.9g\n", name,
               variant, how, i / (size_t)width, i % (size_t)width, (double)got[i], (double)want[i]);
        return false;
    }
    return true;
}

/* ---- kernel sets ---- */

const char *const kernel_masks[KERNEL_SETS] = {"generic",       "avx2-novnni", "avx2",
                                               "avx512-nobf16", "avx512",      "amx"};

const struct cpu_kernels *usable_kernels(int i)
{
    struct cpu_isa most;
    if (!cpu_isa_by_name(kernel_masks[i], &most)) return NULL;
    const struct cpu_kernels *kernels = cpu_kernels_for(cpu_isa_usable(most));
    return strcmp(kernels->mask, kernel_masks[i]) == 0 ? kernels : NULL;
}
