"""The committed pages are what the tables say."""

import pathlib

import pytest

from tosaic.hw.csr_doc import csr_markdown
from tosaic.hw.isa_doc import isa_markdown

_ROOT = pathlib.Path(__file__).parents[3]


@pytest.mark.parametrize(
    ("page", "module", "markdown"),
    [("isa.md", "isa_doc", isa_markdown), ("registers.md", "csr_doc", csr_markdown)],
)
def test_committed_pages_are_current(page, module, markdown):
    committed = (_ROOT / "docs" / page).read_text()
    assert committed == markdown(), (
        f"regenerate: python -c 'from tosaic.hw.{module} import *; "
        f'print({markdown.__name__}(), end="")\' > docs/{page}'
    )


def test_pages_say_what_matters():
    assert "| 47:16 | `isa_hash` |  | must equal ISA_HASH, else error ISA_MISMATCH |" in isa_markdown()
    assert "| 8 | WATCHDOG | nothing moved for the watchdog's time |" in isa_markdown()
    assert "| 0x040 | PROGRAM_ADDRESS | read, write | 0 |" in csr_markdown()
