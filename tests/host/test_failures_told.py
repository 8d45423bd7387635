"""Points that failed stay in the account: of a resumed run, of a store that is read again, of an improvement."""

from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from support.host_functions import BAD, POINTS, Noted
from tempering.adapters.callback import from_callable
from tempering.adapters.hosting import hosted
from tempering.runs.records import Checks
from tempering.sampler.diagnosis.findings import recorded_findings


def target_in(folder: Path, trouble: str = "raises", store=None):
    """A new black box, as a new process makes it. It rejects one of POINTS."""
    return from_callable(Noted(folder, trouble, once=False), 2, on_failure="reject", store=store)


def failed_after(target, folder: Path | None, points, before: Counter | None = None) -> dict[str, int]:
    with hosted(target, folder, None, before) as hosts:
        values = target.box.values(points)
        assert np.array_equal(np.isneginf(values), np.all(points == POINTS[BAD], axis=1))
        use = hosts.use()
    target.close()
    return dict(use.failed)


@pytest.mark.parametrize("asked", [slice(None), slice(BAD + 1, None)], ids=["asked again", "of a finished level"])
def test_a_resumed_run_knows_the_failures_of_the_process_before(tmp_path, asked):
    run = tmp_path / "run"
    assert failed_after(target_in(tmp_path), run, POINTS) == {"raised": 1}
    assert failed_after(target_in(tmp_path), run, POINTS[asked]) == {"raised": 1}
    assert Noted(tmp_path).calls().count(POINTS[BAD].tobytes()) == 2, "the store rejects it, and nobody tries again"


def test_a_store_with_a_name_tells_of_what_it_is_asked_for_alone(tmp_path):
    """Other fits may share it, so that its other failures are none of this one's."""
    store = tmp_path / "store"
    assert failed_after(target_in(tmp_path, store=store), None, POINTS) == {"raised": 1}
    assert failed_after(target_in(tmp_path, store=store), None, POINTS) == {"raised": 1}
    assert failed_after(target_in(tmp_path, store=store), None, POINTS[BAD + 1 :]) == {}


def test_the_failures_of_a_fit_outlive_its_improvement(tmp_path):
    before = Counter({"raised": 3, "nan": 2})
    sound = lambda: target_in(tmp_path, "none")  # noqa: E731
    with hosted(sound(), None, None, before) as hosts:
        assert hosts.use().failed == before
    # The folder of the fit may know of more: of draws after it.
    run = tmp_path / "run"
    failed_after(target_in(tmp_path), run, POINTS)
    with hosted(target_in(tmp_path), run, None, Counter({"nan": 2})) as hosts:
        assert hosts.use().failed == {"raised": 1, "nan": 2}


def test_a_second_fit_of_one_target_is_not_charged_with_the_first(tmp_path):
    target = target_in(tmp_path)
    with hosted(target, None) as first:
        target.box.values(POINTS)
    with hosted(target, None) as second:
        target.box.values(POINTS[BAD + 1 :])
    assert first.use().num_failed == 1 and second.use().num_failed == 0


def test_the_verdict_rests_on_that_account(tmp_path):
    run = tmp_path / "run"
    failed_after(target_in(tmp_path), run, POINTS)
    with hosted(target_in(tmp_path), run) as hosts:
        host = hosts.use()
    sampler = SimpleNamespace(
        levels=[], checks=Checks(), evaluations=24, host=host, modes=(), dim=2, ess_fraction=None, pareto_k=None
    )
    found = {finding.name: finding.status for finding in recorded_findings(sampler)}
    assert found["points that failed"] == "doubtful"
