// Resamples signals by a sinc filter; channels last, one signal per blockIdx.y.
//
// Macros from the launcher: IN, OUT (types), PHASES (rows of the filter between two input samples), TAPS (inputs per
// output), SCALED (0 if gain is 1 and offset is 0).

#include "common.cuh"

struct Signal {
    const char* src;
    OUT* dst;
    int64 length, outputs, channels;
    double scale;         // outputs per input
    double gain, offset;  // value * gain + offset is in the range of OUT
    int copies;           // the output is the input
};

extern "C" __global__ void resample_signal(const Signal* __restrict__ signals, const float* __restrict__ weights,
                                           const float* __restrict__ slopes) {
    // Neighbouring threads read different rows, from different banks of shared memory.
    __shared__ float weight[PHASES][TAPS + 1], slope[PHASES][TAPS + 1];
    for (int entry = threadIdx.x; entry < PHASES * TAPS; entry += blockDim.x) {
        weight[entry / TAPS][entry % TAPS] = weights[entry];
        slope[entry / TAPS][entry % TAPS] = slopes[entry];
    }
    __syncthreads();
    const Signal& signal = signals[blockIdx.y];
    const int64 count = signal.outputs * signal.channels, step = static_cast<int64>(gridDim.x) * blockDim.x;
    for (int64 element = static_cast<int64>(blockIdx.x) * blockDim.x + threadIdx.x; element < count; element += step) {
        const int64 output = element / signal.channels, channel = element % signal.channels;
        const double position = static_cast<double>(output) / signal.scale;
        const int64 before = static_cast<int64>(floor(position));
        const double phase = (position - static_cast<double>(before)) * PHASES;
        const int row = static_cast<int>(phase);
        const float part = static_cast<float>(phase - row);
        const int64 first = signal.copies ? output : before + 1 - TAPS / 2, left = signal.length - first;
        const int64 taps = signal.copies ? 1 : TAPS;
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
            sum = fmaf(signal.copies ? 1.0f : fmaf(slope[row][k], part, weight[row][k]), scaled, sum);
        }
        signal.dst[element] = convert<OUT>(sum);
    }
}
