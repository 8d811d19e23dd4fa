"""The token of a board server: where it is kept, out of sight of other users."""

import contextlib
import os
import pathlib
import secrets
import stat

from tosaic.errors import InputError

TOKEN_VARIABLE = "TOSAIC_TOKEN"
TOKEN_BYTES = 18


def new_token() -> str:
    """A token that nobody guesses."""
    return secrets.token_urlsafe(TOKEN_BYTES)


def read_token(path: str | pathlib.Path) -> str:
    """The token in a file that only its owner can read; InputError otherwise."""
    try:
        with open(path, encoding="utf-8") as file:
            mode = os.fstat(file.fileno()).st_mode
            token = file.read().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(
            f"{path}: the token cannot be read: {getattr(error, 'strerror', None) or error}"
        ) from None
    if mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise InputError(f"{path}: others can read this token: chmod 600 {path}")
    if not token:
        raise InputError(f"{path}: there is no token in this file")
    return token


def make_token_file(path: str | pathlib.Path) -> str:
    """The token in the file, which is made with a new one if there is none."""
    with contextlib.suppress(FileExistsError):
        try:
            file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except FileExistsError:
            raise
        except OSError as error:
            raise InputError(f"{path}: the token cannot be written: {error.strerror}") from None
        with os.fdopen(file, "w", encoding="utf-8") as opened:
            opened.write(new_token() + "\n")
    return read_token(path)
