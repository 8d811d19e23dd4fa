"""RESHAPE behind TRANSPOSE, told as TRANSPOSE behind RESHAPE, where the axes allow it."""

from collections.abc import Sequence

Shape = tuple[int, ...]


def regroup(source: Shape, perms: Sequence[int], target: Shape) -> tuple[Shape, Shape] | None:
    """Returns (shape, perms) with reshape(transpose(x, perms), target) == transpose(reshape(x, shape),
    perms).

    x has shape `source`. Axes that are joined or split must be neighbours in x too; None where they are not.
    """
    turned = tuple(source[axis] for axis in perms)
    groups = _groups(turned, target)
    if groups is None:
        return None
    places: list[int] = []
    for old, _ in groups:
        wide = [perms[axis] for axis in old if turned[axis] != 1]
        between = range(wide[0], wide[-1] + 1) if wide else range(0)
        if wide != sorted(wide) or any(source[axis] != 1 and axis not in wide for axis in between):
            return None
        # An axis of one stays behind the axis in front of it, where a TILE may make it longer and join them.
        places.append(wide[0] if wide else places[-1] if places else -1)
    order = sorted(range(len(groups)), key=lambda g: (places[g], g))
    shape: list[int] = []
    position: dict[int, int] = {}
    for g in order:
        for axis in groups[g][1]:
            position[axis] = len(shape)
            shape.append(target[axis])
    return tuple(shape), tuple(position[axis] for axis in range(len(target)))


def _groups(old: Shape, new: Shape) -> list[tuple[range, range]] | None:
    """Pairs of neighbouring axes that hold the same elements, as small as can be; axes of one stand alone."""
    groups: list[tuple[range, range]] = []
    i = k = 0
    while i < len(old) or k < len(new):
        if i < len(old) and old[i] == 1:
            groups.append((range(i, i + 1), range(k, k)))
            i += 1
            continue
        if k < len(new) and new[k] == 1:
            groups.append((range(i, i), range(k, k + 1)))
            k += 1
            continue
        if i == len(old) or k == len(new):
            return None
        first_old, first_new, a, b = i, k, old[i], new[k]
        i, k = i + 1, k + 1
        while a != b:
            if a < b and i < len(old):
                a, i = a * old[i], i + 1
            elif b < a and k < len(new):
                b, k = b * new[k], k + 1
            else:
                return None
        groups.append((range(first_old, i), range(first_new, k)))
    return groups
