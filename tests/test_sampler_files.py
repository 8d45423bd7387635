"""A sampler's folder: nothing is overwritten, others' files are refused, facts are JSON; and what its summary says."""

import dataclasses
import json

import equinox as eqx
import jax
import pytest

from support.exact_sampler import (
    NETWORK,
    linear_denoiser,
    moved_denoiser,
    sampler_of,
)
from tempering.errors import RunFolderError
from tempering.runs.records import Checks
from tempering.runs.storage import write_json
from tempering.sampler.load import load_sampler, model_like


@pytest.fixture
def trained():
    return sampler_of(moved_denoiser())


def test_nothing_is_overwritten(trained, tmp_path):
    trained.save(tmp_path)
    before = (tmp_path / "sampler.npz").read_bytes()
    with pytest.raises(RunFolderError, match="already holds a sampler; choose a new folder"):
        sampler_of(linear_denoiser()).save(tmp_path)
    assert (tmp_path / "sampler.npz").read_bytes() == before
    # Without `sampler.json`, which comes last, it is the remains of a save that was killed.
    (tmp_path / "sampler.json").unlink()
    trained.save(tmp_path)
    assert eqx.tree_equal(load_sampler(tmp_path).model, trained.model)


def test_folders_that_are_no_samplers_are_refused(trained, tmp_path):
    with pytest.raises(RunFolderError, match="sampler.json is missing"):
        load_sampler(tmp_path)
    folder = trained.save(tmp_path / "good")
    (folder / "sampler.npz").unlink()
    with pytest.raises(RunFolderError, match="sampler.npz is missing"):
        load_sampler(folder)
    other = tmp_path / "other"
    write_json(other / "sampler.json", {"format": "tempering sampler 99"})
    with pytest.raises(RunFolderError, match="another version.*format 'tempering sampler 99'.*fit it again"):
        load_sampler(other)
    edited = trained.save(tmp_path / "edited") / "sampler.json"
    edited.write_text(edited.read_text().replace('"dim": 3', '"dim": 4'))
    with pytest.raises(RunFolderError, match="altered"):
        load_sampler(edited.parent)


def test_arrays_of_another_network_are_refused(trained, tmp_path):
    trained.save(tmp_path)
    wider = dataclasses.replace(trained, network=dataclasses.replace(NETWORK, width=16))
    facts = wider.facts()
    (tmp_path / "sampler.json").unlink()
    write_json(tmp_path / "sampler.json", facts)
    with pytest.raises(RunFolderError, match="has shape"):
        load_sampler(tmp_path)


def test_a_blank_model_has_the_structure_of_a_real_one(trained):
    blank = model_like(3, NETWORK)
    assert jax.tree.structure(blank) == jax.tree.structure(trained.model)


def test_facts_are_json_even_when_log_z_is_not_a_number(trained):
    odd = dataclasses.replace(trained, log_z=float("-inf"), log_z_error=float("nan"), pareto_k=float("-inf"))
    facts = json.loads(json.dumps(odd.facts(), allow_nan=False))
    assert facts["log_z"] is None and facts["log_z_error"] is None and facts["pareto_k"] is None


def test_the_summary_says_what_matters(trained):
    text = trained.summary()
    for part in (
        "Sampler (PTSD) of 3 dimensions",
        "evaluations  2,000",
        "log Z  1.300 ± 0.010",
        "0.900",
        "weights  0.25",
    ):
        assert part in text
    *_, verdict = text.splitlines()
    assert verdict.startswith(trained.diagnose().line())
    assert "[!!] the hottest level: pilot's R-hat 1.90 at T = 2" in text and "[ok]" not in text
    assert all(finding.advice in text for finding in trained.findings if finding.status != "good")
    bare = dataclasses.replace(trained, log_z=None, log_z_error=None, ess_fraction=None, checks=Checks())
    assert "\nlog Z  " not in bare.summary() and "did not mix" not in bare.summary()
    assert "Pareto k of the final" in text
    assert "Pareto k of the final" not in dataclasses.replace(trained, pareto_k=None).summary()


def test_a_file_with_warnings_and_without_newer_checks_is_read(trained, tmp_path):
    """Of the versions that kept warnings in words beside a bare table of checks."""
    trained.save(tmp_path / "old")
    path = tmp_path / "old" / "sampler.json"
    facts = trained.facts()
    facts["warnings"] = ["the pilot's chains did not mix"]
    facts["checks"] = {"pilot_temperature": 2.0, "pilot_rhat": 1.9, "pilot_is_mixed": False, "num_final_draws": 2000}
    write_json(path, facts)
    old = load_sampler(tmp_path / "old")
    assert old.checks == trained.checks and old.findings == trained.findings
