"""What a model remembers from run to run, by name."""

from collections.abc import Iterator, Mapping, MutableMapping

import numpy as np

from tosaic.errors import InputError

from .arguments import NodeArg, checked_inputs


class StateError(InputError, KeyError):
    """The model does not remember anything of this name."""

    __str__ = InputError.__str__


class SessionState(MutableMapping[str, np.ndarray]):
    """The states of one session: `state[name]` is what the next run reads, `state[name] = array` sets it, `reset()`
    makes all of them what the model begins with, `reset(name)` one.

    On a device they lie in its memory; this is the copy that tells whether they are still there. No other session has a
    part in them, whatever model and device they share.
    """

    def __init__(self, arguments: list[NodeArg], initial: Mapping[str, np.ndarray]):
        self.arguments = arguments
        """Name, shape and type of each."""
        self._initial = {name: np.array(value) for name, value in initial.items()}
        self._values = dict(self._initial)

    def __getitem__(self, name: str) -> np.ndarray:
        self._known(name)
        return self._values[name].copy()

    def __setitem__(self, name: str, value: np.ndarray) -> None:
        self._known(name)
        arguments = [each for each in self.arguments if each.name == name]
        self._values[name] = np.array(checked_inputs(arguments, {name: value})[name])

    def __delitem__(self, name: str) -> None:
        raise InputError(f"the model always remembers {name!r}; `reset({name!r})` makes it what it began as")

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        return f"SessionState({self._values!r})"

    def reset(self, *names: str) -> None:
        """Makes states what the model begins with: those named, or all."""
        for name in names:
            self._known(name)
        self._values |= {name: self._initial[name] for name in names or self._initial}

    def _known(self, name: str) -> None:
        if name not in self._values:
            known = ", ".join(map(repr, self._values)) or "nothing"
            raise StateError(f"the model does not remember {name!r}; it remembers {known}")
