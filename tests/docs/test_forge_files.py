"""What a forge and a container reader take from the repository: forms, workflow, citation, what is not copied."""

import pathlib
import re
import tomllib

import pytest
import yaml

ROOT = pathlib.Path(__file__).parents[2]
FORMS = sorted(path for path in (ROOT / ".github/ISSUE_TEMPLATE").glob("*.yml") if path.stem != "config")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


@pytest.mark.parametrize("path", FORMS, ids=lambda path: path.stem)
def test_a_form_has_what_the_forge_wants(path):
    form = yaml.safe_load(path.read_text())
    assert form["name"] and form["description"] and form["labels"]
    fields = [part for part in form["body"] if part["type"] != "markdown"]
    assert len({part["id"] for part in fields}) == len(fields)
    assert all(part["attributes"]["label"] for part in fields)
    assert all(part["attributes"]["value"] for part in form["body"] if part["type"] == "markdown")
    assert "--version" in path.read_text()


def test_the_workflow_runs_what_lands_a_change():
    flow = yaml.safe_load((ROOT / ".github/workflows/test.yml").read_text())
    job = flow["jobs"]["test"]
    assert [step["run"] for step in job["steps"] if "run" in step] == ["bash .ci/run"]
    classifiers = [
        name.rpartition(" ")[2] for name in PROJECT["classifiers"] if re.search(r":: 3\.\d+$", name)
    ]
    assert set(classifiers) <= set(job["strategy"]["matrix"]["python"])
    assert PROJECT["requires-python"] == ">=" + job["strategy"]["matrix"]["python"][0]


def test_files_that_users_copy_name_the_tested_python():
    assert 'python-version: "3.11"' in (ROOT / "docs/ci/tosaic.yml").read_text()
    assert "python:3.11-slim" in (ROOT / "docs/ci/Containerfile").read_text()


def test_a_container_copies_nothing_that_git_leaves_out():
    left_out = (ROOT / ".dockerignore").read_text().split()
    assert ".git" in left_out
    assert set((ROOT / ".gitignore").read_text().split()) <= {line.removeprefix("**/") for line in left_out}


def test_the_citation_is_of_this_project():
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert (cited["cff-version"], cited["type"], cited["license"]) == (
        "1.2.0",
        "software",
        PROJECT["license"],
    )
    assert cited["authors"] == PROJECT["authors"]
    # The version stands in pyproject.toml alone.
    assert "version" not in cited
