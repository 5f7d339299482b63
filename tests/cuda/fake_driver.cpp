/* SPDX-License-Identifier: Apache-2.0 */
/* See fake_driver.h. A stream is a queue of steps that have not run; an event is a position in such
 * a queue. */
#include "cuda/fake_driver.h"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <sys/mman.h>
#include <unistd.h>

#include "kernels/cuda/common/abi.h"
#include "cuda/emulated.h"

enum {
    INVALID_CONTEXT = 201,
    INVALID_HANDLE = 400,
    CAPTURE_UNSUPPORTED = 900,
    CAPTURE_INVALIDATED = 901,
    ILLEGAL_STATE = 401,
    LAUNCH_FAILED = 719
};
/* A GPU grants 48 KiB of static and dynamic shared memory without an attribute. A kernel's static
 * part is unknown here; 16 KiB are assumed. */
enum { SHARED_WITHOUT_ASKING = 32 * 1024, ALIGNMENT = 512, MAX_ARGS = 4096 };

typedef std::function<void(void)> gpu_work;

struct CUstream_st {
    std::deque<gpu_work> steps;
    uint64_t n_added, n_done;
    CUgraph capture; /* steps are recorded here if not NULL */
    bool everywhere; /* forbidden calls fail on all threads, not only on the capturing one */
    std::thread::id capturer;
};

struct CUevent_st {
    CUstream stream;
    uint64_t position; /* complete after so many steps of the stream */
    double time;       /* seconds */
};

struct CUgraph_st {
    std::vector<gpu_work> steps;
};

struct CUgraphExec_st {
    std::vector<gpu_work> steps;
};

struct CUfunc_st {
    const struct emulated_kernel *kernel;
    size_t max_shared;
    bool loaded;
};

struct CUmod_st {
    std::deque<CUfunc_st> functions; /* all linked kernels, whatever the image */
};

struct CUctx_st {
    int references;
};

extern "C" const struct fake_gpu fake_small_gpu = {"NVIDIA GeForce RTX 5060",
                                                   (size_t)8151 << 20,
                                                   (size_t)1151 << 20,
                                                   (size_t)120 << 20,
                                                   1,
                                                   30,
                                                   12,
                                                   0,
                                                   13000,
                                                   99 * 1024,
                                                   false};

static std::recursive_mutex lock;
static struct fake_gpu gpu;
static struct fake_counts counts;
static CUctx_st context;
static thread_local CUcontext current;
static std::map<uintptr_t, size_t> device_memory, host_memory; /* address → bytes */
struct pages {
    size_t bytes;
    void *device; /* a second mapping of the same pages */
};
static std::map<uintptr_t, pages> registered; /* by address */
static std::set<CUstream> streams;
static std::string failing_member;
static int calls_to_failure;
static bool has_failed;
static CUresult failure;
static std::string broken_kernel, hidden_kernel;
static size_t spilled_first, spilled_bytes;
static double now; /* simulated seconds */

/* ---- checks ---- */

static CUresult complaint(const char *member, CUresult result, const char *why)
{
    fprintf(stderr, "fake driver: %s: %s\n", member, why);
    return result;
}

static bool capturing(void)
{
    for (CUstream s : streams)
        if (s->capture && (s->everywhere || s->capturer == std::this_thread::get_id())) return true;
    return false;
}

/* Returns the error that a test has planned for this call. */
static CUresult planned_failure(const char *member)
{
    if (failing_member != member || --calls_to_failure) return CUDA_SUCCESS;
    failing_member.clear();
    has_failed = true;
    return failure;
}

static CUresult entering(const char *member)
{
    if (CUresult r = planned_failure(member)) return r;
    return current ? CUDA_SUCCESS
                   : complaint(member, INVALID_CONTEXT, "this thread has no current context");
}

/* For calls that wait or allocate, which are not allowed during a capture. */
static CUresult entering_uncaptured(const char *member)
{
    if (CUresult r = entering(member)) return r;
    return capturing()
               ? complaint(member, CAPTURE_UNSUPPORTED, "not allowed while a stream is captured")
               : CUDA_SUCCESS;
}

static thread_local int depth; /* of nested driver calls */

struct inside {
    inside()
    {
        depth++;
    }
    ~inside()
    {
        depth--;
    }
};

