// Resize by the triangular filter, normalise and convert to bfloat16 channels-last images of 224 x 224 pixels, as the
// compiled graph of decoder, resize and crop_mirror_normalize does in one launch.
struct Image {
    const unsigned char* planes[3];
    int height, width, pitch, chroma_pitch, chroma_height, chroma_width;
};

constexpr int SIZE = 224;

__device__ float tent(float x) { return fmaxf(0.0f, 1.0f - fabsf(x)); }

__device__ unsigned short bfloat16(float x) {
    unsigned bits = __float_as_uint(x);
    return (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16;
}

template <class Read>
__device__ void resized(float y, float x, float sy, float sx, int height, int width, const Read& read, float* sum) {
    float total = 0;
    int top = max(0, (int)ceilf(y - sy)), bottom = min(height - 1, (int)floorf(y + sy));
    int left = max(0, (int)ceilf(x - sx)), right = min(width - 1, (int)floorf(x + sx));
    for (int r = top; r <= bottom; r++)
        for (int c = left; c <= right; c++) {
            float weight = tent((r - y) / sy) * tent((c - x) / sx);
            total += weight;
            read(r, c, weight, sum);
        }
    for (int i = 0; i < 3; i++) sum[i] /= total;
}

__device__ void store(unsigned short* output, int image, int y, int x, const float* rgb) {
    for (int c = 0; c < 3; c++)
        output[((image * SIZE + y) * SIZE + x) * 3 + c] = bfloat16((rgb[c] - 116.0f) / 58.0f);
}

extern "C" __global__ void from_colours(const Image* images, unsigned short* output) {
    const Image image = images[blockIdx.z];
    int y = blockIdx.y, x = blockIdx.x * blockDim.x + threadIdx.x;
    if (x >= SIZE) return;
    float sy = image.height / (float)SIZE, sx = image.width / (float)SIZE, rgb[3] = {0, 0, 0};
    resized((y + 0.5f) * sy - 0.5f, (x + 0.5f) * sx - 0.5f, fmaxf(sy, 1), fmaxf(sx, 1), image.height, image.width,
            [&](int r, int c, float weight, float* sum) {
                const unsigned char* at = image.planes[0] + (size_t)r * image.pitch + c * 3;
                for (int i = 0; i < 3; i++) sum[i] += weight * at[i];
            }, rgb);
    store(output, blockIdx.z, y, x, rgb);
}

extern "C" __global__ void from_planes(const Image* images, unsigned short* output) {
    const Image image = images[blockIdx.z];
    int y = blockIdx.y, x = blockIdx.x * blockDim.x + threadIdx.x;
    if (x >= SIZE) return;
    float sy = image.height / (float)SIZE, sx = image.width / (float)SIZE, luma[3] = {0, 0, 0}, chroma[3] = {0, 0, 0};
    resized((y + 0.5f) * sy - 0.5f, (x + 0.5f) * sx - 0.5f, fmaxf(sy, 1), fmaxf(sx, 1), image.height, image.width,
            [&](int r, int c, float weight, float* sum) {
                sum[0] += weight * image.planes[0][(size_t)r * image.pitch + c];
            }, luma);
    sy = image.chroma_height / (float)SIZE, sx = image.chroma_width / (float)SIZE;
    resized((y + 0.5f) * sy - 0.5f, (x + 0.5f) * sx - 0.5f, fmaxf(sy, 1), fmaxf(sx, 1), image.chroma_height,
            image.chroma_width, [&](int r, int c, float weight, float* sum) {
                sum[1] += weight * (image.planes[1][(size_t)r * image.chroma_pitch + c] - 128.0f);
                sum[2] += weight * (image.planes[2][(size_t)r * image.chroma_pitch + c] - 128.0f);
            }, chroma);
    float rgb[3] = {luma[0] + 1.402f * chroma[2], luma[0] - 0.344136f * chroma[1] - 0.714136f * chroma[2],
                    luma[0] + 1.772f * chroma[1]};
    store(output, blockIdx.z, y, x, rgb);
}
