"""What a cluster of many workers would do, on paper: measured jobs, and a queue for each thing that they share.

    python bench/capacity.py build/conformance/sim.xml --files build/conformance/suite --build-seconds 48
    python bench/capacity.py --jobs 1000000 --seconds 0.1 --workers 1000

The jobs are the tests of a JUnit file, each with the seconds that it took, or equal ones (--jobs, --seconds). Batches,
tasks ahead and what is sent are those of `driver.jobs.cluster`; what a task costs the client and the scheduler, and a
process its start, is measured here on a Dask cluster of two workers (--measure), or given. A worker builds the RTL
simulator before its first batch, where --build-seconds says what that takes. Prints for each number of workers the
time of all, the share of it that each is busy, and what bounds it.
"""

import argparse
import dataclasses
import heapq
import pathlib
import resource
import subprocess
import sys
import time
import xml.etree.ElementTree
from collections.abc import Sequence

from tosaic.driver.jobs.cluster import TASKS_AHEAD, BatchSizes

MEASURED_TASKS = 400

BOUND_SHARE = 0.9
"""What is busy for this share of the time bounds it."""


@dataclasses.dataclass(frozen=True)
class Costs:
    """Seconds of what is shared, or is paid again and again."""

    client_task: float = 0.0016
    """The client's for a task: pack, pickle, submit, take the answer."""
    scheduler_task: float = 0.0028
    process_start: float = 1.1
    """A batch has a process of its own, and that one another for its jobs, with their imports."""
    build: float = 0.0
    """A worker's, once."""
    link_bytes_per_second: float = 1e9 / 8
    """The client's; every job's files pass it."""


@dataclasses.dataclass(frozen=True)
class Outcome:
    workers: int
    makespan: float
    busy: dict[str, float]
    """Shares of the makespan; of the workers on average."""
    bound: str


def simulate(seconds: Sequence[float], sent_bytes: Sequence[int], workers: int, costs: Costs) -> Outcome:
    """Jobs in their order on `workers` workers of one thread each."""
    sizes, jobs, batches = BatchSizes(len(seconds), workers), 0, 0
    client = link = scheduler = 0.0
    free = [(0.0, number) for number in range(workers)]
    built: set[int] = set()
    ended: list[tuple[float, int, float]] = []
    worked = longest = makespan = 0.0
    while jobs < len(seconds):
        room = 0.0
        if batches >= TASKS_AHEAD * workers:
            # There is room for a task when one of those ahead has ended.
            room, *told = heapq.heappop(ended)
            sizes.ended(*told)
        size = sizes.next()
        work, size_bytes = sum(seconds[jobs : jobs + size]), sum(sent_bytes[jobs : jobs + size])
        jobs, batches, longest = jobs + size, batches + 1, max(longest, work)
        client = max(client, room) + costs.client_task
        link = max(link, client) + size_bytes / costs.link_bytes_per_second
        scheduler = max(scheduler, link) + costs.scheduler_task
        ready, worker = heapq.heappop(free)
        spent = costs.process_start + work + (0.0 if worker in built else costs.build)
        built.add(worker)
        end = max(ready, scheduler) + spent
        worked += spent
        heapq.heappush(free, (end, worker))
        heapq.heappush(ended, (end, size, work))
        makespan = max(makespan, end)
    busy = {
        "client": batches * costs.client_task / makespan,
        "link": sum(sent_bytes) / costs.link_bytes_per_second / makespan,
        "scheduler": batches * costs.scheduler_task / makespan,
        "workers": worked / makespan / workers,
    }
    most = max(busy, key=lambda name: busy[name])
    longest += costs.build + costs.process_start
    bound = most if busy[most] >= BOUND_SHARE else "the longest batch" if longest >= 0.5 * makespan else most
    return Outcome(workers, makespan, busy, bound)


