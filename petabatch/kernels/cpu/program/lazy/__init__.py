"""The lazy update of a code: only units that could cross their threshold are computed, with the same bits.

**State.** Leaky integration is linear, so a potential is the drive of filtered layers F, one for each of the
code's drives d, plus H, which integrates one-to-one inputs and the unit's own activity:

    F_d = e F_d + (1 - e) x_d                     0 at the start; x is the layer that the drive sees, padded
    H   = e H + (1 - e) (inputs + A)              V at the start; without self-interaction no A
    V   = sum over d of w_d . (patch of F_d) + H

While a unit is silent and has no inputs, H only decays. So it is kept as G with H = decay G, where `decay`,
one number for all units, is the product of all e: G changes only where the unit is active or has inputs, and
is rescaled before `decay` becomes too small for float32. Between steps V does not exist: it is computed
for units that are due, and *materialised* for all when it is read or the weights are about to change. As F
belongs to the old weights, the code then starts from V: F = 0, G = V. A `decay` of 0 asks for this.

**Bound.** From time to time a *snapshot* S of all F_d is taken, and its products with all features. With the
last two, 0 and 1, and any coefficients a,

    w . (patch of F) = a_0 w . (patch of S_0) + a_1 w . (patch of S_1) + w . (patch of R)
    R = F - a_0 S_0 - a_1 S_1,    |w . (patch of R)| <= |w| |patch of R|    (Cauchy-Schwarz)

The products with S are known, the length of each patch of R is the same for all features. A unit for which
the sum stays below the threshold, and which was not active in the step before, *sleeps*: it is silent. All
others are *due* and computed from F. The coefficients are those of least squares over all F_d, so that R is
what is new since two snapshots: most of a motion towards a fixed point is along a line. They bear on the
bound alone.

**Same bits.** What is computed of a unit does not depend on snapshots, nor on what else is due. So the bits
are those of computing all units in every step, provided that rounding cannot hide a crossing:
`bound.add_rounding` adds what rounding can amount to.

**Many active units.** Where many units are active, few sleep, and listing and computing them one by one takes
longer than computing all together. With `run.kernel = "auto"` a code at whose activity more than 15 % of the
units take part when a display begins is *awake* until the next: then all units are computed by dense
products, V is up to date, and neither F nor H exist. Whether it is depends on the code's activity alone, and
is part of its state.

**Parts.** A step has a part before the tiles, which filters and sets the bounds, one for each tile of rows,
and one after them, which counts. Threads can share the tiles.

    layout    what is kept of a code; scratch
    bound     filtered layers, snapshots, bounds
    units     the units of a block that are due: which they are, their potentials and activities
    step      a step of a code
"""
