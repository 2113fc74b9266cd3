"""From a description to a plan: the checked graph, its levels and sync events, and what can be told of it."""