#define HOLD()        \
    inside in_driver; \
    std::lock_guard<std::recursive_mutex> hold(lock)
#define ENTER(member) \
    HOLD();           \
    if (CUresult entering_result = entering(member)) return entering_result
#define ENTER_UNCAPTURED(member) \
    HOLD();                      \
    if (CUresult entering_result = entering_uncaptured(member)) return entering_result

static bool within(const std::map<uintptr_t, size_t> &memory, uintptr_t p, size_t bytes)
{
    auto after = memory.upper_bound(p);
    if (after == memory.begin()) return false;
    auto holder = std::prev(after);
    return p - holder->first <= holder->second && bytes <= holder->second - (p - holder->first);
}

static bool on_card(CUdeviceptr p, size_t bytes)
{
    return within(device_memory, (uintptr_t)p, bytes);
}

/* ---- streams ---- */

static void do_until(CUstream s, uint64_t position)
{
    while (s->n_done < position) {
        gpu_work next = std::move(s->steps.front());
        s->steps.pop_front();
        next();
        now += FAKE_STEP_SECONDS;
        s->n_done++;
    }
}

static void add_step(CUstream s, gpu_work what)
{
    if (s->capture) {
        s->capture->steps.push_back(std::move(what));
        return;
    }
    s->steps.push_back(std::move(what));
    s->n_added++;
}

static CUresult stream_create(CUstream *out, unsigned)
{
    ENTER_UNCAPTURED("stream_create");
    *out = new CUstream_st{};
    streams.insert(*out);
    counts.streams++;
    counts.calls_that_allocate++;
    return CUDA_SUCCESS;
}

static CUresult stream_destroy(CUstream s)
{
    ENTER_UNCAPTURED("stream_destroy");
    if (!streams.count(s)) return complaint("stream_destroy", INVALID_HANDLE, "no such stream");
    do_until(s, s->n_added);
    streams.erase(s);
    delete s;
    counts.streams--;
    return CUDA_SUCCESS;
}

static CUresult stream_sync(CUstream s)
{
    ENTER_UNCAPTURED("stream_sync");
    if (!streams.count(s)) return complaint("stream_sync", INVALID_HANDLE, "no such stream");
    do_until(s, s->n_added);
    return CUDA_SUCCESS;
}

static CUresult event_create(CUevent *out, unsigned)
{
    ENTER("event_create");
    *out = new CUevent_st{};
    counts.events++;
    counts.calls_that_allocate++;
    return CUDA_SUCCESS;
}

static CUresult event_destroy(CUevent e)
{
    ENTER("event_destroy");
    delete e;
    counts.events--;
    return CUDA_SUCCESS;
}

static CUresult event_record(CUevent e, CUstream s)
{
    ENTER("event_record");
    if (!streams.count(s)) return complaint("event_record", INVALID_HANDLE, "no such stream");
    add_step(s, [e] { e->time = now; });
    if (!s->capture) {
        e->stream = s;
        e->position = s->n_added;
    }
    return CUDA_SUCCESS;
}

static CUresult event_sync(CUevent e)
{
    ENTER_UNCAPTURED("event_sync");
    if (e->stream) do_until(e->stream, e->position);
    return CUDA_SUCCESS;
}

static CUresult event_seconds(float *milliseconds, CUevent start, CUevent end)
{
    ENTER("event_seconds");
    if (!start->stream || !end->stream)
        return complaint("event_seconds", INVALID_HANDLE, "an event that was never recorded");
    if (start->stream->n_done < start->position || end->stream->n_done < end->position)
        return complaint("event_seconds", 600, "an event that has not happened yet");
    *milliseconds = (float)((end->time - start->time) * 1e3);
    return CUDA_SUCCESS;
}

static CUresult stream_wait(CUstream s, CUevent e, unsigned)
{
    ENTER("stream_wait");
    if (!streams.count(s)) return complaint("stream_wait", INVALID_HANDLE, "no such stream");
    CUstream other = e->stream;
    uint64_t position = e->position;
    if (other && other != s)
        add_step(s, [other, position] {
            if (streams.count(other)) do_until(other, position);
        });
    return CUDA_SUCCESS;
}

/* ---- graphs ---- */