def table(outcomes: Sequence[Outcome]) -> str:
    """A row for each number of workers."""
    lines = [
        "| workers | seconds | client | link | scheduler | workers busy | bound by |",
        "|--:|--:|--:|--:|--:|--:|---|",
    ]
    for each in outcomes:
        shares = " | ".join(
            f"{100 * each.busy[name]:.1f}%" for name in ("client", "link", "scheduler", "workers")
        )
        lines.append(f"| {each.workers:,} | {each.makespan:,.0f} | {shares} | {each.bound} |")
    return "\n".join(lines)


def measured(costs: Costs) -> Costs:
    """What a task costs in processor seconds, on a cluster of this computer whose scheduler and two workers are
    processes of their own: no-operations, and the two processes of a batch with their imports."""
    import distributed
    from distributed.deploy.subprocess import SubprocessCluster

    with (
        SubprocessCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster,
        distributed.Client(cluster) as client,
    ):
        client.gather(client.map(_nothing, range(MEASURED_TASKS), pure=False))
        before = time.process_time(), client.run_on_scheduler(time.process_time)
        tasks = [client.submit(_nothing, n, pure=False) for n in range(MEASURED_TASKS)]
        for future in distributed.as_completed(tasks):
            future.result()
        own = time.process_time() - before[0]
        scheduler = client.run_on_scheduler(time.process_time) - before[1]
    before_start = _children_seconds()
    for module in ("tosaic.driver.jobs.cluster", "tosaic.driver.conformance.execute"):
        subprocess.run([sys.executable, "-c", f"import {module}"], check=True)
    return dataclasses.replace(
        costs,
        client_task=own / MEASURED_TASKS,
        scheduler_task=scheduler / MEASURED_TASKS,
        process_start=_children_seconds() - before_start,
    )


def _children_seconds() -> float:
    """Processor seconds of the processes that this one has waited for."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _nothing(number: int) -> int:
    return number


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument(
        "junit", nargs="?", type=pathlib.Path, help="a JUnit file with the seconds of each test"
    )
    parser.add_argument("--files", type=pathlib.Path, help="folder of what the jobs read, in equal parts")
    parser.add_argument("--jobs", type=int, default=0, help="that many equal jobs")
    parser.add_argument("--seconds", type=float, default=0.1, help="of each of them")
    parser.add_argument(
        "--repeat", type=int, default=1, help="each job that many times, as in a larger suite"
    )
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2, 10, 100, 300, 1000, 3000])
    parser.add_argument(
        "--build-seconds", type=float, default=0.0, help="of the simulator, once for each worker"
    )
    parser.add_argument("--link-gbit", type=float, default=1.0, help="the client's network, Gbit/s")
    parser.add_argument("--measure", action="store_true", help="measure Dask and processes here")
    chosen = parser.parse_args()
    if chosen.junit is not None:
        cases = xml.etree.ElementTree.parse(chosen.junit).iter("testcase")
        seconds = [float(case.get("time", "0")) for case in cases]
    else:
        seconds = [chosen.seconds] * chosen.jobs
    if not seconds:
        parser.error("there are no jobs: name a JUnit file, or a number with --jobs")
    held = (
        sum(path.stat().st_size for path in chosen.files.rglob("*") if path.is_file()) if chosen.files else 0
    )
    sent = [held // len(seconds)] * len(seconds) * chosen.repeat
    seconds *= chosen.repeat
    costs = Costs(build=chosen.build_seconds, link_bytes_per_second=chosen.link_gbit * 1e9 / 8)
    if chosen.measure:
        costs = measured(costs)
    print(
        f"{len(seconds):,} jobs, {sum(seconds):,.0f} s in all, the longest {max(seconds):.1f} s, "
        f"{sent[0]:,} bytes each; a task costs the client {1000 * costs.client_task:.2f} ms "
        f"and the scheduler {1000 * costs.scheduler_task:.2f} ms, a process starts in {costs.process_start:.2f} s\n"
    )
    print(table([simulate(seconds, sent, workers, costs) for workers in chosen.workers]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
