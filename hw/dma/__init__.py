"""The two DMA units: LOAD and STORE."""
