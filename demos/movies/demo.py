"""# Films: warm starts

Successive frames of a film are alike, and so are their codes. Each frame can start from the code of the one
before: how many steps does that save, and up to which speed?
"""

# %% [markdown]
# ## Network
#
# Sparse coding with a fixed dictionary; each slice has its own film: a pan over a photograph that the
# dictionary has not seen, at eight speeds in two places. The energy is measured every 5 of 200 steps.

# %%
from pathlib import Path

import av
import matplotlib.pyplot as plt
import numpy as np
from skimage.data import coffee

import petabatch
from petabatch import plotting

SPEEDS, PLACES = (0, 0.25, 0.5, 1, 1.5, 2, 3, 4), (60, 230)  # pixels per frame; rows of the photograph
FRAMES, SIDE, one = 16, 32, SPEEDS.index(1)
Path("runs/demos/films").mkdir(parents=True, exist_ok=True)
for number in range(len(SPEEDS) * len(PLACES)):
    speed, row = SPEEDS[number // len(PLACES)], PLACES[number % len(PLACES)]
    with av.open(f"runs/demos/films/{number:02}.mkv", "w") as film:
        stream = film.add_stream("ffv1", rate=25)
        stream.height, stream.width, stream.pix_fmt = SIDE, SIDE, "bgr0"
        for frame in range(FRAMES):
            left = round(4 * speed * frame)  # four pixels of the photograph are one of the film
            window = coffee()[row : row + 4 * SIDE, left : left + 4 * SIDE]
            pixels = window.reshape(SIDE, 4, SIDE, 4, 3).mean(axis=(1, 3)).astype(np.uint8)
            film.mux(stream.encode(av.VideoFrame.from_ndarray(pixels, format="rgb24")))
        film.mux(stream.encode())

warm = petabatch.load("demos/movies/movies.toml")
cold = petabatch.load("demos/movies/movies.toml", ['layers.V1.reset="display"'])

# %% [markdown]
# ## Run
#
# Twice, without and with a reset of the code at each frame; together ten seconds on two cores.

# %%
runs = {
    "from the frame before": petabatch.run(warm, "runs/demos/movies", force=True),
    "from zero": petabatch.run(cold, "runs/demos/movies_cold", force=True),
}

# %% [markdown]
# ## Look
#
# Below, the energies are means over all frames but the first, which starts from zero in both runs. A code is
# taken as found when its energy is at most 5 % above the lower of the two at the end of the frame.

# %%
energies = {name: run["probes/energy/total"][...] for name, run in runs.items()}
energies = {name: total.reshape(FRAMES, -1, len(SPEEDS), len(PLACES)) for name, total in energies.items()}
least = np.minimum(*(total[:, -1] for total in energies.values()))[:, None]  # [frame, 1, speed, place]
within = 5 * (1 + np.arange(next(iter(energies.values())).shape[1]))
plt.style.use(plotting.STYLE)
figure = plt.figure(figsize=(7.2, 4.8), layout="constrained")
above, below = figure.subfigures(2, 1, height_ratios=[1, 1.5])
for layer, row in zip(("image", "recon"), above.subplots(2, 8), strict=True):
    for frame, axes in zip(range(0, FRAMES, 2), row, strict=True):
        pixels = runs["from the frame before"].layer(layer)[frame, one * len(PLACES)]
        axes.imshow(np.clip(0.5 + pixels / 5, 0, 1))
        plotting.bare(axes, title=f"Frame {frame + 1}" if layer == "image" else "")
    row[0].set_ylabel({"image": "Film", "recon": "Reconstruction"}[layer])
left, right = below.subplots(1, 2)
for name, total in energies.items():
    left.semilogy(within, (total / least)[1:, :, one].mean(axis=(0, 2)), label=f"code starts {name}")
    found = total[1:] <= 1.05 * least[1:]
    steps = np.where(found.any(axis=1), within[found.argmax(axis=1)], within[-1]).mean(axis=(0, 2))
    right.plot(SPEEDS, steps, "o-", ms=4, label=name)
    print(name, dict(zip(SPEEDS, steps.round().astype(int).tolist(), strict=True)))
left.set(xlabel="Step of a frame, at 1 pixel per frame", ylabel="Energy / least energy of the frame")
left.set(xlim=(0, None), yticks=(1, 2, 5, 10), yticklabels=("1", "2", "5", "10"))
right.set(xlabel="Speed (pixels per frame)", ylabel="Steps to within 5 % of the least energy", ylim=(0, None))
below.legend(*left.get_legend_handles_labels(), loc="outside lower left", ncols=2)
figure.savefig("runs/demos/movies.png")
print("figure: runs/demos/movies.png")
