/* SPDX-License-Identifier: Apache-2.0 */
/* Two lists of seccomp rules, and their translation to BPF. */
#include "sandbox/child/syscall_filter.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#if defined(__x86_64__)
#define FILTER_ARCHITECTURE AUDIT_ARCH_X86_64
#define X32_CALL_BIT 0x40000000u
#elif defined(__aarch64__)
#define FILTER_ARCHITECTURE AUDIT_ARCH_AARCH64
#else
#error "the system call filter supports only x86_64 and aarch64"
#endif

enum rule_test {
    ANY_ARGUMENT,
    ARGUMENT_IS,      /* the low 32 bits equal `value` */
    ARGUMENT_HAS,     /* all bits of `value` are set */
    ARGUMENT_HAS_NOT, /* no bit of `value` is set */
};

/* The first rule that matches the call and its argument decides. */
struct call_rule {
    uint32_t call;
    uint32_t action; /* SECCOMP_RET_… */
    uint32_t value;
    uint8_t argument;
    uint8_t test; /* enum rule_test */
};

#define REFUSE(error) (SECCOMP_RET_ERRNO | ((error)&SECCOMP_RET_DATA))
#define ALLOW(name)                                       \
    {                                                     \
        SYS_##name, SECCOMP_RET_ALLOW, 0, 0, ANY_ARGUMENT \
    }
#define ALLOW_IF(name, argument, test, value)                \
    {                                                        \
        SYS_##name, SECCOMP_RET_ALLOW, value, argument, test \
    }
#define KILL(name)                                               \
    {                                                            \
        SYS_##name, SECCOMP_RET_KILL_PROCESS, 0, 0, ANY_ARGUMENT \
    }
#define FAIL(name, error)                             \
    {                                                 \
        SYS_##name, REFUSE(error), 0, 0, ANY_ARGUMENT \
    }

/* Calls that no decoder or document converter needs. */
#define KILLED_CALLS                                                                            \
    KILL(ptrace), KILL(process_vm_readv), KILL(process_vm_writev), KILL(bpf),                   \
        KILL(perf_event_open), KILL(userfaultfd), KILL(mount), KILL(umount2), KILL(pivot_root), \
        KILL(chroot), KILL(unshare), KILL(setns), KILL(init_module), KILL(finit_module),        \
        KILL(delete_module), KILL(kexec_load), KILL(reboot), KILL(add_key), KILL(request_key),  \
        KILL(keyctl), KILL(io_uring_setup), KILL(io_uring_enter), KILL(io_uring_register),      \
        KILL(open_by_handle_at), KILL(setuid), KILL(setgid), KILL(setresuid), KILL(setresgid),  \
        KILL(setgroups), KILL(capset), KILL(personality), KILL(pidfd_open), KILL(pidfd_getfd),  \
        KILL(pidfd_send_signal)

/* Allows threads but not processes. A filter cannot see clone3's flags, which lie in memory; with
 * ENOSYS glibc falls back to clone. */
#define THREADS_ONLY \
    ALLOW_IF(clone, 0, ARGUMENT_HAS, CLONE_THREAD | CLONE_VM | CLONE_SIGHAND), FAIL(clone3, ENOSYS)

