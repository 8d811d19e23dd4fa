"""Writes docs/records/proofs.md from the times of a run: `bench/proofs_page.py build/proofs.jsonl` (make prove).
Without times it writes the page's table of instructions alone."""

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

Each is proved for one configuration: control and DMA for `nano`, the divided rows for `base`, the shared port for
`nano,cores=2,bus_words=2`; the lane for each width that a configuration may have. The accumulator, the register bridge
and the CABAC decoder's parts have their proofs beside their other tests, in `make test`.

None is bounded in time. Four have a bound of another kind: commands are followed through a queue of 6 places (queues as
long as they are have words of 2 bits, since a word's bits do not meet), three SIGNALs of DMA wait (of 8), the
activation memory has 64 bytes (a longer address only chooses among more rows), and a weight is followed through the
packer while words are taken at once (one enable holds all its stages).
"""


INSTRUCTIONS_HEAD = """## Instruction by instruction

From one random state of memories, registers and micro-programs, emulator and RTL come to the same one, as far as
external memory, the fault, the marks and the multiplications show it once all was stored:
`tests/rtl/test_rtl_instructions.py`, on `nano`, and on the first machine that has the instruction or the class. Classes
of a field's values: 0, 1, few (2 to 15), many, negative; each value of a narrow field. What proofs show of an
instruction for all values is named beside it; no instruction is proved from its bits to its result.

| instruction | classes of its fields, each sampled | programs a night | proved of it |
|---|---|--:|---|"""
PROVED = {
    "WAIT": "tokens (`test_prove_control.py`)",
    "SIGNAL": "tokens (`test_prove_control.py`)",
    "LOAD_SIGNAL": "fires when all before it is complete (`test_prove_completion.py`); tokens",
    "STORE_SIGNAL": "fires when all before it is complete (`test_prove_completion.py`); tokens",
    "ARRAY_SIGNAL": "fires when the jobs before it have read (`test_prove_array.py`); tokens",
    "LOAD_PITCH": "its GO follows it (`test_prove_completion.py`)",
    "STORE_PITCH": "its GO follows it (`test_prove_completion.py`)",
    "LOAD_GO": "every byte once, where it belongs (`test_prove_completion.py`, `test_prove_dma.py`); packed rows",
    "STORE_GO": "every byte once, where it belongs (`test_prove_completion.py`, `test_prove_dma.py`)",
    "LOAD_DECODE": "the decoder (`test_prove_cabac.py`)",
    "ARRAY_GO": "turns of rows, divided rows (`test_prove_array.py`)",
    "VECTOR_UOP": "a lane's arithmetic (`test_prove_lane.py`)",
    "VECTOR_BOUNDS": "a lane's limits (`test_prove_lane.py`)",
}
"""What proofs say of an instruction, by its name or the end of its name."""


def instructions() -> str:
    """The table of instructions, from the rows of the test."""
    root = pathlib.Path(__file__).resolve().parents[1]
    sys.path += [str(root / "tests" / place) for place in ("rtl", "plugins")]
    from test_rtl_instructions import ROWS, SAMPLES

    classes: dict[str, dict[str, list[str]]] = {}
    for _, (opcode, field, wanted) in ROWS:
        classes.setdefault(opcode.name, {}).setdefault(field, []).append(wanted)
    lines = [INSTRUCTIONS_HEAD]
    for name, fields in classes.items():
        told = (
            "; ".join(f"{field}: {', '.join(found)}" for field, found in fields.items() if field)
            or "no fields"
        )
        count = SAMPLES * sum(map(len, fields.values()))
        proved = PROVED.get(name) or PROVED.get(name.rpartition("_")[2], "")
        lines.append(f"| {name} | {told} | {count} | {proved} |")
    return "\n".join(lines) + "\n"


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
    if not sys.argv[1:]:
        print(instructions())
        return
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
    print(instructions())
    total = sum(sum(taken) for tests in seconds.values() for taken in tests.values())
    print(f"All of them: {total:.0f} processor seconds.")


if __name__ == "__main__":
    main()
