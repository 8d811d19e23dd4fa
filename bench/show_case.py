"""Shows a case that a campaign left: says what is wrong with it; exit 1 if something is.

python bench/show_case.py build/failures/CASE
"""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tests" / "fuzzing"))

from failed_case import read  # noqa: E402 (the path comes first)


def main() -> int:
    problem = read(pathlib.Path(sys.argv[1])).problem()
    print(problem or "nothing is wrong with this case any more")
    return int(bool(problem))


if __name__ == "__main__":
    sys.exit(main())
