"""Configurations: which sizes make a machine, and how they are written."""

import dataclasses
import re
from pathlib import Path

import pytest

from tosaic.hw.config import CONFIGS, Config
from tosaic.hw.config_text import get_config, variant
from tosaic.hw.legal import faults

BASE = CONFIGS["base"]


@pytest.mark.parametrize(
    ("field", "value", "reason"),
    [
        ("rows", 0, "rows must be a positive integer, not 0"),
        ("rows", 2.0, "rows must be a positive integer, not 2.0"),
        ("rows", True, "rows must be a positive integer, not True"),
        ("rows", 17, "rows must be at most columns (16), not 17"),
        ("columns", 24, "columns must be a power of two, not 24"),
        ("line_pixels", 1, "line_pixels must be at least 2, not 1"),
        ("line_pixels", 4096, "line_pixels must be at most 4095 (ARRAY_DEPTHWISE.delay), not 4096"),
        ("partial_sums", -1, "partial_sums must be a positive integer or 0, not -1"),
        ("partial_sums", 24, "partial_sums must be a power of two, not 24"),
        ("rows", 3, "partial_sums must be 0 with fewer than 4 rows, not 512"),
        ("am_bytes", 1 << 25, "am_bytes must be at most 16777216 (LOAD_GO.local_address), not 33554432"),
        ("am_bytes", 128, "am_bytes / am_banks must be at least 4 words of 16 bytes, not 32"),
        ("wm_bytes", 256, "wm_bytes must be at least 512, not 256"),
        ("wm_bytes", 1 << 25, "wm_bytes must be at most 16777216 (ARRAY_GO.weights), not 33554432"),
        ("vector_latency_cycles", 8, "vector_latency_cycles must be at least 10, not 8"),
        ("vector_slots", 8, "vector_slots must be at least vector_latency_cycles (10), not 8"),
        ("vector_slots", 32, "vector_slots must be at most 16 (VECTOR_GO.slots), not 32"),
        ("drain_vectors", 8, "drain_vectors must be at least 16, not 8"),
        ("lane_columns", 3, "lane_columns must be 1, 2 or 4, not 3"),
        ("vector_bits", 33, "vector_bits must be at least 34, not 33"),
        ("vector_bits", 52, "vector_bits must be at most 51 (the lanes' multiplier), not 52"),
        ("vector_registers", 16, "vector_registers must be at most 8 (VECTOR_UOP.destination), not 16"),
        ("vector_registers", 2, "vector_registers must be at least 4, not 2"),
        ("vector_uops", 17, "vector_uops must be at most 16 (VECTOR_UOP.index), not 17"),
        ("vector_uops", 7, "vector_uops must be at least 8, not 7"),
        ("semaphores", 17, "semaphores must be at most 16 (LOAD_WAIT.semaphore), not 17"),
        ("semaphores", 11, "semaphores must be at least 12, not 11"),
        ("queue_commands", 3, "queue_commands must be at least 4, not 3"),
        ("cabac_engines", 3, "cabac_engines must be 0, 1, 2 or 4, not 3"),
        ("address_bits", 31, "address_bits must be at least 32, not 31"),
        ("address_bits", 65, "address_bits must be at most 64 (AXI's addresses), not 65"),
        ("axi_cache", 4, "axi_cache must be one of 0, 1, 2, 3, 6, 7, 10, 11, 14, 15, not 4"),
        ("axi_prot", 8, "axi_prot must be at most 7 (AXI's bits), not 8"),
        ("weight_banks", 3, "weight_banks must be 1, 2 or 4, not 3"),
    ],
)
def test_each_fault_names_the_size_and_its_bound(field: str, value: object, reason: str) -> None:
    assert reason in faults({**BASE.sizes, field: value})
    with pytest.raises(ValueError, match=re.escape(reason)):
        dataclasses.replace(BASE, **{field: value})


@pytest.mark.parametrize(("cores", "least"), [(1, 12), (2, 14), (4, 16)])
def test_several_cores_have_a_semaphore_more_for_each(cores: int, least: int) -> None:
    """These are for waits for another core's results."""
    assert get_config(f"nano,cores={cores},semaphores={least}").semaphores == least
    with pytest.raises(ValueError, match=f"semaphores must be at least {least}, not {least - 1}"):
        get_config(f"nano,cores={cores},semaphores={least - 1}")


