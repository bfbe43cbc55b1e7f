// Correlates images with windows of any size; channels last, one image per blockIdx.y.
//
// A block computes tiles of 32 rows and 128 elements of a row. It first copies the source of a tile to shared memory as
// floats, including the values outside the image, so that it reads and converts each element once. If the window is too
// large for this, the block adds up one part of it after the other. A thread computes four rows of four elements: it uses
// a value for all rows, and a weight for all elements.
//
// Macros from the launcher: IN, OUT (types), BORDER (see borders.cuh).

#include "common.cuh"
#include "borders.cuh"

struct Image {
    const char* src;
    OUT* dst;
    const float* window;  // its weights, row by row
    int height, width;    // of src
    int rows, columns;    // of dst
    int channels;
    int window_rows, window_columns;
    int row, column;  // position in the window that aligns with the output pixel
    float fill;
};

constexpr int WARPS = 8;
constexpr int DOWN = 4;    // neighboring rows of a thread
constexpr int ACROSS = 4;  // elements of a thread in a row, 32 apart
constexpr int TILE_ROWS = WARPS * DOWN, TILE_COLUMNS = 32 * ACROSS;  // filter.py has the same numbers
constexpr int SOURCE_ROWS = TILE_ROWS + 12, SOURCE_COLUMNS = TILE_COLUMNS + 32;
constexpr int PLACES = SOURCE_COLUMNS / 32;  // elements of a thread in a row of the source
constexpr int LARGEST_PART = 208;                   // in rows of Weights

// Weights of one value for the rows of a thread: those of a column of the window, from below to above.
struct __align__(16) Weights {
    float values[DOWN];
};

__device__ __forceinline__ int least(int a, int b) { return a < b ? a : b; }

// Copies a rectangle of the source to shared memory: `rows` and `columns` (in elements) from `top` and `left` on, which
// count from the first row and the first element of the window of the first pixel.
__device__ __forceinline__ void read_source(const Image& image, float (*source)[SOURCE_COLUMNS], int top, int left,
                                            int rows, int columns) {
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, length = image.width * image.channels;
    const float fill = image.fill;
    int places[PLACES];  // in a row of the image, -1 for the fill value
#pragma unroll
    for (int k = 0; k < PLACES; ++k) {
        const int element = left + least(lane + 32 * k, columns - 1);
        places[k] = element - image.column * image.channels;
        if (places[k] < 0 || places[k] >= length) {
            const int pixel = element / image.channels, x = inside<BORDER>(pixel - image.column, image.width);
            places[k] = x < 0 ? -1 : x * image.channels + element - pixel * image.channels;
        }
    }
    for (int line = warp; line < rows; line += WARPS) {
        const int y = inside<BORDER>(top + line - image.row, image.height);
        const char* begin = image.src + static_cast<int64>(y < 0 ? 0 : y) * length * static_cast<int64>(sizeof(IN));
        IN values[PLACES];  // all are read before the first is used
#pragma unroll
        for (int k = 0; k < PLACES; ++k)
            values[k] = load<IN>(begin + static_cast<int64>(places[k] < 0 ? 0 : places[k]) * static_cast<int64>(sizeof(IN)));
#pragma unroll
        for (int k = 0; k < PLACES; ++k)
            if (lane + 32 * k < columns)
                source[line][lane + 32 * k] = y < 0 || places[k] < 0 ? fill : convert<float>(values[k]);
    }
}

// Adds the values of a line of the source, times their weights, to the sums of the rows from `first` to `last`.
__device__ __forceinline__ void add_line(const float* values, const Weights* weights, int columns, int step, int first,
                                         int last, float (*sums)[ACROSS]) {
    float next[ACROSS];
#pragma unroll
    for (int e = 0; e < ACROSS; ++e) next[e] = values[32 * e];
    for (int column = 0; column < columns; ++column) {
        const Weights weight = weights[column];
        float now[ACROSS];
        values += column + 1 < columns ? step : 0;
#pragma unroll
        for (int e = 0; e < ACROSS; ++e) now[e] = next[e], next[e] = values[32 * e];
#pragma unroll
        for (int r = 0; r < DOWN; ++r) {
            if (r < first || r > last) continue;
#pragma unroll
            for (int e = 0; e < ACROSS; ++e) sums[r][e] = fmaf(weight.values[r], now[e], sums[r][e]);
        }
    }
}

// Four blocks at once on a multiprocessor hide the latency of their reads.
extern "C" __global__ void __launch_bounds__(32 * WARPS, 4) filter_images(const Image* __restrict__ images) {
    __shared__ float source[SOURCE_ROWS][SOURCE_COLUMNS];
    __shared__ Weights weights[LARGEST_PART];
    const Image& image = images[blockIdx.y];
    const float* __restrict__ window = image.window;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, channels = image.channels;
    const int length = image.columns * channels;  // of a row of dst
    const int tiles_x = (length + TILE_COLUMNS - 1) / TILE_COLUMNS;
    const int64 tiles = static_cast<int64>(tiles_x) * ((image.rows + TILE_ROWS - 1) / TILE_ROWS);
    if (blockIdx.x >= tiles) return;
    // The weights of a row are added up in the order of its columns: a part has whole rows, or some columns of one row.
    const int part_columns = least(image.window_columns, (SOURCE_COLUMNS - TILE_COLUMNS) / channels + 1);
    const int most_rows = least(SOURCE_ROWS - TILE_ROWS + 1, LARGEST_PART / part_columns - (DOWN - 1));
    const int part_rows = part_columns == image.window_columns ? most_rows : 1;
    for (int64 tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
        const int tile_y = static_cast<int>(tile / tiles_x);
        const int top = tile_y * TILE_ROWS;
        const int left = static_cast<int>(tile - static_cast<int64>(tile_y) * tiles_x) * TILE_COLUMNS;
        float sums[DOWN][ACROSS] = {};
        for (int first_row = 0; first_row < image.window_rows; first_row += part_rows) {
            const int rows = least(part_rows, image.window_rows - first_row);
            for (int first_column = 0; first_column < image.window_columns; first_column += part_columns) {
                const int columns = least(part_columns, image.window_columns - first_column);
                __syncthreads();  // all threads have used the last part
                read_source(image, source, top + first_row, left + first_column * channels,
                            least(TILE_ROWS, image.rows - top) + rows - 1,
                            least(TILE_COLUMNS, length - left) + (columns - 1) * channels);
                for (int k = threadIdx.x; k < (rows + DOWN - 1) * columns; k += blockDim.x) {
                    const int line = k / columns, column = first_column + k - line * columns;
#pragma unroll
                    for (int r = 0; r < DOWN; ++r) {
                        const int row = line - r;
                        const bool exists = row >= 0 && row < rows;
                        weights[k].values[r] =
                            exists ? window[(first_row + row) * image.window_columns + column] : 0.0f;
                    }
                }
                __syncthreads();
                if (top + warp * DOWN >= image.rows) continue;
                for (int line = 0; line < rows + DOWN - 1; ++line)
                    add_line(&source[warp * DOWN + line][lane], &weights[line * columns], columns, channels,
                             line - rows + 1, line, sums);
            }
        }
#pragma unroll
        for (int r = 0; r < DOWN; ++r) {
            const int y = top + warp * DOWN + r;
            if (y >= image.rows) break;
            OUT* target = image.dst + static_cast<int64>(y) * length + left + lane;
#pragma unroll
            for (int e = 0; e < ACROSS; ++e)
                if (left + lane + 32 * e < length) target[32 * e] = convert<OUT>(sums[r][e]);
        }
    }
}
