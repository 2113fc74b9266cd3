"""What can be told before a run: a network's plan, drawing and step limits, and what is installed."""
