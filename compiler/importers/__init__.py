"""Importers translate models of other formats to TOSA graphs.

In comes a path; out comes a graph that `ir.validate` accepts, float or with the model's own integers, or one error line
that names the source's operator. `formats` finds the importer, an entry point, by the path's suffix; `lowering` is what
they share. Importers may import the IR, `nnr` and `errors`, and not each other; only `nnr_models` hands a bitstream's
network to ONNX's or NNEF's.

An operator of the source is a `lowering.SourceNode` in every importer (`OnnxNode`, `CoreMlNode`, `NnefNode`): a
handler, registered by name with `handles`, takes one and builds with `node.low`.
"""

from tosaic.compiler.importers.formats import import_model, is_imported, suffixes, survey_model

__all__ = ["import_model", "is_imported", "suffixes", "survey_model"]
