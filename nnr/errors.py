"""What the codec raises and warns about."""

from tosaic.errors import Error


class NnrError(Error):
    """A bitstream breaks a rule of the NNR text, or values cannot be coded. The message is one line."""


class NnrWarning(UserWarning):
    """A bitstream is readable, but something in it is unusual: a unit was skipped, a float was rounded."""
