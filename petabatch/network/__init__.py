"""From a network to a plan: the checked graph, the method, and all schedules."""
