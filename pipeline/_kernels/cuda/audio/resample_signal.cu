// Resamples signals by a sinc filter; channels last, one signal per blockIdx.y.
//
// Macros from the launcher: IN, OUT (types), PHASES (rows of the filter between two input samples), TAPS (inputs per
// output).

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
    const Signal& signal = signals[blockIdx.y];
    const int64 count = signal.outputs * signal.channels, step = static_cast<int64>(gridDim.x) * blockDim.x;
    for (int64 element = static_cast<int64>(blockIdx.x) * blockDim.x + threadIdx.x; element < count; element += step) {
        const int64 output = element / signal.channels, channel = element % signal.channels;
        const double position = static_cast<double>(output) / signal.scale;
        const int64 before = static_cast<int64>(floor(position));
        const double phase = (position - static_cast<double>(before)) * PHASES;
        const int row = static_cast<int>(phase);
        const float part = static_cast<float>(phase - row);
        const int64 first = signal.copies ? output : before + 1 - TAPS / 2;
        float sum = 0;
        for (int k = 0; k < (signal.copies ? 1 : TAPS); ++k) {
            if (first + k < 0 || first + k >= signal.length) continue;
            const char* address = signal.src + ((first + k) * signal.channels + channel) * static_cast<int64>(sizeof(IN));
            const float value = static_cast<float>(convert<double>(load<IN>(address)) * signal.gain + signal.offset);
            const float weight = signal.copies ? 1.0f : fmaf(slopes[row * TAPS + k], part, weights[row * TAPS + k]);
            sum = fmaf(weight, value, sum);
        }
        signal.dst[element] = convert<OUT>(sum);
    }
}
