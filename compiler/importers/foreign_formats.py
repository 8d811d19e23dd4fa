"""Formats that have no importer, and the road by which a model of each becomes one that has."""

import pathlib

_EXPORT = "export the network with its weights to ONNX"
_TORCH = (
    "a PyTorch file of weights or of Python objects",
    "write the model with torch.export.save(torch.export.export(module, inputs), FILE.pt2) and give the .pt2 file, "
    "or use tosaic.from_torch",
)
_EXECUTORCH = "a program of ExecuTorch's runtime", "give the exported program that it was made from, as .pt2"
_KERAS = "a Keras model", "convert it with tf.lite.TFLiteConverter.from_keras_model and give the .tflite file"
_SAVED_MODEL = (
    "a TensorFlow model",
    "convert the SavedModel with tf.lite.TFLiteConverter.from_saved_model and give the .tflite file",
)
_WEIGHTS = "a file of weights without a network", _EXPORT
_MLIR = (
    "an MLIR file",
    "write the TOSA dialect as .tosa with the pass tosa-serialize of tosa-tools, or export the model to ONNX or TFLite",
)
_ROADS = {
    **dict.fromkeys((".pt", ".pth"), _TORCH),
    ".pte": _EXECUTORCH,
    **dict.fromkeys((".keras", ".h5", ".hdf5"), _KERAS),
    **dict.fromkeys((".pb", ".pbtxt"), _SAVED_MODEL),
    **dict.fromkeys((".safetensors", ".ckpt", ".gguf", ".npz"), _WEIGHTS),
    **dict.fromkeys((".mlir", ".mlirbc", ".stablehlo"), _MLIR),
    ".py": ("Python", "name the function in it: FILE.py:FUNCTION (docs/numpy.md)"),
    ".ort": ("a model prepared for ONNX Runtime", "give the .onnx file that it was made from"),
    ".pdmodel": ("a PaddlePaddle model", "convert it with paddle2onnx and give the .onnx file"),
}
"""What a file is and what to do with it, by suffix."""


def is_saved_model(path: pathlib.Path) -> bool:
    """Whether a path is a folder in which TensorFlow has saved a model."""
    return path.is_dir() and any((path / name).is_file() for name in ("saved_model.pb", "saved_model.pbtxt"))


def refusal(path: pathlib.Path, known: tuple[str, ...]) -> str:
    """Why a model is not taken, and the way out, in one line. `known` are the suffixes that are."""
    if is_saved_model(path):
        kind, road = _SAVED_MODEL
    elif path.suffix.lower() in _ROADS:
        kind, road = _ROADS[path.suffix.lower()]
    else:
        return f"{path}: there is no importer for {path.suffix or 'this file'}; known: {', '.join(known)}"
    return f"{path}: is {kind}, which has no importer; {road}"
