"""Writes the page of the record that campaigns add to: `python bench/campaigns_page.py > docs/records/campaigns.md`."""

import json
import pathlib
import sys

RECORD = pathlib.Path(__file__).resolve().parents[1] / "docs" / "records" / "campaigns.jsonl"
CAMPAIGNS = {
    "random_graphs": (
        "python bench/random_graphs.py --minutes 60 --on emulator,sim --config base",
        "random graphs of all integer operators: golden against emulator and RTL",
        "the operators up to the first wrong one, and what they need; model.tosa and its inputs",
    ),
    "hostile_programs": (
        "python bench/hostile_programs.py --programs 2000",
        "programs with changed instructions: emulator and RTL end alike, at the same place",
        "the instructions that it takes",
    ),
    "random_configs": (
        "python bench/random_configs.py --configs 200 --graphs 5 --on emulator,sim",
        "random graphs on random legal configurations: golden against emulator and RTL",
        "the sizes that differ from `nano` and matter, and the smallest part of the graph",
    ),
    "nnr_fuzz": (
        "python bench/nnr_fuzz.py --minutes 60",
        "damaged NNR streams: values, or an error of one line; what is accepted is what its values encode to",
        "the changes that it takes, then the bytes",
    ),
    "onnx_fuzz": (
        "python bench/onnx_fuzz.py --minutes 60",
        "damaged ONNX models: a graph, or an error of one line",
        "the changes that it takes, then the bytes",
    ),
    "tflite_fuzz": (
        "python bench/tflite_fuzz.py --minutes 60",
        "damaged TFLite models, by both importers: a graph, or an error of one line",
        "the changes that it takes, then the bytes",
    ),
    "nnef_fuzz": (
        "python bench/nnef_fuzz.py --minutes 60",
        "damaged NNEF models: a graph that golden runs, or an error of one line",
        "the changes of the uncompressed archive that it takes, then the bytes",
    ),
    "coreml_fuzz": (
        "python bench/coreml_fuzz.py --minutes 60",
        "damaged Core ML models: a graph, or an error of one line",
        "the changes that it takes, then the bytes",
    ),
    "files_fuzz": (
        "python bench/files_fuzz.py --inputs 5000",
        "damaged files of every format, each by the command that reads it: a result, or one line and exit code 1",
        "the changes that it takes, then the bytes",
    ),
    "numpy_fuzz": (
        "python bench/numpy_fuzz.py programs --cases 2000 --rtl-every 10",
        "NumPy in (`matrix`: functions on all types; `programs`: 3 to 25 calls): NumPy against golden, emulator, RTL",
        "the steps that it takes",
    ),
    "hostile_clients": (
        "python bench/hostile_clients.py --minutes 30 --jobs 100",
        "honest jobs beside hostile clients of a served board: all right",
        "none: the failure is one of times and turns",
    ),
}
"""Command, what is compared, and what its folder of a failure holds."""
HEAD = """# Campaigns

What runs for as long as one likes, beside `make test` and `make nightly`. `bench/campaigns_page.py` writes this page of
`docs/records/campaigns.jsonl`; a campaign adds its run to that file with `--log`.

A campaign is many jobs: `-j N` runs N at a time, `--cluster ADDRESS` gives them to the workers of a Dask scheduler, and
`--records FILE.jsonl` keeps what is done, so that a second run goes on ([driver.md](../driver.md#many-jobs)). Each
failure leaves a folder in `build/failures` (`--failures`): the case made as small as delta debugging makes it in 400
tries (`tests/fuzzing/failed_case.py`), and `show.sh`, which says what is wrong and exits with 1 as long as it is.

A failure inside the importer's C++ or of a whole process ends as the failure of a job, without a folder. A model of the
zoo that fails leaves its record (`bench/zoo`), and no folder.
"""


def page(lines: list[dict]) -> str:
    """The page, of the record's lines."""
    parts = [HEAD, "| campaign | compares | a failure's folder holds |\n|---|---|---|"]
    parts += [f"| `{command}` | {what} | {left} |" for command, what, left in CAMPAIGNS.values()]
    parts.append("\n## Run so far\n\n| campaign | runs | cases | hours | wrong |\n|---|--:|--:|--:|--:|")
    for name in CAMPAIGNS:
        runs = [line for line in lines if line["campaign"] == name]
        cases, hours = sum(run["cases"] for run in runs), sum(run["seconds"] for run in runs) / 3600
        wrong = sum(run["wrong"] for run in runs if run["wrong"] is not None)
        parts.append(f"| `{name}` | {len(runs)} | {cases:,} | {hours:.2f} | {wrong} |")
    parts.append(
        "\nEach run. A dash: the page that told of this run before there was a record gave its minutes, and no count.\n"
    )
    parts.append("| day | commit | command | cases | s | wrong |\n|---|---|---|--:|--:|--:|")
    for run in sorted(lines, key=lambda line: line["date"]):
        wrong = "–" if run["wrong"] is None else run["wrong"]
        told = f"{run['date']} | {run['commit']} | `{run['command']}` | {run['cases']:,} | {run['seconds']:,}"
        parts.append(f"| {told} | {wrong} |")
    return "\n".join(parts) + "\n"


def read(path: pathlib.Path = RECORD) -> list[dict]:
    return [json.loads(line) for line in path.read_text().splitlines()]


if __name__ == "__main__":
    sys.stdout.write(page(read()))
