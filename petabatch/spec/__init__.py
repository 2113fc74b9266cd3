"""Params models: frozen, validated descriptions of a network."""
