"""Where each component of hw/array is tested: a file of this folder, or a sentence why it has no test of its own."""

COMPONENTS = {
    "Accumulate": "test_accumulate.py",
    "AddressGenerator": "test_address_generator.py",
    "ArrayCommands": "test_array_stages.py",
    "ArrayUnit": "test_array_unit.py",
    "DelayLine": "test_pe_array.py",
    "DeliveryCounter": "test_array_counters.py",
    "DenseCounter": "All its outputs are in the slots that test_address_generator.py checks one by one.",
    "DepthwiseCounter": "All its outputs are in the slots that test_address_generator.py checks one by one.",
    "Drain": "test_pe_array.py",
    "KernelCounter": "test_array_counters.py",
    "OperandFetch": "test_pe_array.py",
    "OperandSelect": "test_pe_array.py",
    "OutputCounter": "test_array_counters.py",
    "PeArray": "test_pe_array.py",
    "PeRow": "test_pe_array.py",
    "PixelCounter": "test_array_counters.py",
    "ProcessingElement": "test_pe_array.py",
    "SlotIssue": "test_array_stages.py",
}
