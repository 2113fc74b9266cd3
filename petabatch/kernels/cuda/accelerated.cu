// FISTA behind `update` of step.cu, which leaves the drive of the step: the formulas of petabatch/layers/fista.py, with
// GROWTH and BREAK of petabatch/kernels/fista.py.
//
// compare     by how much the code moved and the drive turned, summed by block
// accelerate  A+ = shrink(y + k drive(y), k threshold), y = A + momentum (A - A before)
// settle      the step k and the age of the momentum for the step to come
#include "common.cuh"

constexpr int THREADS = 256;
constexpr int WARPS = THREADS / 32;

// What each block adds to the sums of a slice.
struct Tally {
    double moves, turns, uphill;
};

struct Pace {
    double k, older;
    float momentum;
};

// The pace of a slice in this step. Every thread that asks adds the tallies up in the same order.
__device__ inline Pace pace(const Tally* tallies, double before, double age) {
    double moves = 0.0, turns = 0.0;
    for (int block = 0; block < BLOCKS; block++) moves += tallies[block].moves, turns += tallies[block].turns;
    const double change = before * before * turns;
    const bool broken = change > BREAK * BREAK * moves;
    if (broken && age < 0.0 && moves > 0.0) return {before * sqrt(moves / change), -1.0, -1.0f};
    const double k = before * (change > moves ? 0.5 : moves > 0.0 ? GROWTH : 1.0);
    age = broken ? 1.0 : fabs(age);
    const double older = (1.0 + sqrt(1.0 + 4.0 * before / k * age * age)) / 2.0;
    return {k, broken ? -older : older, static_cast<float>((age - 1.0) / older)};
}

// Return to thread 0 the sum over the threads of a block.
__device__ inline double sum_of_block(double part, double* totals) {
    __syncthreads();
    add_up(part, totals);
    __syncthreads();
    double total = 0.0;
    for (int warp = 0; warp < WARPS; warp++) total += totals[warp * 4];
    return total;
}

extern "C" __global__ void __launch_bounds__(THREADS)
compare(const float* activities, const float* earlier, float* befores, float* drives, Tally* tallies,
        const int* moves) {
    extern __shared__ float4 shared_memory[];
    double* totals = reinterpret_cast<double*>(shared_memory);  // WARPS rows of 4
    const long long slice = blockIdx.y, first = slice * UNITS;
    if (stands(moves, slice)) return;
    double moved = 0.0, turns = 0.0;
    for (int i = blockIdx.x * THREADS + threadIdx.x; i < UNITS; i += BLOCKS * THREADS) {
        const float move = activities[first + i] - earlier[first + i];
        const float drive = drives[first + i], turn = drive - befores[first + i];
        befores[first + i] = drive;
        drives[first + i] = turn;
        moved += move * move;
        turns += turn * turn;
    }
    moved = sum_of_block(moved, totals);
    turns = sum_of_block(turns, totals);
    if (threadIdx.x == 0) tallies[slice * BLOCKS + blockIdx.x] = {moved, turns, 0.0};
}

extern "C" __global__ void __launch_bounds__(THREADS)
accelerate(float* activities, float* earlier, const float* befores, const float* turned, const double* steps,
           const double* ages, Tally* tallies, const Cell* cells, const int* moves) {
    extern __shared__ float4 shared_memory[];
    double* totals = reinterpret_cast<double*>(shared_memory);
    const long long slice = blockIdx.y, first = slice * UNITS;
    if (stands(moves, slice)) return;
    if (threadIdx.x == 0) {
        const Pace now = pace(tallies + slice * BLOCKS, steps[slice], ages[slice]);
        totals[0] = now.momentum, totals[1] = now.k;
    }
    __syncthreads();
    const float momentum = static_cast<float>(totals[0]), k = static_cast<float>(totals[1]);
    const Cell cell = cell_of(cells, slice);
    const float price = k * cell.threshold;
    double uphill = 0.0;
    for (int i = blockIdx.x * THREADS + threadIdx.x; i < UNITS; i += BLOCKS * THREADS) {
        const float before = activities[first + i];
        const float start = before + momentum * (before - earlier[first + i]);
        const float u = start + k * (befores[first + i] + momentum * turned[first + i]);
        const float a = shrink(u, price, cell);
        uphill += (start - a) * (a - before);
        earlier[first + i] = before;
        activities[first + i] = a;
    }
    uphill = sum_of_block(uphill, totals);
    if (threadIdx.x == 0) tallies[slice * BLOCKS + blockIdx.x].uphill = uphill;
}

extern "C" __global__ void __launch_bounds__(32)
settle(const Tally* tallies, double* steps, double* ages, int slices, const int* moves) {
    const int slice = blockIdx.x * 32 + threadIdx.x;
    if (slice >= slices) return;
    if (stands(moves, slice)) return;
    const Tally* mine = tallies + static_cast<long long>(slice) * BLOCKS;
    double uphill = 0.0;
    for (int block = 0; block < BLOCKS; block++) uphill += mine[block].uphill;
    const Pace now = pace(mine, steps[slice], ages[slice]);
    steps[slice] = now.k;
    ages[slice] = uphill > 0.0 ? copysign(1.0, now.older) : now.older;
}
