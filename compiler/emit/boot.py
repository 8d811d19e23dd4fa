"""Emits the boot part: what runs once, before the first inference, and decodes weights into external memory."""

from tosaic.compiler.emit.commands import Block
from tosaic.compiler.emit.emitter import Emitter
from tosaic.compiler.place.address import Address, Region
from tosaic.compiler.place.external import ExternalMemory
from tosaic.hw.config import Config


def emit_boot(config: Config, memory: ExternalMemory) -> list[Block]:
    """The boot part's work; none where every block is decoded in each run.

    Blocks pass through the activation memory, which nothing else uses yet: LOAD decodes one while STORE sends those
    before it. As many buffers as fit are used in turns."""
    if not memory.boot:
        return []
    emitter = Emitter(config, memory)
    largest = max(boot.placed.block.weights for boot in memory.boot)
    buffer_bytes = -(-largest // config.word_bytes) * config.word_bytes
    buffers = config.am_bytes // buffer_bytes
    for number, boot in enumerate(memory.boot):
        buffer = Address(Region.ACTIVATION, number % buffers * buffer_bytes)
        emitter.decode(boot.placed, buffer)
        emitter.store(buffer.offset, boot.target, boot.placed.block.weights)
    return emitter.blocks.all
