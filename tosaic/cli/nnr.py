"""`tosaic nnr`: encode a model as an NNR bitstream, decode one, list what one holds."""

import pathlib
import tarfile
import warnings
from collections.abc import Sequence
from typing import Annotated

import numpy as np
import typer

from tosaic.cli import options
from tosaic.cli.afterwards import tell_next
from tosaic.cli.files import check_file, writing, writing_whole
from tosaic.cli.nnr_listing import print_tensors, print_units
from tosaic.cli.nnr_quality import encode_by_samples
from tosaic.compiler.importers import suffixes
from tosaic.compiler.importers.nnr_models import stated_shapes
from tosaic.compiler.ir import Graph, write_tosa
from tosaic.driver.encodings import encodings_text, sidecar
from tosaic.driver.models import open_with_encodings
from tosaic.errors import Error, InputError
from tosaic.nnr import Bitstream, CodedTensor, NnrError, NnrWarning, read_bitstream
from tosaic.nnr.arrays import as_codable, decode_all
from tosaic.nnr.encoder import METHODS, Settings, encode_model
from tosaic.nnr.onnx_calibration import CodingTarget
from tosaic.nnr.onnx_tensors import model_tensors
from tosaic.nnr.tensor_files import READERS
from tosaic.nnr.units import StorageFormat

app = typer.Typer(
    help="NNR bitstreams (ISO/IEC 15938-17): compressed weights.",
    add_completion=False,
    rich_markup_mode=None,
)
# What `decode` writes that is no folder.
FILE_SUFFIXES = (".npz", ".onnx", ".tosa")
# Of the public codec's files, which are of a published edition.
PUBLISHED_SUFFIX = ".nnc"
Model = Annotated[
    pathlib.Path,
    typer.Argument(
        help="A .onnx, .tosa or .tflite model, an NNEF folder or archive; or weights: .npz, .safetensors, .pt, .pth."
    ),
]


MemoryLimit = Annotated[
    int | None,
    typer.Option(
        min=1, metavar="MIB", help="MiB of memory for decoding; by default 64 and 8 times the file."
    ),
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
            help="The bitstream; or FILE.onnx or a folder: the ONNX or NNEF model with its tensors as NNR; or "
            "FILE.nnc: weights in a published edition's syntax.",
        ),
    ],
    method: Annotated[
        str, typer.Option(help=f"Quantization of float tensors: {', '.join(METHODS)}.")
    ] = "lossless",
    cabac_unary_length: Annotated[
        int, typer.Option(min=0, max=255, help="Flags before the remainder; 1 suits int8 weights.")
    ] = 10,
    step: Annotated[
        float,
        typer.Option(help="Step size of uniform and dependent, as a fraction of a tensor's largest value."),
    ] = 1 / 127,
    codebook_size: Annotated[int, typer.Option(min=1, max=65535, help="Entries of a codebook.")] = 16,
    rate_weight: Annotated[
        float, typer.Option(help="With dependent: squared steps of error that one bit is worth.")
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
    search_lengths: Annotated[
        bool,
        typer.Option(
            "--search-lengths", help="Try unary lengths tensor by tensor; the shortest payload wins."
        ),
    ] = False,
    calib: Annotated[
        pathlib.Path | None,
        typer.Option(
            metavar="SAMPLES.npz",
            help="ONNX: choose step sizes and scales by the outputs for these samples, by input name.",
        ),
    ] = None,
    target_sqnr: Annotated[
        float | None, typer.Option(help="With --calib: decibels that the worst output must reach.")
    ] = None,
    target_bytes: Annotated[
        int | None, typer.Option(min=1, help="With --calib: the size that the bitstream may have.")
    ] = None,
    weights_only: Annotated[
        bool,
        typer.Option(
            "--weights-only",
            help="ONNX: leave the network out; `decode --onto MODEL.onnx` puts the weights into it again.",
        ),
    ] = False,
    verbose: options.Verbose = False,
) -> None:
    """Encode a model. Integer tensors are kept exactly by every method, unless --integer-step is given."""
    if weights_only and (model.suffix != ".onnx" or output.suffix == ".onnx" or low_rank):
        raise InputError(
            "--weights-only leaves the network of an .onnx model out of a .nnr file; it goes without --low-rank"
        )
    if calib:
        target = CodingTarget(target_sqnr, target_bytes)
        _write(output, encode_by_samples(model, calib, target, rate_weight, weights_only=weights_only))
        return
    if target_sqnr is not None or target_bytes is not None:
        raise InputError("--target-sqnr and --target-bytes need samples to measure with: --calib SAMPLES.npz")
    length = None if search_lengths else cabac_unary_length
    settings = Settings(method, length, step, codebook_size, rate_weight, sparsity, integer_step)
    if output.suffix == PUBLISHED_SUFFIX and model.suffix not in READERS:
        raise InputError(
            f"a {PUBLISHED_SUFFIX} file holds tensors only: encode weights ({', '.join(READERS)})"
        )
    if low_rank and model.suffix != ".onnx":
        raise InputError("--low-rank changes the network's structure, which is done to .onnx models only")
    _encode(model, output, settings, low_rank, weights_only=weights_only)


