"""Where each component of hw/vector is tested: a file of this folder, or a sentence why it has no test of its own."""

_WIRES = "It only wires components that have tests; test_vector_unit.py compares what they do together."

COMPONENTS = {
    "Alu": "test_vector_alu.py",
    "Elements": "test_vector_storage.py",
    "Issuer": "test_vector_control.py",
    "Lane": _WIRES,
    "Lanes": _WIRES,
    "LoopCounter": "test_vector_control.py",
    "NextParams": "test_vector_control.py",
    "Offsets": "test_vector_storage.py",
    "Operands": "It chooses one of its inputs; test_vector_unit.py reads every source, element type and splat.",
    "ParameterFetch": "test_vector_control.py",
    "Parameters": "test_vector_storage.py",
    "Pipeline": "test_vector_alu.py",
    "Program": "test_vector_storage.py",
    "RegisterFile": "test_vector_storage.py",
    "Store": "test_vector_control.py",
    "StreamAddress": "test_vector_stream_address.py",
    "Streams": "test_vector_streams.py",
    "Table": "test_vector_storage.py",
    "VectorCommands": "All its ports are the unit's or start something; test_vector_commands.py tests it in the unit.",
    "VectorUnit": "test_vector_commands.py",
}
