"""Which test covers which line of the checklist of the NNR text; lines without a test say why."""

import csv
import os
import pathlib
import re

import numpy as np
import pytest

from tosaic.nnr import CodedTensor, NnrError, decode_units, encode_tensor, read_units, write_units
from tosaic.nnr.units import DataUnit, ModelParameterSet, StartUnit

HERE = pathlib.Path(__file__).parent
SHARED = pathlib.Path(os.environ.get("TOSAIC_SHARED", HERE.parents[2] / "shared"))

# Lines of the checklist from 1 (after its heading): clause, and the test, or "-" and the reason.
TABLE = """
1 (all) - no syntax: a note on numbering
2 4 test_a_float_that_needs_rounding_is_rounded_once_and_reported
3 4 test_step_size_is_mul_times_a_power_of_two
4 4 test_dependent_round_trip
5 5 test_nnef_folder_through_a_bitstream
6 5 test_a_tensor_that_cannot_be_decoded_does_not_stop_the_others
7 5 test_a_start_unit_forgets_everything
8 5 test_outputs_come_before_later_damage_is_seen
9 5.1 test_damaged_units
10 5.2 test_a_tensor_by_every_method
11 5.2.1 test_int32_round_trip
12 5.2.2 test_bytes_are_those_of_the_reference_codec
13 5.2.2 test_step_size_is_mul_times_a_power_of_two
14 5.2.3 test_codebook
15 5.2.4 test_raw_keeps_every_bit
16 5.2.x test_partial_data
17 6.2 test_bytes_of_the_smallest_units
18 6.3 test_bytes_of_the_smallest_units
19 6.3 test_shapes_scalar_and_empty
20 6.3 test_bytes_are_those_of_the_reference_codec
21 6.3 test_quantization_parameter_is_added_to_the_coded_qp
22 6.3 test_round_trip
23 6.3 test_round_trip
24 6.3 test_damaged_units
25 6.3 - never used by a syntax table
26 6.4 test_what_readers_shall_accept
27 7.1.1 test_bytes_of_the_smallest_units
28 7.1.2 test_aggregates
29 7.3.1 test_damaged_units
30 7.3.2 test_damaged_units
31 7.3.3 test_long_size_from_32768_bytes_on_and_accepted_below
32 7.3.4 test_bytes_of_the_smallest_units
33 7.3.4.1 test_bytes_of_the_smallest_units
34 7.3.4.2 test_bytes_of_the_smallest_units
35 7.3.4.3 test_round_trip
36 7.3.4.4 test_bytes_of_the_smallest_units
37 7.3.4.5 test_round_trip
38 7.3.4.6 test_bytes_of_the_smallest_units
39 7.3.4.6 test_round_trip
40 7.3.4.6 test_round_trip
41 7.3.4.6 test_damaged_units
42 7.3.4.6 test_round_trip
43 7.3.4.6 test_bytes_of_the_smallest_units
44 7.3.4.6 test_round_trip
45 7.3.4.6 test_round_trip
46 7.3.4.7 test_aggregates
47 7.3.4.7 test_aggregate_errors
48 7.3.4.7 test_aggregates
49 7.3.5 test_round_trip
50 7.3.5.1 test_damaged_units
51 7.3.5.2 test_bytes_of_the_smallest_units
52 7.3.5.2 test_round_trip
53 7.3.5.2 test_round_trip
54 7.3.5.2 test_round_trip
55 7.3.5.2 test_round_trip
56 7.3.5.3 test_round_trip
57 7.3.5.3 test_round_trip
58 7.3.5.3 test_round_trip
59 7.3.5.3 test_round_trip
60 7.3.5.4 test_damaged_units
61 7.3.5.5 test_what_readers_shall_accept
62 7.3.5.6 test_raw_keeps_every_bit
63 7.3.5.7 test_aggregate_errors
64 7.3.6 test_damaged_units
65 7.4.2.2 test_damaged_units
66 7.4.2.3 test_reserved_units_are_skipped_with_a_warning
67 7.4.2.3 test_partial_data_errors
68 7.4.2.3 test_independently_decodable_flag_is_reported_only
69 7.4.2.3.4 test_reserved_units_are_skipped_with_a_warning
70 7.4.2.3.4 test_what_readers_shall_accept
71 7.4.2.3.5 test_round_trip
72 7.4.2.3.6 test_a_tensor_that_cannot_be_decoded_does_not_stop_the_others
73 7.4.2.3.7 test_aggregates
74 7.4.2.4.2 test_parameter_sets_govern_the_units_after_them
75 7.4.2.4.2 test_round_trip
76 7.4.2.4.2 test_a_tensor_that_cannot_be_decoded_does_not_stop_the_others
77 7.4.2.4.3 test_round_trip
78 8.1 - training with a compressibility loss is not part of a codec; thresholds: test_sparsify
79 8.2 - metadata without syntax, not in the bitstream (E-49)
80 9.1 test_reshaping_modes
81 9.2 - metadata without syntax, not in the bitstream (E-49)
82 10.1 test_uniform_is_the_nearest_multiple
83 10.1 test_codebook_error_falls_with_its_size
84 10.1.3 test_the_trellis_finds_the_best_path
85 10.2 test_bytes_are_those_of_the_reference_codec
86 11.1.1 test_unary_length_0_goes_straight_to_the_prefix
87 11.1.2.1 test_termination_is_checked_bit_by_bit
88 11.1.2.2 test_quantization_parameter_is_added_to_the_coded_qp
89 11.1.2.3 test_bytes_are_those_of_the_reference_codec
90 11.1.2.4 test_dependent_round_trip
91 11.1.2.5 test_31_ones
92 11.2.2.2 test_bytes_are_those_of_the_reference_codec
93 11.2.2.3 test_first_offset
94 11.2.3 test_bytes_are_those_of_the_reference_codec
95 11.2.4.2 test_bytes_are_those_of_the_reference_codec
96 11.2.4.3.2 test_bytes_are_those_of_the_reference_codec
97 11.2.4.3.2.2 test_the_tables_are_the_texts
98 11.2.4.3.3 test_bytes_are_those_of_the_reference_codec
99 11.2.4.3.4 test_bytes_are_those_of_the_reference_codec
100 11.2.4.3.5 test_every_truncation_and_every_extra_byte_is_an_error
101 11.2.4.3 - a stale note, ignored (E-23)
102 12 - an empty clause
103 A.3 test_nnef_folder_through_a_bitstream
104 A.3 test_nnef_folder_through_a_bitstream
105 A.3 test_nnef_folder_through_a_bitstream
106 A.4 test_bitstreams_in_dat_files
107 A.4 test_bitstreams_in_dat_files
108 B.3 test_onnx_model_through_a_bitstream
109 B.3 - quantization annotations stay in the ModelProto of NNR_TPL; NNR_QNT itself: test_round_trip
110 B.4 test_units_in_onnx_tensors
111 B.4 test_units_in_onnx_tensors
112 B.4 test_external_units
"""
ROWS = [line.split(maxsplit=2) for line in TABLE.strip().splitlines()]
CHECKLISTS = [path for path in [SHARED / "specs" / "nnr-wd2-checklist.csv"] if path.exists()]


