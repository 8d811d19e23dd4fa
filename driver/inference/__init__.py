"""What a script for onnxruntime uses, under the same names: in come model files and arrays, out come arrays.

`session` runs models by `tosaic.driver.session`; `options` are what a script may ask for, each honoured or refused;
`description` reads what an ONNX file says of itself; `values` are onnxruntime's containers of arrays.
"""
