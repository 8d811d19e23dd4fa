"""Inputs and outputs of a model: multi-arrays and images, their shapes bound, images preprocessed."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tosaic.compiler.importers.coreml.container import CoreMlContainer
from tosaic.compiler.importers.coreml.node import MAX_RANK, CoreMlValue, Shape
from tosaic.compiler.importers.lowering import Lowering
from tosaic.compiler.ir import DType
from tosaic.errors import InputError, ModelError, UnsupportedError

Shapes = Mapping[str, int | Sequence[int]]
MAX_INPUT = 1 << 26
"""Elements of an input."""

_TYPES = {0: DType.FP32, 65568: DType.FP32, 65600: DType.FP32, 131104: DType.INT32, 65552: DType.FP16}
"""TOSA's type of ArrayDataType: double becomes float32."""
_COLOURS = {10: ("gray",), 20: ("red", "green", "blue"), 30: ("blue", "green", "red"), 40: ("gray",)}
"""Channels of ColorSpace."""


class Features:
    """Makes a container's inputs in a graph, and its outputs from blobs."""

    def __init__(self, low: Lowering, container: CoreMlContainer, shapes: Shapes) -> None:
        self.low, self.container, self.shapes = low, container, shapes
        # The enumerations: rank 5 is 0 in both.
        self.exact_arrays = container.network.arrayInputShapeMapping == 1
        self.exact_images = container.network.imageInputShapeMapping == 1

    def inputs(self) -> dict[str, CoreMlValue]:
        """The input blobs by name. InputError for a binding that fits no input."""
        features = list(self.container.description.input)
        names = [feature.name for feature in features]
        if len(set(names)) != len(names) or not all(names):
            raise ModelError("two inputs have one name, or one has none")
        unknown = [name for name in self.shapes if name not in names]
        if unknown:
            raise InputError(f"--shape {unknown[0]}: the model has no such input; it has {', '.join(names)}")
        blobs = {}
        for feature in features:
            which = feature.type.WhichOneof("Type")
            if which == "imageType":
                blobs[feature.name] = self._image(feature)
            elif which == "multiArrayType":
                blobs[feature.name] = self._array(feature)
            else:
                raise UnsupportedError(
                    f"input {feature.name!r} is of {which or 'no type'}; TOSA has tensors only: use a multi-array"
                )
        self._check_preprocessing(names)
        return blobs

    # --- multi-arrays ---------------------------------------------------------------------------------------

    def _array(self, feature: Any) -> CoreMlValue:
        array = feature.type.multiArrayType
        shape = self._bound(feature.name, array)
        if array.dataType not in _TYPES:
            raise UnsupportedError(
                f"input {feature.name!r} has data type number {array.dataType}; use float32 or int32"
            )
        tensor = self.low.build.input(feature.name, shape, _TYPES[array.dataType])
        tensor = self.low.cast(tensor, DType.FP32)
        if self.exact_arrays or len(shape) == 5:
            return CoreMlValue(tensor, shape)
        if len(shape) == 1:
            return CoreMlValue(self.low.reshape(tensor, (*shape, 1, 1)), (1, 1, *shape, 1, 1))
        if len(shape) == 3:
            return CoreMlValue(tensor, (1, 1, *shape))
        raise ModelError(
            f"input {feature.name!r} has shape {list(shape)}: with the mapping to rank 5 it must have 1, 3 or 5 axes"
        )

    def _bound(self, name: str, array: Any) -> Shape:
        declared = tuple(int(size) for size in array.shape)
        wanted = self.shapes.get(name)
        if wanted is not None:
            shape = (wanted,) if isinstance(wanted, int) else tuple(int(size) for size in wanted)
            self._check_flexible(name, shape, declared, array)
        elif declared:
            shape = declared
        else:
            raise InputError(
                f"input {name!r} has no shape: TOSA needs static ones; give --shape {name}=3,224,224"
            )
        if not 0 < len(shape) <= MAX_RANK or min(shape) < 1 or math.prod(shape) > MAX_INPUT:
            raise ModelError(
                f"input {name!r} has shape {list(shape)}; 1 to {MAX_RANK} positive sizes are allowed"
            )
        return shape

    def _check_flexible(self, name: str, shape: Shape, declared: Shape, array: Any) -> None:
        """Raises InputError unless the declaration allows the shape."""
        which = array.WhichOneof("ShapeFlexibility")
        allowed = not declared or shape == declared
        said = f"{list(declared)}"
        if which == "enumeratedShapes":
            shapes = [tuple(int(size) for size in each.shape) for each in array.enumeratedShapes.shapes]
            allowed, said = allowed or shape in shapes, " or ".join(str(list(each)) for each in shapes)
        elif which == "shapeRange":
            ranges = [(int(r.lowerBound), int(r.upperBound)) for r in array.shapeRange.sizeRanges]
            inside = len(ranges) == len(shape) and all(
                size >= least and (most < 0 or size <= most)
                for size, (least, most) in zip(shape, ranges, strict=True)
            )
            allowed = allowed or inside
            said = ", ".join(f"{least} to {'any' if most < 0 else most}" for least, most in ranges)
        elif not self.exact_arrays and len(shape) == 5:
            # At run time a sequence and a batch may be there too.
            allowed = allowed or shape[2:] == (declared if len(declared) == 3 else (*declared, 1, 1))
            said = f"{said}, or that behind a sequence and a batch"
        if not allowed:
            raise InputError(f"--shape {name}: {list(shape)} does not fit the declared shape {said}")

    # --- images ---------------------------------------------------------------------------------------------

    def _image(self, feature: Any) -> CoreMlValue:
        """Pixels 0 .. 255 as float32 [1, channels, H, W], in the declared order of colours."""
        image = feature.type.imageType
        if image.colorSpace not in _COLOURS:
            raise ModelError(
                f"input {feature.name!r} has colour space {image.colorSpace}, which is not known"
            )
        colours = _COLOURS[image.colorSpace]
        height, width = self._image_size(feature.name, image)
        shape = (1, len(colours), height, width)
        if min(shape) < 1 or math.prod(shape) > MAX_INPUT:
            raise ModelError(f"input {feature.name!r} is an image of {height} x {width} pixels")
        tensor = self.low.build.input(feature.name, shape, DType.FP32)
        for each in self.container.network.preprocessing:
            if each.featureName in ("", feature.name):
                tensor = self._preprocessed(feature.name, tensor, each, colours)
        return CoreMlValue(tensor, shape if self.exact_images else (1, *shape))

    def _image_size(self, name: str, image: Any) -> tuple[int, int]:
        declared = (int(image.height), int(image.width))
        wanted = self.shapes.get(name)
        if wanted is None:
            return declared
        sizes = (wanted,) if isinstance(wanted, int) else tuple(int(size) for size in wanted)
        if len(sizes) < 2:
            raise InputError(f"--shape {name}: an image has two sizes, {name}=H,W")
        size = (sizes[-2], sizes[-1])
        which = image.WhichOneof("SizeFlexibility")
        allowed = size == declared
        if which == "enumeratedSizes":
            allowed = allowed or size in [(int(s.height), int(s.width)) for s in image.enumeratedSizes.sizes]
        elif which == "imageSizeRange":
            ranges = (image.imageSizeRange.heightRange, image.imageSizeRange.widthRange)
            allowed = allowed or all(
                s >= r.lowerBound and (r.upperBound < 0 or s <= r.upperBound)
                for s, r in zip(size, ranges, strict=True)
            )
        if not allowed:
            raise InputError(
                f"--shape {name}: {list(size)} does not fit the declared image size {list(declared)}"
            )
        return size

    def _preprocessed(self, name: str, tensor: str, step: Any, colours: tuple[str, ...]) -> str:
        """Returns channelScale * x + bias of each colour, or x less the mean image."""
        low, shape = self.low, self.low.shape(tensor)
        if step.WhichOneof("preprocessor") == "meanImage":
            mean = np.array(step.meanImage.meanImage, np.float32)
            if len(mean) != math.prod(shape):
                raise ModelError(
                    f"input {name!r}: the mean image has {len(mean)} numbers, not {math.prod(shape)} as {list(shape)}"
                )
            return low.sub(tensor, low.constant(mean.reshape(shape), DType.FP32))
        scaler = step.scaler
        if scaler.channelScale == 0:
            raise ModelError(
                f"input {name!r}: its scaler has channelScale 0, which leaves nothing of the image"
            )
        bias = np.array([getattr(scaler, f"{colour}Bias") for colour in colours], np.float32)
        tensor = low.times(tensor, scaler.channelScale)
        return low.add(tensor, low.constant(bias.reshape(1, -1, 1, 1), DType.FP32)) if bias.any() else tensor

    def _check_preprocessing(self, names: list[str]) -> None:
        for each in self.container.network.preprocessing:
            if each.featureName and each.featureName not in names:
                raise ModelError(
                    f"preprocessing names the input {each.featureName!r}, which the model does not have"
                )

    # --- outputs --------------------------------------------------------------------------------------------

    def outputs(self, blobs: Mapping[str, CoreMlValue], last: str) -> list[tuple[str, str]]:
        """Returns (name, tensor) of each output; a classifier's probabilities go by their name in the description."""
        description, found = self.container.description, []
        for feature in description.output:
            which = feature.type.WhichOneof("Type")
            if feature.name in blobs and which in ("multiArrayType", "imageType"):
                found.append((feature.name, self._output(feature, blobs[feature.name])))
            elif self.container.kind != "neuralNetworkClassifier":
                raise ModelError(f"output {feature.name!r} is produced by no layer")
        if self.container.kind == "neuralNetworkClassifier":
            blob = self.container.network.labelProbabilityLayerName or last
            name = description.predictedProbabilitiesName or blob
            if blob not in blobs:
                raise ModelError(f"labelProbabilityLayerName {blob!r} is produced by no layer")
            if name not in [each for each, _ in found]:
                found.insert(0, (name, self._probabilities(blobs[blob])))
        if not found:
            raise ModelError("the model has no output that is a tensor")
        return found

    @property
    def label_output(self) -> str:
        """Name of the output that a classifier's labels belong to, when `outputs` has been called."""
        description = self.container.description
        return description.predictedProbabilitiesName or self.container.network.labelProbabilityLayerName

    def _output(self, feature: Any, blob: CoreMlValue) -> str:
        """The blob in its declared type and, with the mapping to rank 5, its declared shape where that holds it."""
        low, shape = self.low, blob.shape
        if feature.type.WhichOneof("Type") == "imageType":
            return low.reshape(blob.tensor, shape[-3:])
        array = feature.type.multiArrayType
        declared = tuple(int(size) for size in array.shape)
        holds = bool(declared) and min(declared) > 0 and math.prod(declared) == math.prod(shape)
        tensor = low.reshape(blob.tensor, declared if holds and not self.exact_arrays else shape)
        dtype = _TYPES.get(array.dataType, DType.FP32)
        return low.cast(low.truncate(tensor) if dtype is DType.INT32 else tensor, dtype)

    def _probabilities(self, blob: CoreMlValue) -> str:
        """One number for each label."""
        count, labels = math.prod(blob.shape), len(self.container.labels)
        if labels and count != labels:
            raise ModelError(f"the classifier has {labels} labels, and {count} probabilities")
        return self.low.reshape(blob.tensor, (count,))
