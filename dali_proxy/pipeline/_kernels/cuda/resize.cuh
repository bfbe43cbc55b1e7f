// Separable resampling as an expression.

// The taps of successive positions of an axis, in shared memory.
struct SharedTaps {
    struct Span {
        int first, count;
        float norm;  // 1 / the sum of the weights
    };
    char* memory;
    int begin, count;  // of the positions

    __device__ __forceinline__ static int most(const Axis& axis) { return static_cast<int>(2 * axis.radius) + 2; }

    __device__ __forceinline__ static int64 bytes(const Axis& axis, int count) {
        return count * static_cast<int64>(sizeof(Span) + sizeof(float) * most(axis));
    }

    __device__ __forceinline__ Span& span(int position) const {
        return reinterpret_cast<Span*>(memory)[position - begin];
    }

    __device__ __forceinline__ float& weight(int position, int tap) const {
        return reinterpret_cast<float*>(memory + count * sizeof(Span))[tap * count + position - begin];
    }

    // Computes the weights. All threads of the block call this, and after a barrier, `fill_norms`.
    __device__ __forceinline__ void fill_weights(const Axis& axis) const {
#pragma unroll 1
        for (int item = threadIdx.x; item < most(axis) * count; item += blockDim.x) {
            const int tap = item / count, position = begin + item - tap * count;
            const Taps taps = taps_of(axis, position);
            if (tap == 0) span(position) = {taps.first, taps.count, 0};
            if (tap < taps.count) weight(position, tap) = weight_of(axis, taps, tap);
        }
    }

    __device__ __forceinline__ void fill_norms() const {
#pragma unroll 1
        for (int position = begin + threadIdx.x; position < begin + count; position += blockDim.x) {
            Span& own = span(position);
            float sum = 0;
#pragma unroll 1
            for (int tap = 0; tap < own.count; ++tap) sum += weight(position, tap);
            own.norm = 1.0f / sum;
        }
    }
};

// Separable resampling, summed in the order of resample.cu: along x, then along y. The sums along x are kept in shared
// memory, because a row of the source is under several rows of the result.
template <typename T, class In> struct Resize {
    using Type = T;
    static constexpr int channels = In::channels;
    static constexpr int caches = 1;
    In in;
    Axis y, x;

    using Line = Pixel<float, channels>;

    // What the slot begins with; the sums, and the taps of rows and columns follow.
    struct Held {
        Rectangle result, source;

        __device__ __forceinline__ SharedPixels<Line> lines() const {
            return {reinterpret_cast<Line*>(address(sizeof(Held))), source};
        }
        __device__ __forceinline__ SharedTaps rows() const {
            return {address(sizeof(Held) + lines().bytes(source)), result.top, result.height()};
        }
        __device__ __forceinline__ SharedTaps columns(const Axis& y) const {
            return {rows().memory + SharedTaps::bytes(y, result.height()), result.left, result.width()};
        }
        __device__ __forceinline__ char* address(int64 offset) const {
            return const_cast<char*>(reinterpret_cast<const char*>(this)) + offset;
        }
    };

    template <class Shared>
    __device__ __forceinline__ Pixel<T, channels> at(Shared slots, int frame, int row, int column) const {
        if constexpr (Same<Shared, Slots>::value) {
            const Held& held = *reinterpret_cast<const Held*>(slots.memory);
            const auto lines = held.lines();
            const auto rows = held.rows();
            return summed(rows.span(row), [&](int k) { return rows.weight(row, k); },
                          [&](int source_row) { return lines.at(source_row, column); });
        } else {
            const Taps rows = taps_of(y, row), columns = taps_of(x, column);
            const float norm = 1.0f / weight_sum(x, columns);
            const SharedTaps::Span span = {rows.first, rows.count, 1.0f / weight_sum(y, rows)};
            return summed(span, [&](int k) { return weight_of(y, rows, k); }, [&](int source_row) {
                Line line = {};
                for (int k = 0; k < columns.count; ++k) {
                    const auto source = in.at(NoSlots(), frame, source_row, clamped(columns.first + k, x.extent));
                    const float weight = weight_of(x, columns, k);
#pragma unroll
                    for (int c = 0; c < channels; ++c)
                        line.values[c] = fmaf(weight, convert<float>(source.values[c]), line.values[c]);
                }
#pragma unroll
                for (int c = 0; c < channels; ++c) line.values[c] *= norm;
                return line;
            });
        }
    }

    // The pixel, given the weights of rows of the source, and the sums of the rows at its column.
    template <class Weights, class Lines>
    __device__ __forceinline__ Pixel<T, channels> summed(const SharedTaps::Span& rows, Weights weight_of_row,
                                                         Lines line_of) const {
        float sums[channels] = {};
#pragma unroll 1
        for (int k = 0; k < rows.count; ++k) {
            const Line line = line_of(clamped(rows.first + k, y.extent));
            const float weight = weight_of_row(k);
#pragma unroll
            for (int c = 0; c < channels; ++c) sums[c] = fmaf(weight, line.values[c], sums[c]);
        }
        Pixel<T, channels> pixel;
#pragma unroll
        for (int c = 0; c < channels; ++c) pixel.values[c] = convert<T>(sums[c] * rows.norm);
        return pixel;
    }

    __device__ __forceinline__ Prepared prepare(Slots slots, int frame, const Rectangle& rectangle) const {
        if (2 * y.radius <= fabsf(static_cast<float>(y.scale))) return USELESS;  // few rows of the source are used twice
        const Taps above = taps_of(y, rectangle.top), below = taps_of(y, rectangle.bottom - 1);
        const int first = min(above.first, below.first);
        const int last = max(above.first + above.count, below.first + below.count) - 1;
        Held& held = *reinterpret_cast<Held*>(slots.memory);
        const Rectangle source = {clamped(first, y.extent), rectangle.left, clamped(last, y.extent) + 1, rectangle.right};
        const int64 bytes = sizeof(Held) + SharedPixels<Line>::bytes(source) + SharedTaps::bytes(y, rectangle.height()) +
                            SharedTaps::bytes(x, rectangle.width());
        if (bytes > slots.bytes) return TOO_LARGE;
        if (threadIdx.x == 0) held = {rectangle, source};
        __syncthreads();
        const auto columns = held.columns(y);
        held.rows().fill_weights(y);
        columns.fill_weights(x);
        __syncthreads();
        held.rows().fill_norms();
        held.lines().fill([&](int row, int count, int column, auto& sums) {
            const auto span = columns.span(column);
            float weights = 0;
#pragma unroll
            for (auto& line : sums) line = {};
#pragma unroll 1
            for (int k = 0; k < span.count; ++k) {
                const int source_column = clamped(span.first + k, x.extent);
                const float weight = columns.weight(column, k);
                weights += weight;
#pragma unroll
                for (int m = 0; m < SharedPixels<Line>::GROUP; ++m) {
                    const auto pixel = in.at(NoSlots(), frame, row + min(m, count - 1), source_column);
#pragma unroll
                    for (int c = 0; c < channels; ++c)
                        sums[m].values[c] = fmaf(weight, convert<float>(pixel.values[c]), sums[m].values[c]);
                }
            }
            const float norm = 1.0f / weights;
#pragma unroll
            for (auto& line : sums)
                for (int c = 0; c < channels; ++c) line.values[c] *= norm;
        });
        return FILLED;
    }
};
