"""What drives a net and what it drives, as Yosys' JSON has it."""

from tosaic.boards.ecp5.wires import Wires, site_of

CELLS = {
    "block": {
        "attributes": {"BEL": "X120/Y82/EBR3"},
        "port_directions": {"A": "input", "Z": "output"},
        "connections": {"A": [2, "0", 7], "Z": [5]},
    },
    "lut": {
        "attributes": {},
        "port_directions": {"A": "input", "Z": "output"},
        "connections": {"A": [5], "Z": [2]},
    },
}


def test_drivers_and_ends():
    wires = Wires(CELLS)
    assert wires.driver == {5: ("block", "Z"), 2: ("lut", "Z")}
    assert dict(wires.ends) == {2: [("block", "A", 0)], 7: [("block", "A", 2)], 5: [("lut", "A", 0)]}


def test_the_next_net_is_beyond_all_others():
    assert Wires(CELLS).next_net() == 8
    assert Wires({}).next_net() == 1


def test_a_site_has_a_column_and_a_row():
    assert site_of(CELLS["block"]) == (120, 82)
    assert site_of(CELLS["lut"]) is None
