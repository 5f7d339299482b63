/* SPDX-License-Identifier: Apache-2.0 */
/* Stacks of their own for the emulator's threads, and the switch between two of them. */
#ifndef EY_TESTS_CUDA_FIBER_H
#define EY_TESTS_CUDA_FIBER_H

#include <cstddef>

struct fiber {
    void *stack_pointer; /* while another one runs */
    void *stack;
    size_t stack_size;
    void *sanitizer_stack; /* AddressSanitizer's own for this fiber */
};

/* The running CPU thread as a fiber, to come back to. */
void fiber_of_caller(struct fiber *f);
/* Ends the program where memory runs out. */
void fiber_create(struct fiber *f, size_t stack_size);
void fiber_destroy(struct fiber *f);
/* The next switch to f calls entry() on an empty stack. entry never returns: it leaves by
 * fiber_leave. */
void fiber_prepare(struct fiber *f, void (*entry)(void));
/* Runs `to` until someone switches back to `from`. */
void fiber_switch(struct fiber *from, struct fiber *to);
/* The same for good: `from` must be prepared again before it runs again. */
[[noreturn]] void fiber_leave(struct fiber *from, struct fiber *to);
/* The first thing in entry(). */
void fiber_begin(struct fiber *self);

#endif
