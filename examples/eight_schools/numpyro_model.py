"""Eight schools in NumPyro, not centred: `tempering run numpyro_model.py:model --out runs/schools`.

The treatment effects of eight schools with their standard errors (Rubin, 1981); posteriordb calls it
`eight_schools-eight_schools_noncentered`. The command takes `data` from this file.
"""

import numpy as np
import numpyro
import numpyro.distributions as dist

data = {
    "sigma": np.array([15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0]),
    "y": np.array([28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0]),
}


def model(sigma, y=None):
    """The log joint density of effects and data."""
    mu = numpyro.sample("mu", dist.Normal(0.0, 5.0))
    tau = numpyro.sample("tau", dist.HalfCauchy(5.0))
    with numpyro.plate("school", len(sigma)):
        theta_trans = numpyro.sample("theta_trans", dist.Normal(0.0, 1.0))
        theta = numpyro.deterministic("theta", mu + tau * theta_trans)
        numpyro.sample("y", dist.Normal(theta, sigma), obs=y)