static CUresult capture_begin(CUstream s, int mode)
{
    ENTER("capture_begin");
    if (!streams.count(s) || s->capture)
        return complaint("capture_begin", INVALID_HANDLE,
                         "no such stream, or one that is captured already");
    s->capture = new CUgraph_st{};
    s->everywhere = mode != CU_STREAM_CAPTURE_MODE_THREAD_LOCAL,
    s->capturer = std::this_thread::get_id();
    return CUDA_SUCCESS;
}

/* A failed capture has ended, too. */
static CUresult capture_end(CUstream s, CUgraph *graph)
{
    HOLD();
    CUresult r = entering("capture_end");
    if (!streams.count(s) || !s->capture)
        return complaint("capture_end", ILLEGAL_STATE, "a stream that is not captured");
    *graph = s->capture;
    s->capture = nullptr;
    if (!r) return CUDA_SUCCESS;
    delete *graph;
    *graph = nullptr;
    return r;
}

static CUresult graph_instantiate(CUgraphExec *exec, CUgraph graph, unsigned long long)
{
    ENTER_UNCAPTURED("graph_instantiate");
    *exec = new CUgraphExec_st{graph->steps};
    counts.graphs++;
    counts.calls_that_allocate++;
    return CUDA_SUCCESS;
}

static CUresult graph_upload(CUgraphExec, CUstream)
{
    ENTER_UNCAPTURED("graph_upload");
    return CUDA_SUCCESS;
}

static CUresult graph_launch(CUgraphExec exec, CUstream s)
{
    ENTER_UNCAPTURED("graph_launch");
    if (!streams.count(s)) return complaint("graph_launch", INVALID_HANDLE, "no such stream");
    for (const gpu_work &what : exec->steps)
        add_step(s, what);
    counts.graph_launches++;
    return CUDA_SUCCESS;
}

static CUresult graph_destroy(CUgraph graph)
{
    ENTER("graph_destroy");
    delete graph;
    return CUDA_SUCCESS;
}

static CUresult graph_exec_destroy(CUgraphExec exec)
{
    ENTER("graph_exec_destroy");
    delete exec;
    counts.graphs--;
    return CUDA_SUCCESS;
}

/* ---- memory ---- */

static size_t free_bytes_now(void)
{
    size_t used = gpu.used_by_others + gpu.context_bytes + counts.device_bytes;
    return used < gpu.total ? gpu.total - used : 0;
}

/* Filled with NaN in every format. */
static void *unwritten(size_t bytes)
{
    void *p = nullptr;
    if (posix_memalign(&p, ALIGNMENT, bytes) != 0) {
        perror("fake driver");
        abort();
    }
    return memset(p, 0xff, bytes);
}

static CUresult memory_info(size_t *free_bytes, size_t *total)
{
    ENTER("memory_info");
    *free_bytes = free_bytes_now();
    *total = gpu.total;
    return CUDA_SUCCESS;
}

static CUresult memory_alloc(CUdeviceptr *out, size_t bytes)
{
    ENTER_UNCAPTURED("memory_alloc");
    if (!bytes) return CUDA_ERROR_INVALID_VALUE;
    if (bytes > free_bytes_now()) return CUDA_ERROR_OUT_OF_MEMORY;
    void *p = unwritten(bytes);
    device_memory[(uintptr_t)p] = bytes;
    *out = (CUdeviceptr)(uintptr_t)p;
    counts.device_bytes += bytes;
    if (counts.device_bytes > counts.device_peak) counts.device_peak = counts.device_bytes;
    counts.device_allocations++;
    counts.calls_that_allocate++;
    return CUDA_SUCCESS;
}

static void finish_all(void)
{
    for (CUstream s : streams)
        do_until(s, s->n_added);
}

static CUresult memory_free(CUdeviceptr p)
{
    ENTER_UNCAPTURED("memory_free");
    auto held = device_memory.find((uintptr_t)p);
    if (!p) return CUDA_SUCCESS;
    if (held == device_memory.end())
        return complaint("memory_free", CUDA_ERROR_INVALID_VALUE, "not an allocation");
    finish_all(); /* cuMemFree waits for the GPU */
    counts.device_bytes -= held->second;
    counts.device_allocations--;
    device_memory.erase(held);
    free((void *)(uintptr_t)p);
    return CUDA_SUCCESS;
}

