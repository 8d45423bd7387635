"""Pools through the adapters of PyTorch, OpenMM and Stan: models travel to workers, values are those of one process."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import tempering as tp
from support.fake_stan import FakeStan
from support.unchecked import unchecked
from tempering.errors import DensityError

ROWS = np.random.default_rng(3).normal(size=(5, 9))

BRIDGESTAN = '''
"""Stands in for BridgeStan: a model that cannot be sent to another process, as compiled ones cannot."""
from support.fake_stan import FakeStan


class StanModel(FakeStan):
    def __init__(self, path, data=None, shift=0.5):
        super().__init__(shift)

    def __reduce__(self):
        raise TypeError("a model stays where it is")
'''


def values_of(box, rows):
    try:
        return box.values_and_gradients(rows)
    finally:
        box.close()


def assert_same(here, there):
    for one, other in zip(here, there, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.slow
def test_a_stan_model_of_a_path_is_compiled_by_every_worker(tmp_path, monkeypatch):
    (tmp_path / "bridgestan.py").write_text(BRIDGESTAN)
    monkeypatch.syspath_prepend(str(tmp_path))
    model = tmp_path / "model.stan"
    model.write_text("parameters {}")
    here = values_of(tp.from_stan(model, shift=0.7).box, ROWS)
    target = tp.from_stan(model, shift=0.7, host={"pool": 2, "chunk_size": 1})
    assert_same(here, values_of(target.box, ROWS))
    assert target.box.use.points == 5 and not np.allclose(here[0], values_of(tp.from_stan(model).box, ROWS)[0])


def test_a_compiled_stan_model_goes_to_threads_and_is_refused_by_processes_before_a_point():
    here = values_of(tp.from_stan(FakeStan()).box, ROWS)
    with ThreadPoolExecutor(2) as pool:
        assert_same(here, values_of(tp.from_stan(FakeStan(), host={"pool": pool}).box, ROWS))
    with (
        unchecked(),
        pytest.raises(DensityError, match="cannot travel to workers; give from_stan the path"),
    ):
        tp.from_stan(FakeStan(), host={"pool": 2})


def test_openmm_on_processes_gives_the_values_of_one():
    openmm, app = pytest.importorskip("openmm"), pytest.importorskip("openmm.app")
    from tempering.molecules import from_openmm
    from tempering.molecules.callback import OpenMMTarget

    system, chain = openmm.System(), app.Topology()
    residue = chain.addResidue("MOL", chain.addChain())
    carbon = app.Element.getBySymbol("C")
    for index in range(4):
        system.addParticle(12.0)
        chain.addAtom(f"C{index}", carbon, residue)
    force = openmm.CustomCompoundBondForce(2, "500*(distance(p1, p2)-0.15)^2")  # it has no translation
    for index in range(3):
        force.addBond([index, index + 1], [])
    system.addForce(force)
    positions = 0.15 * np.arange(12.0).reshape((4, 3))

    def target(**host):
        made = from_openmm(system, chain, positions, unsupported="callback", name="chain", **host)
        assert isinstance(made, OpenMMTarget)
        return made.target.box

    rows = positions.reshape(-1) + 0.02 * np.random.default_rng(0).normal(size=(6, 12))
    here, pooled = values_of(target(), rows), target(pool=2, chunk_size=1)
    assert_same(here, values_of(pooled, rows))
    assert pooled.use.points == 6 and len(np.unique(here[0])) == 6


def torch_density(x):
    return -0.5 * ((x - 0.3) ** 2).sum(dim=1)


def test_pytorch_on_processes_gives_the_values_of_one():
    pytest.importorskip("torch")
    here = values_of(tp.from_torch(torch_density, 9).box, ROWS)
    assert_same(here, values_of(tp.from_torch(torch_density, 9, pool=2, chunk_size=5).box, ROWS))
