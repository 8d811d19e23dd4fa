"""What a tile of output channels costs on the array."""

from tosaic.hw.config import Config


def dense_slots(steps: int, pixels: int, config: Config) -> int:
    """Slots of the array for `steps` words of each of `pixels` pixels. The last tile of pixels may divide the rows."""
    whole, rest = divmod(pixels, config.rows)
    last = -(-steps // config.row_parts(rest)) if rest else 0
    return (whole * steps + last) * config.columns