static CUresult host_alloc(void **out, size_t bytes, unsigned)
{
    ENTER_UNCAPTURED("host_alloc");
    if (!bytes) return CUDA_ERROR_INVALID_VALUE;
    *out = unwritten(bytes);
    host_memory[(uintptr_t)*out] = bytes;
    counts.host_allocations++;
    counts.calls_that_allocate++;
    return CUDA_SUCCESS;
}

static CUresult host_free(void *p)
{
    ENTER_UNCAPTURED("host_free");
    if (!host_memory.count((uintptr_t)p))
        return complaint("host_free", CUDA_ERROR_INVALID_VALUE, "not an allocation");
    finish_all();
    host_memory.erase((uintptr_t)p);
    free(p);
    counts.host_allocations--;
    return CUDA_SUCCESS;
}

/* Whole pages, none of them registered already. */
static bool may_register(uintptr_t p, size_t bytes)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    if (!bytes || p % page || bytes % page) return false;
    for (const auto &r : registered)
        if (p < r.first + r.second.bytes && r.first < p + bytes) return false;
    return true;
}

static CUresult host_register(void *p, size_t bytes, unsigned flags)
{
    ENTER_UNCAPTURED("host_register");
    if (gpu.pins_no_files) return CUDA_ERROR_NOT_SUPPORTED;
    if (flags != (CU_MEMHOSTREGISTER_DEVICEMAP | CU_MEMHOSTREGISTER_READ_ONLY) ||
        !may_register((uintptr_t)p, bytes))
        return complaint("host_register", CUDA_ERROR_INVALID_VALUE,
                         "not whole pages, registered already, or not for reading alone");
    void *alias = mremap(p, 0, bytes, MREMAP_MAYMOVE);
    registered[(uintptr_t)p] = {bytes, alias == MAP_FAILED ? p : alias};
    counts.pinned_ranges++;
    counts.pinned_bytes += bytes;
    counts.calls_that_allocate++;
    return CUDA_SUCCESS;
}

static CUresult host_unregister(void *p)
{
    ENTER_UNCAPTURED("host_unregister");
    auto held = registered.find((uintptr_t)p);
    if (held == registered.end())
        return complaint("host_unregister", CUDA_ERROR_INVALID_VALUE, "not registered");
    finish_all();
    if (held->second.device != p) munmap(held->second.device, held->second.bytes);
    counts.pinned_ranges--;
    counts.pinned_bytes -= held->second.bytes;
    registered.erase(held);
    return CUDA_SUCCESS;
}

static CUresult host_address(CUdeviceptr *out, void *p, unsigned)
{
    ENTER("host_address");
    auto held = registered.find((uintptr_t)p);
    if (held == registered.end())
        return complaint("host_address", CUDA_ERROR_INVALID_VALUE, "not registered");
    *out = (CUdeviceptr)(uintptr_t)held->second.device;
    return CUDA_SUCCESS;
}

static CUresult copy_in(CUdeviceptr to, const void *from, size_t bytes, CUstream s)
{
    ENTER("to_device");
    if (!streams.count(s)) return complaint("to_device", INVALID_HANDLE, "no such stream");
    if (!on_card(to, bytes))
        return complaint("to_device", CUDA_ERROR_INVALID_VALUE, "to no allocation of the GPU");
    counts.copies++;
    if (s->capture || within(host_memory, (uintptr_t)from, bytes)) {
        add_step(s, [=] { memcpy((void *)(uintptr_t)to, from, bytes); });
    } else { /* pageable memory is read before the call returns */
        auto taken = std::make_shared<std::vector<char>>((const char *)from,
                                                         (const char *)from + bytes);
        add_step(s, [=] { memcpy((void *)(uintptr_t)to, taken->data(), bytes); });
    }
    return CUDA_SUCCESS;
}

static CUresult copy_out(void *to, CUdeviceptr from, size_t bytes, CUstream s)
{
    ENTER("to_host");
    if (!streams.count(s)) return complaint("to_host", INVALID_HANDLE, "no such stream");
    if (!on_card(from, bytes))
        return complaint("to_host", CUDA_ERROR_INVALID_VALUE, "from no allocation of the GPU");
    counts.copies++;
    add_step(s, [=] { memcpy(to, (const void *)(uintptr_t)from, bytes); });
    /* copies to pageable memory are complete when the call returns */
    if (!s->capture && !within(host_memory, (uintptr_t)to, bytes)) do_until(s, s->n_added);
    return CUDA_SUCCESS;
}

