// CUDA C++ on the threads of a CPU, for kernels that CubeCL generated.
//
// - Each unit of a cube (CUDA: thread of a block) is a thread. A barrier of a cube is a `std::barrier`.
// - `__threadfence` is CUDA's `fence.sc`: fences have one order, and each synchronizes with all later ones. Here a fence
//   is an atomic addition to one variable. ThreadSanitizer understands it, and it does not understand
//   `std::atomic_thread_fence`. Atomics are relaxed, as in the generated text.
// - Cubes run at the same time: all of them if they wait for each other, otherwise as many as the launch says.
// - Every cube has its own shared memory, full of NaN, and aligned to what the kernel declares and no further.
// - Each thread of a plane (CUDA: warp) loads and multiplies whole matrices, and stores its part of the result.
//   Loads and stores check what CUDA requires: pointers aligned to 256 bits, rows at multiples of 16 bytes.
// - Kernels prefetch, also in units that have no row or column, which then ignore what they read. Such a read may race
//   with a write, and no result depends on it. So after a race the launch runs again, and the read that raced yields
//   NaN. If a bit of the results changes, the race is an error. A race without a read is always an error.
//
// A function of CUDA that is not here does not compile: add it when a kernel needs it.
#pragma once

#include <algorithm>
#include <atomic>
#include <barrier>
#include <bit>
#include <cmath>
#include <compare>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <fstream>
#include <limits>
#include <math.h>
#include <memory>
#include <set>
#include <source_location>
#include <sys/syscall.h>
#include <thread>
#include <type_traits>
#include <unistd.h>
#include <utility>
#include <vector>

#define __global__
#define __device__
#define __grid_constant__
#define __launch_bounds__(units)

namespace cuda {

struct Dim {
    unsigned x, y, z;
    unsigned count() const { return x * y * z; }
};

// Seconds after which a launch counts as stuck.
constexpr unsigned TIME_OUT = 240;

constexpr unsigned PLANE = 32;

// Ends the process with a message: the first one, if several threads have one.
[[noreturn]] __attribute__((format(printf, 1, 2))) inline void fail(const char* format, ...) {
    static std::atomic_flag failed;
    while (failed.test_and_set()) pause();
    std::va_list arguments;
    va_start(arguments, format);
    std::fputs("kernel error: ", stderr);
    std::vfprintf(stderr, format, arguments);
    std::fputs("\n", stderr);
    std::fflush(stderr);
    _exit(70);
}

// Lines at which a unit waits that are not in the kernel's text.
constexpr unsigned BEGINS = 0, RETURNED = ~0u;

struct Free {
    void operator()(void* memory) const { std::free(memory); }
};

// Memory of so many bytes, and none behind them.
using Memory = std::unique_ptr<char, Free>;
inline Memory allocate(std::size_t size, std::size_t alignment) {
    void* memory = nullptr;
    if (posix_memalign(&memory, alignment, size) != 0) fail("no memory");
    return Memory(static_cast<char*>(memory));
}

// The threads that run a cube, and its shared memory.
struct Cube {
    // Runs when all units have arrived, on the thread of the last one.
    struct Check {
        Cube* cube;
        void operator()() noexcept { cube->check(); }
    };

    explicit Cube(unsigned units, std::size_t size, std::size_t alignment)
        : lines(units), matrices(units), barrier(units, Check{this}),
          // Never aligned to twice the alignment: luck would hide an error.
          memory(allocate(alignment + size, std::max<std::size_t>(2 * alignment, sizeof(void*)))),
          shared(memory.get() + alignment), shared_size(size) {}

    void check() noexcept {
        for (std::size_t unit = 1; unit < lines.size(); ++unit) {
            if (lines[unit] != lines[0])
                fail("units 0 and %zu wait at different barriers: lines %u and %u", unit, lines[0], lines[unit]);
            if (unit % PLANE != 0 && matrices[unit] != matrices[unit - 1])
                fail("units %zu and %zu of a plane did different matrix operations before line %u", unit - 1,
                     unit, lines[0]);
        }
    }

