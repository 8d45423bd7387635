"""Parts that were kept are not computed again, and the account is then as it was."""

import json

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tempering.buffer import Buffer, blank_buffer
from tempering.errors import RunFolderError
from tempering.runs.checkpoint import Journal, Nowhere, Store
from tempering.runs.ledger import Ledger
from tempering.runs.records import LevelRecord, finite_or_none, level_table


class InMemory:
    """A store that keeps what a folder would: arrays, and notes that have been through JSON."""

    def __init__(self):
        self.parts, self.lines = {}, []

    def load(self, level, part):
        return self.parts.get((level, part))

    def save(self, level, part, arrays, note):
        self.parts[level, part] = arrays, json.loads(json.dumps(note, allow_nan=False))

    def log(self, entry):
        self.lines.append(json.loads(json.dumps(entry, allow_nan=False)))


def buffer_of(num: int) -> Buffer:
    x = jnp.arange(2.0 * num).reshape(num, 2)
    return Buffer(x, x[:, 0], -x, jnp.full(num, 3, jnp.int32), 0.5 * x[:, 0])


def progress_with(store) -> Journal:
    return Journal(Ledger(budget=100), store)


def compute(progress: Journal) -> Buffer:
    progress.ledger.spend("refinement", 40)
    progress.ledger.spend("final_weights", 2, with_gradient=False)
    progress.levels[1] = LevelRecord(1, 2.0, acceptance=0.5, evaluations={"refinement": 40})
    progress.levels[0] = LevelRecord(0, 4.0)
    return buffer_of(5)


@pytest.mark.parametrize("store", [InMemory(), Nowhere()], ids=["in memory", "nowhere"])
def test_stores_keep_the_protocol(store):
    assert isinstance(store, Store)


def test_a_kept_part_is_not_computed_again():
    store = InMemory()
    first = progress_with(store)
    made = first.part(1, "buffer", blank_buffer(2), lambda: compute(first))
    entry = {"event": "part", "level": 1, "part": "buffer", "evaluations": first.ledger.total}
    assert store.lines == [entry | {"record": first.levels[1].as_dict()}] and first.ledger.total > 0

    resumed = progress_with(store)
    found = resumed.part(1, "buffer", blank_buffer(2), lambda: pytest.fail("computed again"))
    for a, b in zip(jax.tree.leaves(made), jax.tree.leaves(found), strict=True):
        np.testing.assert_array_equal(a, b)
        assert a.dtype == b.dtype
    assert resumed.ledger == first.ledger and resumed.ledger.total == 42
    assert resumed.ordered() == first.ordered()
    assert [record.level for record in resumed.ordered()] == [0, 1]
    # Another part of the same level is another matter.
    with pytest.raises(ZeroDivisionError):
        resumed.part(1, "model", blank_buffer(2), lambda: 1 / 0)
    assert (1, "model") not in store.parts


def test_what_was_kept_is_not_touched_by_what_comes_after():
    store = InMemory()
    progress = progress_with(store)
    progress.part(1, "buffer", blank_buffer(2), lambda: compute(progress))
    progress.ledger.spend("refinement", 7)
    progress.levels[1].acceptance = 0.9
    resumed = progress_with(store)
    resumed.part(1, "buffer", blank_buffer(2), lambda: pytest.fail("computed again"))
    assert resumed.ledger.total == 42 and resumed.levels[1].acceptance == 0.5


def test_a_part_of_another_configuration_is_refused():
    store = InMemory()
    progress = progress_with(store)
    progress.part(1, "buffer", blank_buffer(2), lambda: compute(progress))
    like = eqx.tree_at(lambda buffer: buffer.origin, blank_buffer(2), jnp.zeros(0))
    with pytest.raises(RunFolderError, match="'origin'.*int32"):
        progress_with(store).part(1, "buffer", like, lambda: pytest.fail("computed again"))


def test_nowhere_computes_every_time():
    progress = progress_with(Nowhere())
    for expected in (42, 84):
        progress.part(1, "buffer", blank_buffer(2), lambda: compute(progress))
        assert progress.ledger.total == expected


def test_records_survive_json():
    record = LevelRecord(2, 1.5, ess_fraction=0.25, log_z=finite_or_none(jnp.nan), evaluations={"refinement": 3})
    assert record.log_z is None and finite_or_none(jnp.asarray(0.5)) == 0.5 and finite_or_none(-np.inf) is None
    assert LevelRecord.from_dict(json.loads(json.dumps(record.as_dict()))) == record
    # A later version may know more.
    assert LevelRecord.from_dict(record.as_dict() | {"colour": "blue"}) == record


def test_the_level_table():
    told = LevelRecord(1, 2.0, "log_T", 0.45, 0.5, pareto_k=0.625, training_steps=300)
    told.evaluations = {"a": 1200, "b": 34}
    header, first, second = level_table([LevelRecord(0, 4.0), told])
    assert len(header) == len(first) == len(second)
    assert header[:5] == ["level", "T", "proposal", "predicted", "ESS"]
    assert first[:5] == ["1", "4", "-", "-", "-"] and first[-1] == "0"
    assert second[:5] == ["2", "2", "log_T", "0.450", "0.500"] and "300" in second and second[-1] == "1,234"
    assert dict(zip(header, second, strict=True))["Pareto k"] == "0.62"
