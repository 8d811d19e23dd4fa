"""Templates become pages."""

import functools
import pathlib
import re
from typing import TYPE_CHECKING, Any

from tosaic.driver.replacing import replacing

from .made import made

if TYPE_CHECKING:
    import jinja2
    import markupsafe

_FRAME = "tosaic.driver.pages"


@functools.cache
def _environment(package: str) -> "jinja2.Environment":
    """Templates of a package, and the frame's. What a value says is escaped; a value that is missing is an error."""
    # Imported here: what is on a page is computed for runs and verdicts without one, too.
    import jinja2

    made = jinja2.Environment(
        loader=jinja2.ChoiceLoader([jinja2.PackageLoader(name) for name in dict.fromkeys((package, _FRAME))]),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters["number"] = lambda value: f"{value:,}"
    made.filters["percent"] = lambda value, digits=0: f"{value:.{digits}%}"
    made.filters["breakable"] = _breakable
    return made


def _breakable(name: str) -> "markupsafe.Markup":
    """A long name that may go on in the next line behind its slashes, dots and underscores."""
    import markupsafe

    return markupsafe.Markup(re.sub(r"([/._])(?=\w)", r"\1<wbr>", str(markupsafe.escape(name))))


def render(package: str, template: str, **values: Any) -> str:
    """The text of a template in the folder `templates` of `package`."""
    return _environment(package).get_template(template).render(values)


def write_page(path: pathlib.Path, package: str, template: str, **values: Any) -> None:
    """Writes a page; the file appears whole or not at all. `made` says what it was made by, unless it is this command
    alone."""
    text = render(package, template, **{"made": made(), **values})
    with replacing(path) as scratch:
        scratch.write_text(text)
