"""Hypothesis settings of these tests: an example may take any time, since CI machines stall."""

from hypothesis import settings

settings.register_profile("unhurried", deadline=None)
settings.load_profile("unhurried")
