"""Windows over an image of 14 x 14 x 8, but for the sizes that are given."""

from tosaic.compiler.place.geometry import View, Window


def window(**sizes: int) -> Window:
    given = dict(n=1, ih=14, iw=14, ic=8, oh=14, ow=14, kh=1, kw=1, sy=1, sx=1, dy=1, dx=1, top=0, left=0)
    given |= sizes
    return Window(
        **given, view=View("x", 0, given["iw"] * given["ic"], given["ih"] * given["iw"] * given["ic"])
    )
