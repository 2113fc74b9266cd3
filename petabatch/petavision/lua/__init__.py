"""Parameter files in Lua: executed in a process of its own, and what they make of it."""

from petabatch.petavision.lua.read import Environment, parse_lua

__all__ = ["Environment", "parse_lua"]
