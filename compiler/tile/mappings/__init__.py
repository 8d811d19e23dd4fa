"""How a convolution may map to the array. Each file here offers one kind of mapping, with the cycles that it is
predicted to take, by a function that is decorated with `mapping.offers`. A new one is a new file.
"""

import importlib
import pkgutil

from tosaic.compiler.tile.mapping import OFFERS, Asked, Mapping

for _module in sorted(module.name for module in pkgutil.iter_modules(__path__)):
    importlib.import_module(f"{__name__}.{_module}")


def choose(asked: Asked) -> Mapping:
    """The mapping with the fewest predicted cycles."""
    following = asked.following_cycles if asked.outside else 0
    found = (offer for function in OFFERS for offer in function(asked))
    return min(found, key=lambda offer: offer.cost(following)).make()
