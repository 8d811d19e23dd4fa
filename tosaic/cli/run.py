"""`tosaic run`: compile a model, run it on a target, write the outputs."""

import contextlib
import json
import pathlib
import re
import sys
from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

from tosaic.cli import options
from tosaic.cli.afterwards import open_page, page_of, tell_next
from tosaic.cli.files import check_file, make_folder, writing, writing_whole
from tosaic.cli.progress import progress_bar
from tosaic.compiler.importers.bindings import Bindings
from tosaic.driver.arguments import NodeArg, as_declared, check_shapes, made_up
from tosaic.driver.bundle import SUFFIX as BUNDLE_SUFFIX
from tosaic.driver.bundle import read_bundle, write_bundle
from tosaic.driver.function_files import is_function
from tosaic.driver.session import Session
from tosaic.errors import Error, InputError, MismatchError

if TYPE_CHECKING:
    from tosaic.sim.rtl.wave import Wave


def run(
    context: typer.Context,
    model: Annotated[
        str,
        typer.Argument(
            help="A .tosa model, one to import (.onnx, .mlmodel, .tflite, NNEF, .nnr), a .tsc program, or a bundle "
            "(.zip) to run again."
        ),
    ],
    *,
    inputs: Annotated[list[str] | None, typer.Option("-i", "--input", metavar="NAME=FILE.npy")] = None,
    output: Annotated[
        pathlib.Path | None, typer.Option("-o", "--output", metavar="DIR", help="Folder for NAME.npy files.")
    ] = None,
    on: options.On = "emulator",
    config: options.ConfigOrProgram = None,
    sizes: options.Set = None,
    check: Annotated[
        bool, typer.Option("--check", help="Compare every output with golden; exit 3 on a mismatch.")
    ] = False,
    check_source: options.CheckSource = False,
    check_source_db: options.CheckSourceDb = None,
    source: options.Source = None,
    strict: options.Strict = False,
    layers: Annotated[bool, typer.Option("--layers", help="With --check: compare every layer.")] = False,
    no_fuse: Annotated[
        bool, typer.Option("-O0", help="Make one layer per operator, so that --layers sees every tensor.")
    ] = False,
    drop_dead_channels: options.DropDeadChannels = False,
    random: options.Random = None,
    memory_bandwidth: options.Bandwidth = None,
    memory_latency: options.Latency = None,
    max_cycles: options.MaxCycles = None,
    stats: options.StatsFile = None,
    report: options.ReportFile = None,
    open_: options.Open = False,
    trace: options.TraceFile = None,
    wave: options.WaveFile = None,
    wave_cycles: options.WaveCycles = None,
    wave_layer: options.WaveLayer = None,
    bundle: options.BundleFile = None,
    compress: options.Compress = None,
    batch: options.Batch = 1,
    shape: options.RunShape = None,
    value: options.Value = None,
    verbose: options.Verbose = False,
) -> None:
    """Run a model and print its outputs and measurements."""
    if wave is not None and not _is_given(context, "on"):
        on = "sim"
    golden = on == "golden"
    _refuse(
        (no_fuse and drop_dead_channels, "give one of -O0 and -O2"),
        (layers and not check, "--layers compares with golden: give --check too"),
        (golden and trace is not None, "--trace shows the accelerator's units: golden has none"),
        (golden and compress is not None, "--compress is for the accelerator's programs: golden has none"),
    )
    page = page_of(report, open_)
    _check_places(output, stats, page, trace, wave, bundle)
    waveform = _wave(wave, wave_cycles, wave_layer)
    if pathlib.Path(model).suffix == BUNDLE_SUFFIX:
        session = _run_again(model, on if _is_given(context, "on") else None, waveform, output)
        _write_measurements(session, model, stats, page, trace, wave)
        return _end(None, page, open_)
    inputs, bound = _inputs_and_bindings(model, inputs, shape, value)
    how: dict[str, Any] = {
        "memory_bandwidth": memory_bandwidth,
        "memory_latency": memory_latency,
        "max_cycles": max_cycles,
        "optimize": not no_fuse,
        "drop_dead_channels": drop_dead_channels,
        "keep_layers": layers and check,
        "compress": compress,
    }
    with progress_bar(f"open {model}") as progress:
        session = Session(
            model,
            on,
            options.sized(config or "base", sizes) if sizes else config,
            **how,
            batch=batch,
            progress=progress,
            shapes=bound.shapes,
            values=bound.values,
            source=source,
            wave=waveform,
        )
        values = _inputs(session.inputs, inputs, random, session.state)
        for name in values.keys() & session.state.keys():
            session.state[name] = values.pop(name)
        progress(f"run on {on}", 0, 1)
        checks = _checks(golden=check, source=check_source)
        with _of_made_up(random), _bundling(bundle, session, how, values, checks) as outputs:
            outputs |= session.run(values, check=checks, strict=strict, limit_db=check_source_db)
    _give_outputs(session, outputs, output)
    _print_figures(session, compressed=compress is not None)
    _print_checks(session, checks)
    _write_measurements(session, model, stats, page, trace, wave)
    _end(None if shape or value else model, page, open_)


