"""Emission: how each kind of layer becomes instructions."""
