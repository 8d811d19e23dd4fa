"""TOSA's pseudo-code, transcribed line by line into scalar Python: the oracle of the golden model's tests.

One element at a time, Python integers, no cleverness: this is to be compared with the specification by
reading. Each function takes ndarrays and returns an ndarray of Python-checked values. REQUIRE raises
`Unpredictable`. Parameters have their 1.0 meaning, as in the golden model.
"""

import itertools

import numpy as np

RANGES = {
    "int8": (-(1 << 7), (1 << 7) - 1),
    "uint8": (0, (1 << 8) - 1),
    "int16": (-(1 << 15), (1 << 15) - 1),
    "uint16": (0, (1 << 16) - 1),
    "int32": (-(1 << 31), (1 << 31) - 1),
    "int48": (-(1 << 47), (1 << 47) - 1),
}


class Unpredictable(Exception):
    """A REQUIRE does not hold: any result conforms."""


def REQUIRE(condition):  # the spelling of the specification
    if not condition:
        raise Unpredictable


def for_each(*bounds):
    return itertools.product(*(range(bound) for bound in bounds))


def apply_add(a, b, kind):
    c = a + b
    REQUIRE(RANGES[kind][0] <= c <= RANGES[kind][1])
    return c


def apply_clip(value, low, high):
    return min(max(value, low), high)


def count_leading_zeros(a):
    acc = 32
    if a != 0:
        mask = 1 << 31
        acc = 0
        while (mask & a) == 0:
            mask >>= 1
            acc += 1
    return acc


def apply_scale_32(value, multiplier, shift, double_round=False):
    REQUIRE(multiplier >= 0)
    REQUIRE(2 <= shift <= 62)
    REQUIRE(-(1 << (shift - 1)) <= value < (1 << (shift - 1)))  # erratum B1
    rounding = 1 << (shift - 1)
    if double_round:
        if shift > 31 and value >= 0:
            rounding += 1 << 30
        if shift > 31 and value < 0:
            rounding -= 1 << 30
    result = (value * multiplier + rounding) >> shift
    REQUIRE(RANGES["int32"][0] <= result <= RANGES["int32"][1])
    return result


def apply_scale_16(value, multiplier, shift):
    REQUIRE(multiplier >= 0)
    REQUIRE(2 <= shift <= 62)
    result = (value * multiplier + (1 << (shift - 1))) >> shift
    REQUIRE(RANGES["int32"][0] <= result <= RANGES["int32"][1])
    return result


def reciprocal_scale(value):
    REQUIRE(value > 0)
    k = 32 - count_leading_zeros(value - 1)
    numerator = ((1 << 30) + 1) << k
    return numerator // value, 30 + k


def apply_lookup(table, value):
    clipped_value = apply_clip(value, -32768, 32767)
    index = (clipped_value + 32768) >> 7
    fraction = clipped_value & 0x7F
    base = table[index]
    slope = table[index + 1] - base
    REQUIRE(-32768 <= slope <= 32767)
    return (base << 7) + slope * fraction


def apply_broadcast(out_shape, in_shape, index):
    return tuple(0 if out != size else i for out, size, i in zip(out_shape, in_shape, index, strict=True))


def elementwise(function, *operands):
    """`function` of Python integers for each element of the broadcast shape."""
    shape = np.broadcast_shapes(*(x.shape for x in operands))
    result = np.empty(shape, dtype=np.int64)
    for index in np.ndindex(shape):
        result[index] = function(*(int(x[apply_broadcast(shape, x.shape, index)]) for x in operands))
    return result


def conv3d(input, weight, bias, input_zp, weight_zp, *, pad, stride, dilation, kind):
    N, ID, IH, IW, IC = input.shape
    OC, KD, KH, KW, _ = weight.shape
    pad_d0, pad_d1, pad_top, pad_bottom, pad_left, pad_right = pad
    OD = (ID - 1 + pad_d0 + pad_d1 - (KD - 1) * dilation[0]) // stride[0] + 1
    OH = (IH - 1 + pad_top + pad_bottom - (KH - 1) * dilation[1]) // stride[1] + 1
    OW = (IW - 1 + pad_left + pad_right - (KW - 1) * dilation[2]) // stride[2] + 1
    output = np.empty((N, OD, OH, OW, OC), dtype=np.int64)
    for n, od, oy, ox, oc in for_each(N, OD, OH, OW, OC):
        acc = 0
        id_ = od * stride[0] - pad_d0
        iy = oy * stride[1] - pad_top
        ix = ox * stride[2] - pad_left
        for kd, ky, kx, ic in for_each(KD, KH, KW, IC):
            d = id_ + kd * dilation[0]
            y = iy + ky * dilation[1]
            x = ix + kx * dilation[2]
            if 0 <= x < IW and 0 <= y < IH and 0 <= d < ID:
                value = int(input[n, d, y, x, ic]) - input_zp
                w = int(weight[oc, kd, ky, kx, ic]) - weight_zp
                acc = apply_add(acc, value * w, kind)
        output[n, od, oy, ox, oc] = apply_add(acc, int(bias[oc if len(bias) > 1 else 0]), kind)
    return output


