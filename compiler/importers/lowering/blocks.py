"""Blocks of pixels to channels and back; images are [N, C, H, W]."""

from tosaic.compiler.importers.lowering.lowering import Lowering


def depth_to_space(low: Lowering, x: str, block: int, block_first: bool) -> str:
    """Channels become blocks of pixels. The channel axis counts [block, block, depth], or depth first."""
    batch, channels, height, width = low.shape(x)
    depth = channels // block**2
    if block_first:
        x = low.reshape(x, (batch, block, block, depth, height * width))
        x = low.reshape(low.transpose(x, (0, 3, 4, 1, 2)), (batch * depth, height, width, block, block))
    else:
        x = low.reshape(x, (batch, depth, block, block, height * width))
        x = low.reshape(low.transpose(x, (0, 1, 4, 2, 3)), (batch * depth, height, width, block, block))
    x = low.transpose(x, (0, 1, 3, 2, 4))
    return low.reshape(x, (batch, depth, height * block, width * block))


def space_to_depth(low: Lowering, x: str, block: int, block_first: bool) -> str:
    """Blocks of pixels become channels, the reverse of `depth_to_space`."""
    batch, channels, height, width = low.shape(x)
    rows, columns = height // block, width // block
    x = low.reshape(x, (batch * channels, rows, block, columns, block))
    x = low.reshape(low.transpose(x, (0, 2, 4, 1, 3)), (batch, channels, block, block, rows * columns))
    x = low.transpose(x, (0, 2, 3, 1, 4))
    if not block_first:
        x = low.transpose(x, (0, 3, 1, 2, 4))
    return low.reshape(x, (batch, channels * block**2, rows, columns))
