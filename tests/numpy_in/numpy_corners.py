"""Expressions and functions at the corners of NumPy that no product of types and functions draws.

Each line of a text has expressions of `x`, parted by semicolons; `CORNERS` has them as functions, with the shape of x.
What writes, or takes more lines, is a function.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view as swv

__all__ = ["CORNERS", "swv"]

ANY_AXES = r"""
x.sum((0,-1), keepdims=True); x.sum(axis=(-1,-2)); x.sum(axis=()); x.max(axis=()); x.sum(1, np.int16)
np.sum(x, dtype=np.uint8); x.sum(dtype='uint16', axis=-1); np.sum(x, axis=(0,0)); x.max((1,2), keepdims=True)
x.min(axis=-3); x.max(initial=5); x.sum(initial=5); x.min(initial=0, axis=1); x.prod(axis=0, dtype=np.int16)
x.sum(where=x>1); np.sum(x, where=x>1, initial=2, axis=0); np.max(x, where=x>1, initial=0); np.any(x, axis=(0,2))
x.any(axis=-1, keepdims=True); np.all(x>0, axis=(1,2), keepdims=True); np.any(x, where=x>2); x.mean()
x.mean(axis=0, dtype=np.int32); np.mean(x, dtype=int); x.var(); x.std(); np.median(x)
x.argmax(axis=-1, keepdims=True); np.argmin(x, axis=1); x.cumsum(axis=-1, dtype=np.int16); x.cumsum()
np.cumsum(x, 1); np.cumprod(x, 0, dtype=np.int32); np.cumsum(x, axis=(0,1)); np.diff(x, axis=0); np.diff(x, n=2)
np.diff(x, n=0); np.diff(x, n=7); np.diff(x, -1); np.ptp(x, axis=(0,1)); np.ptp(x, 1, keepdims=True)
np.sort(x, axis=0); np.sort(x, axis=None); np.sort(x)[..., ::-1]; x.argsort(); np.argsort(x, kind='stable')
np.argsort(x, axis=0, stable=True); np.unique(x); np.nonzero(x); np.count_nonzero(x, axis=(0,1), keepdims=True)
np.add.reduce(x); np.add.reduce(x, axis=None); np.add.reduce(x, axis=(0,1)); np.multiply.reduce(x, axis=1)
np.bitwise_or.reduce(x, axis=0); np.bitwise_and.reduce(x, axis=None); np.bitwise_xor.reduce(x.ravel())
np.logical_and.reduce(x, axis=1); np.logical_or.reduce(x); np.logical_xor.reduce(x)
np.maximum.reduce(x, axis=(0,1)); np.minimum.reduce(x, axis=-1, keepdims=True); np.add.accumulate(x, axis=1)
np.add.accumulate(x); np.minimum.accumulate(x, axis=-1); np.multiply.accumulate(x, axis=0); np.subtract.reduce(x)
np.subtract.accumulate(x); np.add.reduceat(x, [0,2]); np.add.at(x.copy(), 0, 1); np.subtract.outer(x[0,0], x[1,0])
np.equal.outer(x[0,0], x[1,0]); np.maximum.outer(x[0,0], x[1,0]); np.partition(x, 2); np.argpartition(x, 2)
np.nansum(x); np.nanmax(x); np.nanmin(x, axis=1); np.nanargmax(x); np.cumulative_sum(x, axis=1)
np.cumulative_prod(x, axis=1); np.lexsort((x[0,0], x[1,0])); np.percentile(x, 50); np.quantile(x, .5); np.average(x)
x.round(); np.round(x); np.around(x, 1); np.rint(x); np.floor(x); np.ceil(x); np.trunc(x); np.fix(x)
np.gradient(x[0,0]); np.cross(x[0,0,:3], x[1,0,:3]); np.ediff1d(x); np.nan_to_num(x); np.isnan(x); np.isfinite(x)
np.real(x); np.imag(x); x.real; x.imag; np.conj(x); x.conj(); x.conjugate(); np.angle(x); np.iscomplexobj(x)
np.sign(x); np.signbit(x); np.heaviside(x, 1); np.abs(x); np.absolute(x); np.fabs(x); np.square(x); np.sqrt(x)
np.cbrt(x); np.reciprocal(x); np.positive(x); np.negative(x); -x; +x; ~x; np.invert(x); np.bitwise_not(x)
np.bitwise_invert(x); np.gcd(x, 6); np.lcm(x, 6); np.float_power(x, 2); np.power(x, 2); np.pow(x, 3); x ** 0; x ** 1
x ** 5; x ** -1; 2 ** x; x ** x; x ** 0.5; x ** np.array(2); x ** np.int8(3); x ** np.array([0,1,2,3,4]); x ** 2
x ** np.array(1); x ** np.int64(2); x ** True; np.round(x, 2); np.fmod(x, 7); np.fmod(x, -7); np.fmod(x, x[0])
np.fmod(x, 0); np.fmod(-7, x); x > 0.5; x >= 0.5; x < -0.5; x <= 3.0; x == 2.0; x != 2.5; 0.5 > x; 0.5 <= x
2.0 == x; x > np.nan; x < np.inf; x != np.nan; x > np.array([.5,1,1e30,-1e30,np.nan]); x > np.float32(16777217)
x < np.float16(0.1); x > 2**64; x < 2**64; x == 2**70; x < -2**80; x > 1j
x > np.array([1,2,3,4,5.5], np.float32)[::-1]; x % np.int64(2**40); x // np.int64(2**40); x // np.int64(2**40-1)
np.pad(x, 1, constant_values=1); np.pad(x, 1, constant_values=(0,1))
np.pad(x, ((1,2),(0,1),(3,0)), constant_values=((1,0),(0,1),(1,1))); np.pad(x, 1, constant_values=-1)
np.pad(x, 1, constant_values=1.5); x.ravel('F'); x.reshape((5,12), order='F'); x.flatten('F')
x.reshape(5,-1,order='A'); np.insert(x, 1, 0, axis=0); np.insert(x, [1,2], 1); np.insert(x, 0, x[0], axis=0)
np.insert(x, 1, [[1]*5]*3, axis=1); np.meshgrid(x[0,0], x[0,1])
np.meshgrid(x[0,0], x[0,:,1], indexing='ij', sparse=True); np.meshgrid(np.arange(3), x[0,0])
np.broadcast_arrays(x, x[0]); np.choose(x[0].astype(np.int32) & 1, [x[0], x[1]])
np.choose((x[0] != 0).astype(int), [7, x[0]]); x.compress([True, False, True], axis=0); np.diagflat(x[0,0])
np.cross(x[..., :3], x[..., 1:4]); np.cross(x[0,:3], x[1,:3], axis=0); np.polyval([1,2,3], x)
np.polyval(x[0,0,:3], np.arange(5)); np.array_equiv(x, x[0]); np.einsum('...i,i', x, x[0,0])
np.einsum('...i,...i->...', x, x); np.einsum('ii', x[0,:,:4]); np.einsum('ii->i', x[0,:,:4])
np.einsum('iij->j', np.stack([x[0,:,0], x[0,:,1]], -1)[:, None].repeat(4,1)); np.einsum('ij,ij->ij', x[0], x[:1,0])
np.einsum('ij,ij->i', x[0], x[:1,0]); np.einsum('i...->...', x); np.einsum('ij...,j...->i...', x, x[0])
np.einsum('ij,jk->ik', x[0], x[0].T, dtype=np.int32); np.einsum('i,j->ij', x[0,0], x[0,1])
np.einsum('ijk->kj', x[:1]); np.einsum('...', x); np.einsum('i->', x[0,0]); np.vecdot(x, x)
np.linalg.vecdot(x, x, axis=0); np.linalg.multi_dot([x[0], x[1].T, x[2]]); np.linalg.outer(x[0,0], x[0,1])
np.linalg.diagonal(x); np.linalg.trace(x); np.matmul(x[0], x[1].T, dtype=np.int32)
np.matmul(x[0], x[1].T, dtype=np.int8); np.matmul(x[0], x[1]); np.correlate(x[0,0,:2], x[0,1])
np.correlate(x[0,0,:2], x[0,1], 'same'); np.correlate(x[0,0,:2], x[0,1], 'full'); np.r_[x[0,0], x[0,1]]
np.r_[x[0,0], 0]; np.r_[0, x[0,0], 1:3]; np.r_[x[0,0,0], x[0,0]]; np.c_[x[0,0], x[0,1]]; np.c_[x[0], x[1]]
np.int32(x); np.uint8(x); np.int16(x[0,0,0]) + x; np.int64(x); np.bool_(x); np.uint32(x[0])
isinstance(x, np.ndarray) + x; isinstance(x[0,0,0], np.ndarray) + x; isinstance(x[0], np.ndarray) + x
x.sum(initial=-5); x.max(initial=300); np.max(x, where=x>1)
np.min(x, where=[True,False,True,True,True], axis=0, initial=1); np.all(x, where=x>2, axis=0)
np.prod(x, where=x<2, dtype=np.int32); np.prod(x, initial=3, dtype=np.int32, axis=0)
np.add.reduce(x, axis=0, initial=3, where=x>0); np.maximum.reduce(x, axis=0, initial=3)
np.subtract.reduce(x, axis=1); np.subtract.reduce(x, axis=1, keepdims=True); np.subtract.accumulate(x, axis=2)
np.logical_xor.accumulate(x, axis=1); np.floor_divide.reduce(x, axis=0); np.left_shift.reduce(x, axis=0)
np.add.reduceat(x, [0,2], axis=1); np.add.reduceat(x, [0,2,1,3], axis=2); np.maximum.reduceat(x, [0,2])
np.add.reduceat(x[0,0], [0,9]); np.fmax.reduce(x); np.nansum(x, axis=0); np.isfinite(x).all() & (x > 0)
np.cumulative_sum(x); np.cumulative_prod(x[0,0]); np.cumulative_sum(x, axis=0, dtype=np.int32)
np.digitize(x, [-5,0,5]); np.digitize(x, [5,0,-5]); np.digitize(x, [5,0,-5], right=True)
np.digitize(x, [-5,0,5], right=True); np.digitize(x, [-5.5,0.5]); np.digitize(x, [3,1,2]); np.digitize(x, [1,1,3])
np.searchsorted([-5.5,0,5.5], x); np.isin(x, []); np.isin(x, [1.5,2]); np.histogram(x, bins=4, range=(0,8))[0]
np.histogram(x, bins=16, range=(-128,128))[0]; np.histogram(x, bins=[-100,0,100])[0]; np.histogram(x, bins=[3,1])[0]
np.histogram(x, bins=7, range=(0, 256))[0]; np.histogram(x, 10, (0, 1))[0]; np.histogram(x)[0]
np.histogram(x, [0,.5,1,2.5])[0]; np.bincount(x.ravel(), minlength=256)
np.bincount(x.ravel().astype(np.uint8), minlength=256); np.bincount(x.ravel().astype(np.int32) & 15, minlength=16)
np.bincount(x.ravel().astype(np.int32) & 15, minlength=40); np.bincount(x, minlength=256)
np.unravel_index(x.argmax(), x.shape); np.unravel_index(x.astype(np.int32) & 15, (4,4))
np.ravel_multi_index((x[0,0].astype(int)&3, x[0,1].astype(int)&3), (4,4)); x.mT; x.T.mT; x.flat[3]; x.flat[2:9:3]
x.nbytes + x[0]; np.sort(x, axis=1, stable=True); np.argsort(x, stable=True)
"""
"""Axes, types, where=, initial=, floats that integers are compared with, counting."""

OF_INDICES = r"""
x[::-2, 1:, ::-1]; x[-1:-3:-1]; x[..., None]; x[None, :, None]; x[[0,2]][:, [1,3]]; x[[0,2],[1,3]]; x[[0,2],:,[1,3]]
x[[[0],[2]],[1,3]]; x[:, [True,False,True,False,True]]; x[1, [0,1]]; x[[0,1], 2]; x[0:2, [1,2], 3]
x[np.ix_([0,2],[1,3])]; x[np.ix_([0,2],[1,3],[0])]; x[1:3][0]; x[-5]; x[4]; x[:, 7]; x[0,0,0,0]; x[..., ...]; x['a']
x[1.0]; x[np.int8(1)]; x[np.array(1)]; x[np.array([1,-1], np.int8)]; x[True]; x[False]; x[np.True_]
x[[True,False,True,True]]; x[np.array([True,False])]; x[slice(1,3)]; x[(slice(None),0)]; x[:,::2,::3]; x[3:0:-1]
x[10:]; x[:, -100:100]; x[[]]; x[x>0]; x[x>0].sum(); x[x>0].max(); x[x>0].size; x[x>0].mean(); x[x>0].any()
len(x[x>0]); (x>0).sum(); x[x[0,0]>0]; x[:, x[0,:,0]>0].sum(); x.take([0,1], axis=1); x.take(3)
np.take(x, [0,99], mode='wrap'); np.take(x, [0,-99,999], mode='clip'); np.take(x, [[0,1],[2,3]], axis=2)
np.take_along_axis(x, np.argsort(x, axis=1, kind='stable'), axis=1)
np.take_along_axis(x, x.argmax(axis=2, keepdims=True), axis=2); np.take_along_axis(x, x.argmax(axis=0)[None], 0)
np.choose(x & 1, [x, x+1]); np.choose(x & 3, [1,2,3,4]); np.compress([True,False,True,True], x, axis=0)
np.extract(x>0, x); np.select([x>0, x<-5], [x, -x], default=7); np.select([x>0, x<-5], [x, -x])
np.piecewise(x, [x<0, x>=0], [-1, 1]); np.where(x>0); np.argwhere(x>0); np.flatnonzero(x); np.where(x>0, 1, 0)
np.where(x>0, x, -1); np.where(x>0, np.int8(1), x); np.where(x>0, True, False); np.where(x, x, 300)
np.where(x>0, 100000, x); np.where(x>0, 2.5, x); np.where(True, x, 0)
np.where([True,False,True,False,True,False], x, 0); np.clip(x, -3, None); np.clip(x, None, None); x.clip(0)
x.clip(max=4); x.clip(min=4); np.clip(x, 5, 1); np.clip(x, x[0], 100); np.clip(x, np.int8(-5), np.int8(5))
np.clip(x, -5.0, 5); np.clip(x, 0, 2**40); np.clip(x, 0, 255).astype(np.uint8); np.clip(x, 0, 255, dtype=np.int32)
np.clip(x, a_min=0, a_max=9); np.clip(x,[1,2,3,4,5,6],9); np.minimum(x, 5); np.maximum(x, [1,2,3,4,5,6])
np.minimum(5, x); max(x.ravel()); min(x[0,0,0], 3); sum(x); sum([x[0], x[1]]); sum(x[i] for i in range(3)); abs(x)
divmod(x, 7); divmod(x, x); np.divmod(x, -3); x // 0; x % 0; x // -1; x % -1; x // x; x % x; np.mod(x, -7)
np.remainder(x, x); x % np.int8(7); np.floor_divide(x, 7); np.true_divide(x, 2); x / 2; (x / 2).astype(np.int16)
np.left_shift(x, 20); x << 17; x >> 17; x << x; x >> x; x >> -1; x << -1; 1 << (x & 7); x & 0xff; x | 0x80; x ^ -1
~x & 15; x & x[0] | x[1] ^ x; not x.any(); bool(x.any()); x.any() and x.all(); int(x[0,0,0]); float(x[0,0,0])
x.tolist(); list(x); tuple(x); [r for r in x]; np.array([r+1 for r in x]); np.array([[x[0,0,0], 1],[2, x[0,0,1]]])
np.asarray(x); np.array(x); np.array(x, dtype=np.int32); np.array(x, np.uint8); np.asarray([x, x])
np.int16(x[0,0,0]); np.array(x[0,0,0]); np.float32(x); x.astype(float); x.astype('uint8'); x.astype(np.bool_)
x.astype(bool); x.astype(int); x.astype(np.int64); x.astype('i1', copy=False); x.astype(np.int16, copy=False)
x.astype(np.uint64); x.view(np.uint16); x.view(np.int8); x.view('<u2'); x.view(); x.tobytes(); x.nbytes + x
x.strides; x.flags; x.base; x.data; x.dtype.itemsize + x; x.size + x; x.ndim * x; x.shape[0] * x
np.iinfo(x.dtype).max - x; np.zeros(x.shape, x.dtype) + x; np.empty_like(x) * 0 + x; np.full(x.shape, 3) + x
np.full_like(x, 3, dtype=np.int32) + x; np.ones_like(x, shape=(2,)).sum() + x; np.zeros_like(x)
np.arange(x.shape[2]) * x; np.arange(6, dtype=np.int16) + x; np.linspace(0, 5, 6).astype(np.int16) + x
np.eye(6, dtype=np.int16) * x[0,0]; np.indices((4,5,6)).sum(0) + x; np.mgrid[0:5, 0:6][0] + x
np.ogrid[0:5, 0:6][1] + x; np.meshgrid(np.arange(6), np.arange(5))[0] + x; np.meshgrid(x[0,0], x[0,1])[0]
np.r_[0, x[0,0]]; np.vectorize(lambda a: a+1)(x); np.apply_along_axis(lambda a: a.sum(), 0, x)
np.apply_over_axes(np.sum, x, [0,1]); np.fromfunction(lambda i,j: i+j, (5,6), dtype=int) + x
np.frompyfunc(abs,1,1)(x)
"""
"""Indices, choices, divisions, casts, and what a value would be asked for."""

OF_MOVES = r"""
x.reshape(-1); x.reshape((4,-1)); x.reshape(4,30); x.reshape(7,-1); x.reshape(2,2,5,6,order='F'); x.T.ravel()
x.transpose(2,0,1); x.transpose((1,0,2)); np.transpose(x, (0,2,1)); x.transpose(); x.swapaxes(0,-1)
np.moveaxis(x, -1, 0); np.moveaxis(x, [0,1],[-1,-2]); np.rollaxis(x, 2); np.permute_dims(x, (1,0,2))
np.squeeze(x[:1], 0); np.squeeze(x, 0); x[:1].squeeze(); x[:1].squeeze(axis=(0,)); np.expand_dims(x, (0,-1))
np.atleast_3d(x[0,0]); np.broadcast_to(x[0], (2,5,6)); np.broadcast_to(x, (3,)); np.concatenate([x, x], axis=-1)
np.concatenate((x, x[:, :2]), axis=1); np.concatenate([x,x], axis=None); np.concatenate([x, x[0]]); np.concat([x,x])
np.stack([x,x], -1); np.stack([x[i] for i in range(4)]); np.vstack([x,x]); np.hstack((x,x)); np.dstack([x[0],x[1]])
np.column_stack([x[0,0], x[0,1]]); np.block([[x[0],x[1]],[x[2],x[3]]]); np.append(x, 5)
np.append(x, [[[1]*6]*5], axis=0); np.insert(x, [1,2], 5); np.delete(x, 1, axis=0); np.delete(x, [0,2], axis=1)
np.delete(x, slice(0,2), axis=2); np.split(x, 2); np.split(x, [1,3], axis=2); np.split(x, 3)
np.array_split(x, 3, axis=2); np.hsplit(x, 5); np.vsplit(x,2); np.dsplit(x,3); np.unstack(x); np.tile(x, 2)
np.tile(x, (2,1)); np.tile(x, (2,1,1,1)); np.repeat(x, 2); np.repeat(x, 2, axis=-1); np.repeat(x, [1,2,0,1], axis=0)
x.repeat(2, 1); np.kron(x[0], np.ones((2,2), np.int16)); np.roll(x, 1); np.roll(x, -2, axis=1)
np.roll(x, (1,2), axis=(0,1)); np.roll(x, 1, axis=(0,1)); np.roll(x, 100); np.rot90(x); np.rot90(x, 2)
np.rot90(x, -1, (1,2)); np.rot90(x, 5); np.flip(x); np.flip(x, axis=(0,2)); np.fliplr(x); np.flipud(x); np.pad(x, 1)
np.pad(x, (1,2)); np.pad(x, ((1,1),(0,0),(2,0))); np.pad(x, 2, mode='edge'); np.pad(x, 1, mode='reflect')
np.pad(x, 2, mode='symmetric'); np.pad(x, 2, mode='wrap'); np.pad(x, 9, mode='reflect')
np.pad(x, 1, mode='constant', constant_values=7); np.pad(x, 1, constant_values=(1,2))
np.pad(x, 1, constant_values=((1,2),(3,4),(5,6))); np.pad(x, 1, 'maximum'); np.pad(x, 1, 'minimum')
np.pad(x, 1, 'mean'); np.pad(x, 1, 'linear_ramp'); np.pad(x, 1, 'empty')
np.pad(x, 1, mode='reflect', reflect_type='odd'); np.pad(x, -1); np.pad(x, {0:(1,1)})
np.pad(x, 1, constant_values=70000); np.diag(x[0]); np.diag(x[0,0]); np.diag(x[0], 1); np.diagonal(x)
x.diagonal(1,1,2); np.trace(x); x.trace(); np.tril(x); np.triu(x, -1); np.tri(5,6,dtype=np.int16)*x
x[np.triu_indices(4)]; x[0][np.tril_indices(5)]; x[0][np.diag_indices(5)]; x[np.arange(4), np.arange(4)]
np.vander(x[0,0], 3); np.resize(x, (3,3)); np.trim_zeros(x[0,0]); np.ascontiguousarray(x); np.copy(x); x.copy('F')
np.require(x); np.array_equal(x, x); np.array_equal(x[0], x[1]); np.allclose(x, x); np.isclose(x, x)
np.isin(x, [1,2,3]); np.isin(x, x[0,0]); np.isin(x, [1], invert=True); np.intersect1d(x,x); np.union1d(x,x)
np.setdiff1d(x,x); np.searchsorted([-5,0,5], x); np.searchsorted(np.sort(x[0,0]), x[0,1])
np.searchsorted([-5,0,5], x, 'right'); np.searchsorted([-5.5,0,5], x)
np.searchsorted(np.array([5,0]), x, sorter=[1,0]); np.bincount(x[0,0] & 7, minlength=8); np.bincount(x.ravel() & 7)
np.bincount(x[0,0] & 7, weights=x[0,1]); np.histogram(x, bins=4, range=(0,8)); np.histogram2d(x[0,0], x[0,1])
np.packbits(x > 0); np.packbits(x > 0, axis=1); np.packbits((x&1).astype(np.uint8), axis=-1, bitorder='little')
np.unpackbits(x.astype(np.uint8), axis=-1); np.unpackbits(x); np.interp(x, [0,1],[2,3])
np.convolve(x[0,0], [1,2,3]); np.convolve(x[0,0], [1,2,3], 'same'); np.convolve(x[0,0], [1,2,3], mode='valid')
np.convolve([1,2,3], x[0,0]); np.convolve([1,2,3], x[0,0], 'same'); np.convolve(x[0,0], x[0,1])
np.convolve(x[0,0,:2], x[0,1], 'same'); np.correlate(x[0,0], [1,2,3]); np.correlate(x[0,0], [1,2,3], 'full')
np.correlate(x[0,0], [1,2,3], 'same'); np.correlate(x[0,0], [1,2], 'same'); np.correlate([1,2], x[0,0], 'same')
np.correlate([1,2,3], x[0,0]); np.correlate(x[0,0], x[0,1,:3], 'full'); np.polynomial.polynomial.polyval(x, [1,2])
np.fft.fft(x); np.linalg.norm(x); np.linalg.det(x[0,:,:5]); np.linalg.matrix_power(x[0,:,:5], 2)
np.linalg.multi_dot([x[0], x[1].T]); np.dot(x[0], x[1].T); np.dot(x, x[0,0]); np.dot(x[0,0], 3); x.dot(x[0].T)
np.vdot(x[0],x[1]); np.vecdot(x[0],x[1]); np.matvec(x, x[0,0]); np.vecmat(x[0,:,0], x); np.linalg.vecdot(x[0],x[1])
np.linalg.matmul(x, x.mT); np.linalg.outer(x[0,0],x[0,1]); np.linalg.tensordot(x,x,3)
np.linalg.cross(x[0,0,:3],x[0,1,:3]); np.inner(x, x[0]); np.outer(x[0,0], [1,2]); np.tensordot(x, x, 3)
np.tensordot(x, x, axes=([0,2],[0,2])); np.tensordot(x, [1,2,3,4,5,6], 1); np.tensordot(x, x, 0)
np.einsum('ijk,ijk->i', x, x); np.einsum('ijk->ik', x); np.einsum('ii', x[0,:,:5]); np.einsum('ii->i', x[0,:,:5])
np.einsum('ij,jk', x[0], x[1].T); np.einsum('ij,kj->ik', x[0], x[1]); np.einsum('ijk->', x)
np.einsum('ijk,k->ij', x, x[0,0]); np.einsum(x, [0,1,2], [0,2]); np.einsum('ij,ij,ij->j', x[0],x[1],x[2])
np.einsum('i,i', x[0,0], [1,2,3,4,5,6]); np.einsum('ij->ji', x[0])
np.einsum('ij,jk->ik', x[0], x[1].T, optimize=True); np.einsum('ij,jk->ik', x[0], x[1].T, dtype=np.int32)
np.matmul(x, x.swapaxes(1,2)); x @ x[0].T; x[0] @ x.swapaxes(1,2); x @ x; np.matmul(x, x[0,0])
x[0,0] @ x.swapaxes(1,2); swv(x, 3, axis=2); swv(x, (2,2), axis=(0,1)).sum((3,4)); swv(x[0], (3,3)).max((2,3))
swv(x[0], (3,3)).reshape(3,4,9).sum(-1); swv(x[0,0], 3) @ np.array([1,2,1])
np.sort(swv(x[0], (3,3)).reshape(3,4,9), axis=-1)[..., 4]; np.lib.stride_tricks.as_strided(x, (2,2), (2,2))
np.tensordot(swv(x[0], (3,3)), np.array([[1,2,1],[0,0,0],[-1,-2,-1]]), ((2,3),(0,1)))
np.einsum('ijkl,kl->ij', swv(x[0], (3,3)), np.ones((3,3), int))
(swv(x[0],(2,2)) * np.array([[1,2],[3,4]])).sum(axis=(2,3)); np.maximum.reduce([x[0],x[1],x[2]])
np.add.reduce([x[0], x[1]]); np.logical_and.reduce([x[0]>0, x[1]>0]); np.all([x[0]>0, x[1]>0], axis=0)
np.max([x[0],x[1]], axis=0); np.median([x[0],x[1],x[2]], axis=0); np.sum([x[0], x[1]])
np.mean([x[0], x[1]], axis=0); np.add(x, x, dtype=np.int32); np.add(x, 1, dtype='int8')
np.add(x, x, dtype=np.int8, casting='unsafe'); np.multiply(x, x, dtype=np.int64); np.subtract(x, x, dtype=np.uint8)
np.add(x, x, where=x>0); np.subtract(x, 1, out=None); np.equal(x, 3, dtype=bool); np.logical_and(x, x>3)
np.logical_not(x); np.logical_xor(x, 1); np.copysign(x, -1); np.ldexp(x, 1); np.hypot(x,x); np.arctan2(x,x)
np.exp(x); np.sin(x); np.maximum(x, 0); np.fmax(x, 3); np.spacing(x); np.bitwise_count(x)
np.bitwise_left_shift(x, 1); np.bitwise_right_shift(x, 1); np.cov(x[0]); np.corrcoef(x[0]); np.i0(x); np.sinc(x)
np.unwrap(x); np.nanmean(x); np.sum(x, None, np.int32); np.ravel_multi_index((x[0,0]&3, x[0,1]&3), (4,4))
np.unravel_index(x[0,0]&15, (4,4)); np.result_type(x, np.int32).itemsize + x
np.promote_types(x.dtype, np.int8).itemsize + x; np.min_scalar_type(3).itemsize+x; np.isscalar(x)
np.issubdtype(x.dtype, np.integer) * x; isinstance(x, np.ndarray) * x; hasattr(x, 'shape') * x; np.size(x, 0) + x
np.ndim(x)+x; np.shape(x)[0] + x; x.partition(2); x.searchsorted(3); x.choose([1,2]); x.compress([True], axis=0)
x.nonzero(); x.mean(1); x.cumsum(0); x.cumprod(0); x.prod(dtype=np.int32); x.min(1); x.argmin(0); x.all(0)
np.sort(x, axis=1, kind='stable'); np.sort_complex(x); -np.sort(-x); np.sort(x, order='a')
np.flip(np.sort(x, axis=0), axis=0)[:2]; np.argsort(-x, axis=-1, kind='stable')[..., :3]; np.argmax(x > 0, axis=1)
np.argmax(x); np.argmin(x.ravel()); np.maximum.at(x.copy(), [0], 1); np.bitwise_and.at(x.copy(), [0], 1)
"""
"""Shapes, joins, products, windows and names that few use."""

EMPTY = r"""
x[:0]; x[:0].sum(); x[:0].max(); x[5:3].sum(axis=0); np.concatenate([x[:0], x]); x[:0].any(); x[:0].all()
x[:0].prod(); x[:0].cumsum().sum(); np.max(x[:0], initial=3); np.zeros((0,3)).sum(); x[:0].argmax(); np.sum(x[:0])+x
x[2:2] @ x[2:2] + x; x[:0].min(); x[:0].size + x; np.append(x[:0], x); np.where(x[:0]>1, 1, 2).sum() + x
np.diff(x[:1]).sum() + x; np.pad(x[:0], 2, constant_values=1); x[:0].reshape(0,3).sum(axis=1).size + x
np.stack([x[:0]]).shape[0] + x; x[:0].astype(np.int32).sum(dtype=np.int32); np.sort(x[:0]).size + x
np.count_nonzero(x[:0]); np.repeat(x, 0).sum(); np.tile(x, 0).size + x; x[[]].sum(); np.take(x, []).sum()
np.take(x, np.array([], int)).sum(); np.array_split(x, 9); np.roll(x[:0],1).size+x; np.ptp(x[:0])
np.clip(x[:0],0,1).size+x; np.cumsum(x[:0]).size+x; np.convolve(x, x[:0])
"""
"""Arrays without elements."""

NO_AXES = r"""
x; x+1; x*x; x.sum(); np.max(x); x[()]; x[None]; x[...]; x.reshape(1,1); np.cumsum(x); np.atleast_2d(x)
np.broadcast_to(x,(2,3)); x.T; x.ravel(); np.repeat(x,3); np.any(x); np.where(x, 3, 4); x // 3; x << 2; x.flatten()
np.concatenate([x[None], x[None]]); x.item(); len(x); x[0]; np.squeeze(x); np.expand_dims(x,0); np.append(x, x)
np.diff(x); np.stack([x,x]); np.tile(x, 3); np.roll(x,1); np.outer(x,x); np.dot(x,x); x@x; np.clip(x,None,5)
"""
"""Arrays without axes."""

NUMBERS = r"""
x[0]+x[1]; x[0]*200; x[0]-x; -x[0]; abs(x[0]); ~x[0]; x[0]//x[1:]; x[0] % 3; divmod(x[0], 7); pow(x[0], 2)
x[0] ** 3; 2 * x[0] + x; x[0] > 0; x[0] == x[1]; x[0].astype(np.int32); x[0] << 3; x[0] >> 1; (x[0] + 1, x)
np.int32(5) + x[0]; round(x[0]); x[0] / 2
"""
"""NumPy's scalars beside arrays."""


