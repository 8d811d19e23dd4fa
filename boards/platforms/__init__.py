"""Amaranth platforms of boards that amaranth_boards does not have."""