    // The line at which each unit waits.
    std::vector<unsigned> lines;
    // A hash of each unit's matrix operations.
    std::vector<std::size_t> matrices;
    std::barrier<Check> barrier;
    Memory memory;
    char* shared;
    std::size_t shared_size;
};

inline thread_local Cube* cube;
inline thread_local unsigned unit;

// A read of a thread, and from where in the kernel.
struct Read {
    unsigned thread;
    const void* at;
    const char* caller;
    auto operator<=>(const Read&) const = default;
};

// Number of this thread in the launch.
inline thread_local unsigned number;
// What the system calls each of them. (An array, because a sanitizer reads it in the middle of a report.)
constexpr unsigned MOST_THREADS = 1 << 13;
inline unsigned long system_ids[MOST_THREADS];
// Reads that yield NaN.
inline std::set<Read> poisoned;
// Reads that raced, as ThreadSanitizer tells them, and whether there were races without a read.
constexpr unsigned MOST_RACES = 1 << 16;
inline Read raced[MOST_RACES];
inline unsigned races;
inline bool writes_raced;

// All reads of a kernel from memory that threads share.
template <class T>
__attribute__((noinline)) T load(const T* at) {
    T value = *at;
    if (!poisoned.empty()) {
        const auto* caller = static_cast<const char*>(__builtin_return_address(0));
        if (poisoned.contains({number, at, caller})) std::memset(static_cast<void*>(&value), 0xff, sizeof value);
    }
    return value;
}
inline thread_local std::uint64_t random_state;

inline unsigned random_below(unsigned end) {
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return static_cast<unsigned>(random_state >> 33) % end;
}

// Lets another thread run, sometimes, so that each run has another schedule.
inline void shake() {
    if (random_below(4) == 0) std::this_thread::yield();
}

inline void wait(unsigned line) {
    shake();
    cube->lines[unit] = line;
    cube->barrier.arrive_and_wait();
    shake();
}

inline std::atomic<unsigned> fences;

inline void fence() {
    shake();
    fences.fetch_add(1, std::memory_order_acq_rel);
}

template <class T>
std::atomic_ref<T> atomic(const T* at) {
    shake();
    return std::atomic_ref<T>(*const_cast<T*>(at));
}

// A pointer from which an atomic load is made. The generated text reads through a volatile pointer.
template <class T>
struct Relaxed {
    const T* at;
    T operator*() const {
        // Who waits for another cube must let it run.
        std::this_thread::yield();
        return atomic(at).load(std::memory_order_relaxed);
    }
};

template <class T>
Relaxed<T> relaxed(const T* at) {
    return {at};
}

// `atom.relaxed.add`.
template <class T>
void atom_add(T& result, const T* at, T value) {
    result = atomic(at).fetch_add(value, std::memory_order_relaxed);
}

inline char* shared_memory() { return cube->shared; }

}  // namespace cuda

inline thread_local cuda::Dim threadIdx, blockIdx;
inline cuda::Dim blockDim, gridDim;
constexpr unsigned warpSize = cuda::PLANE;

#define __syncthreads() ::cuda::wait(__LINE__)
#define __threadfence() ::cuda::fence()

template <class T>
T atomicOr(const T* at, T value) {
    return cuda::atomic(at).fetch_or(value, std::memory_order_relaxed);
}

template <class T>
T min(T a, T b) {
    if constexpr (std::is_floating_point_v<T>)
        return std::fmin(a, b);
    else
        return b < a ? b : a;
}

template <class T>
T max(T a, T b) {
    if constexpr (std::is_floating_point_v<T>)
        return std::fmax(a, b);
    else
        return a < b ? b : a;
}

// Sixteen-bit numbers, rounded to nearest even. Arithmetic is float32's.
struct __half {
    _Float16 value;
    __half() = default;
    template <class T>
        requires std::is_arithmetic_v<T>
    __half(T x) : value(static_cast<_Float16>(static_cast<float>(x))) {}
    operator float() const { return static_cast<float>(value); }
};

struct __nv_bfloat16 {
    std::uint16_t bits;
    __nv_bfloat16() = default;
    template <class T>
        requires std::is_arithmetic_v<T>
    __nv_bfloat16(T x) {
        const auto wide = std::bit_cast<std::uint32_t>(static_cast<float>(x));
        const bool is_nan = (wide & 0x7fffffffu) > 0x7f800000u;
        bits = static_cast<std::uint16_t>(is_nan ? 0x7fff : (wide + 0x7fff + (wide >> 16 & 1)) >> 16);
    }
    operator float() const { return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16); }
};

