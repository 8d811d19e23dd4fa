"""What a verb ends with: its page in a browser, and the command that comes next."""

import pathlib
import shlex
import warnings

PAGE = pathlib.Path("report.html")


def page_of(named: pathlib.Path | None, opened: bool) -> pathlib.Path | None:
    """The page that is to be written: the one that was named, else PAGE if it shall be opened."""
    return PAGE if named is None and opened else named


def open_page(page: pathlib.Path | None, wanted: bool) -> None:
    """Opens a page in the browser, if there is one and that is wanted; a UserWarning tells where it is if there is no
    browser."""
    if page is None or not wanted:
        return
    import webbrowser

    address = page.resolve().as_uri()
    if not webbrowser.open(address):
        warnings.warn(f"no browser was found; open {address}", stacklevel=2)


def tell_next(*words: object) -> None:
    """Prints the command that comes next, as a shell takes it."""
    print(f"next: {shlex.join(['tosaic', *map(str, words)])}")
