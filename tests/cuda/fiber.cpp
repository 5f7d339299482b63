/* SPDX-License-Identifier: Apache-2.0 */
/* See fiber.h. A switch saves the callee-saved registers, swaps the stack pointers and returns on
 * the other stack. AddressSanitizer follows stacks, so it is notified. */
#include "cuda/fiber.h"

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <sys/mman.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__)
#define FIBER_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define FIBER_ASAN 1
#endif
#endif
#ifdef FIBER_ASAN
#include <sanitizer/common_interface_defs.h>
#endif

extern "C" void emulator_swap_stacks(void **save, void *load);

#if defined(__x86_64__)
enum { SAVED_WORDS = 6, RETURN_WORD = 6 };
asm(".text\n"
    ".globl emulator_swap_stacks\n"
    ".hidden emulator_swap_stacks\n"
    ".type emulator_swap_stacks, @function\n"
    "emulator_swap_stacks:\n"
    "    pushq %rbp\n    pushq %rbx\n    pushq %r12\n    pushq %r13\n    pushq %r14\n    pushq "
    "%r15\n"
    "    movq %rsp, (%rdi)\n"
    "    movq %rsi, %rsp\n"
    "    popq %r15\n    popq %r14\n    popq %r13\n    popq %r12\n    popq %rbx\n    popq %rbp\n"
    "    ret\n"
    ".size emulator_swap_stacks, .-emulator_swap_stacks\n");
#elif defined(__aarch64__)
enum { SAVED_WORDS = 20, RETURN_WORD = 11 }; /* x19..x29, x30, d8..d15 */
asm(".text\n"
    ".globl emulator_swap_stacks\n"
    ".hidden emulator_swap_stacks\n"
    ".type emulator_swap_stacks, %function\n"
    "emulator_swap_stacks:\n"
    "    sub sp, sp, #160\n"
    "    stp x19, x20, [sp]\n    stp x21, x22, [sp, #16]\n    stp x23, x24, [sp, #32]\n    stp "
    "x25, x26, [sp, #48]\n"
    "    stp x27, x28, [sp, #64]\n    stp x29, x30, [sp, #80]\n"
    "    stp d8, d9, [sp, #96]\n    stp d10, d11, [sp, #112]\n    stp d12, d13, [sp, #128]\n    "
    "stp d14, d15, [sp, #144]\n"
    "    mov x2, sp\n    str x2, [x0]\n    mov sp, x1\n"
    "    ldp x19, x20, [sp]\n    ldp x21, x22, [sp, #16]\n    ldp x23, x24, [sp, #32]\n    ldp "
    "x25, x26, [sp, #48]\n"
    "    ldp x27, x28, [sp, #64]\n    ldp x29, x30, [sp, #80]\n"
    "    ldp d8, d9, [sp, #96]\n    ldp d10, d11, [sp, #112]\n    ldp d12, d13, [sp, #128]\n    "
    "ldp d14, d15, [sp, #144]\n"
    "    add sp, sp, #160\n"
    "    ret\n"
    ".size emulator_swap_stacks, .-emulator_swap_stacks\n");
#else
#error "the emulator's switch of stacks is not written for this processor"
#endif

void fiber_of_caller(struct fiber *f)
{
    *f = {};
}

void fiber_create(struct fiber *f, size_t stack_size)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), size = (stack_size + page - 1) / page * page;
    /* a guard page below the stack reveals overflows */
    void *p = mmap(nullptr, size + page, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED || mprotect(p, page, PROT_NONE) != 0) {
        perror("emulator: memory for a fiber's stack");
        abort();
    }
    *f = {};
    f->stack = static_cast<char *>(p) + page;
    f->stack_size = size;
}

void fiber_destroy(struct fiber *f)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    if (f->stack) munmap(static_cast<char *>(f->stack) - page, f->stack_size + page);
    f->stack = nullptr;
}

void fiber_prepare(struct fiber *f, void (*entry)(void))
{
    /* one spare word: on entry the stack is aligned as after a call */
    uintptr_t top = ((uintptr_t)f->stack + f->stack_size) & ~(uintptr_t)63;
    void **frame = reinterpret_cast<void **>(top) - (SAVED_WORDS + 2);
    for (int i = 0; i < SAVED_WORDS + 2; i++)
        frame[i] = nullptr;
    frame[RETURN_WORD] = reinterpret_cast<void *>(entry);
    f->stack_pointer = frame;
    f->sanitizer_stack = nullptr;
}

#ifdef FIBER_ASAN
/* The fiber that was just left. Only this tells the bounds of a CPU thread's own stack. */
static __thread struct fiber *left_fiber;

static void swap(struct fiber *from, struct fiber *to, bool for_good)
{
    left_fiber = from;
    __sanitizer_start_switch_fiber(for_good ? nullptr : &from->sanitizer_stack, to->stack,
                                   to->stack_size);
    emulator_swap_stacks(&from->stack_pointer, to->stack_pointer);
    fiber_begin(from);
}

void fiber_begin(struct fiber *self)
{
    const void *stack;
    size_t size;
    __sanitizer_finish_switch_fiber(self->sanitizer_stack, &stack, &size);
    if (left_fiber && !left_fiber->stack_size) {
        left_fiber->stack = const_cast<void *>(stack);
        left_fiber->stack_size = size;
    }
}
#else
static void swap(struct fiber *from, struct fiber *to, bool)
{
    emulator_swap_stacks(&from->stack_pointer, to->stack_pointer);
}

void fiber_begin(struct fiber *)
{
}
#endif

void fiber_switch(struct fiber *from, struct fiber *to)
{
    swap(from, to, false);
}

void fiber_leave(struct fiber *from, struct fiber *to)
{
    swap(from, to, true);
    __builtin_unreachable();
}
