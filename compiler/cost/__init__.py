"""Predicts cycles: what array, vector unit and bus are asked for comes in as numbers, cycles come out.

    array       slots of the array
    vector      micro-operations on batches of vectors
    transfers   bytes of the bus, bursts, what is decoded or unpacked on its way
    boxes       a box of a layer: its buffers, its tiles, its instructions
    layers      a layer, a cascade, a plan: units that work side by side
    clock       pieces of work in the order of a program, which the units take as their semaphores let them

Every stage may ask, so nothing here knows a stage: who asks says what it wants done (`tile/demands.py` does so for the
layers of a plan). It may import `machine_numbers`, `memory_speed`, and of `hw` the configuration, the instruction set,
`hw/constants.py` and `hw/slots.py`, which the emulator's timing counts with as well. Layers compare plans of one graph;
the clock tells the cycles of a program, mostly to 2 %, and the emulator exactly.
"""
