"""What all tests share: the processor seconds of each test."""

pytest_plugins = ["processor_seconds"]
