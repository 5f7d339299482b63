/* SPDX-License-Identifier: Apache-2.0 */
/* Stacks for the emulator's threads, and the switch between two of them. */
#ifndef EY_TESTS_CUDA_FIBER_H
#define EY_TESTS_CUDA_FIBER_H

#include <cstddef>

struct fiber {
    void *stack_pointer; /* valid while another fiber runs */
    void *stack;
    size_t stack_size;
    void *sanitizer_stack; /* AddressSanitizer's fake stack of this fiber */
};

/* Makes *f a fiber for the running CPU thread, to switch back to. */
void fiber_of_caller(struct fiber *f);
/* Allocates a stack; the program ends if memory is exhausted. */
void fiber_create(struct fiber *f, size_t stack_size);
void fiber_destroy(struct fiber *f);
/* The next switch to f calls entry() on an empty stack. entry never returns; it ends with
 * fiber_leave. */
void fiber_prepare(struct fiber *f, void (*entry)(void));
/* Runs `to` until a fiber switches back to `from`. */
void fiber_switch(struct fiber *from, struct fiber *to);
/* Switches without coming back: prepare `from` again before its next run. */
[[noreturn]] void fiber_leave(struct fiber *from, struct fiber *to);
/* Must be called first in entry(). */
void fiber_begin(struct fiber *self);

#endif
