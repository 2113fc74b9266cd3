// Runs CUDA kernels on the host, one block after the other, so that their logic can be tested without a GPU.
// Each thread of a block is a fiber; at a barrier or an exchange within a warp it hands over to the next.
#pragma once
#include <setjmp.h>
#include <ucontext.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <utility>
#include <vector>

#define __global__
#define __device__
#define __shared__
#define __launch_bounds__(...)
#pragma GCC diagnostic ignored "-Wunknown-pragmas"

struct uint3 {
    unsigned x, y, z;
};
struct alignas(16) float4 {
    float x, y, z, w;
};
using std::max;
using std::min;

static uint3 threadIdx, blockIdx, blockDim, gridDim;
static float4 shared_memory[256 * 1024 / 16];

namespace host {

struct Fiber {
    std::vector<char> stack = std::vector<char>(64 * 1024);
    ucontext_t context;
    jmp_buf place;
    bool begun = false, done = false;
    unsigned interval = 0;  // barriers passed
};

struct Exchange {
    unsigned count = 0, votes = 0, ballots[2] = {};
    double values[2][32] = {};
};

static std::vector<Fiber> fibers;
static std::vector<Exchange> warps;
static Fiber* current;
static jmp_buf scheduler;
static unsigned reached;
static volatile unsigned remaining;
static void (*body)(void*);
static void* argument;

}  // namespace host

#ifdef CHECKED
#include "cuda_checks.h"
#else
#define UNCHECKED
namespace host {
static bool watching;
}
#endif

namespace host {

// While it lives, accesses are those of the emulation.
struct Aside {
    UNCHECKED Aside() { watching = false; }
    UNCHECKED ~Aside() { watching = true; }
};

UNCHECKED inline void hand_over() {
    if (!_setjmp(current->place)) _longjmp(scheduler, 1);
    watching = false;
}

UNCHECKED inline void run_fiber() {
    body(argument);
    watching = false;
    current->done = true;
    remaining--;
    _longjmp(scheduler, 1);
}

inline unsigned chance() {
    static uint64_t state = 1;
    state = state * 6364136223846793005u + 1442695040888963407u;
    return static_cast<unsigned>(state >> 33);
}

// In each round fibers run until they wait for others, in another order each time, some warps far behind:
// a barrier that is missing then shows.
inline void block(unsigned threads) {
    if (fibers.size() < threads) fibers.resize(threads);
    warps.assign((threads + 31) / 32, {});
    reached = 0;
    for (unsigned t = 0; t < threads; t++) fibers[t].begun = fibers[t].done = false, fibers[t].interval = 0;
    remaining = threads;
    unsigned asleep = 0;
    for (volatile unsigned round = 0; remaining > 0; round = round + 1) {
        if (round % 16 == 0) asleep = chance() & chance() & chance();
        const unsigned first = chance(), skipped = asleep | chance() & chance();
        unsigned stride = chance() % threads;
        while (std::gcd(stride, threads) != 1) stride = (stride + 1) % threads;
        for (volatile unsigned i = 0; i < threads; i = i + 1) {
            const unsigned t = (first + i * stride) % threads;
            if (fibers[t].done || skipped >> t / 32 % 32 & 1) continue;
            current = &fibers[t];
            threadIdx = {t, 0, 0};
            if (_setjmp(scheduler)) {
                watching = false;
                continue;
            }
            if (current->begun) _longjmp(current->place, 1);
            current->begun = true;
            getcontext(&current->context);
            current->context.uc_stack.ss_sp = current->stack.data();
            current->context.uc_stack.ss_size = current->stack.size();
            current->context.uc_link = nullptr;
            makecontext(&current->context, run_fiber, 0);
            setcontext(&current->context);
        }
    }
}

// The state of a warp's exchanges: number n is complete when 32 lanes have come n times.
UNCHECKED inline Exchange& meet(unsigned lane, double value, bool vote, unsigned& number) {
    Exchange& warp = warps[threadIdx.x / 32];
    const unsigned mine = warp.count / 32;
    number = mine % 2;
    if (warp.count % 32 == 0) warp.ballots[number] = 0;
    warp.values[number][lane] = value;
    warp.ballots[number] |= static_cast<unsigned>(vote) << lane;
    warp.count++;
    while (warp.count < 32 * (mine + 1)) hand_over();
    return warp;
}

template <class... P, size_t... I>
UNCHECKED void call(void (*kernel)(P...), void** values, std::index_sequence<I...>) {
    watching = true;
    kernel(*static_cast<std::remove_reference_t<P>*>(values[I])...);
}

// Returns 1 when a block wrote beyond its `shared` bytes, 2 when a check failed. Shared memory begins as NaN.
template <class... P>
UNCHECKED int launch(void (*kernel)(P...), const unsigned* grid, unsigned threads, unsigned shared, void** values) {
    constexpr uint32_t nan = 0x7fc00000u;
    uint32_t *begin = reinterpret_cast<uint32_t*>(shared_memory), *end = begin + sizeof(shared_memory) / 4;
    std::fill(begin, end, nan);
    static void (*function)(P...);
    static void** given;
    function = kernel, given = values;
    body = [](void*) UNCHECKED { call(function, given, std::index_sequence_for<P...>{}); };
#ifdef CHECKED
    shared_bytes = shared;
    if (_setjmp(abandoned)) return 2;
#endif
    blockDim = {threads, 1, 1}, gridDim = {grid[0], grid[1], grid[2]};
    for (unsigned z = 0; z < grid[2]; z++)
        for (unsigned y = 0; y < grid[1]; y++)
            for (unsigned x = 0; x < grid[0]; x++) {
                blockIdx = {x, y, z};
                block(threads);
#ifdef CHECKED
                for (unsigned t = 0; t < threads; t++) interval_base = max(interval_base, interval_base + fibers[t].interval);
                interval_base += 1;
#endif
                if (std::any_of(begin + shared / 4, end, [](uint32_t word) { return word != nan; })) return 1;
                std::fill(begin, begin + shared / 4, nan);
            }
    return 0;
}

}  // namespace host

UNCHECKED inline void __syncthreads() {
    host::Aside aside;
    const unsigned mine = host::reached / blockDim.x;
    host::reached++;
    while (host::reached < blockDim.x * (mine + 1)) host::hand_over();
    host::current->interval++;
}

UNCHECKED inline unsigned __ballot_sync(unsigned, bool vote) {
    host::Aside aside;
    unsigned number;
    return host::meet(threadIdx.x % 32, 0.0, vote, number).ballots[number];
}

UNCHECKED inline float __shfl_sync(unsigned, float value, int source) {
    host::Aside aside;
    unsigned number;
    return static_cast<float>(host::meet(threadIdx.x % 32, value, false, number).values[number][source]);
}

UNCHECKED inline double __shfl_xor_sync(unsigned, double value, int distance) {
    host::Aside aside;
    unsigned number;
    const unsigned lane = threadIdx.x % 32;
    return host::meet(lane, value, false, number).values[number][lane ^ static_cast<unsigned>(distance)];
}

inline int __ffs(unsigned bits) { return __builtin_ffs(static_cast<int>(bits)); }
