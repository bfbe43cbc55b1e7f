// Positions outside an image. The numbers are those of `pipeline._imaging.filter2d.Border`.

enum Border { REFLECT_101 = 0, REFLECT_1001 = 1, WRAP = 2, CLAMP = 3, CONSTANT = 4 };

// Maps any position to a position inside, or returns -1 for the fill value.
template <int RULE, typename Int> __device__ __forceinline__ Int inside(Int position, Int extent) {
    if (position >= 0 && position < extent) return position;
    if constexpr (RULE == CONSTANT) return -1;
    if constexpr (RULE == CLAMP) return position < 0 ? 0 : extent - 1;
    if (extent == 1) return 0;
    const Int period = RULE == REFLECT_101 ? 2 * (extent - 1) : RULE == REFLECT_1001 ? 2 * extent : extent;
    Int rest = position % period;
    if (rest < 0) rest += period;
    if (rest < extent) return rest;
    return RULE == REFLECT_101 ? period - rest : period - 1 - rest;
}
