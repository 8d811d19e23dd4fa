"""NNR bitstreams that carry a network: its topology goes to the importer of its own format (annexes A and B)."""

import contextlib
import pathlib
import tempfile
from collections.abc import Iterator, Mapping, Sequence

from tosaic.compiler.importers.formats import Format
from tosaic.compiler.importers.nnr_tosa import carried_encodings, carried_graph
from tosaic.compiler.importers.survey import Survey
from tosaic.compiler.ir import Graph
from tosaic.errors import InputError, ModelError, UnsupportedError
from tosaic.nnr.bitstream import Bitstream, read_bitstream
from tosaic.nnr.errors import NnrError
from tosaic.nnr.units import StorageFormat


def import_nnr(path: pathlib.Path, shapes: Mapping[str, int | Sequence[int]] | None, survey: Survey) -> Graph:
    """The TOSA graph of the network that the NNR bitstream in `path` carries, with its decoded tensors.

    Raises NnrError on a damaged bitstream, UnsupportedError on one without a topology, and what the importer of the
    topology's format raises.
    """
    with _named(path):
        return _import(path, read_bitstream(path.read_bytes()), shapes, survey)


FORMAT = Format(import_nnr)


def import_nnr_integers(path: pathlib.Path) -> tuple[Graph, str] | None:
    """The TOSA graph that a bitstream carries and the JSON text of its inputs' and outputs' scales; None if it carries
    another topology or no scales. Raises NnrError on a damaged bitstream."""
    with _named(path):
        found = read_bitstream(path.read_bytes())
        encodings = carried_encodings(found)
        return (carried_graph(found), encodings) if encodings else None


@contextlib.contextmanager
def _named(path: pathlib.Path) -> Iterator[None]:
    """Errors tell the file."""
    try:
        yield
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from None
    except NnrError as error:
        raise NnrError(f"{path}: {error}") from None


def _import(
    path: pathlib.Path, found: Bitstream, shapes: Mapping[str, int | Sequence[int]] | None, survey: Survey
) -> Graph:
    if found.topology is None:
        raise UnsupportedError(
            f"{path}: the NNR bitstream holds {len(found.tensors)} tensors and no network; encode the model instead of "
            "its tensors, or take them out with `tosaic nnr decode`"
        )
    if found.topology.storage_format is StorageFormat.TOSA:
        return carried_graph(found)
    if found.topology.storage_format is StorageFormat.ONNX:
        from tosaic.compiler.importers.onnx_models import import_onnx
        from tosaic.nnr.onnx_carriage import carried_model

        return import_onnx(carried_model(found), shapes, survey)
    from tosaic.compiler.importers.nnef.nnr_carriage import write_carried_model
    from tosaic.compiler.importers.nnef.tosa import import_nnef

    with tempfile.TemporaryDirectory() as folder:
        write_carried_model(found, pathlib.Path(folder), stated_shapes(found))
        try:
            return import_nnef(pathlib.Path(folder), shapes, survey)
        except (ModelError, UnsupportedError) as error:
            # The user knows the bitstream, not the folder.
            error.args = (str(error).replace(folder, str(path)),)
            raise


def stated_shapes(found: Bitstream) -> dict[str, tuple[int, ...]]:
    """Shapes that the topology states, by ref_id, for a bitstream with tensors whose units signal none (E-35).

    Empty if all do. NNEF labels are as in the units. Raises ModelError on an NNEF topology that breaks a rule.
    """
    names = [
        name
        for tensor in found.tensors
        if tensor.unit.tensor_dimensions is None
        for name in tensor.unit.ref_ids
    ]
    if not names or found.topology is None:
        return {}
    if found.topology.storage_format is StorageFormat.ONNX:
        from tosaic.nnr.onnx_carriage import stated_shapes as onnx_shapes

        return onnx_shapes(found.topology.data)
    if found.topology.storage_format is StorageFormat.TOSA:
        # Its units signal theirs: `encode_tosa` codes no tensor that they cannot.
        return {}
    from tosaic.compiler.importers.nnef.document import expand_document

    # Labels are compared without regard to case.
    variables = {
        label.lower(): values[0].shape
        for label, values in expand_document(found.topology.data.decode()).variables.items()
    }
    return {name: variables[name.lower()] for name in names if name.lower() in variables}