def copied(x):
    y = np.zeros((6, 8), x.dtype)
    np.copyto(y, x, where=x > 1)
    np.copyto(y[0], x[1])
    y2 = y.copy()
    np.copyto(y2, 1)
    return y, y2


def copied_to_fewer_bits(x):
    y = np.zeros((6, 8), np.int8)
    np.copyto(y, x)
    return y


def masked_put(x):
    y = x.copy()
    np.putmask(y, y > 1, 1)
    np.putmask(y, x == 0, np.arange(5))
    return y


def placed(x):
    y = x.copy()
    np.place(y, y > 1, [1])
    return y


def put_at(x):
    y = x.copy()
    np.put(y, [0, 5, -1], [1, 0])
    y.put([3], x[1, 1])
    return y


def diagonal_filled(x):
    y = x.copy()
    np.fill_diagonal(y, 1)
    return y


def put_along(x):
    y = x.copy()
    np.put_along_axis(y, y.argmax(1, keepdims=True), 0, 1)
    return y


def flat_written(x):
    y = x.copy()
    y.flat[3] = 1
    y.flat[5:9] = x[0, :4]
    y.flat = y.flat[::-1]
    return y


def counted_at(x):
    h = np.zeros(16, np.int32)
    np.add.at(h, x.ravel().astype(np.int32) & 15, 1)
    np.add.at(h, [1, 1, 2], 5)
    return h


