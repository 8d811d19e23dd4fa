"""`tosaic nnr`: encode a model as an NNR bitstream, decode one, list what one holds."""

import pathlib
import tarfile
import warnings
from collections.abc import Sequence
from typing import Annotated

import numpy as np
import typer

from tosaic.cli import options
from tosaic.cli.files import check_file, writing, writing_whole
from tosaic.cli.nnr_listing import print_tensors, print_units
from tosaic.compiler.importers.nnr_models import stated_shapes
from tosaic.errors import Error, InputError
from tosaic.nnr import Bitstream, CodedTensor, NnrError, read_bitstream
from tosaic.nnr.encoder import METHODS, Settings, encodable, encode_model
from tosaic.nnr.units import StorageFormat

app = typer.Typer(
    help="NNR bitstreams (ISO/IEC 15938-17): compressed weights.",
    add_completion=False,
    rich_markup_mode=None,
)
# What `decode` writes that is no folder.
FILE_SUFFIXES = (".npz", ".onnx")
Model = Annotated[
    pathlib.Path,
    typer.Argument(help="A .onnx or .tosa file, an NNEF folder or archive, or a .npz of tensors."),
]


@app.command("encode")
def encode(
    model: Model,
    *,
    output: Annotated[
        pathlib.Path,
        typer.Option(
            "-o",
            "--output",
            metavar="FILE.nnr",
            help="The bitstream; or FILE.onnx or a folder: the ONNX or NNEF model with its tensors as NNR.",
        ),
    ],
    method: Annotated[str, typer.Option(help=f"Of float tensors: {', '.join(METHODS)}.")] = "lossless",
    cabac_unary_length: Annotated[
        int, typer.Option(min=0, max=255, help="Flags before the remainder; 1 suits int8 weights.")
    ] = 10,
    step: Annotated[
        float,
        typer.Option(help="Step size of uniform and dependent, as a fraction of a tensor's largest value."),
    ] = 1 / 127,
    codebook_size: Annotated[int, typer.Option(min=1, max=65535, help="Entries of a codebook.")] = 16,
    rate_weight: Annotated[
        float, typer.Option(help="Of dependent: squared steps of error that one bit is worth.")
    ] = 0.0,
    sparsity: Annotated[
        float, typer.Option(help="Make this share of each weight tensor zero, smallest first.")
    ] = 0.0,
    low_rank: Annotated[
        float,
        typer.Option(
            help="ONNX: split products and convolutions in two of lower rank that keep this share of the weights' "
            "energy, where that needs fewer weights."
        ),
    ] = 0.0,
    integer_step: Annotated[
        float,
        typer.Option(
            help="Quantize integer weights too, with this step size (1 to 128); 0 keeps them exactly."
        ),
    ] = 0.0,
    verbose: options.Verbose = False,
) -> None:
    """Encode a model. Integer tensors are kept exactly by every method, unless --integer-step is given."""
    settings = Settings(method, cabac_unary_length, step, codebook_size, rate_weight, sparsity, integer_step)
    if low_rank and model.suffix != ".onnx":
        raise InputError("--low-rank changes the network's structure, which is done to .onnx models only")
    if model.suffix == ".onnx":
        _encode_onnx(model, output, settings, low_rank)
    elif _is_nnef(model):
        _encode_nnef(model, output, settings)
    else:
        _write(output, encode_model(_tensors(model), settings))
    if model.suffix == ".tosa":
        warnings.warn(
            f"NNR has no carriage for TOSA networks: {output} holds the tensors only; encode the .onnx model or the "
            "NNEF folder for a bitstream that runs",
            stacklevel=1,
        )


