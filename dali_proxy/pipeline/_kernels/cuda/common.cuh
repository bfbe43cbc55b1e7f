// Element types and their conversions, shared by all kernels.
//
// Conversions follow DALI. Float to integer: round half away from zero, then clamp. Integer to integer: clamp. To bool:
// whether the rounded value is nonzero. NaN becomes 0.
// This file includes no CUDA header, so that NVRTC needs no other file. The tests define EMULATED to build the kernels
// with a host compiler; they provide the conversions of half.

typedef signed char int8;
typedef unsigned char uint8;
typedef short int16;
typedef unsigned short uint16;
typedef int int32;
typedef unsigned int uint32;
typedef long long int64;
typedef unsigned long long uint64;
typedef float float32;
typedef double float64;

struct float16 {
    unsigned short bits;
};

#ifndef EMULATED
__device__ __forceinline__ float half_to_float(float16 value) {
    float result;
    asm("cvt.f32.f16 %0, %1;" : "=f"(result) : "h"(value.bits));
    return result;
}

__device__ __forceinline__ float16 float_to_half(float value) {
    float16 result;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(result.bits) : "f"(value));
    return result;
}
#endif

// KIND: 0 unsigned integer, 1 signed integer, 2 float.
template <typename T> struct Limits;
#define LIMITS(T, KIND, LOW, HIGH)                          \
    template <> struct Limits<T> {                          \
        static constexpr int kind = KIND;                   \
        static constexpr int64 low = LOW;                   \
        static constexpr uint64 high = HIGH;                \
    };
LIMITS(bool, 0, 0, 1)
LIMITS(uint8, 0, 0, 255)
LIMITS(uint16, 0, 0, 65535)
LIMITS(uint32, 0, 0, 4294967295ULL)
LIMITS(uint64, 0, 0, 18446744073709551615ULL)
LIMITS(int8, 1, -128, 127)
LIMITS(int16, 1, -32768, 32767)
LIMITS(int32, 1, -2147483648LL, 2147483647)
LIMITS(int64, 1, -9223372036854775807LL - 1, 9223372036854775807LL)
LIMITS(float16, 2, 0, 0)
LIMITS(float32, 2, 0, 0)
LIMITS(float64, 2, 0, 0)
#undef LIMITS

template <typename T, typename U> struct Same { static constexpr bool value = false; };
template <typename T> struct Same<T, T> { static constexpr bool value = true; };

__device__ __forceinline__ float rounded(float value) { return roundf(value); }
__device__ __forceinline__ double rounded(double value) { return round(value); }

// Half away from zero: the sum is rounded towards zero, so that 0.49999997 doesn't become 1.
#ifdef EMULATED
template <typename Out> Out narrow(float value) {
    const float whole = roundf(value);
    if (!(whole == whole)) return 0;
    if (whole <= static_cast<float>(Limits<Out>::low)) return static_cast<Out>(Limits<Out>::low);
    if (whole >= static_cast<float>(Limits<Out>::high)) return static_cast<Out>(Limits<Out>::high);
    return static_cast<Out>(whole);
}
#else
// CUDA's conversions clamp, and NaN becomes 0.
template <typename Out> __device__ __forceinline__ Out narrow(float value) {
    const int whole = __float2int_rz(__fadd_rz(value, copysignf(0.5f, value)));
    return static_cast<Out>(min(max(whole, static_cast<int>(Limits<Out>::low)), static_cast<int>(Limits<Out>::high)));
}
#endif

template <typename Out, typename In> __device__ __forceinline__ Out convert(In value) {
    if constexpr (Same<Out, In>::value) {
        return value;
    } else if constexpr (Same<In, float16>::value) {
        return convert<Out>(half_to_float(value));
    } else if constexpr (Same<Out, float16>::value) {
        return float_to_half(static_cast<float>(value));
    } else if constexpr (Limits<Out>::kind == 2) {
        return static_cast<Out>(value);
    } else if constexpr (Same<Out, bool>::value) {
        if constexpr (Limits<In>::kind == 2) return rounded(value) != 0;
        else return value != 0;
    } else if constexpr (Same<In, float>::value && sizeof(Out) <= 2) {
        return narrow<Out>(value);
    } else if constexpr (Limits<In>::kind == 2) {
        In whole = rounded(value);
        if (!(whole == whole)) return 0;
        if (whole <= static_cast<In>(Limits<Out>::low)) return static_cast<Out>(Limits<Out>::low);
        if (whole >= static_cast<In>(Limits<Out>::high)) return static_cast<Out>(Limits<Out>::high);
        return static_cast<Out>(whole);
    } else {
        if constexpr (Limits<In>::kind == 1) {
            if (value < 0) {
                if (static_cast<int64>(value) < Limits<Out>::low) return static_cast<Out>(Limits<Out>::low);
                return static_cast<Out>(value);
            }
        }
        if (static_cast<uint64>(value) > Limits<Out>::high) return static_cast<Out>(Limits<Out>::high);
        return static_cast<Out>(value);
    }
}

template <typename T> __device__ __forceinline__ T load(const char* address) {
    return *reinterpret_cast<const T*>(address);
}
