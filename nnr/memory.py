"""How much memory decoding may take: what is coded in few bytes may be a tensor that no memory holds."""

from tosaic.nnr.errors import NnrError

# Whatever the input's length: the networks of a microcontroller, however well they compress.
FREE_BYTES = 64 << 20
INPUT_FACTOR = 8
# Decoded levels are turned into values in place, beside copies of the payload.
ITEM_BYTES = 4
PAYLOAD_COPIES = 3


def default_limit_bytes(input_bytes: int) -> int:
    """What decoding `input_bytes` of input may take unless the caller allows more."""
    return FREE_BYTES + INPUT_FACTOR * input_bytes


class MemoryBudget:
    """What is left of `limit_bytes` while the tensors of one input are decoded and kept."""

    def __init__(self, limit_bytes: int, used_bytes: int = 0) -> None:
        self._limit_bytes, self._used_bytes = limit_bytes, used_bytes

    def take(self, name: str, count: int, kept_bytes: int, payload_bytes: int) -> None:
        """Account for a tensor of `count` items, decoded and then kept in `kept_bytes`; NnrError above the limit."""
        needed_bytes = self._used_bytes + ITEM_BYTES * count + kept_bytes + PAYLOAD_COPIES * payload_bytes
        if needed_bytes > self._limit_bytes:
            raise NnrError(
                f"NNR tensor {name!r} of {count} values is above the memory limit: with what is decoded before it, it "
                f"takes {needed_bytes >> 20} MiB of {self._limit_bytes >> 20}; `tosaic nnr decode --memory-limit`, "
                "limit_bytes in Python, allows more"
            )
        self._used_bytes += kept_bytes
