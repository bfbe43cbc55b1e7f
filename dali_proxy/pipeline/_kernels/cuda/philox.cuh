// Random numbers: Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3"). They depend on the seed,
// the element and the draw, but not on the launch.

struct Draws {
    uint32 values[4];
};

__device__ __forceinline__ Draws philox(uint64 seed, uint64 element, uint32 number) {
    uint32 c0 = static_cast<uint32>(element), c1 = static_cast<uint32>(element >> 32), c2 = number, c3 = 0;
    uint32 k0 = static_cast<uint32>(seed), k1 = static_cast<uint32>(seed >> 32);
    for (int round = 0; round < 10; ++round) {
        const uint64 a = static_cast<uint64>(0xD2511F53u) * c0, b = static_cast<uint64>(0xCD9E8D57u) * c2;
        c0 = static_cast<uint32>(b >> 32) ^ c1 ^ k0;
        c1 = static_cast<uint32>(b);
        c2 = static_cast<uint32>(a >> 32) ^ c3 ^ k1;
        c3 = static_cast<uint32>(a);
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    return {{c0, c1, c2, c3}};
}

// Uniform in (0, 1), with 52 random bits.
__device__ __forceinline__ double uniform(uint32 high, uint32 low) {
    const uint64 bits = (static_cast<uint64>(high) << 20) | (low >> 12);
    return (static_cast<double>(bits) + 0.5) * (1.0 / 4503599627370496.0);
}
