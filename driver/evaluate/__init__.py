"""How good a model is on a data set: labels, and a float model, against golden, the emulator or a machine."""

from .evaluation import Evaluation, OutputFigures, evaluate

__all__ = ["Evaluation", "OutputFigures", "evaluate"]
