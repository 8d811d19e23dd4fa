"""Float inference and gradients of the layers in `digits_network`, in NumPy: convolution by im2col."""

import numpy as np
from digits_network import Add, AveragePool, Conv, Flatten, Layer, weight_shapes
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

Array = NDArray[np.floating]
Parameters = dict[str, Array]
"""`<layer>.weight` in TOSA's layout and `<layer>.bias` [OC], one pair per convolution."""


def initial_parameters(network: tuple[Layer, ...], rng: np.random.Generator) -> Parameters:
    """He-normal weights and zero biases, float32."""
    parameters: Parameters = {}
    for name, shape in weight_shapes(network).items():
        layer = next(layer for layer in network if layer.name == name)
        depthwise = isinstance(layer, Conv) and layer.depthwise
        fan_in = shape[0] * shape[1] if depthwise else shape[1] * shape[2] * shape[3]
        parameters[f"{name}.weight"] = rng.normal(0, np.sqrt(2 / fan_in), shape).astype(np.float32)
        parameters[f"{name}.bias"] = np.zeros(shape[2] if depthwise else shape[0], np.float32)
    return parameters


def _patches(layer: Conv, x: Array) -> Array:
    """[N, H, W, C] -> [N, OH, OW, KH, KW, C], a copy."""
    top, bottom, left, right = layer.pad
    padded = np.pad(x, ((0, 0), (top, bottom), (left, right), (0, 0)))
    windows = sliding_window_view(padded, (layer.kernel, layer.kernel), axis=(1, 2))  # type: ignore[call-overload]
    return np.ascontiguousarray(windows[:, :: layer.stride, :: layer.stride].transpose(0, 1, 2, 4, 5, 3))


def _convolve(layer: Conv, patches: Array, weight: Array, bias: Array) -> Array:
    if layer.depthwise:
        return np.asarray((patches * weight[:, :, :, 0]).sum(axis=(3, 4)) + bias)
    n, height, width = patches.shape[:3]
    flat = patches.reshape(n * height * width, -1) @ weight.reshape(weight.shape[0], -1).T + bias
    return np.asarray(flat.reshape(n, height, width, -1))


def _convolve_backward(
    layer: Conv, patches: Array, weight: Array, grad: Array, input_shape: tuple[int, ...]
) -> tuple[Array, Array, Array]:
    """Gradients with respect to the input, the weight and the bias."""
    if layer.depthwise:
        grad_weight = np.einsum("nhwklc,nhwc->klc", patches, grad)[..., None]
        grad_patches = grad[:, :, :, None, None, :] * weight[:, :, :, 0]
    else:
        flat = grad.reshape(-1, grad.shape[-1])
        grad_weight = (flat.T @ patches.reshape(flat.shape[0], -1)).reshape(weight.shape)
        grad_patches = (flat @ weight.reshape(weight.shape[0], -1)).reshape(patches.shape)
    top, bottom, left, right = layer.pad
    n, height, width, channels = input_shape
    padded = np.zeros((n, height + top + bottom, width + left + right, channels), grad.dtype)
    rows, columns, stride = grad.shape[1], grad.shape[2], layer.stride
    for ky in range(layer.kernel):
        for kx in range(layer.kernel):
            target = padded[:, ky : ky + rows * stride : stride, kx : kx + columns * stride : stride]
            target += grad_patches[:, :, :, ky, kx]
    return padded[:, top : top + height, left : left + width], grad_weight, grad.sum(axis=(0, 1, 2))


def forward(network: tuple[Layer, ...], parameters: Parameters, images: Array) -> dict[str, Array]:
    """Every layer's output by name, "input" included, for images [N, 8, 8, 1] in 0..1."""
    outputs: dict[str, Array] = {"input": images}
    x = images
    for layer in network:
        match layer:
            case Conv():
                weight, bias = parameters[f"{layer.name}.weight"], parameters[f"{layer.name}.bias"]
                x = _convolve(layer, _patches(layer, x), weight, bias)
            case Add():
                x = x + outputs[layer.skip]
            case AveragePool():
                x = x.mean(axis=(1, 2), keepdims=True)
            case Flatten():
                x = x.reshape(x.shape[0], 1, 1, -1)
        if isinstance(layer, Conv | Add) and layer.relu:
            x = np.maximum(x, 0)
        outputs[layer.name] = x
    return outputs


def backward(
    network: tuple[Layer, ...], parameters: Parameters, outputs: dict[str, Array], grad_logits: Array
) -> Parameters:
    """Gradients of every parameter, given `forward`'s outputs and the gradient [N, 10] of the last layer."""
    names = ["input"] + [layer.name for layer in network]
    grads: dict[str, Array] = {names[-1]: grad_logits.reshape(outputs[names[-1]].shape)}
    result: Parameters = {}
    for previous, layer in reversed(list(zip(names, network, strict=False))):
        grad, x = grads.pop(layer.name), outputs[previous]
        if isinstance(layer, Conv | Add) and layer.relu:
            grad = grad * (outputs[layer.name] > 0)
        match layer:
            case Conv():
                weight = parameters[f"{layer.name}.weight"]
                # The patches are gathered again rather than kept from the forward pass: less memory.
                grad, grad_weight, grad_bias = _convolve_backward(
                    layer, _patches(layer, x), weight, grad, x.shape
                )
                result[f"{layer.name}.weight"], result[f"{layer.name}.bias"] = grad_weight, grad_bias
            case Add():
                grads[layer.skip] = grads.get(layer.skip, 0) + grad
            case AveragePool():
                grad = np.broadcast_to(grad / (x.shape[1] * x.shape[2]), x.shape)
            case Flatten():
                grad = grad.reshape(x.shape)
        grads[previous] = grads.get(previous, 0) + grad
    return result


def cross_entropy(logits: Array, labels: NDArray[np.integer]) -> tuple[float, Array]:
    """Mean softmax cross-entropy of logits [N, 10], and its gradient."""
    shifted = logits - logits.max(axis=1, keepdims=True)
    log_probabilities = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
    rows = np.arange(len(labels))
    grad = np.exp(log_probabilities)
    grad[rows, labels] -= 1
    return float(-log_probabilities[rows, labels].mean()), grad / len(labels)
