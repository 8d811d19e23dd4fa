"""NNEF 1.0.3: text, tensor files and containers become a flat graph of primitive operations with shapes.

`model.load_model` reads a folder or a tar archive; `document.expand_document` takes the text alone. A lowering to
TOSA (the folder `tosa`) stands on both: it walks `graph.FlatGraph.operations`, which are in topological order.
`nnr_carriage` puts NNEF models into NNR bitstreams and takes them out. May import the IR, `nnr` and `errors`.
"""
