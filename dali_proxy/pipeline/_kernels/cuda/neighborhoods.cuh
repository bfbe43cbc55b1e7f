// Expressions whose pixels depend on the pixels around them, and on their own position.

// 0 in the first corner of each tile of a rotated grid.
template <class In> struct Grid : Pointwise<Grid<In>> {
    using Type = typename In::Type;
    static constexpr int channels = In::channels;
    static constexpr int caches = In::caches;
    In in;
    double tile, inverse, ratio, sine, cosine, shift[2];  // inverse: 1 / tile; shift along y, x

    // No product is fused with a sum, so that the result is that of the CPU.
    template <class Shared>
    __device__ __forceinline__ Pixel<Type, channels> at(Shared slots, int z, int y, int x) const {
        auto pixel = in.at(slots, z, y, x);
        double across = tiles(fma(x, cosine, 0.0) - shift[1]) - tiles(fma(y, sine, 0.0));
        double down = tiles(fma(x, sine, 0.0) - shift[0]) + tiles(fma(y, cosine, 0.0));
        across -= floor(across);
        down -= floor(down);
        const bool erased = across < ratio && down < ratio;
#pragma unroll
        for (int c = 0; c < channels; ++c) pixel.values[c] = erased ? convert<Type>(0) : pixel.values[c];
        return pixel;
    }

    // A distance in tiles: the quotient, rounded correctly because the tile is a whole number. A division takes several
    // times as long.
    __device__ __forceinline__ double tiles(double distance) const {
        const double estimate = distance * inverse;
        return fma(fma(-estimate, tile, distance), inverse, estimate);
    }
};

// The largest or smallest value of a rectangle.
template <int LARGEST, int BORDER, class In> struct Extreme {
    using Type = typename In::Type;
    static constexpr int channels = In::channels;
    static constexpr int caches = 0;
    In in;
    int size[2], anchor[2], extent[2];  // height, width

    template <class Shared>
    __device__ __forceinline__ Pixel<Type, channels> at(Shared, int z, int y, int x) const {
        Pixel<Type, channels> found = in.at(NoSlots(), z, y, x);
        for (int i = 0; i < size[0]; ++i) {
            const int row = inside<BORDER>(y + i - anchor[0], extent[0]);
#pragma unroll 3  // the usual width
            for (int j = 0; j < size[1]; ++j) {
                const int column = inside<BORDER>(x + j - anchor[1], extent[1]);
                // Row y and column x lie in the rectangle, so they change nothing in place of a position that is ignored.
                // Without branches, the pixels of a row are read before the first is used.
                const auto source = in.at(NoSlots(), z, row < 0 ? y : row, column < 0 ? x : column);
#pragma unroll
                for (int c = 0; c < channels; ++c)
                    if (LARGEST ? source.values[c] > found.values[c] : source.values[c] < found.values[c])
                        found.values[c] = source.values[c];
            }
        }
        return found;
    }
};

// Numbers with the order of values, so that a median can be found bit by bit.
template <int BYTES> struct Bits { using Type = uint32; };
template <> struct Bits<2> { using Type = uint16; };
template <> struct Bits<8> { using Type = uint64; };

template <typename T> struct Ordered {
    using Key = typename Bits<sizeof(T) == 8 ? 8 : 4>::Type;
    using Same = typename Bits<sizeof(T)>::Type;
    static constexpr int bits = 8 * sizeof(T);
    static constexpr Key one = 1, top = one << (bits - 1), mask = top | (top - 1);

    __device__ __forceinline__ static Key key(T value) {
        if constexpr (Limits<T>::kind == 0) return static_cast<Key>(value);
        if constexpr (Limits<T>::kind == 1) return (static_cast<Key>(value) ^ top) & mask;
        const Key number = *reinterpret_cast<const Same*>(&value);
        return (number & top ? ~number : number ^ top) & mask;
    }
    __device__ __forceinline__ static T value(Key key) {
        if constexpr (Limits<T>::kind == 0) return static_cast<T>(key);
        if constexpr (Limits<T>::kind == 1) return static_cast<T>(key ^ top);
        const Same number = static_cast<Same>((key & top ? key ^ top : ~key) & mask);
        return *reinterpret_cast<const T*>(&number);
    }
};

