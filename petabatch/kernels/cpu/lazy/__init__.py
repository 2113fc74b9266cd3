"""Lazy evaluation of the LCA: only units that could cross their threshold are computed."""
