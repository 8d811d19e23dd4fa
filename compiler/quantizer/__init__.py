"""The quantizer: float TOSA to integer TOSA, by statistics of its tensors.

In come a float graph and what was seen of its tensors; out comes an integer graph with the encodings of its inputs and
outputs. `canonical` prepares the float graph, `equalize` evens out its channels, `Plan` decides encodings, `rewrite`
emits integers. It may import the IR and `errors`; what runs graphs (calibration, measurements) is in
`tosaic.driver.quantize`, which hands its evaluator in.
"""

from tosaic.compiler.ir import Encoding, unsigned_type
from tosaic.compiler.quantizer.calibration import METHODS, Statistics, wanted_channels
from tosaic.compiler.quantizer.canonical import canonical
from tosaic.compiler.quantizer.encoding import ScaleError, asymmetric
from tosaic.compiler.quantizer.equalize import equalize
from tosaic.compiler.quantizer.feedback import Covariances
from tosaic.compiler.quantizer.grids import take_grids
from tosaic.compiler.quantizer.input_curves import Curves, behind_curves, bend_inputs, bent_name, with_curves
from tosaic.compiler.quantizer.kept_grids import keep_grids, moved_encoding
from tosaic.compiler.quantizer.masks import drop_nan_tests, masking_inputs, soften_masks
from tosaic.compiler.quantizer.norms import equalize_norms
from tosaic.compiler.quantizer.outliers import part_outliers
from tosaic.compiler.quantizer.plan import Finer, Plan
from tosaic.compiler.quantizer.rewrite import Counterpart, Quantized, refuse_infinite, refuse_nan, rewrite
from tosaic.compiler.quantizer.steps import steps_of_recurrences

__all__ = [
    "METHODS",
    "Counterpart",
    "Covariances",
    "Curves",
    "Encoding",
    "Finer",
    "Plan",
    "Quantized",
    "ScaleError",
    "Statistics",
    "asymmetric",
    "behind_curves",
    "bend_inputs",
    "bent_name",
    "canonical",
    "drop_nan_tests",
    "equalize",
    "equalize_norms",
    "keep_grids",
    "masking_inputs",
    "moved_encoding",
    "part_outliers",
    "refuse_infinite",
    "refuse_nan",
    "rewrite",
    "soften_masks",
    "steps_of_recurrences",
    "take_grids",
    "unsigned_type",
    "wanted_channels",
    "with_curves",
]
