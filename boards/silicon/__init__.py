"""Figures of a chip before layout: a netlist of standard cells by Yosys, its area, its clock, its energy.

In come a configuration, a Liberty file, and the toggles of a run that `sim.rtl.toggles` counts; out come numbers.
Imports hw and boards.tools, nothing else of ours."""
