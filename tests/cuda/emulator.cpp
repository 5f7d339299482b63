/* SPDX-License-Identifier: Apache-2.0 */
/* Each CPU thread runs one block at a time. The block's threads are fibers; one runs until it
 * waits, then the next thread of its warp runs or, if all of the warp wait for the block, the next
 * warp. The last thread to arrive at a warp instruction executes it for all and runs on, so the
 * order of threads changes between rounds. Every wait of CUDA needs all threads of the warp or
 * block: if the next thread cannot run, the kernel is faulty and the program ends with a message.
 */
#include "cuda/emulator.h"

#include <algorithm>
#include <atomic>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "cuda/emulator_block.h"
#include "cuda/shared_variables.h"

__thread uint3 threadIdx, blockIdx;
__thread dim3 blockDim, gridDim;

namespace emulator
{

enum { MAX_DYNAMIC_SHARED = 227 * 1024, CANARY = 256 };
#ifdef NDEBUG
#error "the emulator lives by its checks"
#endif

static const kernel *kernels; /* all linked kernels */
static int cpu_threads = 2;
static thread_local struct block *block; /* the block that this CPU thread runs */

kernel::kernel(const emulated_kernel &what, void (*run)(const void *))
    : emulated_kernel(what), thread(run), next(kernels)
{
    kernels = this;
}

/* ---- faults ---- */

static const char *doing(const struct lane_state &t)
{
    static const char *const meetings[] = {
        "waits at __syncwarp",    "waits at a shuffle",
        "waits at load_matrices", "waits at load_matrices_transposed",
        "waits at mma_bf16",      "waits at mma_f16",
        "waits at wgmma_wait"};
    switch (t.phase) {
    case PHASE_AT_MEETING: return meetings[t.at];
    case PHASE_AT_BARRIER: return "waits at __syncthreads";
    case PHASE_ENDED: return "has ended";
    default: return "is running";
    }
}

void fault(const char *format, ...)
{
    fprintf(stderr,
            "emulator: kernel %s, block (%u, %u, %u), thread (%u, %u, %u): ", block->of->name,
            blockIdx.x, blockIdx.y, blockIdx.z, threadIdx.x, threadIdx.y, threadIdx.z);
    va_list args;
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
    abort();
}

void check_aligned(const void *p, size_t alignment)
{
    if ((uintptr_t)p % alignment)
        fault("an access of %zu bytes at %p, which is not aligned to them", alignment, p);
}

/* ---- turns ---- */

static void set_current(struct lane_state *t)
{
    block->current = t;
    threadIdx = t->index;
}

static void run_instead(struct lane_state *from, struct lane_state *to)
{
    set_current(to);
    fiber_switch(&from->fiber, &to->fiber);
}

/* The thread to run after `t`, which waits or has ended; NULL: all threads of the block have ended.
 */
static struct lane_state *next_turn(struct lane_state *t)
{
    int n = block->n_threads, number = t->number, first = number / 32 * 32;
    for (int i = 1; i < 32; i++) {
        struct lane_state *mate = &block->threads[first + (number + i) % 32];
        if (mate->phase == PHASE_RUNS) return mate;
        if (mate->phase != t->phase)
            fault("%s, where thread %d of its warp %s", doing(*t), mate->number, doing(*mate));
    }
    for (int other = (first + 32) % n; other != first; other = (other + 32) % n) {
        struct lane_state *head = &block->threads[other];
        if (head->phase == PHASE_RUNS) return head;
        if (head->phase != t->phase)
            fault("%s, where warp %d %s", doing(*t), other / 32, doing(*head));
    }
    return nullptr;
}

static void wait_turn(struct lane_state *t)
{
    struct lane_state *next = next_turn(t);
    if (!next) fault("%s: no thread can run", doing(*t));
    run_instead(t, next);
}

void block_barrier(void)
{
    struct lane_state *t = block->current;
    t->phase = PHASE_AT_BARRIER;
    if (++block->n_at_barrier < block->n_threads) {
        wait_turn(t);
        return;
    }
    block->n_at_barrier = 0;
    block->epoch++;
    for (int i = 0; i < block->n_threads; i++)
        block->threads[i].phase = PHASE_RUNS;
}

static void end_thread(void)
{
    struct lane_state *t = block->current;
    t->phase = PHASE_ENDED;
    struct lane_state *next = next_turn(t);
    if (next) {
        set_current(next);
        fiber_leave(&t->fiber, &next->fiber);
    }
    fiber_leave(&t->fiber, &block->caller);
}

static void thread_entry(void)
{
    fiber_begin(&block->current->fiber);
    block->of->thread(block->args);
    end_thread();
}

/* ---- warp instructions ---- */

static void do_shuffle(struct lane_state *lanes)
{
    uint32_t in[32];
    for (int i = 0; i < 32; i++)
        in[i] = static_cast<shuffle_operand *>(lanes[i].operand)->value;
    for (int i = 0; i < 32; i++) {
        shuffle_operand *o = static_cast<shuffle_operand *>(lanes[i].operand);
        o->value = in[o->from_lane >= 0 && o->from_lane < 32 ? o->from_lane : i];
    }
}

static void do_load_matrices(struct lane_state *lanes, bool transposed)
{
    uint16_t matrix[4][8][8]; /* [, row, column] */
    for (int i = 0; i < 32; i++) {
        const void *row = static_cast<matrices_operand *>(lanes[i].operand)->row;
        check_aligned(row, 16);
        if (!is_shared(row, 16))
            fault("load_matrices from %p (lane %d), which is not shared memory", row, i);
        memcpy(matrix[i / 8][i % 8], row, 16);
        note_access(row, 16, &lanes[i], ACCESS_READ, lanes[i].pc);
    }
    for (int i = 0; i < 32; i++) {
        uint32_t *out = static_cast<matrices_operand *>(lanes[i].operand)->out;
        int g = i / 4, t = i % 4;
        for (int m = 0; m < 4; m++)
            out[m] = transposed ? matrix[m][2 * t][g] | (uint32_t)matrix[m][2 * t + 1][g] << 16
                                : matrix[m][g][2 * t] | (uint32_t)matrix[m][g][2 * t + 1] << 16;
    }
}

static float half_value(uint16_t bits, bool f16)
{
    return f16 ? f16_bits_value(bits) : value((uint32_t)bits << 16);
}

/* Unpacks two columns of a row (or rows of a column) from a register. */
static void unpack(float *out, int stride, uint32_t pair, bool f16)
{
    out[0] = half_value((uint16_t)pair, f16);
    out[stride] = half_value((uint16_t)(pair >> 16), f16);
}

static void do_mma(struct lane_state *lanes, bool f16)
{
    float a[16][16], b[16][8], c[16][8];
    for (int i = 0; i < 32; i++) {
        const mma_operand *o = static_cast<mma_operand *>(lanes[i].operand);
        int g = i / 4, t2 = i % 4 * 2;
        unpack(&a[g][t2], 1, o->a[0], f16);
        unpack(&a[g + 8][t2], 1, o->a[1], f16);
        unpack(&a[g][t2 + 8], 1, o->a[2], f16);
        unpack(&a[g + 8][t2 + 8], 1, o->a[3], f16);
        unpack(&b[t2][g], 8, o->b[0], f16);
        unpack(&b[t2 + 8][g], 8, o->b[1], f16);
        c[g][t2] = o->c[0];
        c[g][t2 + 1] = o->c[1];
        c[g + 8][t2] = o->c[2];
        c[g + 8][t2 + 1] = o->c[3];
    }
    for (int row = 0; row < 16; row++)
        for (int k = 0; k < 16; k++)
            for (int column = 0; column < 8; column++)
                c[row][column] += a[row][k] * b[k][column];
    for (int i = 0; i < 32; i++) {
        float *out = static_cast<mma_operand *>(lanes[i].operand)->c;
        int g = i / 4, t2 = i % 4 * 2;
        out[0] = c[g][t2];
        out[1] = c[g][t2 + 1];
        out[2] = c[g + 8][t2];
        out[3] = c[g + 8][t2 + 1];
    }
}

static float e4m3_value(uint32_t code)
{
    if ((code & 0x7fu) == 0x7fu) return NAN;
    float size = value((code & 0x7fu) << 20) * 0x1p120f;
    return code & 0x80u ? -size : size;
}

static void unpack_four(float *out, int stride, uint32_t four)
{
    for (int i = 0; i < 4; i++)
        out[i * stride] = e4m3_value(four >> 8 * i & 0xffu);
}

/* Products are exact, and sums are rounded to F32; real GPUs may keep fewer bits of sums. */
static void do_mma_e4m3(struct lane_state *lanes)
{
    float a[16][32], b[32][8], c[16][8];
    for (int i = 0; i < 32; i++) {
        const mma_operand *o = static_cast<mma_operand *>(lanes[i].operand);
        int g = i / 4, t4 = i % 4 * 4, t2 = i % 4 * 2;
        unpack_four(&a[g][t4], 1, o->a[0]);
        unpack_four(&a[g + 8][t4], 1, o->a[1]);
        unpack_four(&a[g][t4 + 16], 1, o->a[2]);
        unpack_four(&a[g + 8][t4 + 16], 1, o->a[3]);
        unpack_four(&b[t4][g], 8, o->b[0]);
        unpack_four(&b[t4 + 16][g], 8, o->b[1]);
        c[g][t2] = o->c[0];
        c[g][t2 + 1] = o->c[1];
        c[g + 8][t2] = o->c[2];
        c[g + 8][t2 + 1] = o->c[3];
    }
    for (int row = 0; row < 16; row++)
        for (int k = 0; k < 32; k++)
            for (int column = 0; column < 8; column++)
                c[row][column] += a[row][k] * b[k][column];
    for (int i = 0; i < 32; i++) {
        float *out = static_cast<mma_operand *>(lanes[i].operand)->c;
        int g = i / 4, t2 = i % 4 * 2;
        out[0] = c[g][t2];
        out[1] = c[g][t2 + 1];
        out[2] = c[g + 8][t2];
        out[3] = c[g + 8][t2 + 1];
    }
}

static void unpack_bytes(int *to, int stride, uint32_t four)
{
    for (int i = 0; i < 4; i++)
        to[i * stride] = (int8_t)(four >> 8 * i);
}

static void do_mma_s8(struct lane_state *lanes)
{
    int a[16][32], b[32][8];
    for (int i = 0; i < 32; i++) {
        const mma_s8_operand *o = static_cast<mma_s8_operand *>(lanes[i].operand);
        int g = i / 4, t4 = i % 4 * 4;
        unpack_bytes(&a[g][t4], 1, o->a[0]);
        unpack_bytes(&a[g + 8][t4], 1, o->a[1]);
        unpack_bytes(&a[g][t4 + 16], 1, o->a[2]);
        unpack_bytes(&a[g + 8][t4 + 16], 1, o->a[3]);
        unpack_bytes(&b[t4][g], 8, o->b[0]);
        unpack_bytes(&b[t4 + 16][g], 8, o->b[1]);
    }
    for (int i = 0; i < 32; i++) {
        int *c = static_cast<mma_s8_operand *>(lanes[i].operand)->c;
        for (int e = 0; e < 4; e++)
            for (int k = 0; k < 32; k++)
                c[e] += a[i / 4 + e / 2 * 8][k] * b[k][i % 4 * 2 + e % 2];
    }
}

/* The warp's 16 rows of one wgmma; p[i] is lane i's. b is the address of the first row; the
 * hardware swizzles 16-byte units by higher address bits. */
static void do_wgmma(struct lane_state *lanes, const struct pending_wgmma *const p[32])
{
    float a[16][16];
    for (int i = 0; i < 32; i++) {
        int g = i / 4, t2 = i % 4 * 2;
        unpack(&a[g][t2], 1, p[i]->a[0], false);
        unpack(&a[g + 8][t2], 1, p[i]->a[1], false);
        unpack(&a[g][t2 + 8], 1, p[i]->a[2], false);
        unpack(&a[g + 8][t2 + 8], 1, p[i]->a[3], false);
    }
    for (int column = 0; column < 8 * p[0]->tiles; column++) {
        uint16_t b[16];
        struct lane_state *first = &lanes[column % 8 / 2];
        for (int unit = 0; unit < 2; unit++) {
            uintptr_t address = (uintptr_t)(p[0]->b + column / 8 * 1024 + column % 8 * 128 +
                                            unit * 16);
            const void *from = reinterpret_cast<const void *>(address ^ (address >> 7 & 7) << 4);
            if (!is_shared(from, 16)) fault("wgmma reads %p, which is not shared memory", from);
            memcpy(b + unit * 8, from, 16);
            note_access(from, 16, first, ACCESS_READ, first->pc);
        }
        for (int row = 0; row < 16; row++) {
            int lane = row % 8 * 4 + column % 8 / 2;
            float *c = p[lane]->c + column / 8 * 4 + row / 8 * 2 + column % 2,
                  sum = p[lane]->add ? *c : 0;
            for (int k = 0; k < 16; k++)
                sum += a[row][k] * half_value(b[k], false);
            *c = sum;
        }
    }
}

/* Executes the warp's pending wgmmas, which are the same in all lanes. */
static void do_wgmmas(struct lane_state *lanes)
{
    size_t done = 0;
    for (; done < lanes->products.size(); done++) {
        const struct pending_wgmma *p[32];
        if (lanes->products[done].group + *static_cast<int *>(lanes->operand) >=
            lanes->n_product_groups)
            break;
        for (int i = 0; i < 32; i++)
            p[i] = &lanes[i].products.at(done);
        do_wgmma(lanes, p);
    }
    for (int i = 0; i < 32; i++)
        lanes[i].products.erase(lanes[i].products.begin(),
                                lanes[i].products.begin() + (ptrdiff_t)done);
}

static void do_together(enum meeting what, struct lane_state *lanes)
{
    switch (what) {
    case MEET_SYNC: block->warp_epoch[lanes->number / 32]++; break;
    case MEET_SHUFFLE: do_shuffle(lanes); break;
    case MEET_LOAD_MATRICES: do_load_matrices(lanes, false); break;
    case MEET_LOAD_TRANSPOSED: do_load_matrices(lanes, true); break;
    case MEET_MMA_BF16: do_mma(lanes, false); break;
    case MEET_MMA_F16: do_mma(lanes, true); break;
    case MEET_MMA_E4M3: do_mma_e4m3(lanes); break;
    case MEET_MMA_S8: do_mma_s8(lanes); break;
    case MEET_WGMMA: do_wgmmas(lanes); break;
    }
}

void meet(enum meeting what, void *operand)
{
    struct lane_state *t = block->current, *lanes = &block->threads[t->number / 32 * 32];
    uint8_t &n_met = block->n_met[t->number / 32];
    t->phase = PHASE_AT_MEETING;
    t->at = what;
    t->operand = operand;
    t->pc = __builtin_return_address(0);
    if (++n_met < 32) {
        wait_turn(t);
        return;
    }
    for (int i = 0; i < 32; i++)
        if (lanes[i].phase != PHASE_AT_MEETING || lanes[i].at != what)
            fault("%s, where thread %d of its warp %s", doing(*t), lanes[i].number,
                  doing(lanes[i]));
    do_together(what, lanes);
    n_met = 0;
    for (int i = 0; i < 32; i++)
        lanes[i].phase = PHASE_RUNS;
}

/* ---- asynchronous copies ---- */

void copy_async(void *shared, const void *global, int bytes)
{
    struct lane_state *t = block->current;
    const void *pc = __builtin_return_address(0);
    check_aligned(shared, 16);
    check_aligned(global, 16);
    if (bytes < 0 || bytes > 16) fault("copy_async of %d bytes", bytes);
    if (!is_shared(shared, 16)) fault("copy_async to %p, which is not shared memory", shared);
    memset(shared, 0xff, 16);
    note_access(shared, 16, t, ACCESS_WRITE, pc);
    t->copies.push_back({shared, global, bytes, t->n_groups});
}

void copy_commit(void)
{
    block->current->n_groups++;
}

/* Uncommitted copies stay pending, as on a GPU. */
void copy_wait(int pending)
{
    struct lane_state *t = block->current;
    size_t done = 0;
    for (; done < t->copies.size() && t->copies[done].group + pending < t->n_groups; done++) {
        const pending_copy &copy = t->copies[done];
        memset(copy.to, 0, 16);
        memcpy(copy.to, copy.from, (size_t)copy.bytes);
        note_access(copy.to, 16, t, ACCESS_WRITE, __builtin_return_address(0));
    }
    t->copies.erase(t->copies.begin(), t->copies.begin() + (ptrdiff_t)done);
}

/* ---- warpgroup matmuls ---- */

void wgmma(float *c, int tiles, const uint32_t a[4], const void *b, bool add)
{
    struct lane_state *t = block->current;
    if ((uintptr_t)b % 1024 % 32 || (uintptr_t)b % 1024 >= 128)
        fault("wgmma of %p, which is no row 0 of 8 rows", b);
    t->products.push_back(
        {c, a, static_cast<const unsigned char *>(b), tiles, t->n_product_groups, add});
}

void wgmma_commit(void)
{
    block->current->n_product_groups++;
}

void wgmma_wait(int pending)
{
    meet(MEET_WGMMA, &pending);
}

uint32_t count_arrival(uint32_t *counter)
{
    return __atomic_fetch_add(counter, 1, __ATOMIC_ACQ_REL);
}

/* ---- blocks ---- */

void *dynamic_shared(void)
{
    return block->dynamic;
}

bool is_shared(const void *p, size_t size)
{
    const unsigned char *first = static_cast<const unsigned char *>(p);
    if (first >= block->dynamic && first + size <= block->dynamic + block->dynamic_size)
        return true;
    for (const shared_variable &v : block->variables)
        if (first >= v.address && first + size <= v.address + v.size) return true;
    return false;
}

struct launch {
    const kernel *of;
    const void *args;
    uint3 grid, block;
    size_t shared_bytes;
    std::atomic<uint64_t> next_block;
};

/* Fibers are reused between launches, because allocating their stacks is most of a launch's cost.
 */
static std::mutex idle_lock;
static std::vector<std::unique_ptr<struct block>> idle_blocks;

static std::unique_ptr<struct block> take_idle_block(void)
{
    std::lock_guard<std::mutex> hold(idle_lock);
    if (idle_blocks.empty()) return std::make_unique<struct block>();
    std::unique_ptr<struct block> b = std::move(idle_blocks.back());
    idle_blocks.pop_back();
    return b;
}

static void give_back(std::unique_ptr<struct block> b)
{
    std::lock_guard<std::mutex> hold(idle_lock);
    idle_blocks.push_back(std::move(b));
}

block::~block()
{
    for (int i = 0; i < n_stacks; i++)
        fiber_destroy(&threads[i].fiber);
    free_races(this);
}

static void make_threads(struct block *b, uint3 size)
{
    b->n_threads = (int)(size.x * size.y * size.z);
    for (; b->n_stacks < b->n_threads; b->n_stacks++)
        fiber_create(&b->threads[b->n_stacks].fiber, FIBER_STACK);
    for (int i = 0; i < b->n_threads; i++) {
        unsigned n = (unsigned)i;
        b->threads[i].number = i;
        b->threads[i].index = {n % size.x, n / size.x % size.y, n / size.x / size.y};
    }
}

static void start_threads(struct block *b)
{
    b->n_at_barrier = 0;
    b->epoch++;
    memset(b->n_met, 0, sizeof(b->n_met));
    for (int i = 0; i < b->n_threads; i++) {
        lane_state &t = b->threads[i];
        t.phase = PHASE_RUNS;
        t.copies.clear();
        t.n_groups = 0;
        t.products.clear();
        t.n_product_groups = 0;
        fiber_prepare(&t.fiber, thread_entry);
    }
}

static void fill_shared(struct block *b)
{
    memset(b->dynamic, 0xff, b->dynamic_size + CANARY);
    for (const shared_variable &v : b->variables)
        memset(v.address, 0xff, v.size);
}

static void check_canary(const struct block *b)
{
    for (size_t i = 0; i < CANARY; i++)
        if (b->dynamic[b->dynamic_size + i] != 0xff)
            fault("wrote at byte %zu of dynamic shared memory, of which the launch gave %zu",
                  b->dynamic_size + i, b->dynamic_size);
}

static void run_blocks(struct launch *l)
{
    std::unique_ptr<struct block> own = take_idle_block();
    block = own.get();
    uint64_t n_blocks = (uint64_t)l->grid.x * l->grid.y * l->grid.z;
    std::vector<unsigned char> dynamic(l->shared_bytes + CANARY + 1024);
    /* a copy of the right size, so that AddressSanitizer sees reads past the struct */
    std::unique_ptr<unsigned char[]> args(new unsigned char[l->of->args_size]);
    memcpy(args.get(), l->args, l->of->args_size);
    own->of = l->of;
    own->args = args.get();
    own->dynamic = dynamic.data() + (1024 - (uintptr_t)dynamic.data() % 1024) % 1024;
    own->dynamic_size = l->shared_bytes;
    own->variables = shared_variables_of_this_thread();
    gridDim = l->grid;
    blockDim = l->block;
    make_threads(own.get(), l->block);
    watch_shared(own.get());
    for (uint64_t i; (i = l->next_block.fetch_add(1)) < n_blocks;) {
        blockIdx = {(unsigned)(i % l->grid.x), (unsigned)(i / l->grid.x % l->grid.y),
                    (unsigned)(i / l->grid.x / l->grid.y)};
        fill_shared(own.get());
        start_threads(own.get());
        fiber_of_caller(&own->caller);
        set_current(&own->threads[0]);
        fiber_switch(&own->caller, &own->threads[0].fiber);
        check_canary(own.get());
    }
    stop_watching();
    block = nullptr;
    give_back(std::move(own));
}

static bool refused(const kernel *k, const char *name, const struct launch &l)
{
    uint64_t threads = (uint64_t)l.block.x * l.block.y * l.block.z;
    const char *why = !k                                                ? "is not linked in"
                      : !threads || !l.grid.x || !l.grid.y || !l.grid.z ? "launched with no threads"
                      : threads > k->max_threads || threads > MAX_BLOCK_THREADS
                          ? "launched with more threads than its bounds allow"
                      : threads % 32
                          ? "launched with a part of a warp, which its instructions do not allow"
                      : l.grid.y > 65535 || l.grid.z > 65535
                          ? "launched with more than 65535 blocks in y or z"
                      : l.shared_bytes > MAX_DYNAMIC_SHARED
                          ? "launched with more shared memory than a block may have"
                          : nullptr;
    if (why)
        fprintf(stderr, "emulator: kernel %s %s (grid %ux%ux%u, block %ux%ux%u, %zu bytes)\n", name,
                why, l.grid.x, l.grid.y, l.grid.z, l.block.x, l.block.y, l.block.z, l.shared_bytes);
    return why;
}

static const kernel *find(const char *name)
{
    const kernel *k = kernels;
    while (k && strcmp(k->name, name) != 0)
        k = k->next;
    return k;
}

} // namespace emulator

extern "C" const struct emulated_kernel *emulator_find(const char *name)
{
    return emulator::find(name);
}

extern "C" const struct emulated_kernel *emulator_kernel_at(unsigned i)
{
    const emulator::kernel *k = emulator::kernels;
    for (; k && i; i--)
        k = k->next;
    return k;
}

extern "C" void emulator_use_threads(int n)
{
    emulator::cpu_threads = n;
}

extern "C" bool emulator_launch(const char *kernel, const void *args, const unsigned grid[3],
                                const unsigned block[3], size_t shared_bytes)
{
    emulator::launch l = {emulator::find(kernel),         args,         {grid[0], grid[1], grid[2]},
                          {block[0], block[1], block[2]}, shared_bytes, {0}};
    if (emulator::refused(l.of, kernel, l)) return false;
    uint64_t n_blocks = (uint64_t)grid[0] * grid[1] * grid[2];
    std::vector<std::thread> others;
    for (int i = 1; i < emulator::cpu_threads && (uint64_t)i < n_blocks; i++)
        others.emplace_back(emulator::run_blocks, &l);
    emulator::run_blocks(&l);
    for (std::thread &t : others)
        t.join();
    return true;
}
