"""What all tests share: each test's processor seconds, the same random numbers in every order of tests, rarer garbage
collections."""

import gc

pytest_plugins = ["processor_seconds", "same_numbers"]

# Amaranth makes millions of small objects, and few cycles of them: with Python's own threshold of 700 objects the
# collector takes a third of the processor time of an elaboration.
gc.set_threshold(100_000, 20, 100)
