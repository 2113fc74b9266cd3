// One step of all slices in three launches, for slices too large for the display kernel.
//
// residual    error = factor * image - recon, also into a padded copy that patches can be read from
// update      V by the rule of the units, from W^T error;  A = T(V): one block a tile of positions and features;
//             of rule ACCELERATED only W^T error, and `accelerated.cu` does the rest
// reconstruct recon = W A, from active units only: one block a tile of the image
#include "common.cuh"

constexpr int THREADS = 256;
constexpr int WARPS = THREADS / 32;

extern "C" __global__ void __launch_bounds__(THREADS)
residual(const float* images, const float* recons, float* errors, float* padded, const Cell* cells, const int* moves) {
    const int i = blockIdx.x * THREADS + threadIdx.x;
    if (i >= IMAGE) return;
    if (stands(moves, blockIdx.y)) return;
    const long long slice = blockIdx.y, at = slice * IMAGE + i;
    const float error = cell_of(cells, slice).factor * images[COMMON ? i : at] - recons[at];
    errors[at] = error;
    padded[slice * PADDED + (i / WIDTH + BEFORE_Y) * PITCH + BEFORE_X * CHANNELS + i % WIDTH] = error;
}

// A block has UPDATE_Y * UPDATE_X positions, PER_WARP of them in each warp, and 32 * PER_LANE features.
constexpr int UPDATE_POSITIONS = UPDATE_Y * UPDATE_X;
constexpr int PER_WARP = (UPDATE_POSITIONS + WARPS - 1) / WARPS;
constexpr int TILE_WIDE = 32 * PER_LANE;
constexpr int TILE_ROWS = (UPDATE_Y - 1) * STRIDE_Y + PATCH_Y;
constexpr int TILE_PITCH = ((UPDATE_X - 1) * STRIDE_X * CHANNELS + ROW + VEC - 1) / VEC * VEC;

extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT)
update(const float* padded, float* potentials, float* activities, float* befores, const float* panels,
       int panels_step, const float* decays, const float* gains, const Cell* cells, const int* moves) {
    extern __shared__ float4 shared_memory[];
    float* image = reinterpret_cast<float*>(shared_memory);  // TILE_ROWS * TILE_PITCH
    float* weights = image + TILE_ROWS * TILE_PITCH;         // CHUNK * TILE_WIDE
    constexpr int ACROSS = (UNITS_X + UPDATE_X - 1) / UPDATE_X;
    const int thread = threadIdx.x, lane = thread % 32, warp = thread / 32;
    const int top = static_cast<int>(blockIdx.x) / ACROSS * UPDATE_Y;
    const int left = static_cast<int>(blockIdx.x) % ACROSS * UPDATE_X;
    const int base = blockIdx.y * TILE_WIDE;
    const long long slice = blockIdx.z;
    if (stands(moves, slice)) return;
    const Cell cell = cell_of(cells, slice);
    float e = 0.0f, gain = 0.0f;
    if (RULE != ACCELERATED) e = decays[slice], gain = gains[slice];

    const int begin = top * STRIDE_Y + ORIGIN_Y, start = (left * STRIDE_X + ORIGIN_X) * CHANNELS;
    for (int i = thread; i < TILE_ROWS * TILE_PITCH; i += THREADS) {
        const int y = begin + i / TILE_PITCH, x = start + i % TILE_PITCH;
        image[i] = y < PADDED_Y && x < PITCH ? padded[slice * PADDED + y * PITCH + x] : 0.0f;
    }
    int column[PER_LANE], from[PER_WARP];
#pragma unroll
    for (int j = 0; j < PER_LANE; j++) column[j] = lane + 32 * j;
#pragma unroll
    for (int i = 0; i < PER_WARP; i++) {
        const int number = min(warp * PER_WARP + i, UPDATE_POSITIONS - 1);
        from[i] = number / UPDATE_X * STRIDE_Y * TILE_PITCH + number % UPDATE_X * STRIDE_X * CHANNELS;
    }
    float sum[PER_WARP][PER_LANE] = {};
    for (int dy = 0; dy < PATCH_Y; dy++)
        for (int r = 0; r < ROW; r += CHUNK) {
            const int count = min(CHUNK, ROW - r);
            __syncthreads();
            for (int i = thread; i < count * TILE_WIDE; i += THREADS) {
                const int k = dy * ROW + r + i / TILE_WIDE, f = base + i % TILE_WIDE;
                weights[i] = f < FEATURES ? panels[slice * panels_step + k * FEATURES + f] : 0.0f;
            }
            __syncthreads();
            accumulate(sum, image + dy * TILE_PITCH + r, from, weights, TILE_WIDE, column, count);
        }
#pragma unroll
    for (int i = 0; i < PER_WARP; i++) {
        const int number = warp * PER_WARP + i;
        const int y = top + number / UPDATE_X, x = left + number % UPDATE_X;
        if (number >= UPDATE_POSITIONS || y >= UNITS_Y || x >= UNITS_X) continue;
#pragma unroll
        for (int j = 0; j < PER_LANE; j++) {
            const int f = base + column[j];
            const long long unit = slice * UNITS + (y * UNITS_X + x) * FEATURES + f;
            if (f < FEATURES) move(unit, sum[i][j], potentials, activities, befores, e, gain, cell);
        }
    }
}

