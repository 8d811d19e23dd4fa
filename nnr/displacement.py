"""Low displacement rank (9.1): matrices near to circulants of several kinds, Toeplitz ones among them.

The displacement of W is Z_e W - W Z_f, where the f-circulant Z_f shifts down by one and brings the last element back
to the top times f. Where Z_e and Z_f share no eigenvalue, the displacement gives W back, so one of low rank describes W
by few numbers. The text has lost its formula; this is the usual form. e and f are 1 and -1, or -1 and 1: their
eigenvectors are unitary, which keeps rounding errors small.
"""

import numpy as np

from tosaic.nnr.errors import NnrError


def corners(shape: tuple[int, ...]) -> tuple[float, float]:
    """e and f for a matrix of `shape`: z**rows = e and z**columns = f have no common root."""
    rows, columns = (size & -size for size in shape)
    return (1.0, -1.0) if rows <= columns else (-1.0, 1.0)


def displacement(matrix: np.ndarray) -> np.ndarray:
    """Returns Z_e W - W Z_f, float64, of the shape of W (m x n)."""
    values = _checked(matrix)
    e, f = corners(values.shape)
    down = np.roll(values, 1, axis=0)
    down[0] *= e
    left = np.roll(values, -1, axis=1)
    left[:, -1] *= f
    return down - left


def reconstruct_displacement(matrix: np.ndarray, rank: int) -> np.ndarray:
    """The weights whose displacement is the nearest of `rank` to that of `matrix`: float32, of the same shape.

    A regular model again: the network's structure stays as it is, and nothing is signalled (E-49).
    """
    values = _checked(matrix)
    if not 1 <= rank <= min(values.shape):
        raise NnrError(f"displacement rank must be 1..{min(values.shape)}, not {rank}")
    left, sizes, right = np.linalg.svd(displacement(values), full_matrices=False)
    return _invert((left[:, :rank] * sizes[:rank]) @ right[:rank]).astype(np.float32)


def _checked(matrix: np.ndarray) -> np.ndarray:
    values = np.array(matrix, np.float64)
    if values.ndim != 2 or not values.size:
        raise NnrError(f"displacement is of matrices, not of shape {list(values.shape)}")
    return values


def _invert(displaced: np.ndarray) -> np.ndarray:
    """W with Z_e W - W Z_f = `displaced`, in the bases of eigenvectors, where it is a division."""
    rows, columns = displaced.shape
    e, f = corners(displaced.shape)
    row_basis, row_values = _eigen(rows, e)
    column_basis, column_values = _eigen(columns, f)
    inner = row_basis.conj().T @ displaced @ column_basis
    inner /= row_values[:, None] - column_values[None, :]
    return (row_basis @ inner @ column_basis.conj().T).real


def _eigen(size: int, corner: float) -> tuple[np.ndarray, np.ndarray]:
    """Returns unitary eigenvectors (columns) and eigenvalues of Z_corner, |corner| = 1: the roots z of
    z**size = corner.
    """
    angle = 0.0 if corner > 0 else np.pi
    roots = np.exp(1j * (angle + 2 * np.pi * np.arange(size)) / size)
    powers = np.arange(size)[:, None]
    return roots[None, :] ** -powers / np.sqrt(size), roots