def conv2d(input, weight, bias, input_zp, weight_zp, *, pad, stride, dilation, kind):
    N, IH, IW, IC = input.shape
    OC, KH, KW, _ = weight.shape
    pad_top, pad_bottom, pad_left, pad_right = pad
    OH = (IH - 1 + pad_top + pad_bottom - (KH - 1) * dilation[0]) // stride[0] + 1
    OW = (IW - 1 + pad_left + pad_right - (KW - 1) * dilation[1]) // stride[1] + 1
    output = np.empty((N, OH, OW, OC), dtype=np.int64)
    for n, oy, ox, oc in for_each(N, OH, OW, OC):
        acc = 0
        iy = oy * stride[0] - pad_top
        ix = ox * stride[1] - pad_left
        for ky, kx, ic in for_each(KH, KW, IC):
            y = iy + ky * dilation[0]
            x = ix + kx * dilation[1]
            if 0 <= y < IH and 0 <= x < IW:
                value = int(input[n, y, x, ic]) - input_zp
                w = int(weight[oc, ky, kx, ic]) - weight_zp
                acc = apply_add(acc, value * w, kind)
        output[n, oy, ox, oc] = apply_add(acc, int(bias[oc if len(bias) > 1 else 0]), kind)
    return output


def depthwise_conv2d(input, weight, bias, input_zp, weight_zp, *, pad, stride, dilation, kind):
    N, IH, IW, C = input.shape
    KH, KW, _, M = weight.shape
    pad_top, pad_bottom, pad_left, pad_right = pad
    OH = (IH - 1 + pad_top + pad_bottom - (KH - 1) * dilation[0]) // stride[0] + 1
    OW = (IW - 1 + pad_left + pad_right - (KW - 1) * dilation[1]) // stride[1] + 1
    output = np.empty((N, OH, OW, C * M), dtype=np.int64)
    for n, oy, ox, c, m in for_each(N, OH, OW, C, M):
        acc = 0
        iy = oy * stride[0] - pad_top
        ix = ox * stride[1] - pad_left
        for ky, kx in for_each(KH, KW):
            y = iy + ky * dilation[0]
            x = ix + kx * dilation[1]
            if 0 <= y < IH and 0 <= x < IW:
                value = int(input[n, y, x, c]) - input_zp
                w = int(weight[ky, kx, c, m]) - weight_zp
                acc = apply_add(acc, value * w, kind)
        output[n, oy, ox, c * M + m] = apply_add(acc, int(bias[(c * M) + m if len(bias) > 1 else 0]), kind)
    return output


def transpose_conv2d(input, weight, bias, input_zp, weight_zp, *, out_pad, stride, kind):
    N, IH, IW, IC = input.shape
    OC, KH, KW, _ = weight.shape
    out_pad_top, out_pad_bottom, out_pad_left, out_pad_right = out_pad
    OH = (IH - 1) * stride[0] + out_pad_top + out_pad_bottom + KH
    OW = (IW - 1) * stride[1] + out_pad_left + out_pad_right + KW
    output = np.empty((N, OH, OW, OC), dtype=np.int64)
    for index in for_each(N, OH, OW, OC):
        output[index] = bias[index[3] if len(bias) > 1 else 0]
    for n, iy, ix, oc, ic, ky, kx in for_each(N, IH, IW, OC, IC, KH, KW):
        oy = iy * stride[0] + out_pad_top + ky
        ox = ix * stride[1] + out_pad_left + kx
        if 0 <= oy < OH and 0 <= ox < OW:
            acc = int(output[n, oy, ox, oc])
            value = int(input[n, iy, ix, ic]) - input_zp
            w = int(weight[oc, ky, kx, ic]) - weight_zp
            output[n, oy, ox, oc] = apply_add(acc, value * w, kind)
    return output


def matmul(A, B, A_zp, B_zp, *, kind):
    N, H, C = A.shape
    W = B.shape[2]
    output = np.empty((N, H, W), dtype=np.int64)
    for n, h, w in for_each(N, H, W):
        acc = 0
        for c in range(C):
            acc = apply_add(acc, (int(A[n, h, c]) - A_zp) * (int(B[n, c, w]) - B_zp), kind)
        output[n, h, w] = acc
    return output


def argmax(input, axis):
    left_shape, right_shape = input.shape[:axis], input.shape[axis + 1 :]
    output = np.empty(left_shape + right_shape, dtype=np.int64)
    for left_index in np.ndindex(left_shape):
        for right_index in np.ndindex(right_shape):
            max_value = np.iinfo(input.dtype).min
            max_index = 0
            for i in range(input.shape[axis]):
                value = int(input[(*left_index, i, *right_index)])
                if value > max_value:
                    max_value, max_index = value, i
            output[left_index + right_index] = max_index
    return output


