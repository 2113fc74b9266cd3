"""Random layers of equations, of all words of the language, against a model in NumPy.

    python tests/support/random_equations --seed 0 --seconds 600 [--number N] [--compiled 1] [--gpu 5]

`expressions.py` and `steps.py` are the model, made from `docs/equations.md` without code of the package. Of
each layer a step is made from random states, numbers that are not finite or large among them, by arrays in
both precisions, by the compiled row function, and on an emulated GPU; then a run of a network, each of whose
steps is a step of the model from the recorded state before. Printed are how often each word was drawn, and
what differs by more than rounding; then the exit code is 1. The short form is
`tests/equations/test_random_equations.py`.
"""
