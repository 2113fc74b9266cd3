"""Programs of a step, compiled: tables of operations on the arrays of one slice, and the loop that runs them.

**Operations** are of two kinds. What a connection with patches delivers arrives in scratch: pad, project,
synthesize, pool, scatter. The update of a layer sums what arrived and one-to-one inputs, chunk by chunk in
the first cache, and applies its rule. They are declared in `kernels/operations/`; kernels read their fields
by name (`records.py`). Schedules and resets are columns of the table, delays are places in the history.
`table.py` is the format, `loop.py` the loop, `transport.py` and `units.py` the two kinds.

**Lazily evaluated codes** compute only units that could cross their threshold; see `lazy/`. They pass on
which units are active, so that reconstructions need not look for them.

**Several slices.** Where few positions share weights, as between vectors, up to 48 slices are advanced in
one call, and `together.py` reads the weights once for all of them. So does `abreast.py` where slices share
synapses of units that are mostly active: each post unit gathers what arrives, in all slices side by side.

**Several ranks.** What ranks that share slices send each other in a step is sent and received between two
operations, of all slices of a call at once (`messages.py`): the interpreter has no part in it.

**Several threads for one slice** take its operations in stages (`team.py`): layers of one level, and what
feeds them, are made side by side. Of drives, reconstructions, pooling and lazily evaluated codes a thread
takes a tile of rows, whose height follows from the layer's shape alone; of updates some thousand units.

**Both precisions.** Kernels are written once, for arrays of the type of the run (`views.py`); what calls them
is made for float32 or float64 when a program asks for it. Lazily evaluated codes are float32.

**Plug-ins.** A row function is one operation, whatever it is called with: its arguments are a table of
addresses, its address a field (`row.py`). A layer without one is interpreted between two compiled
sections, which sum its input (`engine/steppers/program/interpreted.py`).

**Random numbers** are those of `random.stream`, computed in the kernel (`random.py`, `draws.py`). **Norms**
for probes are measured after a step, **recordings** every few steps are kept in arrays of the slice, and
the **duality gap** is evaluated last; where it is small enough, the call ends (`look.py`).
"""
