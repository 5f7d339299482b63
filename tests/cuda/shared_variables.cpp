/* SPDX-License-Identifier: Apache-2.0 */
/* The emulator makes __shared__ variables thread-local. This finds them in the program's symbol
 * table: thread-local symbols of source files named *.cu. */
#include "cuda/shared_variables.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace emulator
{

struct symbol {
    size_t offset, size; /* offset in a thread's block of thread-local variables */
    const char *name;
};

static const unsigned char *mapped_program(void)
{
    int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    struct stat st;
    void *p = fd >= 0 && fstat(fd, &st) == 0
                  ? mmap(nullptr, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0)
                  : MAP_FAILED;
    if (fd >= 0) close(fd);
    if (p == MAP_FAILED) {
        perror("emulator: /proc/self/exe");
        abort();
    }
    return static_cast<const unsigned char *>(p);
}

static bool ends_in_cu(const char *name)
{
    size_t n = strlen(name);
    return n > 3 && strcmp(name + n - 3, ".cu") == 0;
}

static std::vector<symbol> thread_locals_of_kernels(const unsigned char *program)
{
    std::vector<symbol> found;
    const ElfW(Ehdr) *header = reinterpret_cast<const ElfW(Ehdr) *>(program);
    const ElfW(Shdr) *sections = reinterpret_cast<const ElfW(Shdr) *>(program + header->e_shoff);
    for (int s = 0; s < header->e_shnum; s++) {
        if (sections[s].sh_type != SHT_SYMTAB) continue;
        const ElfW(Sym) *symbols = reinterpret_cast<const ElfW(Sym) *>(program +
                                                                       sections[s].sh_offset);
        const char *names = reinterpret_cast<const char *>(program +
                                                           sections[sections[s].sh_link].sh_offset);
        bool in_kernels = false; /* local symbols follow their file's name */
        for (size_t i = 0; i < sections[s].sh_size / sizeof(*symbols); i++) {
            const char *name = names + symbols[i].st_name;
            int type = symbols[i].st_info & 15;
            if (type == STT_FILE)
                in_kernels = ends_in_cu(name);
            else if (type == STT_TLS && in_kernels)
                found.push_back({(size_t)symbols[i].st_value, (size_t)symbols[i].st_size, name});
        }
    }
    return found;
}

/* The program itself is the first module. */
static int take_thread_block(struct dl_phdr_info *info, size_t, void *out)
{
    *static_cast<void **>(out) = info->dlpi_tls_data;
    return 1;
}

std::vector<shared_variable> shared_variables_of_this_thread(void)
{
    static const std::vector<symbol> symbols = thread_locals_of_kernels(mapped_program());
    void *base = nullptr;
    dl_iterate_phdr(take_thread_block, &base);
    std::vector<shared_variable> variables;
    for (const symbol &s : symbols)
        variables.push_back({static_cast<unsigned char *>(base) + s.offset, s.size, s.name});
    return variables;
}

} // namespace emulator
