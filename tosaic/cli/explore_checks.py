"""Points of a front held against the RTL and against synthesis."""

import pathlib
import tempfile
from collections.abc import Mapping, Sequence

from tosaic.boards.area import LutFabric, synthesize
from tosaic.boards.tools import ToolError
from tosaic.compiler.importers.bindings import Bindings
from tosaic.driver.bench import Compiled, MemorySetting, measurement
from tosaic.driver.explore import Point
from tosaic.driver.jobs import Done, Executor, Job, JobFunction, Record, RecordFile, run_jobs
from tosaic.errors import InputError
from tosaic.hw.config_text import get_config

Checked = dict[tuple[str, int], str]
_SHOWN = {"cycles": "cycles", "lut": "LUT"}
SYNTHESIS = JobFunction(f"{__name__}:synthesis_job")


def synthesis_job(job: Job) -> Done:
    """Returns LUTs, flip-flops, multipliers and RAM of the job's configuration."""
    with tempfile.TemporaryDirectory(prefix="tosaic-") as folder:
        try:
            usage = synthesize(get_config(job.config), LutFabric(job.target), pathlib.Path(folder))
        except ToolError as error:
            raise InputError(str(error)) from None
    return Done({"lut": usage.lut, "ff": usage.ff, "dsp": usage.dsp, "ram_kbit": usage.ram_kbit})


def check_points(
    front: Sequence[Point],
    counts: tuple[int, int],
    models: Mapping[pathlib.Path, Bindings],
    fabric: LutFabric,
    place: Executor,
    kept: RecordFile,
) -> Checked:
    """What the RTL (of `counts[0]` points) and synthesis (of `counts[1]`) give, beside what was predicted."""
    found: dict[tuple[str, int], list[str]] = {}

    def tell(point: Point, what: str, unit: str, wanted: int, record: Record) -> None:
        got = 0 if record.failure else int(record.result[unit])
        told = record.failure or f"{got:,} {_SHOWN[unit]} ({wanted / got - 1:+.1%} predicted)"
        found.setdefault((point.config.name, point.bandwidth), []).append(f"{what} {told}")

    for point in _spread(front, counts[0]):
        memory = MemorySetting(point.bandwidth)
        jobs = [
            measurement(m, "sim", point.config.name, memory, Compiled(bound=own), check=True)
            for m, own in models.items()
        ]
        for model, record in zip(models, run_jobs(jobs, place, kept), strict=True):
            tell(point, "RTL", "cycles", point.cycles[str(model)], record)
    chosen = _spread(front, counts[1])
    jobs = [
        Job(SYNTHESIS, None, each.config.name, fabric.value, title=f"synthesis of {each.config.name}")
        for each in chosen
    ]
    for point, record in zip(chosen, run_jobs(jobs, place, kept), strict=True):
        tell(point, "synthesis", "lut", point.area.lut, record)
    return {key: "; ".join(lines) for key, lines in found.items()}


def _spread(front: Sequence[Point], count: int) -> list[Point]:
    """Returns at most `count` points, evenly spread from one end of the front to the other, each machine once."""
    machines = list({each.config.name: each for each in front}.values())
    if count < 2 or count >= len(machines):
        return machines[:count]
    return [machines[place * (len(machines) - 1) // (count - 1)] for place in range(count)]
