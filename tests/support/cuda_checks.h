// Checks of every access that a kernel makes on the host: within its arrays and its block's shared memory, and
// no number of shared memory that another thread wrote, or reads, between the same two barriers.
//
// The compiler inserts the calls (-fsanitize=thread), this file has what they call in place of its library.
#pragma once
#include <cstdio>

#define UNCHECKED __attribute__((no_sanitize_thread))

namespace host {

struct Word {
    unsigned written = 0, read = 0;  // the interval, counted over all blocks
    int writer = -1, reader = -1;    // the thread; of several readers MANY
};
constexpr int MANY = -2;

static Word words[sizeof(shared_memory) / 4];
static uintptr_t arrays[1024][2];
static unsigned array_count, shared_bytes, interval_base = 1;
static volatile bool watching;
static char complaint[200];
static jmp_buf abandoned;

UNCHECKED inline unsigned interval() { return interval_base + current->interval; }

[[noreturn]] UNCHECKED inline void complain(const char* what, size_t at, int other) {
    std::snprintf(complaint, sizeof complaint, "%s: thread %u and %d, word %zu, after %u barriers", what, threadIdx.x,
                  other, at, current->interval);
    _longjmp(abandoned, 1);
}

UNCHECKED inline void check(const void* pointer, size_t bytes, bool writes) {
    const uintptr_t at = reinterpret_cast<uintptr_t>(pointer), shared = reinterpret_cast<uintptr_t>(shared_memory);
    if (at >= shared && at < shared + sizeof shared_memory) {
        if (at + bytes > shared + shared_bytes) complain("beyond shared memory", (at - shared) / 4, -1);
        const int me = static_cast<int>(threadIdx.x);
        const unsigned now = interval();
        for (size_t i = (at - shared) / 4; i < (at - shared + bytes + 3) / 4; i++) {
            Word& word = words[i];
            if (word.written == now && word.writer != me)
                complain(writes ? "two threads write" : "a thread reads what another writes", i, word.writer);
            if (writes && word.read == now && word.reader != me)
                complain("a thread writes what another reads", i, word.reader);
            if (writes) {
                word.written = now, word.writer = me;
            } else {
                word.reader = word.read == now && word.reader != me ? MANY : me;
                word.read = now;
            }
        }
        return;
    }
    const auto within = [&](uintptr_t begin, size_t size) UNCHECKED { return at >= begin && at + bytes <= begin + size; };
    if (within(reinterpret_cast<uintptr_t>(current->stack.data()), current->stack.size())) return;
    for (const uint3* each : {&threadIdx, &blockIdx, &blockDim, &gridDim})
        if (within(reinterpret_cast<uintptr_t>(each), sizeof *each)) return;
    for (unsigned i = 0; i < array_count; i++)
        if (within(arrays[i][0], arrays[i][1] - arrays[i][0])) return;
    complain(writes ? "a write outside of all arrays" : "a read outside of all arrays", 0, -1);
}

UNCHECKED inline void access(const void* pointer, size_t bytes, bool writes) {
    if (!watching) return;
    watching = false;  // what the library's functions do here is not the kernel's
    check(pointer, bytes, writes);
    watching = true;
}

}  // namespace host

#define ACCESS(size)                                                                                    \
    extern "C" UNCHECKED void __tsan_read##size(void* at) { host::access(at, size, false); }            \
    extern "C" UNCHECKED void __tsan_write##size(void* at) { host::access(at, size, true); }            \
    extern "C" UNCHECKED void __tsan_unaligned_read##size(void* at) { host::access(at, size, false); }  \
    extern "C" UNCHECKED void __tsan_unaligned_write##size(void* at) { host::access(at, size, true); }
ACCESS(1)
ACCESS(2)
ACCESS(4)
ACCESS(8)
ACCESS(16)
#undef ACCESS
extern "C" UNCHECKED void __tsan_read_range(void* at, size_t size) { host::access(at, size, false); }
extern "C" UNCHECKED void __tsan_write_range(void* at, size_t size) { host::access(at, size, true); }
extern "C" UNCHECKED void __tsan_func_entry(void*) {}
extern "C" UNCHECKED void __tsan_func_exit(void) {}
extern "C" UNCHECKED void __tsan_init(void) {}
extern "C" UNCHECKED void __tsan_vptr_update(void**, void*) {}

extern "C" UNCHECKED void watch_arrays(const uintptr_t* pairs, unsigned count) {
    host::array_count = count;
    for (unsigned i = 0; i < 2 * count; i++) host::arrays[i / 2][i % 2] = pairs[i];
}
extern "C" const char* last_complaint() { return host::complaint; }