def test_every_named_test_exists() -> None:
    sources = "".join(path.read_text() for path in HERE.glob("test_nnr_*.py"))
    existing = set(re.findall(r"^def (test_\w+)", sources, re.MULTILINE))
    named = {test for _, _, test in ROWS if not test.startswith("- ")}
    assert named <= existing


def test_every_line_has_a_row() -> None:
    assert [int(number) for number, _, _ in ROWS] == list(range(1, 113))
    without = [int(number) for number, _, test in ROWS if test.startswith("- ")]
    assert without == [1, 25, 78, 79, 81, 101, 102, 109]


@pytest.mark.parametrize("checklist", CHECKLISTS, ids=str)
def test_the_clauses_are_the_checklists(checklist: pathlib.Path) -> None:
    with open(checklist, newline="") as file:
        clauses = [row[0] for row in csv.reader(file)][1:]
    assert [clause for _, clause, _ in ROWS] == clauses


def test_outputs_come_before_later_damage_is_seen() -> None:
    """Clause 5: each structure is delivered as soon as it is complete."""
    tensor = DataUnit(0, ("a",), encode_tensor(np.arange(4)), (4,))
    data = write_units([StartUnit(), ModelParameterSet(), tensor]) + b"\x00\x01damaged"
    outputs = decode_units(read_units(data))
    assert isinstance(next(outputs), ModelParameterSet)
    found = next(outputs)
    assert isinstance(found, CodedTensor)
    assert found.decode().tolist() == [0, 1, 2, 3]
    with pytest.raises(NnrError, match="nnr_unit_size 1"):
        next(outputs)
