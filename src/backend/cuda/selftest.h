/* SPDX-License-Identifier: Apache-2.0 */
/* The self-test of a GPU's kernels: what its parts share. Memory on the GPU and the host lives
 * until the part is over. */
#ifndef EY_CUDA_SELFTEST_H
#define EY_CUDA_SELFTEST_H

#include "backend/cuda/cuda_kernel_ids.h"
#include "base/buf.h"

enum { SELFTEST_BYTES = 24 << 20 };
#define SELFTEST_EPS 1e-6f /* of norms */

struct selftest {
    struct cuda *c;
    char *device; /* SELFTEST_BYTES */
    size_t used;
    struct arena host;
    uint64_t random;
    struct selftest_report *report;
    bool out_of_memory; /* every function here takes the NULLs that come of it */
};

/* Tests the kernels that the report does not list as run. False: the GPU stopped working on the
 * way, and the report says in which; or there is no memory for it. */
bool cuda_selftest_run(struct cuda *c, struct selftest_report *report, ey_err *e);

uint32_t selftest_random_bits(struct selftest *t);
float *selftest_random_floats(struct selftest *t, size_t n, float low, float high);

void *selftest_host_alloc(struct selftest *t, size_t bytes);
/* GPU memory with every byte 0xff: NaN to whoever reads it too early, and in a result that was not
 * written. */
void *selftest_gpu_alloc(struct selftest *t, size_t bytes);
void *selftest_put(struct selftest *t, const void *from, size_t bytes);
void *selftest_get(struct selftest *t, const void *from, size_t bytes);
/* `values` become what BF16 holds of them. */
bf16 *selftest_put_bf16(struct selftest *t, float *values, size_t n);
float *selftest_get_bf16(struct selftest *t, const bf16 *from, size_t n);

/* Whether the kernel is to be tested. */
bool selftest_begin(const struct selftest *t, enum gpu_family family);
/* Notes how far got[n] is from want[n]; a single element far off is a failure too. The worst of
 * several calls counts. */
void selftest_judge(struct selftest *t, enum gpu_family family, const float *got,
                    const double *want, size_t n);
/* The kernel has been tested; a launch error counts as its failure. False: the GPU does nothing any
 * more. */
bool selftest_end(struct selftest *t, enum gpu_family family);

/* The parts; false: the GPU does nothing any more. */
bool selftest_matmul(struct selftest *t);
bool selftest_attention_text(struct selftest *t, int dim, bool fp8);
bool selftest_attention_vision(struct selftest *t);

/* As struct device_ops says (selftest_cache.c). */
bool cuda_selftest(struct backend *be, bool again, struct selftest_report *out, ey_err *e);

#endif
