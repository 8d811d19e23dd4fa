"""Configurations in words: `base`, `base,rows=8,am_bytes=128K`, or the path of a TOML file.

The name of a configuration that is made here says what it is, so that whoever gets the name makes the same machine:
a simulator's cache, a worker on another computer, a report.
"""

import dataclasses
from pathlib import Path
from typing import Any

from .config import CONFIGS, Config
from .spelling import meant

BASE_FIELD = "base"
"""The key of a TOML file that names the configuration whose sizes hold where the file gives none."""
DEFAULT_BASE = "base"
UNITS = {"K": 1 << 10, "M": 1 << 20}
LEAN = "drain_vectors=512,lane_columns=2,vector_bits=34,queue_commands=16,cabac_engines=0,unpackers=0"
"""Sizes of decision 0028: half the lanes, of 34 bits, and no decoders; in the order of a configuration's name."""
OF_BOARDS = (f"small,{LEAN}", f"base,rows=10,am_bytes={128 << 10},{LEAN}")
"""Configurations without a name that boards have."""
FIELDS = tuple(field.name for field in dataclasses.fields(Config) if field.name != "name")


def get_config(text: str) -> Config:
    """The configuration that `text` names: NAME or the path of a .toml file, and FIELD=SIZE behind commas.

    A size is an integer, with K or M behind it for 1,024 or 1,048,576. A TOML file has FIELD = SIZE lines and may have
    base = "NAME". ValueError names what is unknown, or why there is no such machine.
    """
    name, *settings = text.split(",")
    base = _from_file(Path(name)) if name.endswith(".toml") else _named(name)
    return variant(base, dict(_setting(setting) for setting in settings))


def config_of_hash(found: int) -> Config | None:
    """The configuration whose hash a machine tells: one with a name, or one of a board; None for another one."""
    known = (*CONFIGS.values(), *map(get_config, OF_BOARDS))
    return next((config for config in known if config.hash == found), None)


def variant(base: Config, sizes: dict[str, int]) -> Config:
    """`base` with other sizes, named by them. ValueError for a field that does not exist, or an illegal machine."""
    for field in sizes:
        if field not in FIELDS:
            raise ValueError(
                f"a configuration has no field {field!r}; {meant(field, FIELDS)}its fields are {', '.join(FIELDS)}"
            )
    origin, *earlier = base.name.split(",")
    all_sizes = {**dict(_setting(setting) for setting in earlier), **sizes}
    known = CONFIGS[origin].sizes if origin in CONFIGS else {}
    changed = [field for field in FIELDS if field in all_sizes and all_sizes[field] != known.get(field)]
    name = ",".join([origin, *(f"{field}={all_sizes[field]}" for field in changed)])
    return dataclasses.replace(base, name=name, **sizes)


def _named(name: str) -> Config:
    try:
        return CONFIGS[name]
    except KeyError:
        raise ValueError(
            f"no configuration is called {name!r}; {meant(name, CONFIGS)}there are {', '.join(CONFIGS)}, each of which "
            "takes other sizes (base,rows=8), and TOML files"
        ) from None


def _setting(text: str) -> tuple[str, int]:
    field, _, size = text.partition("=")
    number, unit = (size[:-1], UNITS[size[-1]]) if size[-1:] in UNITS else (size, 1)
    if not number.isdecimal():
        raise ValueError(f"{text!r} sets no size: write FIELD=SIZE, as in rows=8 or am_bytes=128K")
    return field.strip(), int(number) * unit


def _from_file(path: Path) -> Config:
    import tomllib

    try:
        read: dict[str, Any] = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ValueError(f"{path}: {error.strerror or error}") from None
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is no TOML file: {error}") from None
    base = read.pop(BASE_FIELD, DEFAULT_BASE)
    for field, size in read.items():
        if not isinstance(size, int | str):
            raise ValueError(f'{path}: {field} is no size: write {field} = 8, or {field} = "128K"')
    try:
        if not isinstance(base, str):
            raise ValueError(f"{BASE_FIELD} is no name of a configuration; there are {', '.join(CONFIGS)}")
        return variant(_named(base), dict(_setting(f"{field}={size}") for field, size in read.items()))
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None
