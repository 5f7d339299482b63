/* SPDX-License-Identifier: Apache-2.0 */
/* Opens the backends by name. */
#include "backend/open/open_backend.h"

#include <stddef.h>
#include <string.h>

#include "backend/cpu/cpu_backend.h"
#include "backend/cuda/cuda_backend.h"
#include "backend/ref/ref_backend.h"

typedef bool backend_create_fn(struct backend **be, const struct backend_options *options,
                               ey_err *e);

static bool create_ref(struct backend **be, const struct backend_options *options, ey_err *e)
{
    return backend_ref_create(be, options->pool, e);
}

static bool create_cpu(struct backend **be, const struct backend_options *options, ey_err *e)
{
    return backend_cpu_create(be, options->pool, options->cpu_mask, e);
}

static bool create_cuda(struct backend **be, const struct backend_options *options, ey_err *e)
{
    return backend_cuda_create(be, options->pool, options->eager, e);
}

static const struct backend_kind {
    const char *name;
    backend_create_fn *create;
    bool is_gpu;
} backend_kinds[] = {
    {"ref", create_ref, false},
    {"cpu", create_cpu, false},
    {"cuda", create_cuda, true},
};
enum { BACKEND_KINDS = sizeof(backend_kinds) / sizeof(backend_kinds[0]) };

static const struct backend_kind *backend_kind_named(const char *name)
{
    for (size_t i = 0; name && i < BACKEND_KINDS; i++)
        if (strcmp(backend_kinds[i].name, name) == 0) return &backend_kinds[i];
    return NULL;
}

bool backend_open(struct backend **be, const char *name, const struct backend_options *options,
                  ey_err *e)
{
    const struct backend_kind *kind = backend_kind_named(name);
    if (!kind)
        return ey_fail(e, EY_BAD_REQUEST, "unknown device \"%s\"; use auto, cuda, cpu or ref",
                       name);
    return kind->create(be, options, e);
}

bool backend_open_gpu(struct backend **be, const struct backend_options *options, ey_err *e)
{
    return create_cuda(be, options, e);
}

bool backend_selftest(struct backend *gpu, struct pool *pool, bool again,
                      struct selftest_report *out, ey_err *e)
{
    struct backend *reference;
    if (!backend_ref_create(&reference, pool, e)) return false;
    bool ok = gpu->ops->device->selftest(gpu, reference, again, out, e);
    reference->ops->destroy(reference);
    return ok;
}

bool backend_open_simulated_gpu(struct backend **be, ey_err *e)
{
    return backend_cuda_create_simulated(be, e);
}

bool backend_name_is_gpu(const char *name)
{
    const struct backend_kind *kind = backend_kind_named(name);
    return kind && kind->is_gpu;
}
