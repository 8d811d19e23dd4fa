"""Files that users copy, and what the site is made of."""

import importlib.util
import pathlib
import re

import yaml

ROOT = pathlib.Path(__file__).parents[2]


def test_the_workflow_is_one():
    flow = yaml.safe_load((ROOT / "docs/ci/tosaic.yml").read_text())
    # YAML 1.1 reads the key `on` as true.
    assert flow[True] == ["push", "pull_request"]
    steps = flow["jobs"]["cosim"]["steps"]
    assert all(("uses" in step) != ("run" in step) for step in steps)
    (cache,) = [step["with"] for step in steps if step.get("uses", "").startswith("actions/cache@")]
    assert flow["env"]["TOSAIC_CACHE"].endswith(f"/{cache['path']}")
    assert cache["key"].startswith(cache["restore-keys"])


def test_the_container_has_what_the_simulator_needs():
    text = (ROOT / "docs/ci/Containerfile").read_text()
    assert all(
        word in text for word in ("g++", "make", "perl", "TOSAIC_CACHE=/cache", 'ENTRYPOINT ["tosaic"]')
    )


def test_every_page_is_in_the_site_s_menu():
    menu = (ROOT / "docs/site/mkdocs.yml").read_text()
    pages = [page.name for page in (ROOT / "docs").glob("*.md")]
    assert [name for name in pages if f" {name}\n" not in menu] == []
    assert all(f"notebooks/{each.name}\n" in menu for each in (ROOT / "docs/notebooks").glob("*.ipynb"))


def script(name):
    """A script of bench as a module."""
    spec = importlib.util.spec_from_file_location(name, ROOT / f"bench/{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_links_of_the_site_lead_to_its_pages(tmp_path):
    """Patches and SECURITY.md are not among them: links there are their text."""
    folder = tmp_path / "pages"
    script("site_pages").copy_pages(folder)
    links = [
        (page.relative_to(folder), link)
        for page in folder.rglob("*.md")
        for link in re.findall(r"\]\((?!\w+:|#)([^)\s#]+)", page.read_text())
    ]
    there = {str(page) for page, link in links if (folder / page.parent / link).exists()}
    assert {"index.md", "CONTRIBUTING.md", "releasing.md"} <= there
    lost = [(str(page), link) for page, link in links if not (folder / page.parent / link).exists()]
    assert [each for each in lost if each != ("index.md", "figures/report.html")] == []
    assert "holes switched on at the forge\n  (SECURITY.md)" in (folder / "releasing.md").read_text()


def test_pictures_of_how_tos_are_those_that_the_script_draws():
    pictures = script("how_to_pictures").PICTURES
    kept = {file.stem.removeprefix("howto_") for file in (ROOT / "docs/figures").glob("howto_*.svg")}
    assert kept == set(pictures)
    for name, picture in pictures.items():
        assert (ROOT / f"docs/figures/howto_{name}.svg").read_text() == picture.drawn(), "make docs"


def test_the_figures_are_drawn(tmp_path):
    site_pages = script("site_pages")
    page = (ROOT / "docs/performance.md").read_text()
    rows = site_pages.published_rows()
    assert [row.network for row in rows][:2] == ["ic_resnet8", "vww_mobilenet"]
    assert all(re.search(rf"^\| {row.network} .* {row.cycles:,} \|", page, re.M) for row in rows)
    site_pages.draw(tmp_path)
    assert {file.name for file in tmp_path.iterdir()} == {
        "peers.svg", "report.html", "roofline.svg", "units.svg", "units_slow.svg"
    }  # fmt: skip
    assert all(file.read_text().startswith("<svg xmlns=") for file in tmp_path.glob("*.svg"))
    kept = {file.name for file in (ROOT / "docs/figures").glob("*.svg")}
    assert {file.name for file in tmp_path.glob("*.svg")} <= kept, "make docs"
