// Patches of a coarse layer, added up in their places on a fine one: a number of it is a sum over units.

// The units, margins included, their patches, and the row and the column in which the first of them begins, which may
// be negative.
struct Places {
    int channels, units_y, units_x, patch_y, patch_x, stride_y, stride_x, top, left;
};

// The sum at number `i` of row `row`, in the order of the units.
template <class Real>
__device__ inline Real folded(const Real* patches, int row, int i, Places p) {
    // Where the number is, from the first patch on; and the last units whose patches have it.
    const int y = row - p.top, x = i / p.channels - p.left, length = p.patch_y * p.patch_x * p.channels;
    const int last_y = y < 0 ? -1 : min(y / p.stride_y, p.units_y - 1);
    const int last_x = x < 0 ? -1 : min(x / p.stride_x, p.units_x - 1);
    const int first_y = max(0, (y - p.patch_y + p.stride_y) / p.stride_y);
    const int first_x = max(0, (x - p.patch_x + p.stride_x) / p.stride_x);
    Real sum = 0;
    for (int v = first_y; v <= last_y; v++) {
        const Real* line = patches + static_cast<long long>(v) * p.units_x * length +
                           (y - v * p.stride_y) * p.patch_x * p.channels + i % p.channels;
#pragma unroll 4
        for (int u = first_x; u <= last_x; u++)
            sum += line[static_cast<long long>(u) * length + (x - u * p.stride_x) * p.channels];
    }
    return sum;
}
