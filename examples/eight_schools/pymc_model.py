"""Eight schools in PyMC, not centred: `tempering run pymc_model.py:model --out runs/schools`.

The same density as numpyro_model.py beside it, in the same unconstrained coordinates.
"""

import numpy as np
import pymc as pm

SIGMA = np.array([15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0])
Y = np.array([28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0])

with pm.Model(coords={"school": np.arange(8)}) as model:
    mu = pm.Normal("mu", 0.0, 5.0)
    tau = pm.HalfCauchy("tau", 5.0)
    theta_trans = pm.Normal("theta_trans", 0.0, 1.0, dims="school")
    theta = pm.Deterministic("theta", mu + tau * theta_trans, dims="school")
    pm.Normal("y", theta, SIGMA, observed=Y)
