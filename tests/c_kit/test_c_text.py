"""What `tosaic compile -o model.c` writes: names, encodings, refusals."""

import re
import subprocess

import numpy as np
import pytest
from c_programs import CC, STRICT, run
from device_programs import tiny

from tosaic.compiler.build import compile_graph
from tosaic.compiler.ir import CurvedEncoding, DType, Encoding, EncodingCurve, GraphBuilder
from tosaic.driver.c_kit import RUNTIME_FILES, write_c_kit
from tosaic.driver.c_kit.names import c_constants, c_identifier, c_string
from tosaic.errors import InputError
from tosaic.hw.config_text import get_config

SUFFIXES = ("_TYPE", "_ELEMENTS")


def test_identifiers():
    assert [c_identifier(name) for name in ("a/b:0", "7up", "été", "__", "x")] == [
        "a_b_0",
        "_7up",
        "t",
        "unnamed",
        "x",
    ]


def test_constants_are_told_apart():
    assert c_constants("M", ["a", "A", "a_type", "a:type", "1"], SUFFIXES) == [
        "M_A",
        "M_A_2",
        "M_A_TYPE_2",
        "M_A_TYPE_3",
        "M_1",
    ]


def test_a_shorter_name_after_a_longer_one():
    assert c_constants("M", ["a_type", "a"], SUFFIXES) == ["M_A_TYPE", "M_A_2"]


def test_strings_survive(tmp_path):
    names = ['say "hi"\\', "what??/", "é1", "tab\t*/"]
    literals = ", ".join(map(c_string, names))
    (tmp_path / "names.c").write_text(
        "#include <stdio.h>\nint main(void)\n{\n"
        f"    const char *names[] = {{{literals}}};\n    int i;\n"
        f"    for (i = 0; i < {len(names)}; i++)\n        puts(names[i]);\n    return 0;\n}}\n"
    )
    run([*CC, *STRICT, "names.c", "-o", "names"], tmp_path)
    said = subprocess.run([tmp_path / "names"], capture_output=True, check=True).stdout.decode()
    assert said.splitlines() == names


def scalar_model():
    """Odd names, a scalar, and two outputs of other types."""
    build = GraphBuilder("odd")
    x = build.input('x: the "first" */', (), DType.INT32)
    y = build.input("7/y", (2, 3), DType.INT32)
    build.output(build.add("ADD", [y, y]))
    build.output(build.add("GREATER", [x, x]))
    return compile_graph(build.finish(), get_config("nano"))


def test_odd_names_and_types(tmp_path):
    write_c_kit(tmp_path / "odd.c", scalar_model(), {})
    header, source = (tmp_path / "odd.h").read_text(), (tmp_path / "odd.c").read_text()
    assert "#define ODD_INPUT_X_THE_FIRST 0\n" in header and "#define ODD_INPUT_7_Y_ELEMENTS 6\n" in header
    assert re.findall(r"#define ODD_OUTPUT_\w+_TYPE (\w+)\n", header) == ["int32_t", "uint8_t"]
    assert '{"x: the \\042first\\042 */", "int32_t", NULL, 0u, ' in source
    run([*CC, *STRICT, "-c", "odd.c", "-o", "odd.o"], tmp_path)


def test_encodings(tmp_path):
    encodings = {"image": Encoding(DType.INT8, 1 / 3, -128), "scores": Encoding(DType.INT16, 0.5)}
    write_c_kit(tmp_path / "net.c", tiny("nano"), encodings)
    source = (tmp_path / "net.c").read_text()
    assert re.search(
        r'\{"image", "int8_t", .*, 64u, 0.3333333333333333, -128, NULL, NULL, 0.0, 0.0\},', source
    )
    # An encoding of another type is that of another model.
    assert re.search(r'\{"scores", "int8_t", .*, 10u, 0.0, 0, NULL, NULL, 0.0, 0.0\},', source)
    curved = CurvedEncoding.of(Encoding(DType.INT8, 0.25, -128), EncodingCurve("log", 0.5))
    write_c_kit(tmp_path / "net.c", tiny("nano"), {"image": curved})
    source = (tmp_path / "net.c").read_text()
    assert re.search(r'\{"image", "int8_t", .*, 64u, 0.0, -128, NULL, "log", 0.25, 0.5\},', source)
    run([*CC, *STRICT, "-c", "net.c", "-o", "net.o"], tmp_path)


def test_the_image_is_the_programs(tmp_path):
    program = tiny("nano")
    write_c_kit(tmp_path / "net.c", program, {})
    body = (tmp_path / "net.c").read_text().partition("net_image = {{")[2].partition("}")[0]
    np.testing.assert_array_equal(
        np.array([int(number) for number in body.split(",")[:-1]], np.uint8),
        np.frombuffer(program.image, np.uint8),
    )


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("tosaic.h", "tosaic.h: the runtime has a file tosaic of its own: name the model's file otherwise"),
        ("tosaic_uio.c", "the runtime has a file tosaic_uio of its own: name the model's file otherwise"),
        ("2 nets.c", "'2 nets' is no name in C: name it .*/model_2_nets.c"),
    ],
)
def test_names_that_cannot_be(tmp_path, name, message):
    with pytest.raises(InputError, match=message + "$"):
        write_c_kit(tmp_path / name, tiny("nano"), {})
    assert list(tmp_path.iterdir()) == []


def test_everything_is_beside_the_model(tmp_path):
    write_c_kit(tmp_path / "net.c", tiny("nano"), {})
    assert {path.name for path in tmp_path.iterdir()} == {"net.c", "net.h", *RUNTIME_FILES}