def pool2d(input, *, kernel, stride, pad, visit):
    """The loop that both pools share; `visit` turns the list of values inside the input into the output."""
    N, IH, IW, C = input.shape
    OH = (IH + pad[0] + pad[1] - kernel[0]) // stride[0] + 1
    OW = (IW + pad[2] + pad[3] - kernel[1]) // stride[1] + 1
    output = np.empty((N, OH, OW, C), dtype=np.int64)
    for n, oy, ox, c in for_each(N, OH, OW, C):
        iy = oy * stride[0] - pad[0]
        ix = ox * stride[1] - pad[2]
        values = []
        for ky, kx in for_each(*kernel):
            y = iy + ky
            x = ix + kx
            if 0 <= y < IH and 0 <= x < IW:
                values.append(int(input[n, y, x, c]))
        output[n, oy, ox, c] = visit(values)
    return output


def avg_pool2d(input, input_zp, output_zp, *, kernel, stride, pad, kind):
    def visit(values):
        acc = 0
        for value in values:
            acc = apply_add(acc, value - input_zp, "int32")
        acc = apply_scale_32(acc, *reciprocal_scale(len(values)))
        return apply_clip(acc + output_zp, *RANGES[kind])

    return pool2d(input, kernel=kernel, stride=stride, pad=pad, visit=visit)


def resize(input, scale, offset, border, *, mode):
    scale_y_n, scale_y_d, scale_x_n, scale_x_d = scale
    N, IH, IW, C = input.shape
    OH = ((IH - 1) * scale_y_n - offset[0] + border[0]) // scale_y_d + 1
    OW = ((IW - 1) * scale_x_n - offset[1] + border[1]) // scale_x_d + 1
    output = np.empty((N, OH, OW, C), dtype=np.int64)
    for n, oy, ox, c in for_each(N, OH, OW, C):
        y = oy * scale_y_d + offset[0]
        x = ox * scale_x_d + offset[1]
        iy = y // scale_y_n
        ix = x // scale_x_n
        dy = y - iy * scale_y_n
        dx = x - ix * scale_x_n
        iy0 = max(iy, 0)
        iy1 = min(iy + 1, IH - 1)
        ix0 = max(ix, 0)
        ix1 = min(ix + 1, IW - 1)
        REQUIRE(ix0 <= ix1 and iy0 <= iy1)
        if mode == "BILINEAR":
            acc = int(input[n, iy0, ix0, c]) * (scale_y_n - dy) * (scale_x_n - dx)
            acc += int(input[n, iy0, ix1, c]) * (scale_y_n - dy) * dx
            acc += int(input[n, iy1, ix0, c]) * dy * (scale_x_n - dx)
            acc += int(input[n, iy1, ix1, c]) * dy * dx
            output[n, oy, ox, c] = acc
        else:
            iy = iy1 if dy * 2 >= scale_y_n else iy0
            ix = ix1 if dx * 2 >= scale_x_n else ix0
            output[n, oy, ox, c] = input[n, iy, ix, c]
    return output


def rescale(value, multiplier, shift, input_zp, output_zp, *, scale32, double_round, out):
    """One element; unsigned values and zero points are given as such."""
    value = value - input_zp
    if scale32:
        result = apply_scale_32(value, multiplier, shift, double_round)
    else:
        result = apply_scale_16(value, multiplier, shift)
    return apply_clip(apply_add(result, output_zp, "int32"), *RANGES[out])


def mul(value1, value2, shift):
    if shift > 0:
        product = value1 * value2 + (1 << (shift - 1))
        REQUIRE(product < 1 << 63)  # int64 arithmetic; shift 63 can overflow it (erratum B9)
        product = product >> shift
        REQUIRE(RANGES["int32"][0] <= product <= RANGES["int32"][1])
        return product
    return ((value1 * value2 + (1 << 31)) & 0xFFFFFFFF) - (1 << 31)  # low 32 bits


def arithmetic_right_shift(value1, value2, round_, kind):
    REQUIRE(0 <= value2 <= {"int8": 7, "int16": 15, "int32": 31}[kind])
    result = value1 >> value2
    if round_ and value2 > 0 and (value1 >> (value2 - 1)) & 1 != 0:
        result = result + 1
    return apply_clip(result, *RANGES[kind])


def logical_left_shift(value1, value2, kind):
    REQUIRE(0 <= value2 <= 31)
    return truncate(value1 << value2, kind)


def logical_right_shift(value1, value2, kind):
    REQUIRE(0 <= value2 <= 31)
    unsigned = value1 & {"int8": 0xFF, "int16": 0xFFFF, "int32": 0xFFFFFFFF}[kind]
    return truncate(unsigned >> value2, kind)


def intdiv(value1, value2):
    REQUIRE(value2 != 0)
    quotient = abs(value1) // abs(value2)
    result = quotient if (value1 < 0) == (value2 < 0) else -quotient
    REQUIRE(result <= RANGES["int32"][1])
    return result


def negate(value1, input1_zp, output_zp, kind):
    value = apply_add(0, -(value1 - input1_zp), "int32")
    return apply_clip(apply_add(value, output_zp, "int32"), *RANGES[kind])


def truncate(value, kind):
    bits = {"int8": 8, "int16": 16, "int32": 32}[kind]
    low = value & ((1 << bits) - 1)
    return low - (1 << bits) if low >> (bits - 1) else low
