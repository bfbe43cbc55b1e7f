// Pixels in shared memory: a block computes the pixels between two filters once, for the rectangle that it writes.
//
// `at(slots, z, y, x)` of an expression takes the slots of shared memory that its nodes may read: `Slots`, after
// `prepare(slots, z, rectangle)` has filled them for a rectangle of its pixels; or `NoSlots`, to compute everything from
// memory. Each of the `caches` nodes of an expression has one slot.

struct Rectangle {
    int top, left, bottom, right;  // of the first pixel, and after the last one

    __device__ __forceinline__ int height() const { return bottom > top ? bottom - top : 0; }
    __device__ __forceinline__ int width() const { return right > left ? right - left : 0; }
};

enum Prepared {
    FILLED = 0,    // after a barrier, the slots can be read
    TOO_LARGE = 1, // a smaller rectangle may fit
    USELESS = 2,   // to read the source for each pixel is faster, whatever the rectangle
};

struct NoSlots {
    __device__ __forceinline__ NoSlots after(int count) const { return {}; }
};

struct Slots {
    char* memory;
    int bytes;  // of each slot

    __device__ __forceinline__ Slots after(int count) const { return {memory + count * bytes, bytes}; }
};

// Fills the slots of an expression; all threads of the block call it.
template <class Expression>
__device__ __forceinline__ Prepared prepared(const Expression& expression, Slots slots, int z, const Rectangle& rectangle) {
    if constexpr (Expression::caches > 0) return expression.prepare(slots, z, rectangle);
    else return FILLED;
}

// A base of expressions whose pixel depends on the pixel of `in` at the same position.
template <class Expression> struct Pointwise {
    __device__ __forceinline__ Prepared prepare(Slots slots, int z, const Rectangle& rectangle) const {
        return prepared(static_cast<const Expression*>(this)->in, slots, z, rectangle);
    }
};

// The pixels of a rectangle.
template <class Pixel> struct SharedPixels {
    static constexpr int GROUP = 4;  // pixels of a thread, one below the other

    Pixel* pixels;
    Rectangle held;

    __device__ __forceinline__ static int64 bytes(const Rectangle& rectangle) {
        return static_cast<int64>(sizeof(Pixel)) * rectangle.height() * rectangle.width();
    }

    __device__ __forceinline__ Pixel& at(int y, int x) const {
        return pixels[(y - held.top) * (held.right - held.left) + x - held.left];
    }

    // Stores the pixels that compute(y, count, x, pixels) returns for `count` rows from y of column x, at most GROUP; all
    // threads of the block call it.
    template <class Compute> __device__ __forceinline__ void fill(Compute compute) const {
        const int width = held.width(), groups = (held.height() + GROUP - 1) / GROUP;
#pragma unroll 1
        for (int item = threadIdx.x; item < groups * width; item += blockDim.x) {
            const int group = item / width, x = held.left + item - group * width, y = held.top + group * GROUP;
            const int count = min(GROUP, held.bottom - y);
            Pixel computed[GROUP];
            compute(y, count, x, computed);
#pragma unroll
            for (int m = 0; m < GROUP; ++m)
                if (m < count) at(y + m, x) = computed[m];
        }
    }
};