// The median of a rectangle of odd sizes, by bisection of the range of keys. Border pixels repeat. A rectangle of at most
// KEPT pixels stays in registers; KEPT = 0 reads the pixels again in each step.
template <int KEPT, class In> struct Median {
    using Type = typename In::Type;
    using Order = Ordered<Type>;
    using Key = typename Order::Key;
    static constexpr int channels = In::channels;
    static constexpr int caches = 0;
    In in;
    int size[2], extent[2];  // height, width

    template <class Shared>
    __device__ __forceinline__ Pixel<Type, channels> at(Shared, int z, int y, int x) const {
        const int count = size[0] * size[1], middle = count / 2;
        Pixel<Type, channels> found;
        if constexpr (KEPT > 0) {
            Pixel<Type, channels> pixels[KEPT];
            int i = 0, j = 0;
            // Without branches: behind the rectangle, pixels below it are read, and not used.
#pragma unroll
            for (int k = 0; k < KEPT; ++k) {
                pixels[k] = pixel_of(z, y, x, i, j);
                const bool ends = ++j == size[1];
                i += ends, j = ends ? 0 : j;
            }
#pragma unroll
            for (int c = 0; c < channels; ++c) {
                Key keys[KEPT];
#pragma unroll
                for (int k = 0; k < KEPT; ++k) keys[k] = k < count ? Order::key(pixels[k].values[c]) : ~Key(0);
                Key low = 0;
                for (int bit = Order::bits - 1; bit >= 0; --bit) {
                    const Key candidate = low | (Order::one << bit);
                    int below = 0;
#pragma unroll
                    for (int k = 0; k < KEPT; ++k) below += keys[k] < candidate;
                    if (below <= middle) low = candidate;
                }
                found.values[c] = Order::value(low);
            }
        } else {
            Key low[channels] = {};
            for (int bit = Order::bits - 1; bit >= 0; --bit) {
                int below[channels] = {};
                for (int i = 0; i < size[0]; ++i)
                    for (int j = 0; j < size[1]; ++j) {
                        const auto pixel = pixel_of(z, y, x, i, j);
#pragma unroll
                        for (int c = 0; c < channels; ++c)
                            below[c] += Order::key(pixel.values[c]) < (low[c] | (Order::one << bit));
                    }
#pragma unroll
                for (int c = 0; c < channels; ++c)
                    if (below[c] <= middle) low[c] |= Order::one << bit;
            }
#pragma unroll
            for (int c = 0; c < channels; ++c) found.values[c] = Order::value(low[c]);
        }
        return found;
    }

    // The pixel in row i and column j of the rectangle.
    __device__ __forceinline__ Pixel<Type, channels> pixel_of(int z, int y, int x, int i, int j) const {
        return in.at(NoSlots(), z, clamped(y + i - size[0] / 2, extent[0]), clamped(x + j - size[1] / 2, extent[1]));
    }
};

enum Debayering { BILINEAR = 0, EDGE_AWARE = 1, GRAY = 2 };

