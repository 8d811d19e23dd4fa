"""A Liberty file of four cells with numbers that a test can add up."""


def table(name: str, template: str, row: str) -> str:
    """A table of two rows that are the same: the slew changes nothing."""
    return f"""{name} ("{template}") {{
        index_1 ("0.0, 1.0"); index_2 ("0.0, 1.0"); values("{row}", "{row}");
      }}"""


def arc(related: str, sense: str, rise: str, fall: str) -> str:
    """Delays of an output: 0 to 1 ns per pF behind `rise` and `fall` ns, the slew a tenth of that."""
    return f"""
    timing () {{
      related_pin : "{related}"; {sense}
      {table("cell_rise", "line", f"{rise}, {float(rise) + 1}")}
      {table("cell_fall", "line", f"{fall}, {float(fall) + 1}")}
      {table("rise_transition", "line", "0.1, 0.2")}
      {table("fall_transition", "line", "0.1, 0.2")}
    }}"""


def energy(rise: str, fall: str) -> str:
    return f"""
    internal_power () {{
      rise_power ("scalar") {{ values("{rise}"); }}
      fall_power ("scalar") {{ values("{fall}"); }}
    }}"""


def gate(name: str, area: float, function: str, inputs: str, sense: str, delays: tuple[str, str]) -> str:
    pins = "".join(f'\n  pin ("{pin}") {{ direction : "input"; capacitance : 0.002; }}' for pin in inputs)
    arcs = "".join(arc(pin, f'timing_sense : "{sense}";', *delays) for pin in inputs)
    return f"""
cell ("{name}") {{ /* a
  comment */
  area : {area}; cell_leakage_power : 2.0;{pins}
  pin ("Y") {{ direction : "output"; function : "{function}"; max_capacitance : 0.5;{arcs}{energy("0.01", "0.03")}
  }}
}}"""


LIBERTY = (
    """library ("few_cells") {
  time_unit : "1ns"; capacitive_load_unit (1.0, "pf"); leakage_power_unit : "1nW";
  default_operating_conditions : "room";
  operating_conditions ("room") { voltage : 2.0; }
  lu_table_template ("line") {
    variable_1 : "input_net_transition"; variable_2 : "total_output_net_capacitance";
    index_1 ("0.0, 1.0"); index_2 ("0.0, 1.0");
  }
  lu_table_template ("grid") {
    variable_1 : "related_pin_transition"; variable_2 : "constrained_pin_transition";
    index_1 ("0.0, 1.0"); index_2 ("0.0, 1.0");
  }
"""
    + gate("inv", 2.0, "!A", "A", "negative_unate", ("0.20", "0.10"))
    + gate("buf", 4.0, "A", "A", "positive_unate", ("0.30", "0.30"))
    + gate("nand", 3.0, "!(A & B)", "AB", "negative_unate", ("0.40", "0.20"))
    + f"""
cell ("dff") {{
  area : 20; cell_leakage_power : 5.0;
  ff ("IQ", "IQN") {{ clocked_on : "CK"; next_state : "D"; }}
  pin ("CK") {{ direction : "input"; clock : "true"; capacitance : 0.004;{energy("0.02", "0.04")} }}
  pin ("D") {{
    direction : "input"; capacitance : 0.002;
    timing () {{
      related_pin : "CK"; timing_type : "setup_rising";
      {table("rise_constraint", "grid", "0.1, 0.1")}
      {table("fall_constraint", "grid", "0.2, 0.2")}
    }}
  }}
  pin ("Q") {{
    direction : "output"; function : "IQ"; max_capacitance : 0.5;
    {arc("CK", 'timing_type : "rising_edge";', "0.50", "0.60")}{energy("0.05", "0.05")}
  }}
}}
cell ("shifter") {{ area : 1; is_level_shifter : "true"; pin ("A") {{ direction : "input"; capacitance : 0.001; }}
  pin ("Y") {{ direction : "output"; function : "A";{arc("A", 'timing_sense : "positive_unate";', "0.01", "0.01")} }} }}
}}
"""
)
