"""The lazy update of a code in a program: only units that could cross their threshold are computed.

**State.** Leaky integration is linear, so a potential is the drive of filtered layers F, one for each of the
code's drives d, plus H, which integrates one-to-one inputs and the self-interaction:

    F_d = e F_d + (1 - e) x_d                     0 at the start; x is the layer that the drive sees, padded
    H   = e H + (1 - e) (inputs + A)              V at the start
    V   = sum over d of w_d . (patch of F_d) + H

H is cheap and is integrated for all units in every step. The products are not: these are what is saved.

**Bound.** From time to time a *snapshot* S of all F_d is taken, and its products with all features. With the
last two, 0 and 1, and any coefficients a,

    w . (patch of F) = a_0 w . (patch of S_0) + a_1 w . (patch of S_1) + w . (patch of R)
    R = F - a_0 S_0 - a_1 S_1,    |w . (patch of R)| <= |w| |patch of R|    (Cauchy-Schwarz)

The products with S are known, the length of each patch of R is the same for all features. A unit for which
the sum stays below the threshold *sleeps*: it is silent. All others are *due* and computed from F. The
coefficients are those of least squares over all F_d, so that R is what is new since two snapshots: most of a
motion towards a fixed point is along a line. They bear on the bound alone.

**Same bits.** What is computed of a unit does not depend on snapshots, nor on what else is due. So the bits
are those of computing all units in every step, provided that rounding cannot hide a crossing:
`bound.add_rounding` adds what rounding can amount to.

**Many active units.** Where many units are active, few sleep, and listing and computing them one by one takes
longer than computing all together. With `run.kernel = "auto"` a code at whose activity more than 15 % of the
units take part when a display begins is *awake* until the next: then all units are computed from F by dense
products. Whether it is depends on the code's activity alone, and is part of its state.

    layout    what is kept of a code; scratch
    bound     filtered layers, snapshots, bounds
    units     the units of a block that are due: which they are, their potentials
    step      a step of a code
"""