static CUresult copy_on_gpu(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream s)
{
    ENTER("on_device");
    if (!streams.count(s)) return complaint("on_device", INVALID_HANDLE, "no such stream");
    if (!on_card(to, bytes) || !on_card(from, bytes))
        return complaint("on_device", CUDA_ERROR_INVALID_VALUE, "outside the GPU's allocations");
    counts.copies++;
    add_step(s, [=] { memmove((void *)(uintptr_t)to, (const void *)(uintptr_t)from, bytes); });
    return CUDA_SUCCESS;
}

static CUresult set_bytes(CUdeviceptr to, unsigned char byte, size_t bytes, CUstream s)
{
    ENTER("set_bytes");
    if (!streams.count(s)) return complaint("set_bytes", INVALID_HANDLE, "no such stream");
    if (!on_card(to, bytes))
        return complaint("set_bytes", CUDA_ERROR_INVALID_VALUE, "to no allocation of the GPU");
    add_step(s, [=] { memset((void *)(uintptr_t)to, byte, bytes); });
    return CUDA_SUCCESS;
}

/* ---- kernels ---- */

enum { READ_FOR_REAL = 1 << 20 }; /* the emulator is slow, so larger reads only advance the clock */

/* How many of data[bytes] are spilled to host memory. */
static size_t spilled_of(uintptr_t data, size_t bytes)
{
    uintptr_t largest = 0;
    size_t most = 0;
    for (const auto &a : device_memory)
        if (a.second > most) {
            most = a.second;
            largest = a.first;
        }
    uintptr_t first = std::max(data, largest + spilled_first),
              end = std::min(data + bytes, largest + spilled_first + spilled_bytes);
    return spilled_bytes && first < end ? end - first : 0;
}

/* Advances the clock; returns true if the kernel need not run. */
static bool read_in_made_up_time(const struct read_memory_args *a)
{
    enum { SLOWER = 30 };
    size_t slow = spilled_of((uintptr_t)a->data, (size_t)a->bytes);
    now += ((double)a->bytes + (SLOWER - 1) * (double)slow) * a->times / FAKE_READ_RATE;
    return a->bytes * a->times > READ_FOR_REAL;
}

static CUresult module_load(CUmodule *out, const void *image)
{
    ENTER_UNCAPTURED("module_load");
    if (!image) return CUDA_ERROR_INVALID_IMAGE;
    *out = new CUmod_st{};
    for (unsigned i = 0; const struct emulated_kernel *kernel = emulator_kernel_at(i); i++)
        if (hidden_kernel != kernel->name)
            (*out)->functions.push_back({kernel, SHARED_WITHOUT_ASKING, false});
    counts.modules++;
    counts.calls_that_allocate++;
    return CUDA_SUCCESS;
}

static CUresult module_unload(CUmodule module)
{
    ENTER_UNCAPTURED("module_unload");
    delete module;
    counts.modules--;
    return CUDA_SUCCESS;
}

static CUresult module_function_count(unsigned *n, CUmodule module)
{
    ENTER("module_function_count");
    *n = (unsigned)module->functions.size();
    return CUDA_SUCCESS;
}

static CUresult module_functions(CUfunction *out, unsigned n, CUmodule module)
{
    ENTER("module_functions");
    for (unsigned i = 0; i < n && i < module->functions.size(); i++)
        out[i] = &module->functions[i];
    return CUDA_SUCCESS;
}

static CUresult function_name(const char **name, CUfunction f)
{
    ENTER("function_name");
    *name = f->kernel->name;
    return CUDA_SUCCESS;
}

static CUresult function_attribute(CUfunction f, int attribute, int value)
{
    ENTER("function_attribute");
    if (attribute != CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES) return CUDA_SUCCESS;
    if (value < 0 || (size_t)value > gpu.shared_per_block)
        return complaint("function_attribute", CUDA_ERROR_INVALID_VALUE,
                         "more shared memory than a block of this GPU may have");
    f->max_shared = (size_t)value;
    return CUDA_SUCCESS;
}

static CUresult function_load(CUfunction f)
{
    ENTER_UNCAPTURED("function_load");
    if (!f->loaded) counts.calls_that_allocate++;
    f->loaded = true;
    return CUDA_SUCCESS;
}