@pytest.mark.parametrize(
    ("rows", "banks", "divided", "parts"),
    [(16, 4, 16, 4), (16, 2, 16, 2), (12, 4, 8, 2), (8, 4, 8, 2), (7, 4, 4, 1)],
)
def test_rows_are_divided_as_far_as_there_are_enough(rows: int, banks: int, divided: int, parts: int) -> None:
    config = dataclasses.replace(BASE, rows=rows, weight_banks=banks)
    assert (config.divided_rows, config.most_row_parts) == (divided, parts)


def test_all_reasons_are_told_at_once() -> None:
    with pytest.raises(
        ValueError, match=r"^am_banks must be a power of two, not 3; semaphores must be at least 12"
    ):
        dataclasses.replace(BASE, am_banks=3, semaphores=2)


@pytest.mark.parametrize("columns", [2, 64])
def test_columns_stay_within_what_a_beat_of_the_bus_may_be(columns: int) -> None:
    (reason,) = (
        fault for fault in faults({**BASE.sizes, "rows": 1, "columns": columns}) if "columns must" in fault
    )
    assert reason in (
        "columns must be at least 4, not 2",
        "columns must be at most 32 (a beat of the bus), not 64",
    )


@pytest.mark.parametrize("name", CONFIGS)
def test_a_name_is_its_configuration(name: str) -> None:
    assert get_config(name) is not None
    assert get_config(name) == CONFIGS[name]


def test_settings_behind_a_name() -> None:
    config = get_config("base,am_bytes=512K,rows=8")
    assert config == dataclasses.replace(BASE, name="base,rows=8,am_bytes=524288", rows=8, am_bytes=1 << 19)
    assert get_config(config.name) == config
    assert config.identifier == "base_rows_8_am_bytes_524288"
    assert config.hash != BASE.hash


def test_a_setting_that_changes_nothing_keeps_name_and_hash() -> None:
    assert get_config("base,rows=16") == BASE
    assert variant(get_config("base,rows=8"), {"rows": 16}) == BASE


def test_a_variant_of_a_variant_keeps_its_settings() -> None:
    assert variant(get_config("small,rows=4"), {"columns": 16}).name == "small,rows=4,columns=16"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("huge", "no configuration is called 'huge'; there are nano, small, base, large"),
        ("base,width=8", "a configuration has no field 'width'; its fields are rows, columns, "),
        ("base,name=8", "a configuration has no field 'name'"),
        ("base,rows", "'rows' sets no size: write FIELD=SIZE, as in rows=8 or am_bytes=128K"),
        ("base,rows=-1", "'rows=-1' sets no size"),
        ("base,rows=20", "rows must be at most columns (16), not 20"),
        ("missing.toml", "missing.toml: No such file or directory"),
    ],
)
def test_errors_say_what_to_write(text: str, message: str) -> None:
    with pytest.raises(ValueError, match="^" + re.escape(message)):
        get_config(text)


def test_a_file_names_its_base_and_sizes(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text('base = "small"\nrows = 4\nwm_bytes = "32K"\n', encoding="utf-8")
    assert get_config(str(path)) == get_config("small,rows=4,wm_bytes=32K")
    assert get_config(f"{path},rows=8") == get_config("small,wm_bytes=32K")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("rows = ", "is no TOML file"),
        ("rows = [1]", "rows is no size: write rows = 8"),
        ('base = "tiny"', "no configuration is called 'tiny'"),
        ("lanes = 4", "a configuration has no field 'lanes'"),
    ],
)
def test_a_damaged_file_is_named(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=re.escape(str(path)) + ".*" + re.escape(message)):
        get_config(str(path))


def test_a_config_without_a_base_has_a_name_of_its_own() -> None:
    own = Config("own", rows=2, columns=8, am_bytes=4096, am_banks=2, wm_bytes=4096, line_pixels=16)
    assert variant(own, {"rows": 3}).name == "own,rows=3"


def test_programs_for_a_machine_outlive_a_new_size() -> None:
    """The hashes from before `event_counters`: programs that were compiled then must run."""
    assert [config.hash for config in CONFIGS.values()] == [0xDAC6291C, 0xF00C5EC2, 0xA7CE420C, 0x9A8B7C10]
    assert get_config("nano,event_counters=0").hash != CONFIGS["nano"].hash
