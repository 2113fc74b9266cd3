"""The operations of a step, declared: what each does, reads and writes, under the names that kernels use.

To add one: its dataclass here, and its kernel in `kernels/cpu/program/`, which names the
fields. The layout of the record, how it is written and read, and what profiles and `check` print follow.

    fields      what a field of a type is in a record
    base        when an operation is made, what it reads and writes
    transport   copies, padding, what ranks exchange        patches, weights   what patches deliver
    synapses    what single synapses deliver                updates            pieces of updates of layers
    look        the duality gap                         plasticity         events of synapses that learn
"""
