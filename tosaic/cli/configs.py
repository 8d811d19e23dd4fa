"""`tosaic configs`: the configurations there are."""

from tosaic.hw.config import CONFIGS, Config


def configs() -> None:
    """List the configurations: multipliers, memories, bus, and what reads compressed weights."""
    print(
        f"{'name':8} {'array':>8} {'MAC/cycle':>10} {'activations':>12} {'weights':>9} {'bus':>8}  decoders"
    )
    for config in CONFIGS.values():
        print(
            f"{config.name:8} {f'{config.rows}x{config.columns}':>8} {config.macs_per_cycle:>10} "
            f"{f'{config.am_bytes >> 10} KiB':>12} {f'{config.wm_bytes >> 10} KiB':>9} "
            f"{f'{8 * config.word_bytes} bit':>8}  {decoders(config)}"
        )


def decoders(config: Config) -> str:
    """What a machine reads compressed weights with."""
    engines = config.cabac_engines
    found = [f"NNR, {engines} engine{'s' * (engines > 1)}"] if engines else []
    found += ["unpacker"] if config.unpackers else []
    return "; ".join(found) or "none"
