"""A mixture of two normals in NumPyro: `tempering run numpyro_model.py:model --out runs/mixture`.

posteriordb calls it `low_dim_gauss_mix-low_dim_gauss_mix`, with ordered means. Here they have no order, as people write
it at first: the posterior has two mirror images, and chains that start in one of them stay there. The 200 observations
are simulated.
"""

import numpy as np
import numpyro
import numpyro.distributions as dist

TRUE_SHARE, TRUE_MEANS, TRUE_WIDTHS = 0.35, (-1.0, 1.6), (0.6, 0.9)


def _simulated() -> np.ndarray:
    rng = np.random.default_rng(2)
    is_first = rng.uniform(size=200) < TRUE_SHARE
    return np.where(
        is_first, rng.normal(TRUE_MEANS[0], TRUE_WIDTHS[0], 200), rng.normal(TRUE_MEANS[1], TRUE_WIDTHS[1], 200)
    )


data = {"y": _simulated()}


def model(y=None):
    """The log joint density of the mixture's five parameters and the observations."""
    theta = numpyro.sample("theta", dist.Beta(5.0, 5.0))
    mu = numpyro.sample("mu", dist.Normal(0.0, 2.0).expand([2]).to_event(1))
    sigma = numpyro.sample("sigma", dist.HalfNormal(2.0).expand([2]).to_event(1))
    parts = dist.Normal(mu, sigma)
    share = dist.Categorical(probs=np.array([1.0, 0.0]) * theta + np.array([0.0, 1.0]) * (1.0 - theta))
    numpyro.sample("y", dist.MixtureSameFamily(share, parts).expand([200]).to_event(1), obs=y)
