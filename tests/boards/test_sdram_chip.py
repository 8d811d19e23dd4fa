"""The SDRAM of virtual boards: every rule it checks is broken by one cycle too few, and kept by one more."""

import ctypes
import dataclasses
import enum
import os
import subprocess
from pathlib import Path

import pytest

import tosaic.sim.board
from tosaic.sim.board.chip import RULES, BrokenC, ChipSetting, ChipSettingC

HERE = Path(__file__).parent
SETTING = ChipSetting(
    row_bits=3, bank_bits=2, column_bits=9, data_bits=16, cas_latency=2,
    rcd=3, rp=4, ras=6, rc=11, rrd=2, rfc=9, wr=5, mode=3,
    power_up=20, refreshes=2, refresh=400,
)  # fmt: skip
"""Times of which none follows from the others."""
ALL_BANKS = 1 << 10
MODE = SETTING.cas_latency << 4
NOTHING = 1 << 32


class Command(enum.IntEnum):
    """Levels of RAS, CAS, WE."""

    LOAD_MODE = 0
    REFRESH = 1
    PRECHARGE = 2
    ACTIVE = 3
    WRITE = 4
    READ = 5
    NOP = 7


class Chip:
    """A chip; `names` of the rules that are broken first are those of RULES."""

    def __init__(self, library, setting=SETTING):
        self._library = library
        self._handle = ctypes.c_void_p(
            library.chip_create(ctypes.byref(ChipSettingC(*dataclasses.astuple(setting))))
        )

    def close(self):
        self._library.chip_destroy(self._handle)

    def do(self, command, bank=0, address=0, *, mask=0, data=0, cke=1):
        self._library.chip_edge(self._handle, cke, command, bank, address, mask, data)

    def rest(self, cycles):
        for _ in range(cycles):
            self.do(Command.NOP)

    def after(self, cycles, command, bank=0, address=0, **pins):
        """The command, `cycles` after the one before."""
        self.rest(cycles - 1)
        self.do(command, bank, address, **pins)

    @property
    def data(self):
        return self._library.chip_data(self._handle)

    @property
    def broken(self):
        """(how many rules, the first one's text)."""
        broken = BrokenC()
        self._library.chip_broken(self._handle, ctypes.byref(broken))
        return broken.count, RULES[broken.rule] if broken.count else ""

    def start(
        self, *, power_up=SETTING.power_up, refreshes=SETTING.refreshes, mode=MODE, mode_wait=SETTING.mode
    ):
        self.do(Command.NOP, cke=0)
        self.after(power_up, Command.PRECHARGE, address=ALL_BANKS)
        self.rest(SETTING.rp - 1)
        for _ in range(refreshes):
            self.do(Command.REFRESH)
            self.rest(SETTING.rfc - 1)
        self.do(Command.LOAD_MODE, address=mode)
        self.after(mode_wait, Command.ACTIVE, 0, 1)


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    path = tmp_path_factory.mktemp("chip") / "chip.so"
    compiler = os.environ.get("CXX", "c++").split()
    options = ["-std=c++17", "-O1", "-fPIC", "-shared", "-Wall", "-Wextra", "-Werror"]
    includes = f"-I{Path(tosaic.sim.board.__file__).parent}"
    subprocess.run([*compiler, *options, includes, HERE / "chip_commands.cpp", "-o", path], check=True)
    found = ctypes.CDLL(str(path))
    found.chip_create.restype = ctypes.c_void_p
    found.chip_data.restype = ctypes.c_uint64
    return found


@pytest.fixture
def chip(library):
    made = Chip(library)
    yield made
    made.close()


def rule(part):
    (found,) = (text for text in RULES if part in text)
    return found


def test_words_keep_what_is_written(chip):
    """Masked bytes stay; the answer comes `cas_latency` cycles after READ and is there for one."""
    chip.start()
    chip.after(SETTING.rcd, Command.WRITE, 0, 5, data=0x1234)
    chip.after(1, Command.WRITE, 0, 5, data=0xABCD, mask=0b01)
    chip.after(1, Command.WRITE, 0, 6, data=0x5678)
    chip.after(1, Command.READ, 0, 5)
    assert chip.data == NOTHING
    chip.after(1, Command.READ, 0, 6)
    assert chip.data == 0xAB34
    chip.rest(1)
    assert chip.data == 0x5678
    chip.rest(1)
    assert chip.data == NOTHING
    assert chip.broken == (0, "")


