// The part of Metal's standard library that the kernels use, so that clang can parse them as C++: types and
// declarations only. Address spaces are removed.
#define device
#define constant const
#define threadgroup
#define thread

typedef unsigned int uint;
typedef float half; // Not every target of clang has a type of 16 bits.
#define VECTORS(scalar)                                              \
    typedef scalar scalar##2 __attribute__((ext_vector_type(2)));    \
    typedef scalar scalar##3 __attribute__((ext_vector_type(3)));    \
    typedef scalar scalar##4 __attribute__((ext_vector_type(4)));
VECTORS(float)
VECTORS(half)
VECTORS(uint)

namespace metal {
template <typename T, unsigned long N> struct array {
    T elements[N];
    T &operator[](unsigned i) { return elements[i]; }
    const T &operator[](unsigned i) const { return elements[i]; }
};
enum class mem_flags { mem_none, mem_device, mem_threadgroup };
mem_flags operator|(mem_flags, mem_flags);
void threadgroup_barrier(mem_flags);

enum memory_order { memory_order_relaxed, memory_order_seq_cst };
enum thread_scope { thread_scope_threadgroup, thread_scope_device };
void atomic_thread_fence(mem_flags, memory_order, thread_scope);

template <typename T> struct atomic { T value; };
template <typename T> T atomic_load_explicit(atomic<T> *, memory_order);
template <typename T> T atomic_fetch_add_explicit(atomic<T> *, T, memory_order);
template <typename T> T atomic_fetch_or_explicit(atomic<T> *, T, memory_order);

template <typename T, int rows, int columns> struct simdgroup_matrix {};
typedef simdgroup_matrix<float, 8, 8> simdgroup_float8x8;
typedef simdgroup_matrix<half, 8, 8> simdgroup_half8x8;
template <typename T, int rows, int columns>
simdgroup_matrix<T, rows, columns> make_filled_simdgroup_matrix(T);
struct ulong2 {
    ulong2(unsigned long);
};
template <typename M, typename T>
void simdgroup_load(M &, const T *, unsigned long row, ulong2 origin = 0, bool transposed = false);
template <typename M, typename T> void simdgroup_store(const M &, T *, unsigned long);
template <typename M> void simdgroup_multiply_accumulate(M &, const M &, const M &, const M &);
void simdgroup_barrier(mem_flags);

template <typename T> T min(T, T);
template <typename T> T max(T, T);
template <typename T> T abs(T);
template <typename T> T exp(T);
template <typename T> T log(T);
template <typename T> T fma(T, T, T);
template <typename T> T select(T, T, bool);
} // namespace metal