namespace nvcuda::wmma {

struct matrix_a {};
struct matrix_b {};
struct accumulator {};
struct row_major {};
struct col_major {};
enum layout_t { mem_row_major, mem_col_major };
namespace precision {
struct tf32 {};
}

// Ten bits of the mantissa, rounded to nearest, ties away from zero.
inline float __float_to_tf32(float x) {
    const auto bits = std::bit_cast<std::uint32_t>(x);
    if ((bits & 0x7f800000u) == 0x7f800000u) return x;
    return std::bit_cast<float>((bits + 0x1000u) & ~0x1fffu);
}

template <class Use, int M, int N, int K, class T, class Layout = void>
struct fragment {
    using Stored = std::conditional_t<std::is_same_v<T, precision::tf32>, float, T>;
    static constexpr int rows = std::is_same_v<Use, matrix_b> ? K : M;
    static constexpr int columns = std::is_same_v<Use, matrix_a> ? K : N;
    float x[rows][columns];
    fragment() {
        for (auto& row : x)
            for (auto& number : row) number = std::numeric_limits<float>::quiet_NaN();
    }
};

// Checks that the units of a plane do the same, and what CUDA requires of a matrix in memory.
template <class T>
void check(const T* matrix, unsigned pitch, const std::source_location& at) {
    auto& hash = ::cuda::cube->matrices[::cuda::unit];
    hash = hash * 31 + reinterpret_cast<std::uintptr_t>(matrix) * 7 + at.line();
    const auto* bytes = reinterpret_cast<const char*>(matrix);
    const char* from = ::cuda::cube->shared;
    const bool is_shared = from <= bytes && bytes < from + ::cuda::cube->shared_size;
    const auto off = reinterpret_cast<std::uintptr_t>(matrix) % 32;
    if (off != 0)
        ::cuda::fail("line %u: a matrix at byte %td of %s memory is %zu bytes past a multiple of 32", at.line(),
                     is_shared ? bytes - from : 0, is_shared ? "shared" : "global", static_cast<std::size_t>(off));
    if (pitch * sizeof(T) % 16 != 0)
        ::cuda::fail("line %u: rows of a matrix are %zu bytes apart, which is no multiple of 16", at.line(),
                     pitch * sizeof(T));
}

template <class Use, int M, int N, int K, class T, class Layout, class P>
void load_matrix_sync(fragment<Use, M, N, K, T, Layout>& to, P* from, unsigned pitch,
                      std::source_location at = std::source_location::current()) {
    static_assert(std::is_same_v<Layout, row_major>, "not needed so far");
    static_assert(std::is_same_v<std::remove_cv_t<P>, typename fragment<Use, M, N, K, T, Layout>::Stored>);
    check(from, pitch, at);
    for (int row = 0; row < to.rows; ++row)
        for (int column = 0; column < to.columns; ++column) {
            const float number = static_cast<float>(from[row * pitch + column]);
            // Of a float32 that was not rounded, matrix units read the upper bits.
            to.x[row][column] = std::is_same_v<T, precision::tf32>
                                    ? std::bit_cast<float>(std::bit_cast<std::uint32_t>(number) & ~0x1fffu)
                                    : number;
        }
}

template <int M, int N, int K, class T>
void store_matrix_sync(T* to, const fragment<accumulator, M, N, K, T>& from, unsigned pitch, layout_t layout,
                       std::source_location at = std::source_location::current()) {
    check(to, pitch, at);
    if (layout != mem_row_major) ::cuda::fail("line %u: a matrix stored by columns", at.line());
    for (int i = static_cast<int>(::cuda::unit % ::cuda::PLANE); i < M * N; i += ::cuda::PLANE)
        to[i / N * pitch + i % N] = from.x[i / N][i % N];
}

template <class F>
void fill_fragment(F& to, float value) {
    for (auto& row : to.x)
        for (auto& number : row) number = value;
}

// Numbers of one thread, which need no sanitizer.
template <int M, int N, int K, class T, class A, class B>
__attribute__((no_sanitize("thread"), no_sanitize("address"), no_sanitize("undefined"))) void mma_sync(
    fragment<accumulator, M, N, K, float>& d, const fragment<matrix_a, M, N, K, T, A>& a,
    const fragment<matrix_b, M, N, K, T, B>& b, const fragment<accumulator, M, N, K, float>& c) {
    for (int m = 0; m < M; ++m) {
        float sums[N];
        for (int n = 0; n < N; ++n) sums[n] = c.x[m][n];
        for (int k = 0; k < K; ++k)
            for (int n = 0; n < N; ++n) sums[n] += a.x[m][k] * b.x[k][n];
        for (int n = 0; n < N; ++n) d.x[m][n] = sums[n];
    }
}

}  // namespace nvcuda::wmma