// The colors of a mosaic, as in OpenCV. Pixels of the border take those of the pixels next to them.
template <int ALGORITHM, class In> struct Debayer {
    using Type = typename In::Type;
    static constexpr int channels = ALGORITHM == GRAY ? 1 : 3;
    static constexpr int caches = 0;
    In in;
    int blue[2], extent[2];  // row and column of blue modulo 2; height, width

    __device__ __forceinline__ int value(int z, int y, int x) const { return in.at(NoSlots(), z, y, x).values[0]; }

    template <class Shared>
    __device__ __forceinline__ Pixel<Type, channels> at(Shared, int z, int y, int x) const {
        Pixel<Type, channels> pixel;
        if (extent[0] < 3 || extent[1] < 3) {  // OpenCV computes nothing
            for (int c = 0; c < channels; ++c) pixel.values[c] = 0;
            return pixel;
        }
        y = y < 1 ? 1 : y > extent[0] - 2 ? extent[0] - 2 : y;
        x = x < 1 ? 1 : x > extent[1] - 2 ? extent[1] - 2 : x;
        const bool blue_row = (y & 1) == blue[0], blue_column = (x & 1) == blue[1];
        const int here = value(z, y, x);
        const int left = value(z, y, x - 1), right = value(z, y, x + 1);
        const int above = value(z, y - 1, x), below = value(z, y + 1, x);
        if (blue_row != blue_column) {  // green: the neighbors in the row have one color, those in the column the other
            if constexpr (ALGORITHM == GRAY) {
                const int row = blue_row ? BLUE : RED, column = blue_row ? RED : BLUE;
                pixel.values[0] = rescaled(2 * (left + right) * row + 2 * (above + below) * column + 4 * here * GREEN);
            } else {
                const int in_row = (left + right + 1) >> 1, in_column = (above + below + 1) >> 1;
                pixel.values[0] = static_cast<Type>(blue_row ? in_column : in_row);
                pixel.values[1] = static_cast<Type>(here);
                pixel.values[2] = static_cast<Type>(blue_row ? in_row : in_column);
            }
            return pixel;
        }
        const int corners = value(z, y - 1, x - 1) + value(z, y - 1, x + 1) + value(z, y + 1, x - 1) + value(z, y + 1, x + 1);
        const int cross = left + right + above + below;
        if constexpr (ALGORITHM == GRAY) {
            const int own = blue_row ? BLUE : RED, other = blue_row ? RED : BLUE;
            pixel.values[0] = rescaled(corners * other + cross * GREEN + 4 * here * own);
        } else {
            int green = (cross + 2) >> 2;
            if (ALGORITHM == EDGE_AWARE)
                green = fabsf(left - right) > fabsf(above - below) ? (above + below + 1) >> 1 : (left + right + 1) >> 1;
            const int other = (corners + 2) >> 2;
            pixel.values[0] = static_cast<Type>(blue_row ? other : here);
            pixel.values[1] = static_cast<Type>(green);
            pixel.values[2] = static_cast<Type>(blue_row ? here : other);
        }
        return pixel;
    }

    // Shares of the colors in grey, in units of 1 / 2 ** 14.
    static constexpr int RED = 4899, GREEN = 9617, BLUE = 1868;

    __device__ __forceinline__ static Type rescaled(int sum) { return static_cast<Type>((sum + (1 << 15)) >> 16); }
};

// Weighted sum, in the floating-point type Number, of neighbours along AXIS: 0 frames or slices, 1 rows, 2 columns.
template <typename T, typename Number, int AXIS, int WIDTH, class In> struct Convolve {
    using Type = T;
    static constexpr int channels = In::channels;
    static constexpr int caches = AXIS == 0 ? 0 : In::caches;
    In in;
    int radius, extent;  // number of weights on each side, and the extent of the axis
    float weights[WIDTH];

    using Numbers = Pixel<Number, channels>;

    template <class Shared>
    __device__ __forceinline__ Pixel<T, channels> at(Shared slots, int z, int y, int x) const {
        Numbers sums = {};
        const int position = AXIS == 0 ? z : AXIS == 1 ? y : x;
        read(position, 1, slots, z, y, x, [&](int k, const Numbers& source) { add(k, source, sums); });
        return converted<T>(sums);
    }

    // The first `count` of GROUP pixels, one below the other, for the axis of rows: each pixel of `in` is read once.
    template <int GROUP, class Shared>
    __device__ __forceinline__ void column(Shared slots, int z, int y, int count, int x,
                                           Pixel<T, channels> (&pixels)[GROUP]) const {
        Numbers sums[GROUP] = {};
        read(y, count, slots, z, y, x, [&](int k, const Numbers& source) {
#pragma unroll
            for (int m = 0; m < GROUP; ++m)
                if (k - m >= -radius && k - m <= radius) add(k - m, source, sums[m]);
        });
#pragma unroll
        for (int m = 0; m < GROUP; ++m) pixels[m] = converted<T>(sums[m]);
    }

    // Calls use(k, pixel) for all pixels under the windows of `count` positions, from k = -radius, before the first one.
    template <class Shared, class Use>
    __device__ __forceinline__ void read(int position, int count, Shared slots, int z, int y, int x, Use use) const {
        const auto pixel_at = [&](int from) {
            if constexpr (AXIS == 0) return converted<Number>(in.at(NoSlots(), from, y, x));
            else return converted<Number>(in.at(slots, z, AXIS == 1 ? from : y, AXIS == 2 ? from : x));
        };
        // Borders take longer. Where slots are missing, which is rare, the size of the code counts more.
        constexpr bool is_hot = In::caches == 0 || Same<Shared, Slots>::value;
        if (is_hot && position >= radius && position + count - 1 + radius < extent) {
            for (int k = -radius; k < radius + count; ++k) use(k, pixel_at(position + k));
        } else {
#pragma unroll 1
            for (int k = -radius; k < radius + count; ++k) use(k, pixel_at(inside<REFLECT_101>(position + k, extent)));
        }
    }

    __device__ __forceinline__ void add(int k, const Numbers& source, Numbers& sums) const {
        const Number weight = static_cast<Number>(weights[k + radius]);
#pragma unroll
        for (int c = 0; c < channels; ++c) sums.values[c] = fma(weight, source.values[c], sums.values[c]);
    }

    template <typename Out, typename From>
    __device__ __forceinline__ static Pixel<Out, channels> converted(const Pixel<From, channels>& source) {
        Pixel<Out, channels> pixel;
#pragma unroll
        for (int c = 0; c < channels; ++c) pixel.values[c] = convert<Out>(source.values[c]);
        return pixel;
    }

    __device__ __forceinline__ Prepared prepare(Slots slots, int z, Rectangle rectangle) const {
        // Pixels outside of the image are reflected into the same rectangle.
        int& begin = AXIS == 1 ? rectangle.top : rectangle.left;
        int& end = AXIS == 1 ? rectangle.bottom : rectangle.right;
        begin = max(begin - radius, 0);
        end = min(end + radius, extent);
        return prepared(in, slots, z, rectangle);
    }
};

