// Multiply-add peaks of the units that are no tensor cores: everything stays in
// registers. Compiled at run time, once for each choice of the macros:
//
//   BLOCK   threads of a block
//   CHAINS  independent accumulators of a thread: each waits for its own last
//           result, so CHAINS * warps of a scheduler have to cover the latency
//   STEPS   multiply-adds of a chain in one pass of the loop; the loop's own
//           instructions are a share of about 3 / (CHAINS * STEPS)
//
// A thread does `iterations * STEPS * CHAINS` multiply-adds and writes the sum of
// its chains, so that nothing can be left out and a test can check the values.
// `operands` holds the factor, the addend, then CHAINS * BLOCK start values. With
// a factor of -1 a floating-point chain swaps between two values for ever, so
// that random operands stay random and in range; an integer chain with an odd
// factor is a random generator.

struct Fp32 {
  using Value = float;
  static __device__ __forceinline__ float multiply_add(float x, float a, float b) { return fmaf(x, a, b); }
  static __device__ __forceinline__ float add(float x, float y) { return x + y; }
};

struct Fp64 {
  using Value = double;
  static __device__ __forceinline__ double multiply_add(double x, double a, double b) { return fma(x, a, b); }
  static __device__ __forceinline__ double add(double x, double y) { return x + y; }
};

// Integers through PTX: the compiler may fold two steps of known arithmetic into
// one, and would then be timed for work it did not do.
struct Int32 {
  using Value = unsigned;
  static __device__ __forceinline__ unsigned multiply_add(unsigned x, unsigned a, unsigned b) {
    unsigned r;
    asm volatile("mad.lo.u32 %0, %1, %2, %3;" : "=r"(r) : "r"(x), "r"(a), "r"(b));
    return r;
  }
  static __device__ __forceinline__ unsigned add(unsigned x, unsigned y) { return x + y; }
};

// Two numbers in a register, through PTX: no header, so no include path at run time.
struct Fp16x2 {
  using Value = unsigned;
  static __device__ __forceinline__ unsigned multiply_add(unsigned x, unsigned a, unsigned b) {
    unsigned r;
    asm("fma.rn.f16x2 %0, %1, %2, %3;" : "=r"(r) : "r"(x), "r"(a), "r"(b));
    return r;
  }
  static __device__ __forceinline__ unsigned add(unsigned x, unsigned y) {
    unsigned r;
    asm("add.rn.f16x2 %0, %1, %2;" : "=r"(r) : "r"(x), "r"(y));
    return r;
  }
};

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
struct Bf16x2 {
  using Value = unsigned;
  static __device__ __forceinline__ unsigned multiply_add(unsigned x, unsigned a, unsigned b) {
    unsigned r;
    asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(r) : "r"(x), "r"(a), "r"(b));
    return r;
  }
  static __device__ __forceinline__ unsigned add(unsigned x, unsigned y) {
    unsigned r;
    asm("add.rn.bf16x2 %0, %1, %2;" : "=r"(r) : "r"(x), "r"(y));
    return r;
  }
};
#endif

template <typename Unit>
static __device__ __forceinline__ void run(typename Unit::Value* sums,
                                           const typename Unit::Value* operands, int iterations) {
  const typename Unit::Value factor = operands[0], addend = operands[1];
  typename Unit::Value chain[CHAINS];
#pragma unroll
  for (int c = 0; c < CHAINS; ++c) chain[c] = operands[2 + c * BLOCK + threadIdx.x];
#pragma unroll 1
  for (int i = 0; i < iterations; ++i) {
#pragma unroll
    for (int s = 0; s < STEPS; ++s) {
#pragma unroll
      for (int c = 0; c < CHAINS; ++c) chain[c] = Unit::multiply_add(chain[c], factor, addend);
    }
  }
  typename Unit::Value sum = chain[0];
#pragma unroll
  for (int c = 1; c < CHAINS; ++c) sum = Unit::add(sum, chain[c]);
  sums[blockIdx.x * BLOCK + threadIdx.x] = sum;
}

#define ARITHMETIC_KERNEL(name, Unit)                                                     \
  extern "C" __global__ void __launch_bounds__(BLOCK)                                     \
  name(Unit::Value* sums, const Unit::Value* operands, int iterations) {                  \
    run<Unit>(sums, operands, iterations);                                                \
  }

ARITHMETIC_KERNEL(fma_fp32, Fp32)
ARITHMETIC_KERNEL(fma_fp64, Fp64)
ARITHMETIC_KERNEL(mad_int32, Int32)
ARITHMETIC_KERNEL(fma_fp16x2, Fp16x2)
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
ARITHMETIC_KERNEL(fma_bf16x2, Bf16x2)
#endif
