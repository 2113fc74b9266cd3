// What is between the matrix products of a step of all slices, for slices too large for the display kernel.
//
// residual  error = factor * image - recon
// unfold    the patches of the error, a row for each position; a product with the dictionary is W^T error
// update    V by the rule of the units, from W^T error;  A = T(V); `accelerated.cu` does it for rule ACCELERATED
// fold      recon = the sum of the patches that the product of A with the dictionary gives, each in its place
#include "common.cuh"
#include "fold.cuh"

constexpr int THREADS = 256;
constexpr int WARPS = THREADS / 32;

extern "C" __global__ void __launch_bounds__(THREADS)
residual(const float* images, const float* recons, float* errors, const Cell* cells, const int* moves) {
    const int i = blockIdx.x * THREADS + threadIdx.x;
    if (i >= IMAGE) return;
    if (stands(moves, blockIdx.y)) return;
    const long long slice = blockIdx.y, at = slice * IMAGE + i;
    errors[at] = cell_of(cells, slice).factor * images[COMMON ? i : at] - recons[at];
}

extern "C" __global__ void __launch_bounds__(THREADS)
unfold(const float* errors, float* patches, const int* moves) {
    const int position = blockIdx.x * WARPS + threadIdx.x / 32;
    if (position >= POSITIONS) return;
    if (stands(moves, blockIdx.y)) return;
    const long long slice = blockIdx.y;
    const float* error = errors + slice * IMAGE;
    float* patch = patches + (slice * POSITIONS + position) * LENGTH;
    const int top = position / UNITS_X * STRIDE_Y + ORIGIN_Y - BEFORE_Y;
    const int left = (position % UNITS_X * STRIDE_X + ORIGIN_X - BEFORE_X) * CHANNELS;
    for (int k = threadIdx.x % 32; k < LENGTH; k += 32) {
        const int y = top + k / ROW, x = left + k % ROW;
        const bool inside = y >= 0 && y < FINE_Y && x >= 0 && x < WIDTH;
        patch[k] = inside ? error[y * WIDTH + x] : 0.0f;
    }
}

extern "C" __global__ void __launch_bounds__(THREADS)
update(const float* drives, float* potentials, float* activities, float* befores, const float* decays,
       const float* gains, const Cell* cells, const int* moves) {
    const int i = blockIdx.x * THREADS + threadIdx.x;
    if (i >= UNITS) return;
    const long long slice = blockIdx.y, unit = slice * UNITS + i;
    if (stands(moves, slice)) return;
    move(unit, drives[unit], potentials, activities, befores, decays[slice], gains[slice], cell_of(cells, slice));
}

extern "C" __global__ void __launch_bounds__(THREADS)
fold(const float* patches, float* recons, const int* moves) {
    const int i = blockIdx.x * THREADS + threadIdx.x;
    if (i >= IMAGE) return;
    if (stands(moves, blockIdx.y)) return;
    const long long slice = blockIdx.y;
    const float* all = patches + slice * POSITIONS * LENGTH;
    constexpr int top = ORIGIN_Y - BEFORE_Y, left = ORIGIN_X - BEFORE_X;
    const Places places = {CHANNELS, UNITS_Y, UNITS_X, PATCH_Y, PATCH_X, STRIDE_Y, STRIDE_X, top, left};
    recons[slice * IMAGE + i] = folded(all, i / WIDTH, i % WIDTH, places);
}