// Pixels of a column: those of GROUP rows from y, of which `count` are needed.
template <int GROUP, class In, class Shared, class P>
__device__ __forceinline__ void column_of(const In& in, Shared slots, int z, int y, int count, int x,
                                          P (&pixels)[GROUP]) {
#pragma unroll
    for (int m = 0; m < GROUP; ++m) pixels[m] = in.at(slots, z, y + min(m, count - 1), x);
}

template <int GROUP, typename T, typename Number, int WIDTH, class In, class Shared, class P>
__device__ __forceinline__ void column_of(const Convolve<T, Number, 1, WIDTH, In>& in, Shared slots, int z, int y, int count,
                                          int x, P (&pixels)[GROUP]) {
    in.column(slots, z, y, count, x, pixels);
}

// The pixels of `in`, which a block computes once, into shared memory, for an expression that reads them several times.
template <class In> struct Cached {
    using Type = typename In::Type;
    static constexpr int channels = In::channels;
    static constexpr int caches = 1 + In::caches;
    In in;

    template <class Shared>
    __device__ __forceinline__ Pixel<Type, channels> at(Shared slots, int z, int y, int x) const {
        if constexpr (Same<Shared, Slots>::value) return pixels(slots, held(slots)).at(y, x);
        else return in.at(slots, z, y, x);
    }

    __device__ __forceinline__ Prepared prepare(Slots slots, int z, const Rectangle& rectangle) const {
        const auto stored = pixels(slots, rectangle);
        if (sizeof(Rectangle) + stored.bytes(rectangle) > slots.bytes) return TOO_LARGE;
        const Prepared inner = prepared(in, slots.after(1), z, rectangle);
        if (inner != FILLED) return inner;
        if constexpr (In::caches > 0) __syncthreads();
        if (threadIdx.x == 0) held(slots) = rectangle;
        stored.fill([&](int y, int count, int x, auto& computed) {
            column_of(in, slots.after(1), z, y, count, x, computed);
        });
        return FILLED;
    }

    __device__ __forceinline__ static Rectangle& held(Slots slots) { return *reinterpret_cast<Rectangle*>(slots.memory); }

    __device__ __forceinline__ static SharedPixels<Pixel<Type, channels>> pixels(Slots slots, const Rectangle& rectangle) {
        return {reinterpret_cast<Pixel<Type, channels>*>(slots.memory + sizeof(Rectangle)), rectangle};
    }
};
