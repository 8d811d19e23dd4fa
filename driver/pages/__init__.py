"""The common frame of all pages that Tosaic writes: one self-contained file each, which opens offline.

Comes in: the package whose `templates/` folder has the page's own template, and the values it shows. Goes out: HTML.
A page's template begins with `{% extends "page.html" %}` and fills the blocks `title`, `heading`, `content` and, where
it needs more, `style` and `script`. `parts.html` has macros for what pages share: cards of figures, tables that sort.
May import nothing of ours but `tosaic.driver.replacing`.
"""

from .made import made
from .rendering import render, write_page
from .shown import Card, Column, bytes_shown, decibels, share_shown

__all__ = ["Card", "Column", "bytes_shown", "decibels", "made", "render", "share_shown", "write_page"]