def _encode(
    model: pathlib.Path, output: pathlib.Path, settings: Settings, low_rank: float, *, weights_only: bool
) -> None:
    """Encodes by the kind of the model's file."""
    if weights_only:
        from tosaic.nnr import onnx_carriage, onnx_weights

        _write(output, onnx_weights.encode_weights(onnx_carriage.load(model), settings))
    elif model.suffix == ".onnx":
        _encode_onnx(model, output, settings, low_rank)
    elif _is_nnef(model):
        _encode_nnef(model, output, settings)
    elif model.suffix in READERS:
        tensors = READERS[model.suffix](model)
        codable = {name: as_codable(name, values) for name, values in tensors.items()}
        _write_weights(output, codable, settings, of_network=model.suffix != ".npz")
    else:
        _write(output, _encode_as_tosa(model, settings))


def _write_weights(
    output: pathlib.Path, codable: dict[str, np.ndarray], settings: Settings, *, of_network: bool
) -> None:
    if output.suffix != PUBLISHED_SUFFIX:
        _write(output, encode_model(codable, settings, of_network=of_network))
        return
    from tosaic.nnr.published_writer import published

    # There is no lossless form of floats in it, so that the method holds for tensors of one dimension too.
    _write(output, published(read_bitstream(encode_model(codable, settings))))


def _encode_onnx(model: pathlib.Path, output: pathlib.Path, settings: Settings, low_rank: float) -> None:
    from tosaic.nnr import onnx_carriage
    from tosaic.nnr.onnx_low_rank import factor_layers

    loaded = onnx_carriage.load(model)
    if low_rank:
        loaded, factored = factor_layers(loaded, low_rank)
        print(f"{len(factored)} layers factored{': ' if factored else ''}{', '.join(factored)}")
    if output.suffix == ".onnx":
        check_file(output)
        carried = onnx_carriage.carry(loaded, settings)
        data = carried.SerializeToString()
        with writing_whole(output) as scratch:
            scratch.write_bytes(data)
        count = len(onnx_carriage.carrying_tensors(carried))
        print(f"{output}: an ONNX model with {count} NNR tensors, {len(data):,} bytes")
        _warn_if_none(output, count, "a tensor of an ONNX model must be float32 of two dimensions or more")
    else:
        _write(output, onnx_carriage.encode_onnx(loaded, settings))


def _encode_as_tosa(model: pathlib.Path, settings: Settings) -> bytes:
    """A model of any other format as the TOSA graph that it stands for, with the scales of its inputs and outputs."""
    from tosaic.compiler.importers.nnr_tosa import encode_tosa

    if model.suffix not in (".tosa", *suffixes()) or model.suffix == ".nnr":
        raise InputError(
            f"{model}: not a model (.tosa, {', '.join(suffixes())}), nor a file of weights "
            f"({', '.join(READERS)})"
        )
    graph, encodings = open_with_encodings(model)
    assert isinstance(graph, Graph)
    inputs, outputs = (
        {name: encodings[name] for name in names if name in encodings}
        for names in (graph.inputs, graph.outputs)
    )
    return encode_tosa(graph, settings, encodings_text(inputs, outputs) if encodings else "")


def _is_nnef(model: pathlib.Path) -> bool:
    if model.suffix in (".tosa", ".nnr", *READERS):
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
    count = len(read_bitstream(data).tensors)
    print(f"{output}: {count} tensors, {len(data):,} bytes")
    tell_next("nnr", "inspect", output)
    _warn_if_none(output, count, "NNR codes float32 and integers of up to 32 bits")


def _warn_if_none(output: pathlib.Path, count: int, rule: str) -> None:
    if not count:
        warnings.warn(f"{output}: no tensor of the model was coded; {rule}", NnrWarning, stacklevel=1)


