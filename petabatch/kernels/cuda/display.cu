// The display kernel: one block makes all steps of one slice.
//
//     error = factor * image - recon;  V by the rule of the units, from W^T error;  A = T(V);  recon = W A
//
// The dictionary, the error image and the reconstruction stay in shared memory, the potentials in registers;
// what a rule keeps of the step before stays in device memory, where no other thread looks at it.
// A warp owns one position in each phase, with FEATURES_PER_LANE features in each lane. The positions of a phase
// have one colour, so that warps add their patches to the reconstruction without meeting. GROUP phases share a
// pass over the weights.
#include "common.cuh"

constexpr int THREADS = 32 * WARPS;
constexpr int PARTS = (LENGTH + 31) / 32;  // weights of a patch that one lane adds up

extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT)
display(const float* images, float* recons, float* errors, float* potentials, float* activities,
        float* befores, const float* panels, int panels_step, const float* decays, const float* gains, const int* order,
        int steps, double* sums, int watched, const Cell* cells, const int* moves) {
    extern __shared__ float4 shared_memory[];
    double* totals = reinterpret_cast<double*>(shared_memory);    // WARPS rows of 4
    float* error = reinterpret_cast<float*>(totals + 4 * WARPS);  // PADDED
    float* recon = error + PADDED;                                // PADDED
    float* weights = recon + PADDED;                              // LENGTH rows of WEIGHT_PITCH
    int* places = reinterpret_cast<int*>(weights + LENGTH * WEIGHT_PITCH);  // PHASES * WARPS

    const int thread = threadIdx.x, lane = thread % 32, warp = thread / 32;
    const long long slice = blockIdx.x;
    if (stands(moves, slice)) return;
    const Cell cell = cell_of(cells, slice);
    const float* image = images + (COMMON ? 0 : slice * IMAGE);
    float* V = potentials + slice * UNITS;
    float* A = activities + slice * UNITS;
    float* before = befores + slice * UNITS;
    const float e = decays[slice], gain = gains[slice];

    int column[FEATURES_PER_LANE];  // lanes beyond the last feature repeat it, and stay silent
#pragma unroll
    for (int j = 0; j < FEATURES_PER_LANE; j++) column[j] = min(lane + 32 * j, FEATURES - 1);

    for (int i = thread; i < LENGTH * FEATURES; i += THREADS)
        weights[i / FEATURES * WEIGHT_PITCH + i % FEATURES] = panels[slice * panels_step + i];
    for (int i = thread; i < PHASES * WARPS; i += THREADS) {
        const int position = order[i];
        places[i] = position < 0 ? -1 : origin(position / UNITS_X, position % UNITS_X);
    }
    for (int i = thread; i < PADDED; i += THREADS) {
        const int y = i / PITCH - BEFORE_Y, x = i % PITCH - BEFORE_X * CHANNELS;
        const bool inside = y >= 0 && y < FINE_Y && x >= 0 && x < WIDTH;
        error[i] = 0.0f;
        recon[i] = inside ? recons[slice * IMAGE + y * WIDTH + x] : 0.0f;
    }
    float u[PHASES][FEATURES_PER_LANE];
#pragma unroll
    for (int phase = 0; phase < PHASES; phase++) {
        const int position = max(order[phase * WARPS + warp], 0);
#pragma unroll
        for (int j = 0; j < FEATURES_PER_LANE; j++) u[phase][j] = V[position * FEATURES + column[j]];
    }

    for (int step = 0; step < steps; step++) {
        // Each thread has pixels of its own here; what it loaded above is for all behind the barrier.
        for (int i = thread; i < PADDED; i += THREADS) {
            const int y = i / PITCH - BEFORE_Y, x = i % PITCH - BEFORE_X * CHANNELS;
            if (y >= 0 && y < FINE_Y && x >= 0 && x < WIDTH)
                error[i] = cell.factor * image[y * WIDTH + x] - recon[i];
            recon[i] = 0.0f;
        }
        __syncthreads();
#pragma unroll
        for (int first = 0; first < PHASES; first += GROUP) {
            float sum[GROUP][FEATURES_PER_LANE] = {};
            int from[GROUP];
#pragma unroll
            for (int i = 0; i < GROUP; i++) from[i] = max(places[(first + i) * WARPS + warp], 0);
#pragma unroll 1
            for (int dy = 0; dy < PATCH_Y; dy++)
                accumulate(sum, error + dy * PITCH, from, weights + dy * ROW * WEIGHT_PITCH, WEIGHT_PITCH,
                           column, ROW);
#pragma unroll
            for (int i = 0; i < GROUP; i++) {
                const int phase = first + i, place = places[phase * WARPS + warp];
                float a[FEATURES_PER_LANE];
#pragma unroll
                for (int j = 0; j < FEATURES_PER_LANE; j++) {
                    float& potential = u[phase][j];
                    const int unit = max(order[phase * WARPS + warp], 0) * FEATURES + column[j];
                    const bool real = place >= 0 && lane + 32 * j < FEATURES;
                    float own = 0.0f, kept = 0.0f;
                    if (SELF) own = step > 0 ? transfer(potential, cell) : A[unit];
                    if (KEEPS && real) kept = before[unit];
                    potential = integrate(potential, sum[i][j], own, kept, e, gain, cell);
                    if (KEEPS && real) before[unit] = kept;
                    a[j] = real ? transfer(potential, cell) : 0.0f;
                }
                if (place >= 0) {
                    float part[PARTS] = {};
#pragma unroll
                    for (int j = 0; j < FEATURES_PER_LANE; j++)
                        for (unsigned bits = __ballot_sync(ALL, a[j] != 0.0f); bits; bits &= bits - 1) {
                            const int source = __ffs(bits) - 1;
                            const float value = __shfl_sync(ALL, a[j], source);
                            const float* patch = weights + source + 32 * j;
#pragma unroll
                            for (int m = 0; m < PARTS; m++)
                                part[m] += value * patch[min(lane + 32 * m, LENGTH - 1) * WEIGHT_PITCH];
                        }
#pragma unroll
                    for (int m = 0; m < PARTS; m++) {
                        const int k = lane + 32 * m;
                        if (k < LENGTH) recon[place + k / ROW * PITCH + k % ROW] += part[m];
                    }
                }
                __syncthreads();
            }
        }
        if (watched) {
            double squares = 0.0;
#pragma unroll 1
            for (int i = thread; i < PADDED; i += THREADS) squares += static_cast<double>(error[i]) * error[i];
            add_up(squares, totals);
            float size = 0.0f;
            int active = 0;
#pragma unroll
            for (int phase = 0; phase < PHASES; phase++)
#pragma unroll
                for (int j = 0; j < FEATURES_PER_LANE; j++)
                    if (places[phase * WARPS + warp] >= 0 && lane + 32 * j < FEATURES) {
                        const float a = transfer(u[phase][j], cell);
                        size += fabsf(a);
                        active += a != 0.0f;
                    }
            add_up(size, totals + 1);
            add_up(active, totals + 2);
            __syncthreads();
            if (thread < 3) {
                double total = 0.0;
                for (int w = 0; w < WARPS; w++) total += totals[w * 4 + thread];
                sums[(static_cast<long long>(step) * gridDim.x + slice) * 3 + thread] = total;
            }
        }
    }

    if (steps == 0) return;
#pragma unroll
    for (int phase = 0; phase < PHASES; phase++) {
        const int position = order[phase * WARPS + warp];
#pragma unroll
        for (int j = 0; j < FEATURES_PER_LANE; j++)
            if (position >= 0 && lane + 32 * j < FEATURES) {
                V[position * FEATURES + column[j]] = u[phase][j];
                A[position * FEATURES + column[j]] = transfer(u[phase][j], cell);
            }
    }
    for (int i = thread; i < IMAGE; i += THREADS) {
        const int at = (i / WIDTH + BEFORE_Y) * PITCH + BEFORE_X * CHANNELS + i % WIDTH;
        errors[slice * IMAGE + i] = error[at];
        recons[slice * IMAGE + i] = recon[at];
    }
}
