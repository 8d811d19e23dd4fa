"""What rtl_facts.py says of the states of `nano` is so: a name of another wire, or a rule that a change of the RTL has
broken, proves nothing of any mutant, and says nothing about that."""

import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "bench"))

from rtl_facts import KNOWN  # noqa: E402 (the path comes first)
from rtl_logic import wire_of  # noqa: E402 (the path comes first)
from rtl_machine import Machine, flat_module, invariant  # noqa: E402 (the path comes first)
from rtl_netlist import netlist  # noqa: E402 (the path comes first)
from rtl_reachable import rules  # noqa: E402 (the path comes first)

from tosaic.hw.config import CONFIGS  # noqa: E402 (the path comes first)

pytestmark = [pytest.mark.nightly, pytest.mark.xdist_group("yosys")]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("nano")
    (made / "netlist.il").write_bytes(netlist(CONFIGS["nano"], made).read_bytes())
    return made


@pytest.fixture(scope="module")
def module(folder):
    return flat_module(folder)


@pytest.mark.parametrize(
    "known", [known for known in KNOWN if known.facts], ids=lambda known: known.modules[0]
)
def test_the_facts_hold(known, module, folder):
    assert invariant(Machine(module), known.facts, folder, words=known.words)


def test_a_module_is_found_without_its_number():
    wires = {"accelerator.a$12.b.x": [1], "accelerator.c.x": [2], "accelerator.c$3.x": [3]}
    assert wire_of(wires, "a.b.x") == [1]
    assert wire_of(wires, "c.x") == [2]
    with pytest.raises(KeyError, match="c.y"):
        wire_of(wires, "c.y")


def test_registers_that_may_differ_are_there(module):
    state = Machine(module).now
    for known in KNOWN:
        for loose in known.loose:
            assert len(state.bits(loose.wire)) > max(loose.bits), loose.wire
            assert loose.fixed(state)


def test_the_rules_for_the_solver_hold(module, folder):
    """Of four queues, VECTOR's parameters and the program's fetch."""
    machine = Machine(module)
    found = rules(machine)
    assert len(found) == 6
    assert all(invariant(Machine(module), (rule,), folder) for rule in found)


def test_the_reset_reaches_the_core_and_the_units_by_a_register_each(module):
    assert len(Machine(module).later_resets()) == 2
