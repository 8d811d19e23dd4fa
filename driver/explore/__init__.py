"""Which machine for these networks: the space of configurations searched by predicted cycles and estimated area.

`space` lists and draws configurations, `search` judges them cheap first (area before compilation), `front` keeps what
nothing beats, `page` shows it. Area comes in as a function: the driver does not import the boards.
"""

from .front import Goal, best_of, front_of
from .page import Told, verilog_command, write_page
from .point import Point
from .search import Exploration, Question, explore
from .space import SPACE, draw_grid

__all__ = [
    "SPACE",
    "Exploration",
    "Goal",
    "Point",
    "Question",
    "Told",
    "best_of",
    "draw_grid",
    "explore",
    "front_of",
    "verilog_command",
    "write_page",
]
