"""The GPU side of the engine: devices, arrays, transfers, captured graphs."""
