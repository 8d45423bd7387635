"""Importance weights. Everything here is about one vector, `log_weights`.

- `weigh`: samples of a model weighed by the target.
- `ess`: their effective size, known and predicted.
- `truncate`: the largest weights are lowered.
- `resample`: drawing by weight, for a level and for the user.
- `hilbert`: the curve along which the user's draws are resampled.
- `metropolis`: equal weights by independent Metropolis chains.
- `pareto`: the weights' upper tail.
- `log_z`: log Z with its standard error.
"""
