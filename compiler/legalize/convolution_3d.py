"""CONV3D as a sum over the kernel's planes of CONV2Ds of the images that each plane meets (clause 2.3.4)."""

from tosaic.compiler.cut.rules import windows_of
from tosaic.compiler.ir import DType
from tosaic.compiler.legalize.rewriting import Rewriting
from tosaic.compiler.machine_numbers import KERNEL_MOST_PLANES


def convolution_3d(new: Rewriting) -> bool:
    """Rewrites a CONV3D; its weights may be computed at run time, its bias not.

    With a depth stride s, s neighbouring images are one image of s times the height; the wanted one is a slice of it.
    """
    graph, operator = new.graph, new.operator
    data, weight, bias, *zero_points = operator.inputs
    oc, kd, kh, kw, ic = new.shape(weight)
    (front, _, *pad), (sd, sy, sx), (dd, dy, dx) = (
        operator.attributes[name] for name in ("pad", "stride", "dilation")
    )
    (n, depth, *_), (_, od, oh, ow, _) = new.shape(data), new.shape(operator.outputs[0])
    # A plane that only meets padding adds zero.
    planes = list(windows_of(graph, operator)[0].useful_taps())
    if not planes:
        biases = new.shape(bias)[0]
        row = new.reshape(bias, (1, 1, 1, 1, biases))
        times = new.sizes((n, od, oh, ow, oc // biases))
        new.add("TILE", [row, times], (n, od, oh, ow, oc), DType.INT32, operator.outputs[0])
        return True
    if len(planes) > KERNEL_MOST_PLANES and min(kh, kw) < kd:
        _turned(new, 2 if kh <= kw else 3)
        return True
    first = planes[0] * dd // sd
    # Images from the first that a plane wants, in groups of the stride.
    groups = planes[-1] * dd // sd + od - first
    before = front - first * sd
    zero_point = int(graph.operand_value(operator, "input_zp").reshape(-1)[0])
    # Fewer images where a number is negative.
    behind = groups * sd - before - depth
    data = new.pad(data, [(0, 0), (before, behind), (0, 0), (0, 0), (0, 0)], zero_point)
    total = None
    for number, plane in enumerate(planes):
        group, inside = plane * dd // sd - first, plane * dd % sd
        shape = (n * od, oh, ow, oc)
        part = new.reshape(new.slice(weight, (0, plane, 0, 0, 0), (oc, 1, kh, kw, ic)), (oc, kh, kw, ic))
        product = new.add(
            "CONV2D",
            [
                _every(new, data, group, inside, (od, sd)),
                part,
                new.zeros(1, DType.INT32) if number else bias,
                *zero_points,
            ],
            shape,
            DType.INT32,
            pad=list(pad),
            stride=[sy, sx],
            dilation=[dy, dx],
            acc_type=operator.attributes.get("acc_type"),
            local_bound=operator.attributes.get("local_bound", False),
        )
        total = product if total is None else new.add("ADD", [total, product], shape, DType.INT32)
    assert total is not None
    new.reshape(total, (n, od, oh, ow, oc), operator.outputs[0])
    return True


def _every(new: Rewriting, data: str, group: int, inside: int, counts: tuple[int, int]) -> str:
    """[N * outputs, H, W, C] of image number `inside` of each group of `stride` images, from `group` on."""
    outputs, stride = counts
    n, depth, ih, iw, ic = new.shape(data)
    groups = depth // stride
    if n > 1 and outputs < groups:
        size = stride * ih * iw * ic
        data = new.reshape(data, (n, groups, size))
        data = new.slice(data, (0, group, 0), (n, outputs, size))
        group, groups = 0, outputs
    data = new.reshape(data, (n * groups, stride * ih, iw, ic))
    if n * groups == n * outputs and stride == 1:
        return data
    # In rows of an image: a view, no copy.
    return new.slice(data, (group, inside * ih, 0, 0), (n * outputs, ih, iw, ic))


def _turned(new: Rewriting, axis: int) -> None:
    """The same CONV3D with the depth and another axis in each other's place."""
    operator = new.operator
    data, weight, bias, *zero_points = operator.inputs
    order = [0, 1, 2, 3, 4]
    order[1], order[axis] = axis, 1
    perms = tuple(order)
    attributes = dict(operator.attributes)
    swapped = [place - 1 for place in order[1:4]]
    attributes["pad"] = [attributes["pad"][2 * place + side] for place in swapped for side in (0, 1)]
    for name in ("stride", "dilation"):
        attributes[name] = [attributes[name][place] for place in swapped]
    shape = new.shape(operator.outputs[0])
    turned = new.add(
        "CONV3D",
        [new.transpose(data, perms), new.transpose(weight, perms), bias, *zero_points],
        tuple(shape[i] for i in order),
        DType.INT32,
        **attributes,
    )
    new.transpose(turned, perms, operator.outputs[0])