def test_words_of_rows_and_banks_are_apart(chip):
    chip.start()
    for bank in range(4):
        if bank:
            chip.after(SETTING.rrd, Command.ACTIVE, bank, 1)
        chip.after(SETTING.rcd, Command.WRITE, bank, 511, data=bank + 1)
    chip.after(SETTING.wr, Command.PRECHARGE, address=ALL_BANKS)
    chip.after(SETTING.rp, Command.ACTIVE, 2, 2)
    chip.after(SETTING.rcd, Command.READ, 2, 511)
    chip.rest(1)
    assert chip.data == 0
    chip.after(SETTING.rp, Command.ACTIVE, 3, 1)
    chip.after(SETTING.rcd, Command.READ, 3, 511)
    chip.rest(1)
    assert (chip.data, chip.broken) == (4, (0, ""))


def _pair(first, gap, second):
    """Two commands on the row that is open, the second one `gap` cycles after the first; both as (command, bank,
    address)."""

    def sequence(chip, missing):
        chip.start()
        chip.rest(SETTING.rc)
        if first:
            chip.do(*first)
        chip.after(gap - missing, *second)

    return sequence


def _opened(gap, *second):
    """A command after ACTIVE."""

    def sequence(chip, missing):
        chip.start()
        chip.after(gap - missing, *second)

    return sequence


def _closed(gap, *second):
    """A command after PRECHARGE."""

    def sequence(chip, missing):
        chip.start()
        chip.after(SETTING.rc, Command.PRECHARGE, 0)
        chip.after(gap - missing, *second)

    return sequence


def _refreshed(gap, *second):
    def sequence(chip, missing):
        chip.start()
        chip.after(SETTING.rc, Command.PRECHARGE, 0)
        chip.after(SETTING.rp, Command.REFRESH)
        chip.after(gap - missing, *second)

    return sequence


def _row_cycle(chip, missing):
    """The bank is closed as early as may be, so that only the row's cycle is too short."""
    chip.start()
    chip.after(SETTING.ras, Command.PRECHARGE, 0)
    chip.after(SETTING.rc - SETTING.ras - missing, Command.ACTIVE, 0, 2)


def _written_and_closed(chip, missing):
    """WRITE with a precharge of its own, which comes when both the row and the data have had their time."""
    chip.start()
    chip.rest(SETTING.rc)
    chip.do(Command.WRITE, 0, ALL_BANKS)
    chip.after(SETTING.wr + SETTING.rp - missing, Command.ACTIVE, 0, 1)


def _read_and_closed(chip, missing):
    chip.start()
    chip.rest(SETTING.rc)
    chip.do(Command.READ, 0, ALL_BANKS)
    chip.after(1 + SETTING.rp - missing, Command.ACTIVE, 0, 1)


TIMES = {
    "tRCD of READ": (rule("tRCD"), _opened(SETTING.rcd, Command.READ)),
    "tRCD of WRITE": (rule("tRCD"), _opened(SETTING.rcd, Command.WRITE)),
    "tRP to ACTIVE": (rule("tRP"), _closed(SETTING.rp, Command.ACTIVE, 0, 1)),
    "tRP to REFRESH": (rule("tRP"), _closed(SETTING.rp, Command.REFRESH)),
    "tRP to LOAD MODE": (rule("tRP"), _closed(SETTING.rp, Command.LOAD_MODE, 0, MODE)),
    "tRAS": (rule("tRAS"), _opened(SETTING.ras, Command.PRECHARGE)),
    "tRC": (rule("tRC)"), _row_cycle),
    "tRRD": (rule("tRRD"), _opened(SETTING.rrd, Command.ACTIVE, 1, 1)),
    "tRFC to ACTIVE": (rule("tRFC"), _refreshed(SETTING.rfc, Command.ACTIVE, 0, 1)),
    "tRFC to REFRESH": (rule("tRFC"), _refreshed(SETTING.rfc, Command.REFRESH)),
    "tMRD": (rule("tMRD"), lambda chip, missing: chip.start(mode_wait=SETTING.mode - missing)),
    "tWR": (rule("tWR"), _pair((Command.WRITE, 0, 0), SETTING.wr, (Command.PRECHARGE, 0))),
    "precharge of a WRITE": (rule("tRP"), _written_and_closed),
    "precharge of a READ": (rule("tRP"), _read_and_closed),
    "power-up": (rule("power-up"), lambda chip, missing: chip.start(power_up=SETTING.power_up - missing)),
    "refreshes at the start": (
        rule("the start"),
        lambda chip, missing: chip.start(refreshes=SETTING.refreshes - missing),
    ),
}