def _end(model: str | None, page: pathlib.Path | None, opened: bool) -> None:
    """Opens the page, and tells of the command that comes next.

    `model`: the file, where a command needs no more.
    """
    if page is None:
        tell_next(*sys.argv[1:], "--open")
        return
    open_page(page, opened)
    if model is not None:
        tell_next(*(("dev", "verify") if pathlib.Path(model).suffix == ".tsc" else ("check",)), model)


def _wave(file: pathlib.Path | None, cycles: str | None, layer: str | None) -> "Wave | None":
    """The waveform that is asked for."""
    _refuse(
        (file is None and cycles is not None, "--wave-cycles is for a waveform: give --wave FILE.fst too"),
        (file is None and layer is not None, "--wave-layer is for a waveform: give --wave FILE.fst too"),
    )
    if file is None:
        return None
    from tosaic.sim.rtl.wave import Wave

    first, end = 0, None
    if cycles is not None:
        match = re.fullmatch(r"(\d*):(\d*)", cycles)
        if match is None:
            raise typer.BadParameter(f"--wave-cycles {cycles}: write FIRST:END, such as 1000:2000")
        first, end = int(match[1] or 0), int(match[2]) if match[2] else None
    return Wave(file, first, end, layer)


def _is_given(context: typer.Context, option: str) -> bool:
    """Whether the user gave an option, which else has its default."""
    source = context.get_parameter_source(option)
    return source is not None and source.name != "DEFAULT"


@contextlib.contextmanager
def _bundling(
    file: pathlib.Path | None,
    session: Session,
    how: dict[str, Any],
    values: dict[str, np.ndarray],
    checks: list[str],
) -> Iterator[dict[str, np.ndarray]]:
    """Where a run's outputs are put; writes the bundle, if one is asked for, however the run ends."""
    given = {name: np.array(value) for name, value in (*values.items(), *session.state.items())}
    outputs: dict[str, np.ndarray] = {}
    ended = f"compared with {' and '.join(checks)}: equal" if checks else "compared with nothing"
    try:
        yield outputs
    except Error as error:
        ended = str(error)
        raise
    finally:
        if file is not None:
            with writing_whole(file) as scratch:
                write_bundle(scratch, session, how, given, outputs, ended)
            print(f"bundle: {file}, {file.stat().st_size:,} bytes; run it again by: tosaic run {file}")


def _run_again(file: str, target: str | None, wave: "Wave | None", output: pathlib.Path | None) -> Session:
    """Makes the run of a bundle again, on its target if no other is given; prints what `run` prints."""
    bundle = read_bundle(file)
    made_by = ", ".join(f"{name} {version}" for name, version in bundle.made_by.items())
    print(f"{file}: a run on {bundle.target} ({bundle.config.name}) by {made_by}; it ended: {bundle.ended}")
    with progress_bar(f"compile {file}") as progress:
        session = bundle.session(target, progress=progress, wave=wave)
        progress(f"run on {session.target}", 0, 1)
        outputs = bundle.run(session)
    _give_outputs(session, outputs, output)
    _print_figures(session, compressed=bundle.options["compress"] is not None)
    if session.graph is not None:
        print(f"bit-exact: {len(outputs)} outputs equal golden")
    if bundle.outputs:
        print(f"{len(bundle.outputs)} outputs equal those in the bundle")
    return session


def _tell_files(wave: pathlib.Path | None, trace: pathlib.Path | None, page: pathlib.Path | None) -> None:
    """Where waveform, trace and report are, and how to look at them."""
    if wave is not None:
        if not wave.exists():
            raise InputError(
                f"{wave} was not written: the run has none of these cycles; see them by --stats FILE.json"
            )
        size = wave.stat().st_size
        print(f"waveform: {wave}, {size:,} bytes; one cycle is 10 ns; open it by: gtkwave {wave}")
    if trace is not None:
        print(f"trace: {trace}; open it in a browser, at ui.perfetto.dev")
    if page is not None:
        print(f"report: {page}; open it in a browser")


