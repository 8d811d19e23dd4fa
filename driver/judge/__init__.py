"""The judge: what other people's programs make of TOSA graphs, against golden."""
