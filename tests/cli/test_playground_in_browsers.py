"""What browsers do with the playground: on each network and machine the outputs, cycles and counters are those of the
simulator. Nothing is asked for, a phone scrolls in one direction, and axe finds nothing."""

import dataclasses
import importlib.util
import json
import pathlib

import numpy as np
import pytest
from chromium import browser_page
from firefox import firefox_page
from shared_files import SHARED

import tosaic as package
from tosaic.driver.playground.demos import ALPHABET
from tosaic.hw.csr_map import EVENT_COUNTERS

ROOT = pathlib.Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"
MACHINES = ("nano", "small", "base")
BROWSERS = {"chromium": browser_page, "firefox": firefox_page}
MODELS = {"kws_dscnn": 2, "ic_resnet8": 1}
"""Networks of the folder `models` of the shared files, with the number of samples."""
LISTEN = """(window.seen = [], Object.defineProperty(window, "tosaicResult", {
  set: ({outputs, cycles, counters, events}) => window.seen.push({cycles, counters: [...counters],
    outputs: Object.fromEntries(Object.entries(outputs).map(([name, values]) => [name, [...values]])),
    sums: counters.map((_, bit) => events.reduce((sum, word) => sum + (word >> bit & 1), 0))}),
}), 0)"""
"""What the page has shown since, and the events of all cycles summed."""

pytestmark = [pytest.mark.nightly, pytest.mark.xdist_group("browsers")]


@dataclasses.dataclass(frozen=True)
class Demo:
    """A network of the page."""

    name: str
    model: pathlib.Path
    samples: np.ndarray | None = None


@pytest.fixture(scope="module")
def demos():
    data = np.load(EXAMPLES / "digits/images.npz")
    first = [int(np.flatnonzero(data["labels"] == digit)[0]) for digit in range(10)]
    found = [
        Demo("digits", EXAMPLES / "digits/digits.tosa", data["inputs"][first[:2]]),
        Demo("chat", EXAMPLES / "chat/chat.tosa"),
    ]
    for name, count in MODELS.items():
        folder = SHARED / "models" / name
        if folder.exists():
            inputs = np.stack([np.load(folder / f"inputs_{number}.npy") for number in range(count)])
            found.append(Demo(name, folder / "model.tosa", inputs))
    return found


@pytest.fixture(scope="module")
def page_file(demos, tmp_path_factory):
    """All of them in one file."""
    from tosaic.cli import app

    folder = tmp_path_factory.mktemp("page")
    arguments = []
    for demo in demos:
        if demo.name in MODELS:
            (port,) = package.Session(demo.model, "golden").inputs
            np.savez(folder / f"{demo.name}.npz", **{port.name: demo.samples})
            arguments.append(f"{demo.model}={folder / f'{demo.name}.npz'}")
        else:
            arguments.append(demo.name)
    call = ["playground", "-o", str(folder), *arguments, "--config", ",".join(MACHINES), "--single"]
    app.app(call, standalone_mode=False)
    return folder / "playground.html"


def choose(page, demo, machine):
    """Opens a network on a machine."""
    for choice, value in (("demo", demo), ("machine", machine)):
        page.evaluate("document.getElementById('status').textContent = ''")
        page.evaluate(f"(document.getElementById('{choice}').value = '{value}', 0)")
        page.evaluate(f"(document.getElementById('{choice}').onchange(), 0)")
        page.until("/^Ready/.test(document.getElementById('status').textContent)")


def shown(page, count):
    page.until(
        f"window.seen.length >= {count} || /^Failed/.test(document.getElementById('status').textContent)"
    )
    return page.evaluate(f"window.seen.slice(0, {count})")


def same(seen, session, inputs):
    """Whether the simulator gives the outputs, cycles and counters that were shown."""
    outputs = session.run(inputs)
    counters = [session.stats["counters"][name] for name in EVENT_COUNTERS]
    assert len(counters) == 26
    assert (seen["cycles"], seen["counters"], seen["sums"]) == (session.stats["cycles"], counters, counters)
    assert seen["outputs"] == {name: value.ravel().tolist() for name, value in outputs.items()}


def writes(page, session):
    """The decoder: what it draws is fed back, and the simulator is given the same characters."""
    page.evaluate(
        "(Math.random = () => 0.5, window.seen = [], document.getElementById('write').onclick(), 0)"
    )
    seen = shown(page, 3)
    page.evaluate("document.getElementById('stop').onclick()")
    text = page.evaluate("document.getElementById('text').textContent")
    prompt = page.evaluate("document.getElementById('prompt').value")
    (port,) = session.inputs
    tokens = [np.full(port.shape, ALPHABET.index(each), port.numpy) for each in text[: len(prompt) + 2]]
    for token in tokens[: len(prompt) - 1]:
        session.run({port.name: token})
    for each, token in zip(seen, tokens[len(prompt) - 1 :], strict=True):
        same(each, session, {port.name: token})


@pytest.mark.parametrize("browser", BROWSERS)
def test_a_browser_computes_what_the_simulator_does(browser, demos, page_file, tmp_path):
    with BROWSERS[browser](tmp_path) as page:
        page.open(page_file.as_uri())
        page.until("/^Ready/.test(document.getElementById('status')?.textContent)")
        page.evaluate(LISTEN)
        for demo in demos:
            for machine in MACHINES:
                choose(page, demo.name, machine)
                with package.Session(demo.model, "sim", machine) as session:
                    if demo.samples is None:
                        writes(page, session)
                        continue
                    buttons = "examples" if demo.name == "digits" else "samples"
                    for number, sample in enumerate(demo.samples):
                        page.evaluate("(window.seen = [], 0)")
                        page.evaluate(
                            f"(document.querySelectorAll('#{buttons} button')[{number}].click(), 0)"
                        )
                        (port,) = session.inputs
                        (seen,) = shown(page, 1)
                        same(seen, session, {port.name: sample.reshape(port.shape)})
        page.phone()
        for demo in demos:
            choose(page, demo.name, "nano")
            assert page.evaluate("document.documentElement.scrollWidth") <= 390
        assert not page.errors
        # Firefox does not tell of files.
        asked = {each for each in page.requests if not each.startswith(("blob:", "data:"))}
        assert asked <= {page_file.as_uri()}


@pytest.mark.parametrize("browser", BROWSERS)
def test_axe_finds_nothing(browser, page_file, tmp_path):
    if (found := importlib.util.find_spec("axe_core_python")) is None or found.origin is None:
        pytest.skip("axe is not installed: pip install axe-core-python")
    rules = (pathlib.Path(found.origin).parent / "axe.min.js").read_text()
    with BROWSERS[browser](tmp_path) as page:
        page.open(page_file.as_uri())
        page.until("/^Ready/.test(document.getElementById('status')?.textContent)")
        page.evaluate(f"(new Function({json.dumps(rules)}).call(window), 0)")
        for demo in ("digits", "chat"):
            choose(page, demo, "nano")
            result = page.evaluate(
                "axe.run().then(found => ({passes: found.passes.length, violations: found.violations.map(each => "
                "[each.id, each.nodes.map(node => node.html)])}))"
            )
            assert result["violations"] == []
            assert result["passes"] > 10