def _checks(**wanted: bool) -> list[str]:
    """The checks of `Session.run` that are asked for."""
    return [name for name, asked in wanted.items() if asked]


def _print_checks(session: Session, checks: list[str]) -> None:
    """What was compared with what, and came out equal or near."""
    if "source" in checks:
        for line in session.stats["source"]["told"]:
            print(line)
    elif checks:
        print("compared with golden on the same integers, not with your network: --check-source does that")
    if "golden" in checks:
        compared = f"{len(session.kept)} layers and " if session.kept else ""
        print(f"bit-exact: {compared}{len(session.outputs)} outputs equal golden")


@contextlib.contextmanager
def _of_made_up(seed: int | None) -> Iterator[None]:
    """Says of a mismatch with the network that inputs were made up, if they were."""
    try:
        yield
    except MismatchError as error:
        from tosaic.driver.source import NOT_THE_NETWORK

        if seed is None or not str(error).startswith(NOT_THE_NETWORK):
            raise
        raise MismatchError(f"{error}; the inputs were made up (--random): give real ones by -i") from None


def _refuse(*contradictions: tuple[bool, str]) -> None:
    """Raises typer.BadParameter with the advice of the first contradiction between options that holds."""
    for holds, advice in contradictions:
        if holds:
            raise typer.BadParameter(advice)


def _check_places(folder: pathlib.Path | None, *files: pathlib.Path | None) -> None:
    """Raises before the run what would keep its results from being written; makes the folder."""
    for file in files:
        check_file(file)
    make_folder(folder)


def _write_outputs(folder: pathlib.Path | None, outputs: dict[str, np.ndarray]) -> None:
    """One NAME.npy file for each output, if there is a folder for them."""
    for name, value in outputs.items() if folder is not None else ():
        assert folder is not None
        file = folder / f"{name.replace('/', '_')}.npy"
        with writing_whole(file) as scratch:
            np.save(scratch, value)


def _write_measurements(
    session: Session,
    model: str,
    stats: pathlib.Path | None,
    report: pathlib.Path | None,
    trace: pathlib.Path | None,
    wave: pathlib.Path | None,
) -> None:
    """The files of the run's measurements that were asked for; tells where they are."""
    if stats is not None:
        from tosaic.driver.report import run_facts

        told = {**session.stats, "made": run_facts(session)}
        with writing_whole(stats) as scratch:
            scratch.write_text(json.dumps(told, indent=1) + "\n")
    if report is not None:
        from tosaic.driver.bench import network_name
        from tosaic.driver.report import write_report

        with writing(report):
            write_report(report, network_name(pathlib.Path(model)), session)
    if trace is not None:
        from tosaic.driver.trace import write_trace

        with writing(trace):
            write_trace(trace, session.stats, session.timeline())
    _tell_files(wave, trace, report)


def _give_outputs(session: Session, outputs: dict[str, np.ndarray], folder: pathlib.Path | None) -> None:
    """Prints and writes the outputs; those of a NumPy function in its types."""
    holder = session.graph or session.program
    declared = holder.declared if holder is not None else {}
    own = {name: as_declared(value, declared.get(name)) for name, value in outputs.items()}
    _print_outputs(session, own)
    _write_outputs(folder, own)


def _print_outputs(session: Session, outputs: dict[str, np.ndarray]) -> None:
    """The first 10 elements of each output, in the model's own type, and the class that a classifier's output names."""
    types = {each.name: each.own for each in session.outputs}
    for name, held in outputs.items():
        value = held.view(types[name]) if held.itemsize == types[name].itemsize else held
        flat = value.reshape(-1)
        shown = " ".join(f"{v:.5g}" if value.dtype.kind == "f" else str(int(v)) for v in flat[:10]) + (
            " …" if flat.size > 10 else ""
        )
        print(f"{name} {value.dtype}{list(value.shape)}: {shown}")
        labels = session.labels.get(name)
        if labels:
            best = int(flat.argmax())
            print(f"{name}: the largest is {labels[best]!r} ({best} of {len(labels)} classes)")