def weighed_at(x):
    h = np.zeros(64, np.int32)
    np.add.at(h, x.ravel().astype(np.int32) & 63, x.ravel().astype(np.int32))
    return h


def added_at_narrow(x):
    h = np.zeros(20, x.dtype)
    np.add.at(h, np.arange(48) % 20, x.ravel())
    return h


def subtracted_at(x):
    h = np.full(20, 3, np.int16)
    np.subtract.at(h, x.ravel().astype(np.int32) % 20, 1)
    return h


def counted_in_two_axes(x):
    h = np.zeros((4, 8), np.int32)
    np.add.at(h, (x[:3].astype(np.int32) & 3, x[3:].astype(np.int32) & 7), 1)
    return h


def greatest_at(x):
    h = np.zeros(5, x.dtype)
    np.maximum.at(h, x[1].astype(np.int32) % 5, x[0])
    return h


def bits_at(x):
    h = np.zeros(5, np.int32)
    np.bitwise_or.at(h, x[1].astype(np.int32) % 5, x[0].astype(np.int32))
    np.bitwise_xor.at(h, [0, 0], 3)
    g = np.full(5, -1, np.int16)
    np.bitwise_and.at(g, x[1].astype(np.int32) % 5, 12)
    return h, g


def floats_written(x):
    y = x.copy()
    y[0] = 1.7
    y[x > 1] = 0.0
    y[0, 0] = np.float32(1)
    return y


