"""Programs of a step, compiled: tables of operations on the arrays of one slice, and the loop of them."""