@pytest.mark.parametrize("name", TIMES)
def test_a_cycle_too_few_breaks_the_rule(library, name):
    text, sequence = TIMES[name]
    for missing in (0, 1):
        chip = Chip(library)
        sequence(chip, missing)
        count, first = chip.broken
        chip.close()
        assert (bool(count), first) == (bool(missing), text if missing else "")


def _wrong_mode(chip):
    chip.start(mode=3 << 4)


def _open_again(chip):
    chip.start()
    chip.after(SETTING.rc, Command.ACTIVE, 0, 2)


def _refresh_of_an_open_bank(chip):
    chip.start()
    chip.after(SETTING.rc, Command.REFRESH)


def _read_of_a_closed_bank(chip):
    chip.start()
    chip.after(SETTING.rc, Command.READ, 1)


def _write_after_its_own_precharge(chip):
    chip.start()
    chip.after(SETTING.rc, Command.WRITE, 0, ALL_BANKS)
    chip.after(1, Command.WRITE, 0, 1)


def _write_into_an_answer(chip):
    chip.start()
    chip.after(SETTING.rcd, Command.READ, 0)
    chip.after(2, Command.WRITE, 0, 1)


@pytest.mark.parametrize(
    ("text", "sequence"),
    [
        ("the mode", _wrong_mode),
        ("must be closed", _open_again),
        ("must be closed", _refresh_of_an_open_bank),
        ("must be open", _read_of_a_closed_bank),
        ("must be open", _write_after_its_own_precharge),
        ("one side", _write_into_an_answer),
    ],
)
def test_states(chip, text, sequence):
    sequence(chip)
    assert chip.broken == (1, rule(text))


@pytest.mark.parametrize("missing", [0, 1])
def test_every_row_is_refreshed_in_time(chip, missing):
    """Rows are refreshed in turn; one refresh too few leaves one row out."""
    chip.start()
    chip.after(SETTING.rc, Command.PRECHARGE, 0)
    rows = 1 << SETTING.row_bits
    gap = SETTING.refresh // (rows + 2)
    for _ in range(rows - missing):
        chip.after(gap, Command.REFRESH)
    chip.rest(SETTING.refresh - (rows - missing) * gap)
    assert chip.broken == ((missing, rule("in time")) if missing else (0, ""))


def test_a_clock_taken_away_begins_anew(chip):
    """The chip keeps its contents, and its banks are open."""
    chip.start()
    chip.after(SETTING.rcd, Command.WRITE, 0, 7, data=99)
    chip.do(Command.NOP, cke=0)
    chip.start()
    chip.after(SETTING.rcd, Command.READ, 0, 7)
    chip.rest(1)
    assert (chip.data, chip.broken) == (99, (0, ""))
    chip.do(Command.NOP, cke=0)
    chip.after(SETTING.power_up, Command.REFRESH)
    assert chip.broken == (1, rule("must be closed"))


def test_a_chip_of_32_bits(library):
    """Four lanes, each with its mask."""
    chip = Chip(library, dataclasses.replace(SETTING, data_bits=32))
    chip.start()
    chip.after(SETTING.rcd, Command.WRITE, 0, 5, data=0xFEDCBA98)
    chip.after(1, Command.WRITE, 0, 5, data=0x11223344, mask=0b0101)
    chip.after(1, Command.WRITE, 0, 6, data=0x55667788)
    chip.after(2, Command.READ, 0, 5)
    assert chip.data == NOTHING
    chip.after(1, Command.READ, 0, 6)
    assert chip.data == 0x11DC3398
    chip.rest(1)
    assert chip.data == 0x55667788
    chip.rest(1)
    assert (chip.data, chip.broken) == (NOTHING, (0, ""))
    chip.close()
