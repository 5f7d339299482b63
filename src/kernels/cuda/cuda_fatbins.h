/* SPDX-License-Identifier: Apache-2.0 */
/* The compiled kernels in the program, one image per source file; a build without nvcc has none. */
#ifndef EY_CUDA_FATBINS_H
#define EY_CUDA_FATBINS_H

#include <stddef.h>

struct cuda_fatbin {
    const char *name; /* name of the source file */
    const void *data; /* a fatbin */
    size_t size;
};

extern const struct cuda_fatbin cuda_fatbins[]; /* ended by a NULL name */
extern const int cuda_fatbins_version; /* CUDA version of nvcc, in the form of cuDriverGetVersion(),
                                          such as 13000; 0 without images */
extern const char cuda_fatbins_archs[]; /* "80 86 89 90 120f", for messages */

#endif
