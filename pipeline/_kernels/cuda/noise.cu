// Adds noise; one sample per blockIdx.y.
//
// Macros from the launcher: T (type), SUM (type of sums), NOISE (0 Gaussian, 1 salt and pepper, 2 shot).

#include "common.cuh"
#include "philox.cuh"

struct Sample {
    const T* src;
    T* dst;
    uint64 count;
    uint64 seed;
    uint64 channels, inner;  // elements along the channels share a draw; 1 and 1 if each has a separate draw
    double first, second;    // Gaussian: mean, deviation. Salt and pepper: probability of salt, of both. Shot: factor
    T salt, pepper;
};

// Box-Muller transform.
__device__ __forceinline__ float normal(const Draws& draws) {
    const float radius = sqrtf(-2.0f * logf((static_cast<float>(draws.values[0]) + 0.5f) * (1.0f / 4294967296.0f)));
    return radius * cosf(6.2831853f * (static_cast<float>(draws.values[1] >> 8) * (1.0f / 16777216.0f)));
}

// Inversion for few expected events, otherwise the transformed rejection method PTRS (Hoermann, "The transformed
// rejection method for generating Poisson random variables", 1993).
__device__ __forceinline__ double poisson(double expected, uint64 seed, uint64 element) {
    Draws draws = philox(seed, element, 0);
    if (expected < 10.0) {
        const double place = uniform(draws.values[0], draws.values[1]);
        double probability = exp(-expected), sum = probability;
        int events = 0;
        while (place > sum && events < 200) {
            probability *= expected / ++events;
            sum += probability;
        }
        return events;
    }
    const double b = 0.931 + 2.53 * sqrt(expected), a = -0.059 + 0.02483 * b;
    const double inverse_alpha = 1.1239 + 1.1328 / (b - 3.4), squeeze = 0.9277 - 3.6224 / (b - 2.0);
    for (uint32 number = 1; number < 1000; ++number) {
        const double u = uniform(draws.values[0], draws.values[1]) - 0.5;
        const double v = uniform(draws.values[2], draws.values[3]);
        const double side = 0.5 - fabs(u);
        const double events = floor((2.0 * a / side + b) * u + expected + 0.43);
        if (side >= 0.07 && v <= squeeze) return events;
        if (events >= 0.0 && (side >= 0.013 || v <= side) &&
            log(v) + log(inverse_alpha) - log(a / (side * side) + b) <=
                events * log(expected) - expected - lgamma(events + 1.0))
            return events;
        draws = philox(seed, element, number);
    }
    return floor(expected);
}

__device__ __forceinline__ T noisy(const Sample& sample, uint64 element) {
    const T value = sample.src[element];
#if NOISE == 0
    const SUM noise = static_cast<SUM>(normal(philox(sample.seed, element, 0))) * static_cast<SUM>(sample.second);
    return convert<T>(convert<SUM>(value) + (noise + static_cast<SUM>(sample.first)));
#elif NOISE == 1
    const uint64 place = element / (sample.channels * sample.inner) * sample.inner + element % sample.inner;
    const Draws draws = philox(sample.seed, place, 0);
    const double drawn = uniform(draws.values[0], draws.values[1]);
    return drawn < sample.first ? sample.salt : drawn < sample.second ? sample.pepper : value;
#else
    if (sample.first == 0.0) return value;
    const double expected = convert<double>(value) / sample.first;
    if (!(expected < 9007199254740992.0)) return value;
    return convert<T>(poisson(expected > 0.0 ? expected : 0.0, sample.seed, element) * sample.first);
#endif
}

extern "C" __global__ void add_noise(const Sample* __restrict__ samples) {
    const Sample& sample = samples[blockIdx.y];
    const uint64 step = static_cast<uint64>(gridDim.x) * blockDim.x;
    for (uint64 element = static_cast<uint64>(blockIdx.x) * blockDim.x + threadIdx.x; element < sample.count;
         element += step)
        sample.dst[element] = noisy(sample, element);
}