def _print_figures(session: Session, *, compressed: bool) -> None:
    """Cycles, utilization and bytes of the last run, where the target counts them; what compression saved."""
    figures = session.stats
    if figures["cycles"] is None:
        return
    memory = f"memory {figures['memory_bandwidth']} B/cycle, latency {figures['memory_latency']}"
    print(
        f"{figures['cycles']:,} cycles on {session.config.name} ({session.target}), MAC utilization "
        f"{figures['mac_utilization']:.1%}, {figures['dram_read_bytes']:,} bytes read, "
        f"{figures['dram_write_bytes']:,} written"
        + (f"; {memory}" if figures["memory_bandwidth"] is not None else "")
        + (", dead channels removed" if figures["dead_channels_removed"] else "")
    )
    if session.batch > 1:
        print(f"{-(-figures['cycles'] // session.batch):,} cycles for each of {session.batch} samples")
    if compressed:
        weights = figures["weights"]
        print(
            f"weights: {weights['stored_bytes']:,} of {weights['bytes']:,} bytes stored, "
            f"{weights['compressed_tensors']} of {weights['tensors']} tensors compressed"
            + (
                f"; {weights['decode_cycles']:,} cycles decoding, {weights['hidden_decode_cycles']:,} of them hidden"
                if weights["decode_cycles"]
                else ""
            )
        )
    _print_boot(figures["boot"])


def _print_boot(boot: dict[str, Any] | None) -> None:
    """What decoding once took, and from when it pays."""
    if boot is None:
        return
    runs = boot["break_even_runs"]
    print(
        f"boot, once: {boot['cycles']:,} cycles for {boot['tensors']} tensors, {boot['saved_bytes']:,} bytes less to "
        f"load; pays where loading brings less than {boot['break_even_bytes_per_cycle']:.3f} B/cycle"
        + (f", and after {runs} runs against decoding in each" if runs else "")
    )


def _inputs(
    wanted: list[NodeArg], given: list[str], seed: int | None, state: Collection[str]
) -> dict[str, np.ndarray]:
    """Inputs and states from NAME=FILE.npy; inputs that are not given at random, when there is a seed."""
    values: dict[str, np.ndarray] = {}
    known = [*(argument.name for argument in wanted), *state]
    for text in given:
        name, separator, file = text.partition("=")
        if not separator:
            if len(wanted) != 1:
                raise InputError(f"-i {text}: write NAME=FILE.npy, the model has {len(wanted)} inputs")
            name, file = wanted[0].name, text
        if name not in known:
            raise InputError(
                f"the model has no input {name!r}; it has {', '.join(map(repr, known)) or 'none'}"
            )
        if name in values:
            raise InputError(f"input {name!r} is given twice: give one -i {name}=FILE.npy")
        values[name] = _load(name, file)
    if seed is not None:
        generator = np.random.default_rng(seed)
        for argument in wanted:
            if argument.name not in values:
                values[argument.name] = made_up(generator, argument)
    missing = [argument for argument in wanted if argument.name not in values]
    if missing:
        first = missing[0]
        raise InputError(
            f"input {first.name!r} ({first.numpy}{list(first.shape)}) is missing: "
            f"give -i {first.name}=FILE.npy, or --random SEED to make it up"
        )
    check_shapes(wanted, values)
    return values


def _inputs_and_bindings(
    model: str, given: list[str] | None, shape: list[str] | None, value: list[str] | None
) -> tuple[list[str], Bindings]:
    """The `-i` options that give arrays, and what is bound: of a function also the types and shapes that `-i` gives in
    the place of files, and those of the arrays."""
    arrays = [text for text in given or [] if not options.typed_shape(text.partition("=")[2])]
    typed = [text for text in given or [] if text not in arrays]
    told = {text.partition("=")[0] for text in typed}
    for text in arrays if is_function(model) else ():
        name, _, file = text.partition("=")
        if file and name not in told:
            array = _load(name, file)
            typed.append(f"{name}={array.dtype}[{','.join(map(str, array.shape))}]")
    return arrays, options.bindings([*(shape or []), *typed], value)


def _load(name: str, file: str) -> np.ndarray:
    """The array in a .npy file."""
    path = pathlib.Path(file)
    if not path.is_file():
        reason = "it is a directory" if path.is_dir() else "there is no such file"
        raise InputError(f"input {name!r}: {file} cannot be read: {reason}; give a .npy file")
    try:
        with path.open("rb") as stream:
            return np.lib.format.read_array(stream, allow_pickle=False)
    except OSError as error:
        raise InputError(f"input {name!r}: {file} cannot be read: {error.strerror}") from None
    except (
        Exception
    ):  # NumPy parses the header as Python, and raises what Python's parser and its own types raise
        raise InputError(
            f"input {name!r}: {file} is not a whole .npy file of numbers: write it with numpy.save"
        ) from None