def _encode_onnx(model: pathlib.Path, output: pathlib.Path, settings: Settings, low_rank: float) -> None:
    from tosaic.nnr import onnx_carriage
    from tosaic.nnr.onnx_low_rank import factor_layers

    loaded = onnx_carriage.load(model)
    if low_rank:
        loaded, factored = factor_layers(loaded, low_rank)
        print(f"{len(factored)} layers factored{': ' if factored else ''}{', '.join(factored)}")
    if output.suffix == ".onnx":
        check_file(output)
        data = onnx_carriage.carry(loaded, settings).SerializeToString()
        with writing_whole(output) as scratch:
            scratch.write_bytes(data)
        print(f"{output}: an ONNX model with NNR tensors, {len(data):,} bytes")
    else:
        _write(output, onnx_carriage.encode_onnx(loaded, settings))


def _is_nnef(model: pathlib.Path) -> bool:
    if model.suffix in (".npz", ".tosa", ".nnr"):
        return False
    try:
        return model.is_dir() or model.name == "graph.nnef" or tarfile.is_tarfile(model)
    except OSError as error:
        raise InputError(f"cannot read {model}: {error.strerror}") from None


def _encode_nnef(model: pathlib.Path, output: pathlib.Path, settings: Settings) -> None:
    from tosaic.compiler.importers.nnef import nnr_carriage

    if output.suffix and not output.is_dir():
        _write(output, nnr_carriage.encode_nnef(model, settings))
        return
    with writing(output):
        nnr_carriage.write_folder(output, *nnr_carriage.read_model(model), settings)
    print(f"{output}: an NNEF model with NNR tensors")


def _write(output: pathlib.Path, data: bytes) -> None:
    check_file(output)
    with writing_whole(output) as scratch:
        scratch.write_bytes(data)
    print(f"{output}: {len(read_bitstream(data).tensors)} tensors, {len(data):,} bytes")


def _tensors(model: pathlib.Path) -> dict[str, np.ndarray]:
    """Tensors of a .npz, or the constants of a .tosa that a data unit holds; their network is not carried."""
    if model.suffix == ".npz":
        try:
            with np.load(model, allow_pickle=False) as archive:
                # A .npz file may have the other byte order.
                return {name: array.astype(array.dtype.newbyteorder("=")) for name, array in archive.items()}
        except (OSError, ValueError) as error:
            raise InputError(f"cannot read {model}: {error}") from None
    if model.suffix != ".tosa":
        raise InputError(f"{model}: not a .onnx, .tosa or .npz file, nor an NNEF folder or archive")
    from tosaic.compiler.ir.tosa_file import read_tosa

    graph = read_tosa(model)
    constants = {name: tensor.data for name, tensor in graph.tensors.items() if tensor.data is not None}
    return {name: values for name, values in constants.items() if encodable(values)}


@app.command("decode")
def decode(
    source: Annotated[
        pathlib.Path,
        typer.Argument(
            metavar="FILE.nnr",
            help="A bitstream; or an ONNX file, NNEF folder or archive whose tensors are NNR.",
        ),
    ],
    output: Annotated[
        pathlib.Path,
        typer.Option(
            "-o", "--output", help="FILE.onnx or an NNEF folder, as the topology is; FILE.npz for any."
        ),
    ],
    verbose: options.Verbose = False,
) -> None:
    """Decode a bitstream to the model it carries, or to its tensors."""
    if output.suffix in FILE_SUFFIXES:
        check_file(output)
    if source.suffix == ".onnx":
        count = _decode_carried_onnx(source, output)
    elif _is_nnef(source):
        count = _decode_carried_nnef(source, output)
    else:
        count = _decode_bitstream(source, output)
    print(f"{output}: {count} tensors")


