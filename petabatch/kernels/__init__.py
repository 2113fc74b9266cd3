"""The numerical operations: `array` is the readable reference, `cpu` the fast ones a profile asked for."""
