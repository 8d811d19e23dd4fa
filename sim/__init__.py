"""Tosaic."""
