"""Commands that install: the one place that knows where Tosaic is installed from."""

import pathlib

_PUBLISHED = False
"""Whether the name `tosaic` on PyPI is ours. The only line to change when a person has published a release."""


def install_command(extra: str) -> str:
    """The `pip install` command, for a shell, that adds an extra to this installation: from the checkout or the wheel
    that it was installed from."""
    return f"pip install '{_source()}[{extra}]'"


def reinstall_command() -> str:
    """The `pip install` command that installs what is installed once more, without its dependencies."""
    return f"pip install --force-reinstall --no-deps {_source()}"


def _source() -> str:
    """What pip installs: the checkout, the wheel's path, or the name once it is published."""
    checkout = pathlib.Path(__file__).resolve().parent.parent
    if (checkout / "pyproject.toml").is_file():
        return "." if checkout == pathlib.Path.cwd() else str(checkout)
    path = _installed_from()
    if path is not None:
        return "." if path == pathlib.Path.cwd() else str(path)
    if _PUBLISHED:
        return "tosaic"
    from importlib.metadata import version

    return f"tosaic-{version('tosaic')}-py3-none-any.whl"


def _installed_from() -> pathlib.Path | None:
    """The wheel or folder that pip noted (PEP 610); None where an index was asked."""
    # A command is asked for where something is missing: until then nothing of this is needed.
    import importlib.metadata
    import json
    import urllib.parse
    import urllib.request

    noted = importlib.metadata.distribution("tosaic").read_text("direct_url.json")
    url = urllib.parse.urlsplit(json.loads(noted)["url"]) if noted else None
    return pathlib.Path(urllib.request.url2pathname(url.path)) if url and url.scheme == "file" else None