static CUresult launch_kernel(const CUlaunchConfig *config, CUfunction f, void **args, void **extra)
{
    ENTER("launch");
    CUlaunchConfig c = *config;
    if (!streams.count(c.hStream)) return complaint("launch", INVALID_HANDLE, "no such stream");
    if (extra || !args || !args[0])
        return complaint("launch", CUDA_ERROR_INVALID_VALUE, "one struct is expected in args[0]");
    if (c.sharedMemBytes > f->max_shared)
        return complaint("launch", CUDA_ERROR_INVALID_VALUE,
                         "more shared memory than the function was set to");
    if (!f->loaded) {
        counts.lazy_functions++;
        counts.calls_that_allocate++;
    }
    f->loaded = true;
    counts.launches++;
    const struct emulated_kernel *kernel = f->kernel;
    auto taken = std::make_shared<std::vector<char>>((const char *)args[0],
                                                     (const char *)args[0] + kernel->args_size);
    add_step(c.hStream, [c, kernel, taken] {
        if (broken_kernel == kernel->name) return;
        if (strcmp(kernel->name, "read_memory") == 0 &&
            read_in_made_up_time((const struct read_memory_args *)(const void *)taken->data()))
            return;
        const unsigned grid[3] = {c.gridDimX, c.gridDimY, c.gridDimZ},
                       block[3] = {c.blockDimX, c.blockDimY, c.blockDimZ};
        if (!emulator_launch(kernel->name, taken->data(), grid, block, c.sharedMemBytes)) abort();
    });
    return CUDA_SUCCESS;
}

/* ---- the driver and its GPUs ---- */

static CUresult init(unsigned)
{
    HOLD();
    return planned_failure("init");
}

static CUresult driver_version(int *version)
{
    *version = gpu.driver_version;
    return CUDA_SUCCESS;
}

static CUresult error_name(CUresult, const char **name)
{
    *name = "CUDA_ERROR_OF_A_TEST";
    return CUDA_SUCCESS;
}

static CUresult error_string(CUresult error, const char **text)
{
    *text = error == CUDA_ERROR_OUT_OF_MEMORY ? "out of memory" : "an error of a test";
    return CUDA_SUCCESS;
}

static CUresult device_count(int *n)
{
    HOLD();
    *n = gpu.n_gpus;
    return planned_failure("device_count");
}

static CUresult device_get(CUdevice *device, int ordinal)
{
    HOLD();
    if (CUresult r = planned_failure("device_get")) return r;
    *device = ordinal;
    return ordinal >= 0 && ordinal < gpu.n_gpus ? CUDA_SUCCESS : 101;
}

static CUresult device_name(char *name, int size, CUdevice)
{
    snprintf(name, (size_t)size, "%s", gpu.name);
    return CUDA_SUCCESS;
}

static CUresult device_bus(char *bus, int size, CUdevice)
{
    snprintf(bus, (size_t)size, "0000:01:00.0");
    return CUDA_SUCCESS;
}

static CUresult device_attribute(int *value, int attribute, CUdevice)
{
    switch (attribute) {
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT: *value = gpu.sm_count; break;
    case CU_DEVICE_ATTRIBUTE_INTEGRATED: *value = 0; break;
    case CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY:
    case CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING: *value = 1; break;
    case CU_DEVICE_ATTRIBUTE_READ_ONLY_HOST_REGISTER_SUPPORTED: *value = 1; break;
    case CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE: *value = 14001000; break;
    case CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH: *value = 128; break;
    case CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE: *value = 32 << 20; break;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR: *value = gpu.major; break;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR: *value = gpu.minor; break;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN:
        *value = (int)gpu.shared_per_block;
        break;
    default:
        return complaint("device_attribute", CUDA_ERROR_INVALID_VALUE,
                         "an attribute that the fake does not know");
    }
    return CUDA_SUCCESS;
}

static CUresult device_total(size_t *bytes, CUdevice)
{
    *bytes = gpu.total;
    return CUDA_SUCCESS;
}

static CUresult context_retain(CUcontext *out, CUdevice)
{
    HOLD();
    if (CUresult r = planned_failure("context_retain")) return r;
    context.references++;
    counts.contexts++;
    *out = &context;
    return CUDA_SUCCESS;
}

