// Lookup tables for the values of a byte, from histograms. One image per blockIdx.y, channels last.
//
// Macro from the launcher: COPIES (copies of each channel's counts, so that fewer threads add to the same words).

#include "common.cuh"

#define MOST_COUNTED 4  // maximum number of channels that a block counts in shared memory

struct Image {
    const uint8* src;
    uint64 count;     // elements
    uint64 channels;
    uint32* counts;   // [channel][copy][value]
    uint8* tables;    // [channel][value]
    float factor;     // of contrast
    int rule;         // computes the table from counts: 0 equalization, 1 auto contrast, 2 contrast
};

extern "C" __global__ void clear_counts(const Image* __restrict__ images) {
    const Image& image = images[blockIdx.y];
    const uint64 step = static_cast<uint64>(gridDim.x) * blockDim.x;
    for (uint64 word = static_cast<uint64>(blockIdx.x) * blockDim.x + threadIdx.x;
         word < image.channels * COPIES * 256; word += step)
        image.counts[word] = 0;
}

extern "C" __global__ void count_values(const Image* __restrict__ images) {
    const Image& image = images[blockIdx.y];
    const uint64 copy = blockIdx.x % COPIES;
    const uint64 step = static_cast<uint64>(gridDim.x) * blockDim.x;
    // A block counts in shared memory first: for a frequent value, all threads would wait for one word of memory.
    __shared__ uint32 counted[MOST_COUNTED * 256];
    if (image.channels <= MOST_COUNTED) {
        const uint32 words = static_cast<uint32>(image.channels) * 256;
        for (uint32 word = threadIdx.x; word < words; word += blockDim.x) counted[word] = 0;
        __syncthreads();
        for (uint64 element = static_cast<uint64>(blockIdx.x) * blockDim.x + threadIdx.x; element < image.count;
             element += step)
            atomicAdd(counted + element % image.channels * 256 + image.src[element], 1u);
        __syncthreads();
        for (uint32 word = threadIdx.x; word < words; word += blockDim.x)
            if (counted[word])
                atomicAdd(image.counts + (word / 256 * COPIES + copy) * 256 + word % 256, counted[word]);
        return;
    }
    for (uint64 element = static_cast<uint64>(blockIdx.x) * blockDim.x + threadIdx.x; element < image.count;
         element += step)
        atomicAdd(image.counts + (element % image.channels * COPIES + copy) * 256 + image.src[element], 1u);
}

__device__ __forceinline__ uint64 count_of(const Image& image, uint64 channel, int value) {
    uint64 sum = 0;
    for (int copy = 0; copy < COPIES; ++copy) sum += image.counts[(channel * COPIES + copy) * 256 + value];
    return sum;
}

__device__ __forceinline__ uint8 to_byte(float value) {
    return static_cast<uint8>(floorf(fminf(fmaxf(value, 0.0f), 255.0f) + 0.5f));
}

// Follows OpenCV's equalizeHist.
__device__ void equalize(const Image& image, uint64 channel, uint8* table) {
    const uint64 total = image.count / image.channels;
    uint64 sum = 0, least = 0;
    float scale = 0.0f;
    bool begun = false;
    for (int value = 0; value < 256; ++value) {
        const uint64 count = count_of(image, channel, value);
        if (!begun && count > 0) {
            begun = true;
            least = count;
            if (least == total) break;
            scale = 255.0f / static_cast<float>(total - least);
        }
        sum += count;
        const float spread = begun ? static_cast<float>(sum - least) * scale : 0.0f;
        table[value] = static_cast<uint8>(rintf(fminf(spread, 255.0f)));
    }
    if (least == total)
        for (int value = 0; value < 256; ++value) table[value] = static_cast<uint8>(value);
}

__device__ void stretch(const Image& image, uint64 channel, uint8* table) {
    int lowest = 0, highest = 255;
    while (lowest < 255 && count_of(image, channel, lowest) == 0) ++lowest;
    while (highest > lowest && count_of(image, channel, highest) == 0) --highest;
    const float scale = highest > lowest ? 255.0f / static_cast<float>(highest - lowest) : 1.0f;
    for (int value = 0; value < 256; ++value) {
        const float stretched = static_cast<float>(value - lowest) * scale;
        table[value] = highest > lowest ? to_byte(stretched) : static_cast<uint8>(value);
    }
}

__device__ void scale_about_mean(const Image& image, uint8* table) {
    const double weights[3] = {0.299, 0.587, 0.114};
    const double pixels = static_cast<double>(image.count / image.channels);
    double center = 0.0;
    for (uint64 channel = 0; channel < image.channels; ++channel) {
        uint64 sum = 0;
        for (int value = 0; value < 256; ++value) sum += count_of(image, channel, value) * static_cast<uint64>(value);
        center += (image.channels == 3 ? weights[channel] : 1.0) * (static_cast<double>(sum) / pixels);
    }
    const float middle = static_cast<float>(center);
    const float shift = middle - middle * image.factor;
    for (int value = 0; value < 256; ++value) table[value] = to_byte(static_cast<float>(value) * image.factor + shift);
}

// Each thread computes the table of one channel.
extern "C" __global__ void make_tables(const Image* __restrict__ images) {
    const Image& image = images[blockIdx.y];
    const uint64 channel = static_cast<uint64>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (channel >= image.channels || image.count == 0) return;
    uint8* table = image.tables + channel * 256;
    if (image.rule == 0) equalize(image, channel, table);
    if (image.rule == 1) stretch(image, channel, table);
    if (image.rule == 2) scale_about_mean(image, table);
}
