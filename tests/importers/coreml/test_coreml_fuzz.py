"""Damaged files end in a named error of one line, or in a graph."""

from coreml_mutations import run_mutations, samples

from tosaic.compiler.importers.coreml import import_coreml


def test_the_samples_are_sound():
    for data in samples():
        import_coreml(data)


def test_damaged_files_are_refused_by_name():
    tally = run_mutations(600, seed=1, traced=True)
    assert tally.wrong == []
    assert tally.errors["ModelError"] > 120 and tally.accepted.total() > 40