/* Frees what a context still holds; the counts keep it. */
static void forget_memory(void)
{
    for (const auto &held : device_memory)
        free((void *)held.first);
    for (const auto &held : host_memory)
        free((void *)held.first);
    for (const auto &held : registered)
        if ((uintptr_t)held.second.device != held.first)
            munmap(held.second.device, held.second.bytes);
    registered.clear();
    device_memory.clear();
    host_memory.clear();
}

static CUresult context_release(CUdevice)
{
    HOLD();
    if (!context.references)
        return complaint("context_release", INVALID_CONTEXT, "a context that nobody holds");
    context.references--;
    counts.contexts--;
    if (!context.references) forget_memory();
    return CUDA_SUCCESS;
}

static CUresult context_flags(CUdevice, unsigned)
{
    return CUDA_SUCCESS;
}

static CUresult context_current(CUcontext c)
{
    HOLD();
    current = c;
    return planned_failure("context_current");
}

static CUresult context_limit(int, size_t)
{
    ENTER("context_limit");
    return CUDA_SUCCESS;
}

/* ---- tests ---- */

static void forget_all(const struct fake_gpu *c)
{
    gpu = *c;
    counts = {};
    context = {};
    failing_member.clear();
    has_failed = false;
    broken_kernel.clear();
    hidden_kernel.clear();
    spilled_bytes = 0;
}

extern "C" void fake_driver_fill(struct cuda_driver *driver, const struct fake_gpu *c)
{
    HOLD();
    if (!context.references) forget_all(c);
    *driver = {};
    driver->to_device = copy_in;
    driver->to_host = copy_out;
    driver->on_device = copy_on_gpu;
#define FILL(member) driver->member = member
    FILL(init);
    FILL(driver_version);
    FILL(error_name);
    FILL(error_string);
    FILL(device_count);
    FILL(device_get);
    FILL(device_name);
    FILL(device_bus);
    FILL(device_attribute);
    FILL(device_total);
    FILL(context_retain);
    FILL(context_release);
    FILL(context_flags);
    FILL(context_current);
    FILL(context_limit);
    FILL(memory_info);
    FILL(memory_alloc);
    FILL(memory_free);
    FILL(host_alloc);
    FILL(host_free);
    FILL(set_bytes);
    FILL(host_register);
    FILL(host_unregister);
    FILL(host_address);
    FILL(module_load);
    FILL(module_unload);
    FILL(module_function_count);
    FILL(module_functions);
    FILL(function_name);
    FILL(function_attribute);
    FILL(function_load);
    driver->launch = launch_kernel; /* `launch` is also a struct, so no FILL */
    FILL(stream_create);
    FILL(stream_destroy);
    FILL(stream_sync);
    FILL(stream_wait);
    FILL(event_create);
    FILL(event_destroy);
    FILL(event_record);
    FILL(event_sync);
    FILL(event_seconds);
    FILL(capture_begin);
    FILL(capture_end);
    FILL(graph_instantiate);
    FILL(graph_upload);
    FILL(graph_launch);
    FILL(graph_destroy);
    FILL(graph_exec_destroy);
#undef FILL
#define CHECK(member, symbol, args)                           \
    if (!driver->member) {                                    \
        fputs("fake driver: it lacks " #member "\n", stderr); \
        abort();                                              \
    }
    CUDA_FUNCTIONS(CHECK)
#undef CHECK
}

extern "C" struct fake_counts fake_driver_counts(void)
{
    HOLD();
    return counts;
}

extern "C" void fake_driver_break(const char *kernel)
{
    HOLD();
    broken_kernel = kernel ? kernel : "";
}

extern "C" void fake_driver_hide(const char *kernel)
{
    HOLD();
    hidden_kernel = kernel ? kernel : "";
}

extern "C" void fake_driver_spill(size_t first, size_t bytes)
{
    HOLD();
    spilled_first = first;
    spilled_bytes = bytes;
}

extern "C" void fake_driver_fail(const char *member, int nth, CUresult error)
{
    HOLD();
    failing_member = member ? member : "";
    calls_to_failure = nth;
    failure = error;
    has_failed = false;
}

extern "C" bool fake_driver_failed(void)
{
    HOLD();
    return has_failed;
}

extern "C" bool fake_driver_is_inside(void)
{
    return depth > 0;
}
