// Power spectra of the windows of signals; one signal per blockIdx.y. A block transforms WINDOWS windows at a time, in
// shared memory, or in device memory if they are too long for that.
//
// Macros from the launcher: IN (type), SIZE (of the transform), LENGTH (of the complex transform: half of an even SIZE,
// whose real and imaginary parts are the elements at even and odd positions), RADICES (factors of LENGTH), WINDOWS,
// POWER (1 magnitude, 2 its square), SHARED (whether windows lie in shared memory), PADDING (of windows that exceed the
// signal: 0 none, 1 zeros, 2 reflection).

#include "common.cuh"
#include "borders.cuh"

struct Complex {
    float re, im;
};

struct Signal {
    const char* src;
    float* dst;
    int64 length, windows;
    int64 window_stride, bin_stride;  // of dst, in elements
    Complex* scratch;                 // 2 * WINDOWS * LENGTH for each block, if not SHARED
};

__device__ __forceinline__ Complex times(Complex a, Complex b) {
    return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}

__device__ __forceinline__ Complex plus(Complex a, Complex b) { return {a.re + b.re, a.im + b.im}; }
__device__ __forceinline__ Complex minus(Complex a, Complex b) { return {a.re - b.re, a.im - b.im}; }

// exp(-2 pi i k / LENGTH), from a table with steps of SIZE.
__device__ __forceinline__ Complex root(const Complex* roots, int k) { return roots[k * (SIZE / LENGTH)]; }

// One step of Stockham's transform: combines RADIX transforms of length `done` each.
template <int RADIX> __device__ __forceinline__ void combine(const Complex* in, Complex* out, const Complex* roots, int done) {
    constexpr int apart = LENGTH / RADIX;
    const int turn = apart / done;
    if constexpr (RADIX == 2 || RADIX == 4) {
        for (int item = threadIdx.x; item < WINDOWS * apart; item += blockDim.x) {
            const int window = item / apart, j = item % apart, k = j % done;
            const Complex* source = in + window * LENGTH + j;
            Complex* target = out + window * LENGTH + (j - k) * RADIX + k;
            Complex v[RADIX];
            v[0] = source[0];
#pragma unroll
            for (int r = 1; r < RADIX; ++r) v[r] = times(source[r * apart], root(roots, r * k * turn));
            if constexpr (RADIX == 2) {
                target[0] = plus(v[0], v[1]);
                target[done] = minus(v[0], v[1]);
            } else {
                const Complex a = plus(v[0], v[2]), b = minus(v[0], v[2]), c = plus(v[1], v[3]), d = minus(v[1], v[3]);
                target[0] = plus(a, c);
                target[done] = {b.re + d.im, b.im - d.re};
                target[2 * done] = minus(a, c);
                target[3 * done] = {b.re - d.im, b.im + d.re};
            }
        }
    } else {
        for (int item = threadIdx.x; item < WINDOWS * LENGTH; item += blockDim.x) {
            const int window = item / LENGTH, place = item % LENGTH, q = place / apart, j = place % apart, k = j % done;
            const Complex* source = in + window * LENGTH + j;
            Complex sum = source[0];
            for (int r = 1; r < RADIX; ++r) {
                const int angle = static_cast<int>((static_cast<int64>(r) * (k * turn + q * apart)) % LENGTH);
                sum = plus(sum, times(source[r * apart], root(roots, angle)));
            }
            out[window * LENGTH + (j - k) * RADIX + k + q * done] = sum;
        }
    }
    __syncthreads();
}

template <int RADIX, int... REST> struct Steps {
    __device__ __forceinline__ static Complex* run(Complex* in, Complex* out, const Complex* roots, int done) {
        combine<RADIX>(in, out, roots, done);
        if constexpr (sizeof...(REST) > 0) return Steps<REST...>::run(out, in, roots, done * RADIX);
        else return out;
    }
};

__device__ __forceinline__ float element(const Signal& signal, const float* window, int length, int64 first, int k) {
    if (k >= length) return 0;
    int64 position = first + k;
    if constexpr (PADDING == 2) position = inside<REFLECT_101>(position, signal.length);
    if (position < 0 || position >= signal.length) return 0;
    return window[k] * convert<float>(load<IN>(signal.src + position * static_cast<int64>(sizeof(IN))));
}

extern "C" __global__ void spectrogram(const Signal* __restrict__ signals, const float* __restrict__ window,
                                       const Complex* __restrict__ roots, int length, int step) {
    const Signal& signal = signals[blockIdx.y];
#if SHARED
    __shared__ Complex memory[2 * WINDOWS * LENGTH];
    Complex* const a = memory;
#else
    Complex* const a = signal.scratch + static_cast<int64>(blockIdx.x) * (2 * WINDOWS * LENGTH);
#endif
    Complex* const b = a + WINDOWS * LENGTH;
    constexpr int bins = SIZE / 2 + 1;
    for (int64 first = static_cast<int64>(blockIdx.x) * WINDOWS; first < signal.windows;
         first += static_cast<int64>(gridDim.x) * WINDOWS) {
        for (int item = threadIdx.x; item < WINDOWS * LENGTH; item += blockDim.x) {
            const int k = item % LENGTH;
            const int64 start = (first + item / LENGTH) * step - (PADDING ? length / 2 : 0);
            if (first + item / LENGTH >= signal.windows) a[item] = {0, 0};
            else if (SIZE == LENGTH) a[item] = {element(signal, window, length, start, k), 0};
            else a[item] = {element(signal, window, length, start, 2 * k), element(signal, window, length, start, 2 * k + 1)};
        }
        __syncthreads();
        const Complex* found = Steps<RADICES>::run(a, b, roots, 1);
        for (int item = threadIdx.x; item < WINDOWS * bins; item += blockDim.x) {
            // Threads next to each other write next to each other.
            const bool by_window = signal.window_stride == 1;
            const int w = by_window ? item % WINDOWS : item / bins, k = by_window ? item / WINDOWS : item % bins;
            if (first + w >= signal.windows) continue;
            Complex value = found[w * LENGTH + k % LENGTH];
            if constexpr (SIZE != LENGTH) {  // the transforms of the elements at even and at odd positions
                const Complex other = found[w * LENGTH + (LENGTH - k) % LENGTH];
                const Complex even = {0.5f * (value.re + other.re), 0.5f * (value.im - other.im)};
                const Complex odd = {0.5f * (value.im + other.im), 0.5f * (other.re - value.re)};
                value = plus(even, times(odd, roots[k]));
            }
            const float power = value.re * value.re + value.im * value.im;
            signal.dst[(first + w) * signal.window_stride + k * signal.bin_stride] = POWER == 1 ? sqrtf(power) : power;
        }
        __syncthreads();
    }
}
