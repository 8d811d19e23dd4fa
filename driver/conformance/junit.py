"""Writes JUnit XML, which continuous-integration servers read."""

import pathlib
from xml.etree import ElementTree

from tosaic.driver.replacing import replacing

from .result import Result, Verdict


def write_junit(
    path: pathlib.Path, name: str, results: list[Result], *, allow_unsupported: bool = False
) -> None:
    """Writes one `testsuite`, a `testcase` per test with its operator as class name.

    What is not supported counts as a failure, with `allow_unsupported` as skipped.
    """
    suite = ElementTree.Element("testsuite", name=name, tests=str(len(results)))
    counts = dict.fromkeys(("failure", "error", "skipped"), 0)
    for result in results:
        case = ElementTree.SubElement(
            suite,
            "testcase",
            classname=result.case.operator,
            name=result.case.name,
            time=f"{result.seconds:.3f}",
        )
        if result.verdict is Verdict.PASS:
            continue
        kind = "failure"
        if result.verdict is Verdict.ERROR:
            kind = "error"
        elif not result.fails(allow_unsupported=allow_unsupported):
            kind = "skipped"
        counts[kind] += 1
        detail = ElementTree.SubElement(case, kind, message=_printable(result.reason))
        if kind != "skipped":
            detail.set("type", result.verdict.value)
    suite.set("failures", str(counts["failure"]))
    suite.set("errors", str(counts["error"]))
    suite.set("skipped", str(counts["skipped"]))
    suite.set("time", f"{sum(result.seconds for result in results):.3f}")
    ElementTree.indent(suite)
    with replacing(path) as scratch:
        ElementTree.ElementTree(suite).write(scratch, encoding="utf-8", xml_declaration=True)


def _printable(text: str) -> str:
    """Returns the text without the control characters that XML 1.0 cannot hold."""
    return "".join(c if c.isprintable() else "?" for c in text)
