"""A tiny fit as a process of its own, alone or joined with others: writes the draws and their weights into a file.

Args: the file; then `devices N ...` for fits in turn, or `join PORT NUM INDEX FOLDER` for one of NUM processes.
"""

import os
import sys
from pathlib import Path

if sys.argv[2] == "devices":
    os.environ["XLA_FLAGS"] = os.environ.get("XLA_FLAGS", "") + " --xla_force_host_platform_device_count=8"

import jax
import numpy as np

from support.tiny_fits import fit


def _drawn(**options):
    sampler = fit(**options)
    draws, log_weights = sampler.sample_weighted(50, seed=1)
    ends = sampler.log_prob(draws[:20]), sampler.sample(30), np.asarray([sampler.evaluations], np.float32)
    return np.concatenate([np.ravel(part) for part in (draws, log_weights, *ends)])


def main():
    """Fit as the arguments say."""
    file, how, *rest = sys.argv[1:]
    if how == "devices":
        np.save(file, np.stack([_drawn(devices=int(number)) for number in rest]))
        return
    port, num, index, folder = rest
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    jax.distributed.initialize(f"127.0.0.1:{port}", int(num), int(index))
    drawn = _drawn(out=folder, progress=True)
    # Gone on with from parts that only the first process sees, and then read whole.
    if int(index) == 0:
        for name in ("sampler.json", "sampler.npz", "samples.npz"):
            (Path(folder) / name).unlink()
    again = _drawn(out=folder)
    np.save(file, np.stack([drawn, again, _drawn(out=folder)]))


if __name__ == "__main__":
    main()
