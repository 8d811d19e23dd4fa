"""What all tests share: the processor seconds of each test, and fewer runs of Python's garbage collector."""

import gc

pytest_plugins = ["processor_seconds"]

# Amaranth makes millions of small objects, and few cycles of them: with Python's own threshold of 700 objects the
# collector takes a third of the processor time of an elaboration.
gc.set_threshold(100_000, 20, 100)
