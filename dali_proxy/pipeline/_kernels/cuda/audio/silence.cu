// The part of signals that isn't silent; one signal per blockIdx.y. Each thread slides over RUN windows.
//
// Macros from the launcher: IN (type), SUM (type of sums of squares), RUN.

#include "common.cuh"

struct Signal {
    const char* src;
    int *start, *length;       // the result; in between, the first and the last window that isn't silent
    int64 elements, window;
    SUM* largest;              // of each thread
    int threads, has_largest;  // threads with windows; whether the largest sum is the power of 0 dB
    double reference;          // sum of 0 dB otherwise
};

__device__ __forceinline__ SUM square(const Signal& signal, int64 position) {
    const SUM value = convert<SUM>(load<IN>(signal.src + position * static_cast<int64>(sizeof(IN))));
    return value * value;
}

// Calls `use(window, sum)` for the windows of a thread.
template <class Use> __device__ __forceinline__ void slide(const Signal& signal, int thread, Use use) {
    const int64 first = static_cast<int64>(thread) * RUN, windows = signal.elements - signal.window + 1;
    const int64 end = first + RUN < windows ? first + RUN : windows;
    SUM sum = 0;
    for (int64 k = 0; k < signal.window; ++k) sum += square(signal, first + k);
    for (int64 window = first; window < end; ++window) {
        use(window, sum);
        if (window + 1 < end) sum += square(signal, window + signal.window) - square(signal, window);
    }
}

extern "C" __global__ void largest_sums(const Signal* __restrict__ signals) {
    const Signal& signal = signals[blockIdx.y];
    const int thread = blockIdx.x * blockDim.x + threadIdx.x;
    if (thread == 0) {
        *signal.start = 2147483647;
        *signal.length = -1;
    }
    if (thread >= signal.threads) return;
    SUM largest = 0;
    slide(signal, thread, [&](int64, SUM sum) { largest = sum > largest ? sum : largest; });
    signal.largest[thread] = largest;
}

extern "C" __global__ void find_sound(const Signal* __restrict__ signals, double ratio) {
    const Signal& signal = signals[blockIdx.y];
    const int thread = blockIdx.x * blockDim.x + threadIdx.x;
    if (thread >= signal.threads) return;
    double level = signal.reference;
    if (signal.has_largest) {
        SUM largest = 0;
        for (int other = 0; other < signal.threads; ++other)
            largest = signal.largest[other] > largest ? signal.largest[other] : largest;
        level = static_cast<double>(largest);
    }
    int first = 2147483647, last = -1;
    slide(signal, thread, [&](int64 window, SUM sum) {
        if (static_cast<double>(sum) >= level * ratio) {
            first = first < window ? first : static_cast<int>(window);
            last = static_cast<int>(window);
        }
    });
    if (last < 0) return;
    atomicMin(signal.start, first);
    atomicMax(signal.length, last);
}

extern "C" __global__ void sound_lengths(const Signal* __restrict__ signals, int count) {
    const int number = blockIdx.x * blockDim.x + threadIdx.x;
    if (number >= count) return;
    const Signal& signal = signals[number];
    const int last = *signal.length;
    *signal.length = last < 0 ? 0 : last - *signal.start + static_cast<int>(signal.window);
    if (last < 0) *signal.start = 0;
}
