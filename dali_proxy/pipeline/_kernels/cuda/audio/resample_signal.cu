// Resamples signals by a sinc filter; channels last, one signal per blockIdx.y.
//
// Macros from the launcher: IN, OUT (types), SHARED (largest number of entries of a filter's rows, if they fit into shared
// memory, or 0), SCALED (0 if gain is 1 and offset is 0).

#include "common.cuh"

struct Signal {
    const char* src;
    OUT* dst;
    int64 length, outputs, channels;
    int64 filter;         // the first entry of the signal's filter in the tables
    double scale;         // outputs per input
    double gain, offset;  // value * gain + offset is in the range of OUT
    int phases, taps;     // rows of the filter between two input samples, and inputs per output
    int copies;           // the output is the input
};

extern "C" __global__ void resample_signal(const Signal* __restrict__ signals, const float* __restrict__ weights,
                                           const float* __restrict__ slopes) {
    const Signal& signal = signals[blockIdx.y];
    const float *weight = weights + signal.filter, *slope = slopes + signal.filter;
    int width = signal.taps;
#if SHARED
    // Neighbouring threads read different rows, from different banks of shared memory.
    __shared__ float shared[2 * SHARED];
    for (int entry = threadIdx.x; entry < signal.phases * signal.taps; entry += blockDim.x) {
        const int place = entry + entry / signal.taps;
        shared[place] = weight[entry];
        shared[SHARED + place] = slope[entry];
    }
    __syncthreads();
    weight = shared, slope = shared + SHARED, width += 1;
#endif
    const int64 count = signal.outputs * signal.channels, step = static_cast<int64>(gridDim.x) * blockDim.x;
    for (int64 element = static_cast<int64>(blockIdx.x) * blockDim.x + threadIdx.x; element < count; element += step) {
        const int64 output = element / signal.channels, channel = element % signal.channels;
        const double position = static_cast<double>(output) / signal.scale;
        const int64 before = static_cast<int64>(floor(position));
        const double phase = (position - static_cast<double>(before)) * signal.phases;
        const int row = min(static_cast<int>(phase), signal.phases - 1);
        const float part = static_cast<float>(phase - row);
        const int64 first = signal.copies ? output : before + 1 - signal.taps / 2, left = signal.length - first;
        const int64 taps = signal.copies ? 1 : signal.taps;
        const int begin = static_cast<int>(first >= 0 ? 0 : -first < taps ? -first : taps);
        const int end = static_cast<int>(left < taps ? left : taps);
        const IN* values = reinterpret_cast<const IN*>(signal.src) + first * signal.channels + channel;
        float sum = 0;
        for (int k = begin; k < end; ++k) {
            const IN value = values[k * signal.channels];
#if SCALED
            const float scaled = static_cast<float>(convert<double>(value) * signal.gain + signal.offset);
#else
            const float scaled = convert<float>(value);
#endif
            sum = fmaf(signal.copies ? 1.0f : fmaf(slope[row * width + k], part, weight[row * width + k]), scaled, sum);
        }
        signal.dst[element] = convert<OUT>(sum);
    }
}
