// The four access mixes of a bandwidth calibration: copy, triad, pure read and
// pure write. Compiled at run time, once for each choice of the macros:
//
//   WIDTH   bytes of one access: 4, 8 or 16
//   BLOCK   threads of a block
//   UNROLL  accesses that a thread has in flight before the first use
//   STREAM  1: accesses are marked as used once; 0: the caches' default policy
//
// Every kernel works through tiles of BLOCK * UNROLL vectors of WIDTH bytes. The
// grid decides whether a block does one tile (as many blocks as tiles) or
// strides over many. `vectors` must be a multiple of the tile: there is no tail,
// since a branch for one would be timed with the rest.

#define TILE (BLOCK * UNROLL)
#define WORDS (WIDTH / 4)

struct __align__(WIDTH) Vector {
  unsigned word[WORDS];
};

#if STREAM
#define LOAD "ld.global.nc.L1::no_allocate.L2::256B"
#define STORE "st.global.cs"
#else
#define LOAD "ld.global"
#define STORE "st.global"
#endif

// Inline PTX, so that the width and the cache policy are what is written here,
// whatever the compiler thinks of the pointers.
static __device__ __forceinline__ Vector load(const Vector* at) {
  Vector v;
#if WIDTH == 16
  asm volatile(LOAD ".v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.word[0]), "=r"(v.word[1]), "=r"(v.word[2]), "=r"(v.word[3])
               : "l"(at));
#elif WIDTH == 8
  asm volatile(LOAD ".v2.u32 {%0, %1}, [%2];" : "=r"(v.word[0]), "=r"(v.word[1]) : "l"(at));
#elif WIDTH == 4
  asm volatile(LOAD ".u32 %0, [%1];" : "=r"(v.word[0]) : "l"(at));
#else
#error "WIDTH has to be 4, 8 or 16"
#endif
  return v;
}

static __device__ __forceinline__ void store(Vector* at, const Vector& v) {
#if WIDTH == 16
  asm volatile(STORE ".v4.u32 [%0], {%1, %2, %3, %4};"
               :: "l"(at), "r"(v.word[0]), "r"(v.word[1]), "r"(v.word[2]), "r"(v.word[3])
               : "memory");
#elif WIDTH == 8
  asm volatile(STORE ".v2.u32 [%0], {%1, %2};"
               :: "l"(at), "r"(v.word[0]), "r"(v.word[1]) : "memory");
#else
  asm volatile(STORE ".u32 [%0], %1;" :: "l"(at), "r"(v.word[0]) : "memory");
#endif
}

static __device__ __forceinline__ unsigned scaled_sum(unsigned b, float scale, unsigned c) {
  return __float_as_uint(fmaf(scale, __uint_as_float(c), __uint_as_float(b)));
}

// One read, one write: target = source.
extern "C" __global__ void __launch_bounds__(BLOCK)
copy_mix(Vector* target, const Vector* source, unsigned vectors) {
  for (unsigned at = blockIdx.x * TILE + threadIdx.x; at < vectors; at += gridDim.x * TILE) {
    Vector v[UNROLL];
#pragma unroll
    for (int u = 0; u < UNROLL; ++u) v[u] = load(source + at + u * BLOCK);
#pragma unroll
    for (int u = 0; u < UNROLL; ++u) store(target + at + u * BLOCK, v[u]);
  }
}

// Two reads, one write, on fp32: target = left + scale * right.
extern "C" __global__ void __launch_bounds__(BLOCK)
triad_mix(Vector* target, const Vector* left, const Vector* right, double scale, unsigned vectors) {
  const float s = (float)scale;
  for (unsigned at = blockIdx.x * TILE + threadIdx.x; at < vectors; at += gridDim.x * TILE) {
    Vector b[UNROLL], c[UNROLL];
#pragma unroll
    for (int u = 0; u < UNROLL; ++u) {
      b[u] = load(left + at + u * BLOCK);
      c[u] = load(right + at + u * BLOCK);
    }
#pragma unroll
    for (int u = 0; u < UNROLL; ++u) {
      Vector sum;
#pragma unroll
      for (int w = 0; w < WORDS; ++w) sum.word[w] = scaled_sum(b[u].word[w], s, c[u].word[w]);
      store(target + at + u * BLOCK, sum);
    }
  }
}

// Reads alone. Each thread sums all the words it reads and counts itself in
// `sink` where the sum is `key`, which the compiler cannot know: no load can be
// left out. On a buffer of ones the sum is known, so a test can see every load.
extern "C" __global__ void __launch_bounds__(BLOCK)
read_mix(unsigned* sink, const Vector* source, unsigned key, unsigned vectors) {
  unsigned sum = 0;
  for (unsigned at = blockIdx.x * TILE + threadIdx.x; at < vectors; at += gridDim.x * TILE) {
    Vector v[UNROLL];
#pragma unroll
    for (int u = 0; u < UNROLL; ++u) v[u] = load(source + at + u * BLOCK);
#pragma unroll
    for (int u = 0; u < UNROLL; ++u) {
#pragma unroll
      for (int w = 0; w < WORDS; ++w) sum += v[u].word[w];
    }
  }
  if (sum == key) atomicAdd(sink, 1u);
}

// Writes alone: the word at index i of the array is i + offset, so that no two
// vectors are alike.
extern "C" __global__ void __launch_bounds__(BLOCK)
write_mix(Vector* target, unsigned offset, unsigned vectors) {
  for (unsigned at = blockIdx.x * TILE + threadIdx.x; at < vectors; at += gridDim.x * TILE) {
#pragma unroll
    for (int u = 0; u < UNROLL; ++u) {
      Vector v;
#pragma unroll
      for (int w = 0; w < WORDS; ++w) v.word[w] = WORDS * (at + u * BLOCK) + w + offset;
      store(target + at + u * BLOCK, v);
    }
  }
}
