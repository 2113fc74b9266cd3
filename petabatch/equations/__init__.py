"""Equations of neurons: their language, integration methods, and row functions made of them.

A text is parsed by the grammar of `grammar.py`, line by line in `blocks.py`, into expressions
(`expression.py`). `system.py` finds what is linear; `methods.py` adds the lines of an integration method to
those of a whole step (`step.py`), which `source.py` writes as the source of a row function and `arrays.py`
evaluates on arrays. No text of a user is ever evaluated as Python.
"""
