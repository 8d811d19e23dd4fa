"""PyTorch's tests need the extra `torch`: `make test-torch` installs it, elsewhere they are not collected."""

import importlib.util

collect_ignore_glob = [] if importlib.util.find_spec("torch") else ["test_*.py"]