def float_too_large(x):
    y = x.copy()
    y[0] = 1e9
    return y


def out_and_where(x):
    y = np.zeros((6, 8), np.int32)
    np.add(x, 1, out=y, where=x > 1)
    np.multiply(y, y, out=y, where=[True] * 4 + [False] * 4)
    return y


def out_by_place(x):
    y = np.zeros(8, np.int32)
    np.sum(x, 0, np.int32, y)
    z = np.zeros((6, 8), x.dtype)
    np.clip(x, 0, 1, z)
    return y, z


def out_is_the_array(x):
    y = x.copy()
    np.clip(y, 0, 1, out=y)
    y.clip(0, 1, out=y)
    y.max(axis=0, out=y[0])
    return y


def out_of_reductions(x):
    y = np.zeros(8, np.int32)
    np.add.reduce(x, axis=0, out=y)
    z = np.zeros(8, x.dtype)
    np.maximum.reduce(x, out=z)
    w = np.zeros((6, 8), np.int32)
    np.cumsum(x, 1, out=w)
    return y, z, w


def out_of_known(x):
    y = np.zeros(3, np.int32)
    np.sum(np.ones((4, 3), np.int32), axis=0, out=y)
    np.add(y, 1, y)
    return y + x[0, :3]


def out_of_another_shape(x):
    y = np.zeros(7, np.int32)
    np.sum(x, axis=0, out=y)
    return y


