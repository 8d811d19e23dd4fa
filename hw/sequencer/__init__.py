"""The sequencer: program fetch, dispatch, command queues, semaphores and watchdog."""

from .sequencer import UNITS, Sequencer, UnitPort

__all__ = ["UNITS", "Sequencer", "UnitPort"]
