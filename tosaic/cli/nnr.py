"""`tosaic nnr`: encode a model as an NNR bitstream, decode one, list what one holds."""

import pathlib
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

import numpy as np
import typer

from tosaic.cli import options
from tosaic.cli.files import check_file, writing
from tosaic.compiler.ir.errors import InputError
from tosaic.nnr import NnrError, NnrWarning, read_bitstream
from tosaic.nnr.encoder import Settings, encodable, encode_model
from tosaic.nnr.payload import PayloadType
from tosaic.nnr.units import SkippedUnit, StorageFormat

app = typer.Typer(help="NNR bitstreams (ISO/IEC 15938-17): compressed weights.", no_args_is_help=True)


@contextmanager
def _warnings_shown() -> Iterator[None]:
    """The codec's warnings as lines on stderr, each once."""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always", NnrWarning)
        yield
    for text in dict.fromkeys(str(warning.message) for warning in found):
        typer.echo(f"tosaic: warning: {text}", err=True)


@app.command("encode")
def encode(
    model: Annotated[
        pathlib.Path, typer.Argument(help="A .onnx or .tosa file, an NNEF folder, or a .npz of tensors.")
    ],
    output: Annotated[
        pathlib.Path, typer.Option("-o", "--output", metavar="FILE.nnr", help="The bitstream.")
    ],
    method: Annotated[
        str, typer.Option(help="Of float tensors: lossless, uniform, dependent or codebook.")
    ] = "lossless",
    cabac_unary_length: Annotated[
        int, typer.Option(min=0, max=255, help="Flags before the remainder; 1 suits int8 weights.")
    ] = 10,
    step: Annotated[float, typer.Option(help="Step size, as a fraction of a tensor's largest value.")] = 1
    / 127,
    codebook_size: Annotated[int, typer.Option(min=1, max=65535, help="Entries of a codebook.")] = 16,
    verbose: options.Verbose = False,
) -> None:
    """Encode a model. Integer tensors are kept exactly by every method."""
    check_file(output)
    settings = Settings(method, cabac_unary_length, step, codebook_size)
    data = _encoded(model, settings)
    with writing(output):
        output.write_bytes(data)
    tensors = read_bitstream(data).tensors
    print(f"{output}: {len(tensors)} tensors, {len(data):,} bytes")


def _encoded(model: pathlib.Path, settings: Settings) -> bytes:
    if model.is_dir():
        from tosaic.nnr import nnef_carriage

        return nnef_carriage.encode_folder(model, settings)
    if model.suffix == ".onnx":
        from tosaic.nnr import onnx_carriage

        return onnx_carriage.encode_onnx(onnx_carriage.load(model), settings)
    return encode_model(_tensors(model), settings)


def _tensors(model: pathlib.Path) -> dict[str, np.ndarray]:
    """Tensors of a .npz, or the constants of a .tosa that a data unit holds; their network is not carried."""
    if model.suffix == ".npz":
        try:
            with np.load(model, allow_pickle=False) as archive:
                return dict(archive)
        except (OSError, ValueError) as error:
            raise InputError(f"cannot read {model}: {error}") from None
    if model.suffix != ".tosa":
        raise InputError(f"{model}: not a .onnx, .tosa or .npz file, nor an NNEF folder")
    from tosaic.compiler.ir.tosa_file import read_tosa

    graph = read_tosa(model)
    constants = {name: tensor.data for name, tensor in graph.tensors.items() if tensor.data is not None}
    return {name: values for name, values in constants.items() if encodable(values)}


@app.command("decode")
def decode(
    bitstream: Annotated[pathlib.Path, typer.Argument(help="An NNR bitstream.")],
    output: Annotated[
        pathlib.Path,
        typer.Option(
            "-o", "--output", help="FILE.onnx or an NNEF folder, as the topology is; FILE.npz for any."
        ),
    ],
    verbose: options.Verbose = False,
) -> None:
    """Decode a bitstream to the model it carries, or to its tensors."""
    data = _read(bitstream)
    with _warnings_shown(), writing(output):
        found = read_bitstream(data)
        if output.suffix == ".npz":
            tensors = {name: tensor.decode() for tensor in found.tensors for name in tensor.unit.ref_ids}
            with open(output, "wb") as file:
                np.savez(file, **tensors)  # type: ignore[arg-type]
        elif output.suffix == ".onnx":
            from tosaic.nnr import onnx_carriage

            output.write_bytes(onnx_carriage.decode_onnx(data).SerializeToString())
        elif found.topology and found.topology.storage_format is StorageFormat.NNEF:
            from tosaic.nnr import nnef_carriage

            nnef_carriage.decode_to_folder(data, output)
        else:
            raise InputError(
                f"{bitstream} carries no NNEF topology: name a .npz file, or .onnx if it carries ONNX"
            )
    print(f"{output}: {len(found.tensors)} tensors")


@app.command("inspect")
def inspect(
    bitstream: Annotated[pathlib.Path, typer.Argument(help="An NNR bitstream.")],
    verbose: options.Verbose = False,
) -> None:
    """List units and tensors: sizes, bits per weight, ratio to the decoded size. Exit 1 if a tensor is damaged."""
    data = _read(bitstream)
    with _warnings_shown():
        found = read_bitstream(data)
        print(f"{'byte':>9} {'size':>9}  unit")
        for placed in found.units:
            unit = placed.unit
            name = (
                f"type {unit.unit_type}, skipped"
                if isinstance(unit, SkippedUnit)
                else f"NNR_{unit.type.name}"
            )
            parts = f", {placed.parts} parts" if placed.parts > 1 else ""
            print(f"{placed.offset_bytes:>9,} {placed.size_bytes:>9,}  {'  ' * placed.depth}{name}{parts}")
        print(f"\n{'payload':>9} {'type':12} {'bits/weight':>11} {'ratio':>7}  tensor")
        damaged = []
        for tensor in found.tensors:
            size = len(tensor.unit.payload)
            known = tensor.unit.payload_type <= PayloadType.RAW_FLOAT32
            kind_name = PayloadType(tensor.unit.payload_type).name.lower() if known else "reserved"
            try:
                values = tensor.decode()
            except NnrError as error:
                damaged.append(str(error))
                print(f"{size:>9,} {kind_name:12} {'-':>11} {'-':>7}  {tensor.name}: cannot be decoded")
                continue
            bits = f"{8 * size / values.size:.3f}" if values.size else "-"
            ratio = f"{values.nbytes / size:.2f}" if size else "-"
            print(f"{size:>9,} {kind_name:12} {bits:>11} {ratio:>7}  {tensor.name} {list(values.shape)}")
    if damaged:
        raise NnrError(f"{bitstream}: {len(damaged)} of {len(found.tensors)} tensors: {damaged[0]}")


def _read(path: pathlib.Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from None
