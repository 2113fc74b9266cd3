// `update` of step.cu with the drive made by tensor cores: factors are rounded to TF32, which has 10 bits of
// mantissa, and added up in float32.
//
// A block multiplies patches of ROWS positions, read where they overlap from its part of the error image, by the
// weights of TILE_WIDE features, CHUNK weights of each patch at a time. While it does, the next CHUNK is on its way.
// Warps share the positions WARPS_DOWN ways and the features WARPS_ACROSS ways.
#include "common.cuh"

constexpr int THREADS = 256;
constexpr int WARPS = THREADS / 32;
constexpr int WARPS_ACROSS = 4, WARPS_DOWN = WARPS / WARPS_ACROSS;
constexpr int UPDATE_POSITIONS = UPDATE_Y * UPDATE_X;
constexpr int DOWN = (UPDATE_POSITIONS + 16 * WARPS_DOWN - 1) / (16 * WARPS_DOWN);  // products of a warp
constexpr int ROWS = 16 * WARPS_DOWN * DOWN;
constexpr int TILE_WIDE = 8 * WARPS_ACROSS * PER_LANE;
constexpr int WEIGHT_PITCH = TILE_WIDE + 8;  // lanes of a fragment then read from 32 banks of shared memory
constexpr int TILE_ROWS = (UPDATE_Y - 1) * STRIDE_Y + PATCH_Y;
constexpr int TILE_PITCH = ((UPDATE_X - 1) * STRIDE_X * CHANNELS + ROW + VEC - 1) / VEC * VEC;
constexpr int LOADS = CHUNK * TILE_WIDE / THREADS;
static_assert(CHUNK % 8 == 0 && LOADS * THREADS == CHUNK * TILE_WIDE, "a chunk is whole products and loads");

#ifdef __CUDACC__  // the host has twins
__device__ inline float to_tf32(float x) {
    unsigned rounded;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(rounded) : "f"(x));
    return __uint_as_float(rounded);
}

// sum += a b, of 16 x 8 by 8 x 8 numbers spread over the lanes of a warp: lane 4 r + c has of a [r][c], [r + 8][c],
// [r][c + 4], [r + 8][c + 4], of b [c][r], [c + 4][r], of sum [r][2 c], [r][2 c + 1], [r + 8][2 c], [r + 8][2 c + 1].
__device__ inline void multiply(float (&sum)[4], const float (&a)[4], const float (&b)[2]) {
    asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
        : "r"(__float_as_uint(a[0])), "r"(__float_as_uint(a[1])), "r"(__float_as_uint(a[2])),
          "r"(__float_as_uint(a[3])), "r"(__float_as_uint(b[0])), "r"(__float_as_uint(b[1])));
}
#endif

// Where weight k of a patch is in the block's part of the image; weights beyond the last are 0.
__device__ inline int reach(int k) {
    return k < LENGTH ? k / ROW * TILE_PITCH + k % ROW : 0;
}

extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT)
update(const float* padded, float* potentials, float* activities, float* befores, const float* panels,
       int panels_step, const float* decays, const float* gains, const Cell* cells, const int* moves) {
    extern __shared__ float4 shared_memory[];
    float* image = reinterpret_cast<float*>(shared_memory);  // TILE_ROWS * TILE_PITCH
    float* weights = image + TILE_ROWS * TILE_PITCH;         // twice CHUNK rows of WEIGHT_PITCH
    constexpr int ACROSS = (UNITS_X + UPDATE_X - 1) / UPDATE_X;
    const int thread = threadIdx.x, lane = thread % 32, warp = thread / 32, r = lane / 4, c = lane % 4;
    const int top = static_cast<int>(blockIdx.x) / ACROSS * UPDATE_Y;
    const int left = static_cast<int>(blockIdx.x) % ACROSS * UPDATE_X;
    const int base = blockIdx.y * TILE_WIDE;
    const long long slice = blockIdx.z;
    if (stands(moves, slice)) return;
    const Cell cell = cell_of(cells, slice);

    const int begin = top * STRIDE_Y + ORIGIN_Y, start = (left * STRIDE_X + ORIGIN_X) * CHANNELS;
    for (int i = thread; i < TILE_ROWS * TILE_PITCH; i += THREADS) {
        const int y = begin + i / TILE_PITCH, x = start + i % TILE_PITCH;
        image[i] = y < PADDED_Y && x < PITCH ? to_tf32(padded[slice * PADDED + y * PITCH + x]) : 0.0f;
    }
    const int first_row = warp / WARPS_ACROSS * 16 * DOWN, first_column = warp % WARPS_ACROSS * 8 * PER_LANE;
    int from[DOWN][2];
#pragma unroll
    for (int i = 0; i < 2 * DOWN; i++) {
        const int number = min(first_row + 8 * i + r, UPDATE_POSITIONS - 1);
        from[i / 2][i % 2] = number / UPDATE_X * STRIDE_Y * TILE_PITCH + number % UPDATE_X * STRIDE_X * CHANNELS;
    }

    float next[LOADS];
    const auto fetch = [&](int chunk) {
#pragma unroll
        for (int i = 0; i < LOADS; i++) {
            const int at = thread + i * THREADS, k = chunk + at / TILE_WIDE, f = base + at % TILE_WIDE;
            next[i] = k < LENGTH && f < FEATURES ? panels[slice * panels_step + k * FEATURES + f] : 0.0f;
        }
    };
    const auto put = [&](float* into) {
#pragma unroll
        for (int i = 0; i < LOADS; i++) {
            const int at = thread + i * THREADS;
            into[at / TILE_WIDE * WEIGHT_PITCH + at % TILE_WIDE] = to_tf32(next[i]);
        }
    };
    fetch(0);
    put(weights);
    __syncthreads();
    float sum[DOWN][PER_LANE][4] = {};
    for (int chunk = 0; chunk < LENGTH; chunk += CHUNK) {
        const float* now = weights + chunk / CHUNK % 2 * CHUNK * WEIGHT_PITCH + first_column + r;
        if (chunk + CHUNK < LENGTH) fetch(chunk + CHUNK);
#pragma unroll
        for (int k = 0; k < CHUNK; k += 8) {
            const int near = reach(chunk + k + c), far = reach(chunk + k + c + 4);
            float a[DOWN][4], b[PER_LANE][2];
#pragma unroll
            for (int i = 0; i < DOWN; i++) {
                a[i][0] = image[from[i][0] + near], a[i][1] = image[from[i][1] + near];
                a[i][2] = image[from[i][0] + far], a[i][3] = image[from[i][1] + far];
            }
#pragma unroll
            for (int j = 0; j < PER_LANE; j++) {
                b[j][0] = now[(k + c) * WEIGHT_PITCH + 8 * j];
                b[j][1] = now[(k + c + 4) * WEIGHT_PITCH + 8 * j];
            }
#pragma unroll
            for (int i = 0; i < DOWN; i++)
#pragma unroll
                for (int j = 0; j < PER_LANE; j++) multiply(sum[i][j], a[i], b[j]);
        }
        if (chunk + CHUNK < LENGTH) put(weights + (chunk / CHUNK + 1) % 2 * CHUNK * WEIGHT_PITCH);
        __syncthreads();
    }

    float e = 0.0f, gain = 0.0f;
    if (RULE != ACCELERATED) e = decays[slice], gain = gains[slice];
#pragma unroll
    for (int i = 0; i < DOWN; i++)
#pragma unroll
        for (int half = 0; half < 2; half++) {
            const int number = first_row + 16 * i + 8 * half + r;
            const int y = top + number / UPDATE_X, x = left + number % UPDATE_X;
            if (number >= UPDATE_POSITIONS || y >= UNITS_Y || x >= UNITS_X) continue;
#pragma unroll
            for (int j = 0; j < PER_LANE; j++)
#pragma unroll
                for (int odd = 0; odd < 2; odd++) {
                    const int f = base + first_column + 8 * j + 2 * c + odd;
                    const long long unit = slice * UNITS + (y * UNITS_X + x) * FEATURES + f;
                    if (f < FEATURES)
                        move(unit, sum[i][j][2 * half + odd], potentials, activities, befores, e, gain, cell);
                }
        }
}
