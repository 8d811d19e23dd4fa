"""Which box of each operand does a box of the result need? One answer for every operator, asked by all who cut.

In: an operator of a graph, and a box of its result. Out: the boxes of its operands, the largest box of the result that
a box of an operand allows (the inverse), what a cut along each axis must keep to, or a `NotCut` with the reason.

What is read here in order: `boxes` (ranges of axes), `reads` (which positions of an operand's axis are read),
`window_axis` (the same for a kernel that slides), `nests` (an operator as loops: needs, makes, axes), `same_elements`
(RESHAPE), `rules` (the nest of each operator), `cut_operator` (the operator that computes a box).

May import: `ir`. All rooms of the compiler above it may import it.
"""
