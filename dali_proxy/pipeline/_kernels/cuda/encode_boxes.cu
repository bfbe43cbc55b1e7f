// Assigns boxes to anchors; one sample per blockIdx.y.
//
// Macros from the launcher: LABEL (type of the labels), OFFSET (whether to return the differences to the anchors).

#include "common.cuh"

struct Box {
    float low[2], high[2];  // x, y
};

struct Sample {
    const Box* boxes;
    const LABEL* labels;
    float* encoded;   // x, y, width, height for each anchor
    int* found;       // a label for each anchor
    int* closest;     // the anchor that each box overlaps most
    int count;        // boxes
};

struct Scaling {
    float criteria, scale, means[4], stds[4];
};

// Products are not fused with sums, so that overlaps are those of the CPU.
__device__ __forceinline__ float area(const Box& box) {
    return fmaf(box.high[0] - box.low[0], box.high[1] - box.low[1], 0.0f);
}

__device__ __forceinline__ float overlap(const Box& anchor, const Box& box) {
    const float width = fmaxf(fminf(anchor.high[0], box.high[0]) - fmaxf(anchor.low[0], box.low[0]), 0.0f);
    const float height = fmaxf(fminf(anchor.high[1], box.high[1]) - fmaxf(anchor.low[1], box.low[1]), 0.0f);
    const float common = fmaf(width, height, 0.0f);
    const float found = common / (area(anchor) + area(box) - common);
    return found == found ? found : 0.0f;
}

// A block finds the anchor of a box; of equal overlaps, the last one counts.
extern "C" __global__ void find_anchors(const Sample* __restrict__ samples, const Box* __restrict__ anchors, int count) {
    const Sample& sample = samples[blockIdx.y];
    __shared__ float largest[256];
    __shared__ int places[256];
    for (int number = blockIdx.x; number < sample.count; number += gridDim.x) {
        const Box box = sample.boxes[number];
        float best = -1;
        int place = -1;
        for (int anchor = threadIdx.x; anchor < count; anchor += blockDim.x) {
            const float found = overlap(anchors[anchor], box);
            if (found >= best) best = found, place = anchor;
        }
        largest[threadIdx.x] = best;
        places[threadIdx.x] = place;
        for (int half = 128; half > 0; half /= 2) {
            __syncthreads();
            if (threadIdx.x < half) {
                const int other = threadIdx.x + half;
                const bool wins = largest[other] > largest[threadIdx.x] ||
                                  (largest[other] == largest[threadIdx.x] && places[other] > places[threadIdx.x]);
                if (wins) largest[threadIdx.x] = largest[other], places[threadIdx.x] = places[other];
            }
        }
        if (threadIdx.x == 0) sample.closest[number] = places[0];
        __syncthreads();
    }
}

extern "C" __global__ void encode_boxes(const Sample* __restrict__ samples, const Box* __restrict__ anchors,
                                        const Scaling* __restrict__ scaling, int count) {
    const Sample& sample = samples[blockIdx.y];
    for (int number = blockIdx.x * blockDim.x + threadIdx.x; number < count; number += gridDim.x * blockDim.x) {
        const Box anchor = anchors[number];
        float best = scaling->criteria;
        int matched = -1, closest = -1;
        for (int box = 0; box < sample.count; ++box) {
            const float found = overlap(anchor, sample.boxes[box]);
            if (found > best || (matched >= 0 && found == best)) best = found, matched = box;
            if (sample.closest[box] == number) closest = box;
        }
        if (closest >= 0) matched = closest;
        const Box box = matched < 0 ? anchor : sample.boxes[matched];
        float* encoded = sample.encoded + 4 * static_cast<int64>(number);
#pragma unroll
        for (int d = 0; d < 2; ++d) {
            float center = (box.low[d] + box.high[d]) / 2, extent = box.high[d] - box.low[d];
            if (OFFSET) {
                const float scale = scaling->scale, size = (anchor.high[d] - anchor.low[d]) * scale;
                center = (center * scale - (anchor.low[d] + anchor.high[d]) / 2 * scale) / size;
                extent = logf(extent * scale / size);
                center = matched < 0 ? 0 : (center - scaling->means[d]) / scaling->stds[d];
                extent = matched < 0 ? 0 : (extent - scaling->means[d + 2]) / scaling->stds[d + 2];
            }
            encoded[d] = center;
            encoded[d + 2] = extent;
        }
        sample.found[number] = matched < 0 ? 0 : convert<int>(sample.labels[matched]);
    }
}