static const struct call_rule decoder_rules[] = {
    KILLED_CALLS,
    KILL(socket),
    KILL(socketpair),
    KILL(connect),
    KILL(bind),
    KILL(listen),
    KILL(accept4),
    KILL(execve),
    KILL(execveat),
    KILL(kill),
    /* memory that is never executable */
    ALLOW_IF(mmap, 2, ARGUMENT_HAS_NOT, PROT_EXEC),
    ALLOW_IF(mprotect, 2, ARGUMENT_HAS_NOT, PROT_EXEC),
    ALLOW(munmap),
    ALLOW(mremap),
    ALLOW(madvise),
    ALLOW(brk),
    /* threads */
    THREADS_ONLY,
    ALLOW(futex),
    ALLOW(set_robust_list),
    ALLOW(rseq),
    ALLOW(sched_yield),
    ALLOW(sched_getaffinity),
    ALLOW(getcpu),
    ALLOW(membarrier),
    ALLOW(gettid),
    ALLOW(getpid),
    ALLOW_IF(prctl, 0, ARGUMENT_IS, PR_SET_NAME),
    /* time */
    ALLOW(clock_gettime),
    ALLOW(clock_getres),
    ALLOW(clock_nanosleep),
    ALLOW(nanosleep),
    ALLOW(gettimeofday),
    /* descriptors that are already open */
    ALLOW(read),
    ALLOW(pread64),
    ALLOW(lseek),
    ALLOW(write),
    ALLOW(writev),
    ALLOW(sendmsg),
    ALLOW(close),
    ALLOW(fstat),
    ALLOW(ftruncate),
    ALLOW_IF(fcntl, 1, ARGUMENT_IS, F_ADD_SEALS),
    ALLOW_IF(fcntl, 1, ARGUMENT_IS, F_GET_SEALS),
    ALLOW_IF(fcntl, 1, ARGUMENT_IS, F_GETFL),
    /* signal handlers, random numbers, exit */
    ALLOW(rt_sigaction),
    ALLOW(rt_sigprocmask),
    ALLOW(rt_sigreturn),
    ALLOW(sigaltstack),
    ALLOW(restart_syscall),
    ALLOW(getrandom),
    ALLOW(sysinfo),
    ALLOW(exit),
    ALLOW(exit_group),
};

/* A foreign program's calls are not known, so this is a deny list. */
static const struct call_rule program_rules[] = {
    KILLED_CALLS,
    THREADS_ONLY,
    FAIL(clone, EPERM),
#ifdef SYS_fork
    FAIL(fork, EPERM),
    FAIL(vfork, EPERM),
#endif
    FAIL(socket, EACCES),
    FAIL(socketpair, EACCES),
    FAIL(kill, EPERM),
    FAIL(tkill, EPERM),
    FAIL(tgkill, EPERM),
    FAIL(rt_sigqueueinfo, EPERM),
    FAIL(rt_tgsigqueueinfo, EPERM),
    FAIL(prlimit64, EPERM),
    FAIL(memfd_create, EPERM),
/* calls that change files, and that Landlock or its first versions cannot forbid */
#ifdef SYS_chmod
    FAIL(chmod, EPERM),
    FAIL(chown, EPERM),
    FAIL(lchown, EPERM),
    FAIL(utime, EPERM),
    FAIL(utimes, EPERM),
    FAIL(futimesat, EPERM),
#endif
#ifdef SYS_fchmodat2
    FAIL(fchmodat2, EPERM),
#endif
    FAIL(fchmod, EPERM),
    FAIL(fchmodat, EPERM),
    FAIL(fchown, EPERM),
    FAIL(fchownat, EPERM),
    FAIL(utimensat, EPERM),
    FAIL(truncate, EPERM),
    FAIL(setxattr, EPERM),
    FAIL(lsetxattr, EPERM),
    FAIL(fsetxattr, EPERM),
    FAIL(removexattr, EPERM),
    FAIL(lremovexattr, EPERM),
    FAIL(fremovexattr, EPERM),
};

/* ---- rules → BPF ---- */

enum { INSTRUCTIONS_OF_RULE = 5, MOST_INSTRUCTIONS = 8 + INSTRUCTIONS_OF_RULE * 128 };

struct filter_code {
    struct sock_filter code[MOST_INSTRUCTIONS];
    unsigned short n;
};

static void emit(struct filter_code *f, unsigned code, uint32_t value, unsigned if_true,
                 unsigned if_false)
{
    f->code[f->n++] = (struct sock_filter){(uint16_t)code, (uint8_t)if_true, (uint8_t)if_false,
                                           value};
}

