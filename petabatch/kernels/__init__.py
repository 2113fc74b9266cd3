"""The numerical operations, one folder for each way to compute them.

    array.py      the patch operators in plain array code: the readable reference, for numpy and CuPy
    rules.py      the contract of compiled code layers, shared by `cpu` and `cuda`: rules, constants, state
    timescale.py  fista.py    step control of a slice in plain Python, used by layers and compiled by `cpu`
    operations/   the operations of a step, declared: what they do, read and write
    cpu/          numba: the steps of any network (`program/`), gradient, operators, exact sum
    cuda/         CUDA: steps of all slices of a lane, on the GPU that `cuda/device.py` describes
    cache.py      where compiled kernels are kept, and under which names

To add a rule: see `docs/architecture.md`; a twin in `cuda/` is optional. To follow a step:
`cpu/program/__init__.py`, then `cpu/program/loop.py`.
"""
