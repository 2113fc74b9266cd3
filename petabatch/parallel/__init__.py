"""Who owns which slices, and how what they learn is summed."""