static void emit_load(struct filter_code *f, size_t offset)
{
    emit(f, BPF_LD | BPF_W | BPF_ABS, (uint32_t)offset, 0, 0);
}

static void emit_return(struct filter_code *f, uint32_t action)
{
    emit(f, BPF_RET | BPF_K, action, 0, 0);
}

/* Kills calls of other architectures, whose numbers differ. */
static void emit_architecture_check(struct filter_code *f)
{
    emit_load(f, offsetof(struct seccomp_data, arch));
    emit(f, BPF_JMP | BPF_JEQ | BPF_K, FILTER_ARCHITECTURE, 1, 0);
    emit_return(f, SECCOMP_RET_KILL_PROCESS);
#ifdef X32_CALL_BIT
    emit_load(f, offsetof(struct seccomp_data, nr));
    emit(f, BPF_JMP | BPF_JGE | BPF_K, X32_CALL_BIT, 0, 1);
    emit_return(f, SECCOMP_RET_KILL_PROCESS);
#endif
}

/* Loads the low half of an argument; both architectures are little-endian. */
static void emit_argument(struct filter_code *f, unsigned argument)
{
    emit_load(f, offsetof(struct seccomp_data, args) + 8 * argument);
}

static void emit_rule(struct filter_code *f, const struct call_rule *rule)
{
    emit_load(f, offsetof(struct seccomp_data, nr));
    switch (rule->test) {
    case ANY_ARGUMENT: emit(f, BPF_JMP | BPF_JEQ | BPF_K, rule->call, 0, 1); break;
    case ARGUMENT_IS:
        emit(f, BPF_JMP | BPF_JEQ | BPF_K, rule->call, 0, 3);
        emit_argument(f, rule->argument);
        emit(f, BPF_JMP | BPF_JEQ | BPF_K, rule->value, 0, 1);
        break;
    case ARGUMENT_HAS:
        emit(f, BPF_JMP | BPF_JEQ | BPF_K, rule->call, 0, 4);
        emit_argument(f, rule->argument);
        emit(f, BPF_ALU | BPF_AND | BPF_K, rule->value, 0, 0);
        emit(f, BPF_JMP | BPF_JEQ | BPF_K, rule->value, 0, 1);
        break;
    default: /* ARGUMENT_HAS_NOT */
        emit(f, BPF_JMP | BPF_JEQ | BPF_K, rule->call, 0, 3);
        emit_argument(f, rule->argument);
        emit(f, BPF_JMP | BPF_JSET | BPF_K, rule->value, 1, 0);
    }
    emit_return(f, rule->action);
}

static bool install_filter(const struct call_rule *rules, size_t n, uint32_t otherwise)
{
    /* abort() signals its own process */
    const struct call_rule own_signals = ALLOW_IF(tgkill, 0, ARGUMENT_IS, (uint32_t)getpid());
    static struct filter_code f;
    f.n = 0;
    emit_architecture_check(&f);
    emit_rule(&f, &own_signals);
    for (size_t i = 0; i < n; i++)
        emit_rule(&f, &rules[i]);
    emit_return(&f, otherwise);
    const struct sock_fprog program = {f.n, f.code};
    /* prctl rather than seccomp(2), which systemd's filter may forbid */
    return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

#define COUNT(rules) (sizeof(rules) / sizeof((rules)[0]))
_Static_assert(COUNT(decoder_rules) <= 120 && COUNT(program_rules) <= 120, "MOST_INSTRUCTIONS");

bool filter_decoder_calls(void)
{
#ifdef EY_SANITIZED /* sanitizers make calls that decoders do not need */
    const uint32_t otherwise = SECCOMP_RET_ALLOW;
#else
    const uint32_t otherwise = REFUSE(EPERM);
#endif
    return install_filter(decoder_rules, COUNT(decoder_rules), otherwise);
}

bool filter_program_calls(void)
{
    return install_filter(program_rules, COUNT(program_rules), SECCOMP_RET_ALLOW);
}
