"""Params models: immutable, validated descriptions of a network."""
