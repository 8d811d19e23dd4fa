"""Where each component of hw/wishbone is tested: a file of this folder, or a sentence why it has no test of its own."""

COMPONENTS = {
    "ControlBridge": "test_wishbone_proofs.py",
    "MemoryBridge": "All its ports are those of the SoC in test_wishbone_soc.py, which checks programs and bus errors.",
    "WishboneAccelerator": "test_wishbone_soc.py",
}