namespace cuda {

// A launch, as a file of 64-bit words: cubes in x, y and z; cubes that run at the same time; a seed; then
// the number of buffers, the number of arguments and the number of words of the last argument; then the
// buffers' bytes, the arguments' buffers, the words of the last argument, and the buffers.
struct Launch {
    Dim grid;
    unsigned together;
    std::uint64_t seed;
    std::vector<std::size_t> sizes;
    std::vector<Memory> buffers;
    std::vector<std::uint64_t> arguments, info;

    explicit Launch(const char* path) {
        std::ifstream file(path, std::ios::binary);
        const auto word = [&] {
            std::uint64_t value = 0;
            file.read(reinterpret_cast<char*>(&value), sizeof value);
            return value;
        };
        const auto words = [&](std::uint64_t count) {
            std::vector<std::uint64_t> values(count);
            for (auto& value : values) value = word();
            return values;
        };
        const auto small = [&] { return static_cast<unsigned>(word()); };
        grid.x = small(), grid.y = small(), grid.z = small();
        together = small(), seed = word();
        const auto counts = words(3);
        const auto lengths = words(counts[0]);
        sizes.assign(lengths.begin(), lengths.end());
        arguments = words(counts[1]);
        info = words(counts[2]);
        for (const auto size : sizes) {
            // As aligned as CUDA's allocations, and not a byte longer than the buffer.
            buffers.push_back(allocate(size, 256));
            file.read(buffers.back().get(), static_cast<std::streamsize>(size));
        }
        if (!file) fail("%s is no launch", path);
    }

