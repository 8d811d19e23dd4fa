"""docs/trust.md keeps up with the README; the files that it and docs/records/rewrites.md name are there."""

import pathlib
import re

ROOT = pathlib.Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "trust.md").read_text()
CLAIM = re.compile(
    r"\b(bit for bit|bit-exact|exact|exactly|every|never|nothing|predicts|one RTL)\b", re.IGNORECASE
)


def prose(text):
    """The sentences of a page, without code, tables and headings."""
    text = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    lines = [line for line in text.splitlines() if not line.startswith(("|", "#", "    "))]
    return re.split(r"(?<=[.!?:])\s+", " ".join(" ".join(lines).split()))


def quotes():
    """What the page quotes of the README: the first column of its first table."""
    table = PAGE[PAGE.index("## What the README claims") : PAGE.index("## Assumed")]
    return [line.split("|")[1].strip() for line in table.splitlines() if line.startswith("|")][2:]


def test_every_claim_of_the_readme_has_a_line():
    readme = prose((ROOT / "README.md").read_text())
    whole = " ".join(readme)
    assert [quote for quote in quotes() if quote not in whole] == []
    claims = [sentence for sentence in readme if CLAIM.search(sentence)]
    assert [claim for claim in claims if not any(quote in claim for quote in quotes())] == []


def test_every_file_of_the_page_is_there():
    text = PAGE + (ROOT / "docs" / "records" / "rewrites.md").read_text()
    named = re.findall(r"`((?:docs|tests|sim|bench|hw|compiler|driver)/[\w./]+)`", text)
    assert len(named) > 20
    assert [name for name in named if not (ROOT / name).exists()] == []
