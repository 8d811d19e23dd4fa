"""What Verilator's `-Wall` says of the modules and is right as it is: each place by module and signal, with a reason.

A warning in another place, of another signal or of another rule is seen. `lint.vlt` of a folder is made of this table.
"""

from collections.abc import Iterable, Mapping

_FIELDS = "a record of which this module takes some fields"
_RESET = "nothing here has to begin anew: what is left in its registers is not read"
_ADDRESS = (
    "the address space is larger than the memory; accesses behind its end are refused before they come here"
)
_BUS = "a field of the bus that this side has no use for"

_UNUSED: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    # Reason, module, signals.
    (_RESET, "array_addresses_kernel", ("rst",)),
    (_RESET, "array_addresses_pixels", ("rst",)),
    (_RESET, "array_fetch_delay_line*", ("rst",)),
    (_RESET, "array_pe_array_row*_pe*", ("rst",)),
    (_RESET, "load_decoder_decoder_engine*_contexts", ("rst",)),
    (_RESET, "vector_lanes_lane_alu", ("rst",)),
    (_RESET, "vector_lanes_lane_operands_registers", ("rst",)),
    (_RESET, "vector_lanes_lane_parameters", ("rst",)),
    (_RESET, "vector_lanes_lane_table", ("rst",)),
    (_RESET, "vector_program", ("rst",)),
    (_RESET, "wm_words", ("rst",)),
    (_RESET, "wm_bank*", ("rst",)),
    (_ADDRESS, "am", ("load_write__address", "store_read__address", "vector_read__address")),
    (_ADDRESS, "am", ("vector_write__address",)),
    (_ADDRESS, "wm", ("read__address", "read__part_address", "write__address")),
    (_ADDRESS, "array_fetch_delay_line*", ("filled",)),
    (_BUS, "control_port", ("axi__arprot", "axi__awprot")),
    (_BUS, "control_port_axi_lite", ("axi__araddr", "axi__awaddr")),
    (_BUS, "core", ("axi__bid",)),
    (_BUS, "read_arbiter", ("load__rdata", "load__rlast", "load__rresp")),
    (_BUS, "sequencer", ("axi__rid",)),
    (_BUS, "sequencer_fetch", ("address",)),
    ("a register of 32 bits has fewer fields", "control_port", (
        "control_stored", "control_written", "irq_written", "mark_index_stored",
    )),
    (_FIELDS, "array_addresses", ("first_input", "jobs__payload_weights", "pixel")),
    (_FIELDS, "array_addresses_dense", ("first", "first_weights")),
    (_FIELDS, "array_addresses_depthwise", ("first", "first_idle_rows", "job")),
    (_FIELDS, "array_addresses_depthwise_outputs", ("first", "running")),
    (_FIELDS, "array_addresses_pixels", ("first_input_address", "window", "window_y_step_bytes")),
    (_FIELDS, "array_commands", (
        "jobs__payload_input_address", "jobs__payload_window_x_step", "jobs__payload_window_y_step_bytes",
    )),
    (_FIELDS, "array_fetch", ("format_?",)),
    (_FIELDS, "array_issue", ("slot", "slot_control", "slot_*_split")),
    (_FIELDS, "array_pe_array", ("control",)),
    (_FIELDS, "core", ("report",)),
    (_FIELDS, "load", ("bursts__payload_purpose", "output__payload_?")),
    (_FIELDS, "load_decoder_decoder", ("words0",)),
    (_FIELDS, "load_decoder_decoder_engine*", ("job", "result", "before_", "carries", "settings")),
    (_FIELDS, "load_decoder_decoder_engine*_adapt?", ("after_state?",)),
    (_FIELDS, "load_decoder_decoder_engine*_contexts", ("written", "*_state?")),
    (_FIELDS, "load_decoder_decoder_engine*_decision", ("long",)),
    (_FIELDS, "sequencer_*_queue", ("dispatched__payload_instruction",)),
    (_FIELDS, "store", ("bursts__payload", "bursts__payload_purpose")),
    (_FIELDS, "vector_beats", ("fields",)),
    (_FIELDS, "vector_issuer", ("fields",)),
    (_FIELDS, "vector_lanes", ("fetched_?",)),
    (_FIELDS, "vector_lanes_elements", ("format",)),
    (_FIELDS, "vector_lanes_first", ("format", "word")),
    (_FIELDS, "vector_lanes_lane_operands", ("control__s2",)),
    (_FIELDS, "vector_lanes_lane_parameters", ("write__byte",)),
    (_FIELDS, "vector_pipeline", ("arithmetic__data", "finish__data", "limits__data", "s1_issued")),
    (_FIELDS, "vector_program", ("bounds_low",)),
    (_FIELDS, "vector_store", ("bytes4_?", "write__address")),
    (_FIELDS, "vector_streams_offsets", ("word",)),
    ("all stages have the same record; the last one does not hand all of it on", "vector_pipeline", (
        "control__s7_out_zp",
    )),
)  # fmt: skip
"""Signals, or bits of them, that nothing reads."""
_UNUSED_WITH_WISHBONE: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    (_BUS, "tosaic_wishbone", ("read__arburst", "read__arsize")),
    ("Wishbone has addresses of words", "tosaic_wishbone_memory_bridge", ("read__araddr", "write__awaddr")),
)
"""The same by whole names, of what only that folder has."""

_OTHER = (
    # Rule, module, message, reason.
    *(
        ("VARHIDDEN", module, f"*: '{name}'", "the instance has the name of what it hands out; paths tell them apart")
        for module, name in (
            ("array_addresses_kernel", "kernel"),
            ("control_port_marks", "marks"),
            ("load_decoder_decoder_engine*_window", "window"),
            ("vector_lanes_elements", "elements"),
            ("wm_words", "words"),
        )
    ),
    ("UNSIGNED", "load_decoder_decoder", "Comparison is constant*", "compares with the number of engines, here one"),
    ("WIDTHTRUNC", "load_unpacker_lane*", "Operator ASSIGNW*SHIFTR*", "takes the lowest bits of what it shifts down"),
)  # fmt: skip


def lint_configuration(top: str, results: Mapping[str, Iterable[str]]) -> str:
    """For `verilator --lint-only -Wall lint.vlt -f TOP.f`. `top`: the top module, with whose name all others begin.
    `results`: of each module, its signals without a name in Python."""
    lines = ["`verilator_config"]
    of_all = tuple((why, f"{top}_{module}", names) for why, module, names in _UNUSED)
    for why, module, names in of_all + (_UNUSED_WITH_WISHBONE if top == "tosaic_wishbone" else ()):
        lines.append(f"// {module}: {why}.")
        lines += [_line("UNUSEDSIGNAL", module, f"*not used: '{name}'*") for name in names]
    for rule, module, message, why in _OTHER:
        lines += [f"// {top}_{module}: {why}.", _line(rule, f"{top}_{module}", message)]
    lines += [
        "// Results without a name in the source. A sum or product is as wide as it may become, and what takes it has",
        "// room for the lower bits; a record goes through whole.",
    ]
    lines += [
        _line("UNUSEDSIGNAL", module, f"*not used: '{name}'*")
        for module in results
        for name in results[module]
    ]
    return "\n".join([*lines, ""])


def _line(rule: str, module: str, message: str) -> str:
    return f'lint_off -rule {rule} -file "*/{module}.v" -match "{message}"'
