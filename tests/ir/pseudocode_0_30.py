"""The pseudo-code of TOSA 0.30 where 1.0 dropped or changed an operator, line by line, with 0.30's own parameters."""

import itertools

import numpy as np


def for_each(*bounds: int):
    return itertools.product(*(range(bound) for bound in bounds))


def fully_connected(input, weight, bias, input_zp, weight_zp):  # clause 2.3.7
    (N, IC), (OC, _) = input.shape, weight.shape
    output = np.empty((N, OC), np.int64)
    for n, oc in for_each(N, OC):
        acc = 0
        for ic in range(IC):
            acc += (int(input[n, ic]) - input_zp) * (int(weight[oc, ic]) - weight_zp)
        output[n, oc] = acc + int(bias[oc])
    return output


def transpose_conv2d(
    input, weight, bias, out_pad, stride, input_zp, weight_zp
):  # clause 2.3.11: out_pad crops
    (N, IH, IW, IC), (OC, KH, KW, _) = input.shape, weight.shape
    top, bottom, left, right = out_pad
    OH = (IH - 1) * stride[0] - top - bottom + KH
    OW = (IW - 1) * stride[1] - left - right + KW
    output = np.empty((N, OH, OW, OC), np.int64)
    output[:] = bias
    for n, iy, ix, oc, ic, ky, kx in for_each(N, IH, IW, OC, IC, KH, KW):
        oy, ox = iy * stride[0] - top + ky, ix * stride[1] - left + kx
        if 0 <= oy < OH and 0 <= ox < OW:
            value = int(input[n, iy, ix, ic]) - input_zp
            output[n, oy, ox, oc] += value * (int(weight[oc, ky, kx, ic]) - weight_zp)
    return output


def resize(input, output_size, stride, offset, shift, mode):  # clause 2.12.1
    """Returns the resized image; None if an element breaks the REQUIRE."""
    N, IH, IW, C = input.shape
    unit = 1 << shift
    output = np.empty((N, *output_size, C), np.int64)
    for n, oy, ox, c in for_each(N, *output_size, C):
        y, x = oy * stride[0] + offset[0], ox * stride[1] + offset[1]
        iy, ix = y >> shift, x >> shift
        dy, dx = y - (iy << shift), x - (ix << shift)
        iy0, iy1, ix0, ix1 = max(iy, 0), min(iy + 1, IH - 1), max(ix, 0), min(ix + 1, IW - 1)
        if not (ix0 <= ix1 and iy0 <= iy1):
            return None
        v00, v01 = int(input[n, iy0, ix0, c]), int(input[n, iy0, ix1, c])
        v10, v11 = int(input[n, iy1, ix0, c]), int(input[n, iy1, ix1, c])
        if mode == "BILINEAR":
            acc = v00 * (unit - dy) * (unit - dx) + v01 * (unit - dy) * dx
            output[n, oy, ox, c] = acc + v10 * dy * (unit - dx) + v11 * dy * dx
        else:
            row, column = (iy1 if dy >= unit // 2 else iy0), (ix1 if dx >= unit // 2 else ix0)
            output[n, oy, ox, c] = input[n, row, column, c]
    return output


def rescale(input, multiplier, shift, input_zp, output_zp, scale32, double_round, per_channel, out_range):
    """Clause 2.13.2, with `double_round` and types of 0.30; values are numbers, not bit patterns."""
    output = np.empty(input.shape, np.int64)
    for index in np.ndindex(input.shape):
        channel = index[-1] if per_channel else 0
        value, bits = int(input[index]) - input_zp, shift[channel]
        rounding = 1 << (bits - 1)
        if scale32 and double_round and bits > 31:
            rounding += (1 << 30) if value >= 0 else -(1 << 30)
        result = (value * multiplier[channel] + rounding) >> bits
        output[index] = min(max(result + output_zp, out_range[0]), out_range[1])
    return output


def logical_shift(value, amount, bits, left):  # clauses 2.5.8 and 2.5.9: 0 to 31 for every type
    """The shifted bit pattern as a signed number of the given bits."""
    pattern = int(value) & ((1 << bits) - 1)
    shifted = (pattern << amount if left else pattern >> amount) & ((1 << bits) - 1)
    return shifted - (1 << bits) if shifted >> (bits - 1) else shifted
