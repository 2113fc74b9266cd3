// The patches of the larger end of a connection: cut out, a row for each position (im2col), and added up in
// their places (col2im). In front of this text stands the type Real.
//
// A layer is `rows` of `width` numbers, `channels` of them at a place. The first patch that is cut out begins in row
// `top`, at number `left`, which may be negative; the next ones are `stride_y` rows and `stride_x` numbers further.
#include "fold.cuh"

constexpr int THREADS = 256;
constexpr int ZERO = 0, MIRROR = 1;  // what is beyond the edge: `beyond`, or the layer mirrored, with the edge repeated

__device__ inline int mirrored(int at, int length) {
    while (at < 0 || at >= length) at = at < 0 ? -1 - at : 2 * length - 1 - at;
    return at;
}

// A warp has a row of a patch, `row` numbers; there are `lines` of them in a slice.
extern "C" __global__ void __launch_bounds__(THREADS)
unfold(const Real* layers, long long between, int rows, int width, int channels, Real* patches, int lines, int row,
       int patch_y, int units_x, int stride_y, int stride_x, int top, int left, int border, Real beyond) {
    const int line = blockIdx.x * (THREADS / 32) + threadIdx.x / 32;
    if (line >= lines) return;
    const long long slice = blockIdx.y;
    const int position = line / patch_y, from = position % units_x * stride_x + left;
    int y = position / units_x * stride_y + line % patch_y + top;
    if (border == MIRROR) y = mirrored(y, rows);
    const Real* source = layers + slice * between + static_cast<long long>(y) * width;
    Real* patch = patches + (slice * lines + line) * row;
#pragma unroll 4
    for (int k = threadIdx.x % 32; k < row; k += 32) {
        int x = from + k;
        if (border == MIRROR && (x < 0 || x >= width)) {
            const int place = (x < 0 ? x - channels + 1 : x) / channels;
            x += (mirrored(place, width / channels) - place) * channels;
        }
        patch[k] = y >= 0 && y < rows && x >= 0 && x < width ? source[x] : beyond;
    }
}

// A thread has a number of the layer: in the grid are numbers of a row, rows and slices.
extern "C" __global__ void __launch_bounds__(THREADS)
fold(const Real* patches, Real* layers, int width, int channels, int units_y, int units_x, int patch_y, int patch_x,
     int stride_y, int stride_x, int top, int left) {
    const int i = blockIdx.x * THREADS + threadIdx.x;
    if (i >= width) return;
    const Places places = {channels, units_y, units_x, patch_y, patch_x, stride_y, stride_x, top, left};
    const long long slice = blockIdx.z, length = static_cast<long long>(units_y) * units_x * patch_y * patch_x * channels;
    layers[(slice * gridDim.y + blockIdx.y) * width + i] = folded(patches + slice * length, blockIdx.y, i, places);
}