    void write(const char* path) const {
        std::ofstream file(path, std::ios::binary);
        for (std::size_t i = 0; i < sizes.size(); ++i)
            file.write(buffers[i].get(), static_cast<std::streamsize>(sizes[i]));
        file.flush();
        if (!file) fail("%s cannot be written", path);
    }
};

#ifdef __SANITIZE_THREAD__
extern "C" int __tsan_get_report_mop(void*, unsigned long, int*, void**, int*, int*, int*, void**, unsigned long);
extern "C" int __tsan_get_report_thread(void*, unsigned long, int*, unsigned long*, int*, const char**, int*, void**,
                                        unsigned long);

// ThreadSanitizer calls this, one report at a time.
extern "C" __attribute__((no_sanitize("thread"))) void __tsan_on_report(void* report) {
    for (unsigned long access = 0; access < 2; ++access) {
        int thread = 0, size = 0, writes = 0, is_atomic = 0, running = 0, parent = 0;
        void *at = nullptr, *trace[2] = {};
        __tsan_get_report_mop(report, access, &thread, &at, &size, &writes, &is_atomic, trace, 2);
        if (writes || is_atomic) continue;
        // Too long ago: ThreadSanitizer no longer knows where. Most accesses are found when they are younger.
        if (!trace[1]) return;
        for (unsigned long i = 0; i < 2; ++i) {
            int other = 0;
            unsigned long id = 0;
            const char* name = nullptr;
            void* created[2];
            __tsan_get_report_thread(report, i, &other, &id, &running, &name, &parent, created, 2);
            if (other != thread) continue;
            for (unsigned j = 0; j < MOST_THREADS; ++j)
                if (system_ids[j] == id && races < MOST_RACES) {
                    raced[races].thread = j;
                    raced[races].at = at;
                    raced[races].caller = static_cast<const char*>(trace[1]);
                    ++races;
                    return;
                }
        }
    }
    writes_raced = true;
}
#endif

// Runs a launch until no read races that is not poisoned yet, and checks that poison changes nothing.
template <class F>
void run_with_poison(Launch& launch, F once) {
    const auto copy = [&] {
        std::vector<std::vector<char>> all;
        for (std::size_t i = 0; i < launch.sizes.size(); ++i)
            all.emplace_back(launch.buffers[i].get(), launch.buffers[i].get() + launch.sizes[i]);
        return all;
    };
    const auto before = copy();
    once();
    const auto after = copy();
    const auto changes = [&](std::set<Read> reads) {
        poisoned = std::move(reads);
        for (std::size_t i = 0; i < before.size(); ++i)
            std::copy(before[i].begin(), before[i].end(), launch.buffers[i].get());
        races = 0;
        once();
        return copy() != after;
    };
    std::set<Read> all;
    for (int round = 0; round < 4 && races > 0; ++round) {
        if (writes_raced) fail("two writes race, or a write and an atomic");
        const auto known = all.size();
        all.insert(raced, raced + races);
        if (all.size() == known) break;
        if (!changes(all)) continue;
        std::set<const char*> callers;
        for (const auto& read : all) callers.insert(read.caller);
        for (const auto* caller : callers) {
            std::set<Read> of_caller;
            for (const auto& read : all)
                if (read.caller == caller) of_caller.insert(read);
            Dl_info program{};
            dladdr(caller, &program);
            if (changes(of_caller))
                fail("the result depends on a read that races: pc %td", caller - static_cast<char*>(program.dli_fbase));
        }
        fail("the result depends on reads that race");
    }
    if (writes_raced) fail("two writes race, or a write and an atomic");
}

template <class... A>
int run(void (*kernel)(A...), Dim block, std::size_t shared_size, std::size_t alignment, char** paths) {
    alarm(TIME_OUT);
    Launch launch(paths[1]);
    if (sizeof...(A) != launch.arguments.size() + !launch.info.empty())
        fail("the kernel has %zu parameters, the launch %zu buffers", sizeof...(A), launch.arguments.size());
    blockDim = block;
    gridDim = launch.grid;
    const auto call = [&]<std::size_t... I>(std::index_sequence<I...>) {
        const auto argument = [&]<class T>(std::type_identity<T>, std::size_t i) -> T {
            if constexpr (std::is_pointer_v<T>) {
                return reinterpret_cast<T>(launch.buffers[launch.arguments[i]].get());
            } else {
                // Sizes and scalars, by value.
                T value;
                std::memcpy(static_cast<void*>(&value), launch.info.data(), sizeof value);
                return value;
            }
        };
        kernel(argument(std::type_identity<A>(), I)...);
    };
    const unsigned cubes = launch.grid.count(), together = std::min(cubes, launch.together);
    std::vector<std::unique_ptr<Cube>> teams;
    for (unsigned team = 0; team < together; ++team)
        teams.push_back(std::make_unique<Cube>(block.count(), shared_size, alignment));
    const auto once = [&] {
        std::vector<std::thread> threads;
        for (unsigned team = 0; team < together; ++team)
            for (unsigned i = 0; i < block.count(); ++i)
                threads.emplace_back([&, team, i] {
                    cube = teams[team].get();
                    unit = i;
                    number = team * block.count() + i;
                    system_ids[number] = static_cast<unsigned long>(syscall(SYS_gettid));
                    random_state = launch.seed ^ (std::uint64_t{number} + 1) * 0x9e3779b97f4a7c15u;
                    threadIdx = {i % block.x, i / block.x % block.y, i / block.x / block.y};
                    for (unsigned at = team; at < cubes; at += together) {
                        blockIdx = {at % gridDim.x, at / gridDim.x % gridDim.y, at / gridDim.x / gridDim.y};
                        if (unit == 0) std::memset(cube->shared, 0xff, cube->shared_size);
                        wait(BEGINS);
                        call(std::index_sequence_for<A...>());
                        wait(RETURNED);
                    }
                });
        for (auto& thread : threads) thread.join();
        ++launch.seed;
    };
    if (together * block.count() > MOST_THREADS) fail("%u cubes of %u units", together, block.count());
    run_with_poison(launch, once);
    launch.write(paths[2]);
    return 0;
}

}  // namespace cuda
