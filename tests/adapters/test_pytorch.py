"""PyTorch densities through the same door: right numbers, one pass for value and gradient, mistakes named."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from support.black_boxes import CENTRE, WIDTH, gaussian, gaussian_gradient
from support.unchecked import unchecked
from tempering.adapters import from_torch, reporting
from tempering.errors import DensityError, SettingsError
from tempering.targets.base import evaluate_many
from tempering.targets.cost import has_gradient, points_per_gradient

POINTS = jax.random.normal(jax.random.key(0), (5, 2))


@pytest.fixture(autouse=True)
def as_users_run_it():
    with unchecked():
        yield


def evaluated(target):
    with reporting(target):
        return jax.block_until_ready(evaluate_many(target, POINTS))


@pytest.fixture
def torch():
    return pytest.importorskip("torch")


def check_gaussian(values, gradients, tolerance: float = 1e-5) -> None:
    points = np.asarray(POINTS, np.float64)
    np.testing.assert_allclose(values, [gaussian(point) for point in points], rtol=tolerance)
    np.testing.assert_allclose(gradients, [gaussian_gradient(point) for point in points], rtol=tolerance, atol=1e-6)


def test_a_function_an_energy_and_a_module_give_value_and_gradient_in_one_pass(torch):
    centre, width, calls = torch.tensor(CENTRE), torch.tensor(WIDTH), []

    def energy(x):
        calls.append(x.shape)
        return 0.5 * (((x - centre) / width) ** 2).sum(1)

    class Module(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.centre = torch.nn.Parameter(centre.float())

        def forward(self, x):
            assert x.dtype == torch.float32, "that of the parameters"
            return -0.5 * (((x - self.centre) / width.float()) ** 2).sum(1)

    check_gaussian(*evaluated(from_torch(lambda x: -energy(x), 2)))
    calls.clear()
    target = from_torch(energy, 2, is_energy=True)
    check_gaussian(*evaluated(target))
    assert calls == [(5, 2)] and has_gradient(target) and points_per_gradient(target) == 1
    module = Module()
    with torch.no_grad():  # a user's setting elsewhere does not matter
        check_gaussian(*evaluated(from_torch(module, 2)), tolerance=1e-4)
    assert module.centre.grad is None, "nothing is left behind in the module"
    assert float(from_torch(energy, 2, is_energy=True).log_density(jnp.zeros(2))) == pytest.approx(
        gaussian(np.zeros(2))
    )


def test_mistakes_are_named(torch):
    wrong = {
        r"tensor of shape \(5, 2\) .*must be of shape \(5,\)": lambda x: x**2,
        r"shape \(\)": lambda x: (x**2).sum(),
        r"dtype torch.int64": lambda x: x.sum(1).long(),
        r"without a gradient": lambda x: x.detach().sum(1),
        r"returned a ndarray": lambda x: x.detach().numpy().sum(1),
    }
    for message, fn in wrong.items():
        with pytest.raises(DensityError, match=message):
            evaluated(from_torch(fn, 2))
    with pytest.raises(RuntimeError, match=r"size of tensor|shapes"):  # PyTorch's own, as it is
        evaluated(from_torch(lambda x: (x + torch.zeros(3)).sum(1), 2))
    with pytest.raises(DensityError, match="fn is an int"):
        from_torch(5, 2)
    with pytest.raises(SettingsError, match="dtype = 'float32'"):
        from_torch(lambda x: x.sum(1), 2, dtype="float32")
