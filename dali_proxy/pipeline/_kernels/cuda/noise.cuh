// Noise. Random numbers depend on the seed and the number of the draw.

// Box-Muller transform.
__device__ __forceinline__ float normal(const Draws& draws) {
    const float radius = sqrtf(-2.0f * logf((static_cast<float>(draws.values[0]) + 0.5f) * (1.0f / 4294967296.0f)));
    return radius * cosf(6.2831853f * (static_cast<float>(draws.values[1] >> 8) * (1.0f / 16777216.0f)));
}

// Number of events by inversion, given a uniform number. -1 if `place` is closer than `margin` to a sum of probabilities,
// so that the precision of Number doesn't suffice.
template <typename Number>
__device__ __forceinline__ int inverted(Number expected, Number place, Number margin) {
    Number probability = exp(-expected), sum = probability;
    int events = 0;
    while (place > sum && events < 200) {
        if (place - sum < margin) return -1;
        probability *= expected / static_cast<Number>(++events);
        sum += probability;
    }
    return fabs(sum - place) < margin ? -1 : events;
}

// Both sides of the inequality by which PTRS accepts a number of events, and the sum of the sizes of their terms.
template <typename Number> struct Sides {
    Number left, right, size;

    __device__ __forceinline__ Sides(Number v, Number inverse_alpha, Number hat, Number events, Number expected) {
        const Number first = log(v), second = log(inverse_alpha), third = log(hat);
        const Number gain = events * log(expected), loss = lgamma(events + 1);
        left = first + second - third;
        right = gain - expected - loss;
        size = fabs(first) + fabs(second) + fabs(third) + fabs(gain) + expected + fabs(loss);
    }
};

// Floats decide unless their error, of less than 1e-6 of the terms, could change the result.
__device__ __forceinline__ bool accepts(double v, double inverse_alpha, double hat, double events, double expected) {
    const Sides<float> rough(static_cast<float>(v), static_cast<float>(inverse_alpha), static_cast<float>(hat),
                             static_cast<float>(events), static_cast<float>(expected));
    const float difference = rough.left - rough.right;
    if (fabsf(difference) > 2e-6f * rough.size) return difference < 0.0f;
    const Sides<double> exact(v, inverse_alpha, hat, events, expected);
    return exact.left <= exact.right;
}

// Inversion for few expected events, otherwise the transformed rejection method PTRS (Hoermann, "The transformed
// rejection method for generating Poisson random variables", 1993). Doubles decide, but take several times as long as
// floats, so they are computed only where floats are too imprecise to decide.
__device__ __forceinline__ double poisson(double expected, uint64 seed, uint64 element) {
    Draws draws = philox(seed, element, 0);
    if (expected < 10.0) {
        const double place = uniform(draws.values[0], draws.values[1]);
        const int events = inverted(static_cast<float>(expected), static_cast<float>(place), 1e-5f);
        return events < 0 ? inverted(expected, place, 0.0) : events;
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
            accepts(v, inverse_alpha, a / (side * side) + b, events, expected))
            return events;
        draws = philox(seed, element, number);
    }
    return floor(expected);
}

// A value with noise. KIND: 0 Gaussian, 1 salt and pepper, 2 shot; Number: type of sums.
//
// `first` and `second` are mean and deviation, the probabilities of salt and of both, or the factor.
template <int KIND, typename Number, typename Value>
__device__ __forceinline__ Value noisy(Value value, uint64 seed, uint64 draw, double first, double second, Value salt, Value pepper) {
    if constexpr (KIND == 0) {
        const Number deviation = static_cast<Number>(normal(philox(seed, draw, 0)));
        return convert<Value>(sum_of(convert<Number>(value), fma(deviation, static_cast<Number>(second), static_cast<Number>(first))));
    } else if constexpr (KIND == 1) {
        const Draws draws = philox(seed, draw, 0);
        const double drawn = uniform(draws.values[0], draws.values[1]);
        return drawn < first ? salt : drawn < second ? pepper : value;
    } else {
        if (first == 0.0) return value;
        const double expected = convert<double>(value) / first;
        if (!(expected < 9007199254740992.0)) return value;
        return convert<Value>(poisson(expected > 0.0 ? expected : 0.0, seed, draw) * first);
    }
}