// A block has RECON_Y * RECON_X pixels. Units whose patches touch them come colour by colour, each by one warp.
constexpr int RECON_PITCH = RECON_X * CHANNELS;
constexpr int PARTS = (LENGTH + 31) / 32;
constexpr int PARTS_AT_ONCE = PARTS < 24 ? PARTS : 24;

extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT)
reconstruct(const float* activities, float* recons, const float* patches, int patches_step, const int* moves) {
    extern __shared__ float4 shared_memory[];
    float* recon = reinterpret_cast<float*>(shared_memory);  // RECON_Y * RECON_PITCH
    constexpr int ACROSS = (FINE_X + RECON_X - 1) / RECON_X;
    const int thread = threadIdx.x, lane = thread % 32, warp = thread / 32;
    const int top = static_cast<int>(blockIdx.x) / ACROSS * RECON_Y;
    const int left = static_cast<int>(blockIdx.x) % ACROSS * RECON_X;
    const long long slice = blockIdx.y;
    if (stands(moves, slice)) return;
    const float* A = activities + slice * UNITS;
    const float* weights = patches + slice * patches_step;

    // In the padded image this tile has rows top + BEFORE_Y and so on; which units reach them?
    const int low_y = max(0, (top + BEFORE_Y - ORIGIN_Y - PATCH_Y + STRIDE_Y) / STRIDE_Y);
    const int low_x = max(0, (left + BEFORE_X - ORIGIN_X - PATCH_X + STRIDE_X) / STRIDE_X);
    const int high_y = min(UNITS_Y - 1, (top + RECON_Y - 1 + BEFORE_Y - ORIGIN_Y) / STRIDE_Y);
    const int high_x = min(UNITS_X - 1, (left + RECON_X - 1 + BEFORE_X - ORIGIN_X) / STRIDE_X);
    for (int i = thread; i < RECON_Y * RECON_PITCH; i += THREADS) recon[i] = 0.0f;
    __syncthreads();
    for (int colour = 0; colour < COLOURS_Y * COLOURS_X; colour++) {
        const int skip_y = (colour / COLOURS_X - low_y % COLOURS_Y + COLOURS_Y) % COLOURS_Y;
        const int skip_x = (colour % COLOURS_X - low_x % COLOURS_X + COLOURS_X) % COLOURS_X;
        const int rows = (high_y - low_y - skip_y + COLOURS_Y) / COLOURS_Y;
        const int columns = (high_x - low_x - skip_x + COLOURS_X) / COLOURS_X;
        for (int number = warp; number < rows * columns; number += WARPS) {
            const int y = low_y + skip_y + number / columns * COLOURS_Y;
            const int x = low_x + skip_x + number % columns * COLOURS_X;
            const float* code = A + (y * UNITS_X + x) * FEATURES;
            const int down = y * STRIDE_Y + ORIGIN_Y - BEFORE_Y - top;
            const int right = (x * STRIDE_X + ORIGIN_X - BEFORE_X - left) * CHANNELS;
            for (int start = 0; start < PARTS; start += PARTS_AT_ONCE) {
                float part[PARTS_AT_ONCE] = {};
                for (int f = 0; f < FEATURES; f += 32) {
                    const float a = f + lane < FEATURES ? code[f + lane] : 0.0f;
                    for (unsigned bits = __ballot_sync(ALL, a != 0.0f); bits; bits &= bits - 1) {
                        const int source = __ffs(bits) - 1;
                        const float value = __shfl_sync(ALL, a, source);
                        const float* patch = weights + (f + source) * LENGTH;
#pragma unroll
                        for (int m = 0; m < PARTS_AT_ONCE; m++)
                            part[m] += value * patch[min(lane + 32 * (start + m), LENGTH - 1)];
                    }
                }
#pragma unroll
                for (int m = 0; m < PARTS_AT_ONCE; m++) {
                    const int k = lane + 32 * (start + m);
                    const int row = down + k / ROW, at = right + k % ROW;
                    if (k < LENGTH && row >= 0 && row < RECON_Y && at >= 0 && at < RECON_PITCH)
                        recon[row * RECON_PITCH + at] += part[m];
                }
            }
        }
        __syncthreads();
    }
    for (int i = thread; i < RECON_Y * RECON_PITCH; i += THREADS) {
        const int y = top + i / RECON_PITCH, x = left * CHANNELS + i % RECON_PITCH;
        if (y < FINE_Y && x < WIDTH) recons[slice * IMAGE + y * WIDTH + x] = recon[i];
    }
}
