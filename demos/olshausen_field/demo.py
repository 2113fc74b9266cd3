"""# Features of natural images

A code of few active units for whitened photographs has features that are localised, oriented and band-pass,
as the receptive fields of simple cells are (Olshausen and Field, Nature 381, 1996; Vision Research 37,
1997). How many of them are like Gabor functions, and which orientations and frequencies do they cover?
"""

# %% [markdown]
# ## Network
#
# The sparse-coding loop of image, error, code and reconstruction. The photographs included in scikit-image
# are filtered as Olshausen and Field did. The code has 128 features of 12 x 12 pixels, 4 pixels apart: it is
# eight times overcomplete.

# %%
import matplotlib.pyplot as plt
import numpy as np

import petabatch
from petabatch import plotting
from petabatch.plotting.gabor import fit_gabors

params = petabatch.load("params/whitened.toml")

# %% [markdown]
# ## Run
#
# A minute on two cores.

# %%
run = petabatch.run(params, "runs/demos/olshausen_field", force=True)

# %% [markdown]
# ## Look
#
# A good fit alone proves little, so that the random weights of the start are fitted, too.

# %%
weights = run.weights("dictionary")
for name, features in (("learned", weights[-1]), ("at the start", weights[0])):
    fits = fit_gabors(features[..., 0])
    like, R2 = fits.like, np.median(fits.r2)
    print(f"{name}: {like.mean():.0%} are Gabor-like, median R² {R2:.2f}")
    if like.any():
        bins = np.histogram(np.mod(fits.orientation[like] + 11.25, 180), np.linspace(0, 180, 9))[0]
        print(f"orientations from 0° in steps of 22.5°: {bins}")
        for quantity, values in {
            "frequency (cycles per pixel)": fits.frequency,
            "sigma × f, across the bars": fits.sigma_u * fits.frequency,
            "sigma × f, along the bars": fits.sigma_v * fits.frequency,
        }.items():
            low, middle, high = np.quantile(values[like], (0.25, 0.5, 0.75))
            print(f"{quantity}: median {middle:.2f}, quartiles {low:.2f} and {high:.2f}")

plt.style.use(plotting.STYLE)
figure = plt.figure(figsize=(7.2, 12), layout="constrained")
above, below = figure.subfigures(2, 1, height_ratios=[1.1, 1])
plotting.dictionary(run, figure=above)
plotting.receptive_fields(run, figure=below)
figure.savefig("runs/demos/olshausen_field.png")
print("figure: runs/demos/olshausen_field.png")