def out_of_fewer_bits(x):
    y = np.zeros(8, np.int8)
    np.max(x, axis=0, out=y)
    return y


def out_of_matmul(x):
    y = np.zeros((6, 6), np.int64)
    np.matmul(x, x.T, out=y, dtype=np.int64, casting="unsafe")
    return y.astype(np.int32)


def outer_of_a_type(x):
    return np.multiply.outer(x[0], x[1], dtype=np.int32)


WRITING: tuple[Callable[..., Any], ...] = (
    copied,
    copied_to_fewer_bits,
    masked_put,
    placed,
    put_at,
    diagonal_filled,
    put_along,
    flat_written,
    counted_at,
    weighed_at,
    added_at_narrow,
    subtracted_at,
    counted_in_two_axes,
    greatest_at,
    bits_at,
    floats_written,
    float_too_large,
    out_and_where,
    out_by_place,
    out_is_the_array,
    out_of_reductions,
    out_of_known,
    out_of_another_shape,
    out_of_fewer_bits,
    out_of_matmul,
    outer_of_a_type,
)


def _of_text(text: str, shape: tuple[int, ...]) -> list[tuple[str, tuple[int, ...], Callable[..., Any]]]:
    found = []
    for line in text.strip().splitlines():
        for each in map(str.strip, line.split(";")):
            code = compile(f"lambda x: {each}", "numpy_corners.py", "eval")
            found.append((each, shape, eval(code, globals())))
    return found


CORNERS = [
    *_of_text(ANY_AXES, (3, 4, 5)),
    *_of_text(OF_INDICES, (4, 5, 6)),
    *_of_text(OF_MOVES, (4, 5, 6)),
    *_of_text(EMPTY, (6,)),
    *_of_text(NO_AXES, ()),
    *_of_text(NUMBERS, (5,)),
    *((function.__name__, (6, 8), function) for function in WRITING),
]
"""Name, shape of x, function."""
