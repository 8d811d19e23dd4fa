"""Writes docs/records/proofs.md from the times of a run: `bench/proofs_page.py build/proofs.jsonl` (make prove)."""

import ast
import collections
import json
import pathlib
import sys

HEAD = """# Proofs

`make prove` proves these properties of the RTL and writes this page. Yosys' SAT solver looks for a counter-example
among *all* values and behaviours of the inputs: by induction, or, for a pipeline, for all inputs that stay the same. A
file says in its first lines what is cut out or assumed. Processor seconds are those of one run; a loaded machine's are
up to a third too many.

Each is proved for one configuration: control and DMA for `nano`, the lane and the divided rows for `base`, the shared
port for `nano,cores=2,bus_words=2`. The accumulator, the register bridge and the CABAC decoder's parts have their
proofs beside their other tests, in `make test`.

None is bounded in time. Three have a bound of another kind: commands are followed through a queue of 6 places (queues
as long as they are have words of 2 bits, since a word's bits do not meet), the activation memory has 64 bytes (a longer
address only chooses among more rows), and a weight is followed through the packer while words are taken at once (one
enable holds all its stages).
"""


def functions(path: pathlib.Path) -> dict[str, str]:
    """The tests of a file, each with what it proves."""
    found = {}
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
            text = ast.get_docstring(node) or ""
            title = node.name.removeprefix("test_").replace("_", " ")
            found[node.name] = f"**{title}**" + (": " + " ".join(text.split()) if text else "")
    return found


def main() -> None:
    seconds: dict[str, dict[str, list[float]]] = collections.defaultdict(
        lambda: collections.defaultdict(list)
    )
    for line in pathlib.Path(sys.argv[1]).read_text().splitlines():
        record = json.loads(line)
        file, name = record["test"].split("::")
        seconds[file][name.split("[")[0]].append(record["setup"] + record["call"] + record["teardown"])
    print(HEAD)
    for file in sorted(seconds):
        path = pathlib.Path(file)
        told = functions(path)
        print(f"## {file}\n\n{' '.join((ast.get_docstring(ast.parse(path.read_text())) or '').split())}\n")
        print("| what is proved | cases | processor seconds |\n|---|--:|--:|")
        for name, taken in seconds[file].items():
            print(f"| {told[name]} | {len(taken)} | {sum(taken):.0f} |")
        print()
    total = sum(sum(taken) for tests in seconds.values() for taken in tests.values())
    print(f"All of them: {total:.0f} processor seconds.")


if __name__ == "__main__":
    main()
