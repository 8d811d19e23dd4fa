"""NNEF 1.0.3: text, tensor files and containers become a flat graph of primitive operations with shapes.

`model.load_model` reads a folder or a tar archive; `document.expand_document` takes the text alone. A lowering to
TOSA plugs in behind both: it walks `graph.FlatGraph.operations`, which stand in topological order.
"""
