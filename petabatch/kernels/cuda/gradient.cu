// The Hebbian product of each slice, from its active units only: sum over positions of activity times error
// patch, and how many active units stand behind each pixel of a patch. A warp has one feature.
#include "common.cuh"

constexpr int WARPS = 16;
constexpr int THREADS = 32 * WARPS;
constexpr int PARTS = 8;
constexpr int TILE_PITCH = WARPS + 1;

extern "C" __global__ void __launch_bounds__(THREADS)
gradient(const float* activities, const float* errors, float* products, float* counts, int counted) {
    extern __shared__ float4 shared_memory[];
    float* tile = reinterpret_cast<float*>(shared_memory);  // 32 positions of TILE_PITCH
    const int thread = threadIdx.x, lane = thread % 32, warp = thread / 32;
    const int feature = blockIdx.x * WARPS + warp, first = blockIdx.y * 32 * PARTS + lane;
    const long long slice = blockIdx.z;
    const float* A = activities + slice * UNITS;
    const float* error = errors + slice * IMAGE;
    float sum[PARTS] = {}, count[PARTS] = {};
    for (int base = 0; base < POSITIONS; base += 32) {
        const int row = base + thread / WARPS, f = blockIdx.x * WARPS + thread % WARPS;
        __syncthreads();
        tile[thread / WARPS * TILE_PITCH + thread % WARPS] =
            row < POSITIONS && f < FEATURES ? A[row * FEATURES + f] : 0.0f;
        __syncthreads();
        const float a = tile[lane * TILE_PITCH + warp];
        for (unsigned bits = __ballot_sync(ALL, a != 0.0f); bits; bits &= bits - 1) {
            const int source = __ffs(bits) - 1, position = base + source;
            const float value = __shfl_sync(ALL, a, source);
            const int top = position / UNITS_X * STRIDE_Y + ORIGIN_Y - BEFORE_Y;
            const int left = (position % UNITS_X * STRIDE_X + ORIGIN_X - BEFORE_X) * CHANNELS;
#pragma unroll
            for (int m = 0; m < PARTS; m++) {
                const int k = first + 32 * m, y = top + k / ROW, x = left + k % ROW;
                if (k < LENGTH && y >= 0 && y < FINE_Y && x >= 0 && x < WIDTH) {
                    sum[m] += value * error[y * WIDTH + x];
                    count[m] += 1.0f;
                }
            }
        }
    }
    if (feature >= FEATURES) return;
    for (int m = 0; m < PARTS; m++) {
        const int k = first + 32 * m;
        if (k >= LENGTH) continue;
        products[(slice * FEATURES + feature) * LENGTH + k] = sum[m];
        if (counted && k % CHANNELS == 0)
            counts[(slice * FEATURES + feature) * (LENGTH / CHANNELS) + k / CHANNELS] = count[m];
    }
}
