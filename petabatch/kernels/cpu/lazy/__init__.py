"""Lazy evaluation of the LCA: only units that could cross their threshold are computed, with the same bits.

**State.** Leaky integration is linear, so a potential is the drive of a filtered error image F, one image for
all units, plus what is left of the unit's start and of its own activity, H:

    F = e F + (1 - e) error                   0 at the start
    H = e H + (1 - e) A                       V at the start; without self-interaction no A
    V = w . (patch of F) + H

While a unit is silent, H only decays. So it is kept as G with H = e^age G: G changes only in steps in which
the unit is active, and is rescaled before e^age becomes too small for float32. `age` counts the steps since
then, `DecayTable` has the powers. Between steps V does not exist: it is computed for units that are due, and
*materialised* for all when it is read or the weights are about to change (V = w . (patch of F) +
e^age G, by `state.materialise_potentials`, with the bits it had in the step). As F belongs to the old
weights, the state is then reset: F = 0, G = V, age = 0.

**Bound.** While the error stays as it is, F moves straight towards it: by c D, where D = error - F is the
*direction* and c = e c + (1 - e), 0 at first, the progress. This part of what a feature w sees is known ahead
from its *slope*, w . (patch of D) / |w|. Beside it, a patch of F moves by some length d in a step, and so
w . (patch of F) by at most |w| d (Cauchy-Schwarz). With the *path length* of a position, the sum of all d,

    w . (patch of F) <= w . (patch of F then) + |w| (slope (c - c then) + path length - path length then)

where "then" is when the unit was computed last. H of a silent unit only decays, by a factor in 0 .. 1, so
V = w . patch + H lies between w . (patch then) and V then, plus the same term. V stays below the threshold as
long as slope c + path length is below the unit's *wake level*,

    wake level = (slope c + path length) then + (threshold - max(V, w . patch) then) / |w|

With thresholds on both sides the same holds for sizes: |V|, |w . patch| and |slope|. A silent unit that is
computed gets its wake level and *sleeps* until it is reached: a comparison per unit and step, in place of a
scalar product. Active units have the wake level minus infinity and are computed in every step.

**Same bits.** A sleeping unit is silent and G of a silent unit does not change, so when a unit is woken
changes nothing: the bits are those of computing all units in every step, provided that rounding cannot hide a
crossing. `bound.threshold_margin` subtracts what rounding can amount to from the room to the threshold.

**Cost.** Choosing D costs two computations of all units: one for the slopes, one because all wake levels are
set again. As the error changes, D becomes outdated and units are woken for nothing; `bound.worth_choosing`
says when a new D pays. Without D the bound is the path length of F alone, which lets few units sleep while
all potentials move, as in the first time constant after a new image.

    layout    what is kept of weights, slices and threads
    bound     F, path lengths, slopes, the choice of D
    units     the units of a chunk that are due: which they are, their update, the active ones
    step      many steps of a slice; `threads` the same on several threads; `timing` parts of a step
    state     exchange with the layer's A and V
"""
