"""`tosaic configs`: the configurations there are."""

from tosaic.hw.config import CONFIGS


def configs() -> None:
    """List the configurations: multipliers, memories, bus."""
    print(f"{'name':8} {'array':>8} {'MAC/cycle':>10} {'activations':>12} {'weights':>9} {'bus':>8}")
    for config in CONFIGS.values():
        print(
            f"{config.name:8} {f'{config.rows}x{config.columns}':>8} {config.macs_per_cycle:>10} "
            f"{f'{config.am_bytes >> 10} KiB':>12} {f'{config.wm_bytes >> 10} KiB':>9} "
            f"{f'{8 * config.word_bytes} bit':>8}"
        )
