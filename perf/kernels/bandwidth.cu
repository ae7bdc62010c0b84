// The four access mixes of a bandwidth calibration: copy, triad, pure read and
// pure write. Compiled at run time, once for each choice of the macros:
//
//   BLOCK   threads of a block
//   UNROLL  16-byte accesses that a thread has in flight before the first use
//   STREAM  1: accesses are marked as used once; 0: the caches' default policy
//
// Every kernel works through tiles of BLOCK * UNROLL vectors of 16 bytes. The
// grid decides whether a block does one tile (as many blocks as tiles) or
// strides over many. `vectors` must be a multiple of the tile: there is no tail,
// since a branch for one would be timed with the rest.

#define TILE (BLOCK * UNROLL)

// Inline PTX, so that the width and the cache policy are what is written here,
// whatever the compiler thinks of the pointers.
static __device__ __forceinline__ uint4 load(const uint4* at) {
  uint4 v;
#if STREAM
  asm volatile("ld.global.nc.L1::no_allocate.L2::256B.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(at));
#else
  asm volatile("ld.global.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(at));
#endif
  return v;
}

static __device__ __forceinline__ void store(uint4* at, uint4 v) {
#if STREAM
  asm volatile("st.global.cs.v4.u32 [%0], {%1, %2, %3, %4};"
               :: "l"(at), "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w) : "memory");
#else
  asm volatile("st.global.v4.u32 [%0], {%1, %2, %3, %4};"
               :: "l"(at), "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w) : "memory");
#endif
}

static __device__ __forceinline__ unsigned scaled_sum(unsigned b, float scale, unsigned c) {
  return __float_as_uint(fmaf(scale, __uint_as_float(c), __uint_as_float(b)));
}

// One read, one write: target = source.
extern "C" __global__ void __launch_bounds__(BLOCK)
copy_mix(uint4* target, const uint4* source, unsigned vectors) {
  for (unsigned at = blockIdx.x * TILE + threadIdx.x; at < vectors; at += gridDim.x * TILE) {
    uint4 v[UNROLL];
#pragma unroll
    for (int u = 0; u < UNROLL; ++u) v[u] = load(source + at + u * BLOCK);
#pragma unroll
    for (int u = 0; u < UNROLL; ++u) store(target + at + u * BLOCK, v[u]);
  }
}

// Two reads, one write, on fp32: target = left + scale * right.
extern "C" __global__ void __launch_bounds__(BLOCK)
triad_mix(uint4* target, const uint4* left, const uint4* right, double scale, unsigned vectors) {
  const float s = (float)scale;
  for (unsigned at = blockIdx.x * TILE + threadIdx.x; at < vectors; at += gridDim.x * TILE) {
    uint4 b[UNROLL], c[UNROLL];
#pragma unroll
    for (int u = 0; u < UNROLL; ++u) {
      b[u] = load(left + at + u * BLOCK);
      c[u] = load(right + at + u * BLOCK);
    }
#pragma unroll
    for (int u = 0; u < UNROLL; ++u) {
      store(target + at + u * BLOCK,
            make_uint4(scaled_sum(b[u].x, s, c[u].x), scaled_sum(b[u].y, s, c[u].y),
                       scaled_sum(b[u].z, s, c[u].z), scaled_sum(b[u].w, s, c[u].w)));
    }
  }
}

// Reads alone. Each thread sums all the words it reads and counts itself in
// `sink` where the sum is `key`, which the compiler cannot know: no load can be
// left out. On a buffer of ones the sum is known, so a test can see every load.
extern "C" __global__ void __launch_bounds__(BLOCK)
read_mix(unsigned* sink, const uint4* source, unsigned key, unsigned vectors) {
  unsigned sum = 0;
  for (unsigned at = blockIdx.x * TILE + threadIdx.x; at < vectors; at += gridDim.x * TILE) {
    uint4 v[UNROLL];
#pragma unroll
    for (int u = 0; u < UNROLL; ++u) v[u] = load(source + at + u * BLOCK);
#pragma unroll
    for (int u = 0; u < UNROLL; ++u) sum += v[u].x + v[u].y + v[u].z + v[u].w;
  }
  if (sum == key) atomicAdd(sink, 1u);
}

// Writes alone: word w of vector i is 4 * i + w + offset, so that no two vectors
// are alike.
extern "C" __global__ void __launch_bounds__(BLOCK)
write_mix(uint4* target, unsigned offset, unsigned vectors) {
  for (unsigned at = blockIdx.x * TILE + threadIdx.x; at < vectors; at += gridDim.x * TILE) {
#pragma unroll
    for (int u = 0; u < UNROLL; ++u) {
      const unsigned first = 4 * (at + u * BLOCK) + offset;
      store(target + at + u * BLOCK, make_uint4(first, first + 1, first + 2, first + 3));
    }
  }
}