def _decode_bitstream(source: pathlib.Path, output: pathlib.Path) -> int:
    found = _read(source)
    if output.suffix == ".npz":
        shapes = stated_shapes(found)
        decoded = {
            name: tensor.decode(shapes.get(name)) for tensor in found.tensors for name in tensor.unit.ref_ids
        }
        _write_npz(output, decoded)
    elif output.suffix == ".onnx":
        from tosaic.nnr import onnx_carriage

        data = onnx_carriage.carried_model(found).SerializeToString()
        with writing_whole(output) as scratch:
            scratch.write_bytes(data)
    elif found.topology and found.topology.storage_format is StorageFormat.NNEF:
        from tosaic.compiler.importers.nnef import nnr_carriage

        with writing(output):
            nnr_carriage.write_carried_model(found, output, stated_shapes(found))
    else:
        raise InputError(f"{source} carries no NNEF topology: name a .npz file, or .onnx if it carries ONNX")
    return len(found.tensors)


def _decode_carried_onnx(source: pathlib.Path, output: pathlib.Path) -> int:
    from tosaic.nnr import onnx_carriage

    if output.suffix not in FILE_SUFFIXES:
        raise InputError(f"{source} is an ONNX model: name an .onnx file, or .npz for its tensors")
    # Not `load`: external data may be NNR, of which onnx knows nothing.
    plain = onnx_carriage.uncarry(onnx_carriage.load(source, external=False), source.parent)
    if output.suffix == ".npz":
        _write_npz(output, onnx_carriage.initializers(plain, source.parent))
    else:
        with writing_whole(output) as scratch:
            scratch.write_bytes(plain.SerializeToString())
    return len(plain.graph.initializer)


def _decode_carried_nnef(source: pathlib.Path, output: pathlib.Path) -> int:
    from tosaic.compiler.importers.nnef import nnr_carriage

    if output.suffix == ".onnx":
        raise InputError(f"{source} is an NNEF model: name a folder, or a .npz file for its tensors")
    graph, quantization, tensors = nnr_carriage.read_model(source)
    if output.suffix == ".npz":
        _write_npz(output, tensors)
    else:
        with writing(output):
            nnr_carriage.write_folder(output, graph, quantization, tensors)
    return len(tensors)


def _write_npz(output: pathlib.Path, tensors: dict[str, np.ndarray]) -> None:
    with writing_whole(output) as scratch, scratch.open("wb") as file:
        np.savez(file, **tensors)  # type: ignore[arg-type]


@app.command("inspect")
def inspect(
    source: Annotated[
        pathlib.Path,
        typer.Argument(
            metavar="FILE.nnr",
            help="A bitstream; or an ONNX file, NNEF folder or archive whose tensors are NNR.",
        ),
    ],
    verbose: options.Verbose = False,
) -> None:
    """List units and tensors: sizes, bits per weight, ratio to the plain values. Exit 1 if a tensor is damaged."""
    tensors: Sequence[tuple[CodedTensor, Sequence[int] | None]]
    if source.suffix == ".onnx" or _is_nnef(source):
        tensors = _carried_tensors(source)
        if not tensors:
            raise InputError(f"{source}: none of its tensors is NNR-coded")
    else:
        found = _read(source)
        print_units(found)
        print()
        try:
            shapes = stated_shapes(found)
        except Error:
            # The tensors it was needed for are listed as what cannot be decoded.
            shapes = {}
        tensors = [(tensor, shapes.get(tensor.name)) for tensor in found.tensors]
    damaged = print_tensors(tensors)
    if damaged:
        raise NnrError(f"{source}: {len(damaged)} of {len(tensors)} tensors: {damaged[0]}")


def _carried_tensors(source: pathlib.Path) -> Sequence[tuple[CodedTensor, Sequence[int] | None]]:
    if source.suffix == ".onnx":
        from tosaic.nnr import onnx_carriage

        model = onnx_carriage.load(source, external=False)
        return onnx_carriage.carried_tensors(model, source.parent)
    from tosaic.compiler.importers.nnef import nnr_carriage

    return nnr_carriage.carried_tensors(source)


def _read(path: pathlib.Path) -> Bitstream:
    try:
        return read_bitstream(path.read_bytes())
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from None
    except NnrError as error:
        raise NnrError(f"{path}: {error}") from None
