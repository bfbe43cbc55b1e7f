// Operations on floats that are rounded one by one, so that a chain of operators has the bits of its separate operators.

#ifdef EMULATED
#define ROUNDED(NAME, SIGN)                                                                  \
    __device__ __forceinline__ float NAME(float a, float b) { return a SIGN b; }             \
    __device__ __forceinline__ double NAME(double a, double b) { return a SIGN b; }
#define ROUNDED_BY(FLOAT, DOUBLE, NAME, SIGN) ROUNDED(NAME, SIGN)
#else
#define ROUNDED_BY(FLOAT, DOUBLE, NAME, SIGN)                                                \
    __device__ __forceinline__ float NAME(float a, float b) { return FLOAT(a, b); }          \
    __device__ __forceinline__ double NAME(double a, double b) { return DOUBLE(a, b); }
#endif
ROUNDED_BY(__fadd_rn, __dadd_rn, sum_of, +)
ROUNDED_BY(__fsub_rn, __dsub_rn, difference_of, -)
ROUNDED_BY(__fmul_rn, __dmul_rn, product_of, *)
ROUNDED_BY(__fdiv_rn, __ddiv_rn, quotient_of, /)