@app.command("decode")
def decode(
    source: Annotated[
        pathlib.Path,
        typer.Argument(
            metavar="FILE.nnr",
            help="A bitstream (.nnc too); or an ONNX file, NNEF folder or archive whose tensors are NNR.",
        ),
    ],
    output: Annotated[
        pathlib.Path,
        typer.Option(
            "-o",
            "--output",
            help="FILE.onnx, FILE.tosa or an NNEF folder, as the topology is; FILE.npz for any.",
        ),
    ],
    onto: Annotated[
        pathlib.Path | None,
        typer.Option(
            metavar="MODEL.onnx",
            help="The model that gets the weights, if they were encoded without a network.",
        ),
    ] = None,
    memory_limit: MemoryLimit = None,
    verbose: options.Verbose = False,
) -> None:
    """Decode a bitstream to the model it carries, or to its tensors."""
    limit_bytes = memory_limit << 20 if memory_limit else None
    if output.suffix in FILE_SUFFIXES:
        check_file(output)
    if onto:
        count = _decode_onto(source, onto, output, limit_bytes)
    elif source.suffix == ".onnx":
        count = _decode_carried_onnx(source, output, limit_bytes)
    elif _is_nnef(source):
        count = _decode_carried_nnef(source, output)
    else:
        count = _decode_bitstream(source, output, limit_bytes)
    print(f"{output}: {count} tensors")


def _decode_onto(
    source: pathlib.Path, model: pathlib.Path, output: pathlib.Path, limit_bytes: int | None
) -> int:
    from tosaic.nnr import onnx_carriage, onnx_weights

    if output.suffix != ".onnx" or model.suffix != ".onnx":
        raise InputError("--onto puts weights into an .onnx model: name that, and an .onnx file to write")
    found = _read(source, limit_bytes)
    data = onnx_weights.with_weights(onnx_carriage.load(model), found).SerializeToString()
    with writing_whole(output) as scratch:
        scratch.write_bytes(data)
    return len(found.tensors)


def _decode_bitstream(source: pathlib.Path, output: pathlib.Path, limit_bytes: int | None) -> int:
    found = _read(source, limit_bytes)
    if output.suffix == ".npz":
        _write_npz(output, decode_all(found, stated_shapes(found)))
    elif output.suffix == ".onnx":
        from tosaic.nnr import onnx_carriage

        data = onnx_carriage.carried_model(found).SerializeToString()
        with writing_whole(output) as scratch:
            scratch.write_bytes(data)
    elif output.suffix == ".tosa":
        _write_tosa(found, output)
    elif found.topology and found.topology.storage_format is StorageFormat.NNEF:
        from tosaic.compiler.importers.nnef import nnr_carriage

        with writing(output):
            nnr_carriage.write_carried_model(found, output, stated_shapes(found))
    else:
        raise InputError(
            f"{source} carries no NNEF topology: name a .npz file, or .onnx or .tosa if it carries that"
        )
    return len(found.tensors)


def _write_tosa(found: Bitstream, output: pathlib.Path) -> None:
    """The TOSA file that a bitstream carries, and beside it the scales of its inputs and outputs, if there."""
    from tosaic.compiler.importers.nnr_tosa import carried_encodings, carried_graph

    data, encodings = write_tosa(carried_graph(found)), carried_encodings(found)
    with writing_whole(output) as scratch:
        scratch.write_bytes(data)
    if encodings:
        with writing_whole(sidecar(output)) as scratch:
            scratch.write_text(encodings)


def _decode_carried_onnx(source: pathlib.Path, output: pathlib.Path, limit_bytes: int | None) -> int:
    from tosaic.nnr import onnx_carriage

    if output.suffix not in (".npz", ".onnx"):
        raise InputError(f"{source} is an ONNX model: name an .onnx file, or .npz for its tensors")
    # Not `load`: external data may be NNR, of which onnx knows nothing.
    loaded = onnx_carriage.load(source, external=False)
    plain = onnx_carriage.uncarry(loaded, source.parent, limit_bytes=limit_bytes)
    if output.suffix == ".npz":
        _write_npz(output, onnx_carriage.values_of_tensors(plain, source.parent))
    else:
        with writing_whole(output) as scratch:
            scratch.write_bytes(plain.SerializeToString())
    return len(model_tensors(plain))


def _decode_carried_nnef(source: pathlib.Path, output: pathlib.Path) -> int:
    from tosaic.compiler.importers.nnef import nnr_carriage

    if output.suffix in (".onnx", ".tosa"):
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
            help="A bitstream (.nnc too); or an ONNX file, NNEF folder or archive whose tensors are NNR.",
        ),
    ],
    memory_limit: MemoryLimit = None,
    verbose: options.Verbose = False,
) -> None:
    """List units and tensors: sizes, bits per weight, ratio to the plain values. Exit 1 if a tensor is damaged."""
    tensors: Sequence[tuple[CodedTensor, Sequence[int] | None]]
    if source.suffix == ".onnx" or _is_nnef(source):
        tensors = _carried_tensors(source)
        if not tensors:
            raise InputError(f"{source}: none of its tensors is NNR-coded")
    else:
        found = _read(source, memory_limit << 20 if memory_limit else None)
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


def _read(path: pathlib.Path, limit_bytes: int | None) -> Bitstream:
    try:
        return read_bitstream(path.read_bytes(), limit_bytes=limit_bytes)
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from None
    except NnrError as error:
        raise NnrError(f"{path}: {error}") from None
