// What the kernels share. The geometry (see petabatch/geometry.py) and the numbers of the cell stand in front
// of this text as constants: `source.py` writes them, so that every loop has a length the compiler knows.
//
// Nothing here adds up in an order that depends on timing: no atomics on numbers, two runs give the same bits.

constexpr unsigned ALL = 0xffffffffu;
constexpr int ROW = PATCH_X * CHANNELS;            // numbers in a row of a patch
constexpr int LENGTH = PATCH_Y * ROW;              // weights of a patch
constexpr int WIDTH = FINE_X * CHANNELS;           // numbers in a row of the image
constexpr int IMAGE = FINE_Y * WIDTH;
constexpr int PADDED = PADDED_Y * PITCH;           // the image with room for the patches beyond its edge
constexpr int POSITIONS = UNITS_Y * UNITS_X;
constexpr int UNITS = POSITIONS * FEATURES;
constexpr int COLOURS_Y = (PATCH_Y + STRIDE_Y - 1) / STRIDE_Y;  // patches of the same colour never overlap:
constexpr int COLOURS_X = (PATCH_X + STRIDE_X - 1) / STRIDE_X;  // unit (y, x) has colour (y % this, x % that)

// Rules of units, numbered as in petabatch/kernels/rules.py; `integrate` is the twin of `update` in cpu/rules.py.
constexpr int LEAKY = 0, HEAVY_BALL = 1, MOMENTUM = 2, GRADIENT = 3, ACCELERATED = 4;
constexpr bool KEEPS = RULE == HEAVY_BALL || RULE == MOMENTUM;  // something of the step before

// The numbers of the units of a slice, and T: see petabatch/kernels/cuda/cell.py. Where slices differ (VARIES), the numbers
// are a row of a table; what the kernels do with a slice that stands still (`moves` is 0) is nothing.
#include "cell.cuh"

__device__ inline bool stands(const int* moves, long long slice) {
    return VARIES && !moves[slice];
}

// VEC neighbouring numbers, read at once.
struct alignas(4 * VEC) Pack {
    float at[VEC];
};

// Where the patch of a position starts in the padded image.
__device__ inline int origin(int y, int x) {
    return (y * STRIDE_Y + ORIGIN_Y) * PITCH + (x * STRIDE_X + ORIGIN_X) * CHANNELS;
}

// The potential after a step by a rule that is not ACCELERATED, from that before it and the activity `a`.
// `before` is the potential of HEAVY_BALL, the pull of MOMENTUM, of the step before; it becomes that of this one.
__device__ inline float integrate(float V, float drive, float a, float& before, float e, float gain,
                                  const Cell& cell) {
    if (RULE == GRADIENT) a = a > 0.0f ? 1.0f : (a < 0.0f ? -1.0f : 0.0f);
    const float pull = gain * (SELF ? drive + cell.self_interaction * a : drive);
    float u = e * V + pull;
    if (RULE == HEAVY_BALL) {
        u += cell.inertia * (V - before);
        before = V;
    }
    if (RULE == MOMENTUM) {
        u += cell.inertia * before;
        before = pull;
    }
    return u;
}

// Make the step of a unit in device memory.
__device__ inline void move(long long unit, float drive, float* potentials, float* activities, float* befores,
                            float e, float gain, const Cell& cell) {
    float kept = KEEPS ? befores[unit] : 0.0f;
    const float a = SELF ? activities[unit] : 0.0f;
    const float u = integrate(potentials[unit], drive, a, kept, e, gain, cell);
    if (KEEPS) befores[unit] = kept;
    potentials[unit] = u;
    activities[unit] = transfer(u, cell);
}

// Put the sum of a number over the lanes of each warp in row `warp` of `totals`, rows of 4.
__device__ inline void add_up(double part, double* totals) {
    for (int distance = 16; distance; distance /= 2) part += __shfl_xor_sync(ALL, part, distance);
    if (threadIdx.x % 32 == 0) totals[threadIdx.x / 32 * 4] = part;
}

// Add to sum[i][j] the products of `count` numbers of an image from `image + from[i]` on with as many rows of
// weights, columns column[j]; all threads of a warp share the positions i, each has features j of its own.
template <int N, int J>
__device__ inline void accumulate(float (&sum)[N][J], const float* image, const int (&from)[N],
                                  const float* weights, int pitch, const int (&column)[J], int count) {
#pragma unroll 2
    for (int r = 0; r < count; r += VEC) {
        Pack pixels[N];
#pragma unroll
        for (int i = 0; i < N; i++) pixels[i] = *reinterpret_cast<const Pack*>(image + from[i] + r);
#pragma unroll
        for (int v = 0; v < VEC; v++) {
            float w[J];
#pragma unroll
            for (int j = 0; j < J; j++) w[j] = weights[(r + v) * pitch + column[j]];
#pragma unroll
            for (int i = 0; i < N; i++)
#pragma unroll
                for (int j = 0; j < J; j++) sum[i][j] = fmaf(pixels[i].at[v], w[j], sum[i][j]);
        }
    }
}
