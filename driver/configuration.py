"""Which configuration a user means."""

from tosaic.errors import InputError
from tosaic.hw.config import Config
from tosaic.hw.config_text import get_config

DEFAULT_CONFIG = "base"


def find_config(config: str | Config) -> Config:
    """A configuration by name; InputError lists the names there are."""
    if isinstance(config, Config):
        return config
    try:
        return get_config(config)
    except ValueError as error:
        raise InputError(str(error)) from None
