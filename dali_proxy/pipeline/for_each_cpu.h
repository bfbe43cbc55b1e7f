/* Loops that compilers vectorise, for all C modules: on x86-64, GCC compiles a second version for AVX2. `UNFUSED` ones
   don't use the fused multiply-add of AVX2 or ARM, so that they round like NumPy on all processors. */

#if defined(__x86_64__) && defined(__linux__) && defined(__GNUC__) && !defined(__clang__) && __GNUC__ >= 12
#define FOR_EACH_CPU __attribute__((target_clones("arch=x86-64-v3", "default")))
#define FOR_EACH_CPU_UNFUSED FOR_EACH_CPU __attribute__((optimize("fp-contract=off")))
#elif defined(__GNUC__) && !defined(__clang__)
#define FOR_EACH_CPU
#define FOR_EACH_CPU_UNFUSED __attribute__((optimize("fp-contract=off")))
#else
#pragma STDC FP_CONTRACT OFF /* Clang has no attribute for single functions */
#define FOR_EACH_CPU
#define FOR_EACH_CPU_UNFUSED
#endif
#define ALWAYS_INLINE static inline __attribute__((always_inline))
