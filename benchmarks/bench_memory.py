"""Peak memory of drawing many samples: bounded by the chunk and the output, not by what happens inside.

    python benchmarks/bench_memory.py [--quick] [--out results/memory.json]

Every size runs in a process of its own, because the peak of a process never falls. An untrained network and few steps:
neither changes the memory. What a million draws need beyond 10,000 is set against the bytes of the arrays that grow
with the number of draws: the samples, their log densities and one key each. `--divergence` adds the densities, whose
trace needs more memory inside a chunk. CPU only: on a GPU the peak of the host says little.
"""

import json
import os
import subprocess
import sys

from measure import finish, parser

FEW, MANY, CHUNK, NUM_STEPS = 10_000, 1_000_000, 10_000, 4
MEBIBYTE = 2**20

ONE = """
import json, resource, sys
import jax, jax.numpy as jnp
from tempering.diffusion import Denoiser, DiffusionModel, NoiseLevels, Prior
from tempering.diffusion.networks import make_network
from tempering.settings import Network, Sampling

num, dim, chunk_size, num_steps, with_density = json.loads(sys.argv[1])
network = make_network(jax.random.key(0), dim, Network(width=64, depth=2))
zeros, ones = jnp.zeros((dim,)), jnp.ones((dim,))
levels = NoiseLevels(*(jnp.asarray(n) for n in (0.01, 10.0, -1.2, 1.2, 7.0)), "log_uniform")
model = DiffusionModel(Denoiser(network, zeros, ones), Prior.diagonal(zeros, 10.0 * ones), levels)
sampling = Sampling(solver="euler", divergence="hutchinson", num_steps=num_steps, chunk_size=chunk_size)
draws, log_q = jax.block_until_ready(model.draw(jax.random.key(1), num, sampling, with_density=with_density))
assert draws.shape == (num, dim) and bool(jnp.all(jnp.isfinite(draws)))
# Linux counts in kibibytes, macOS in bytes.
unit = 1 if sys.platform == "darwin" else 1024
print(json.dumps(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit))
"""


def peak(num: int, dim: int, with_density: bool) -> int:
    """Peak resident bytes of a process that draws `num` samples."""
    job = json.dumps([num, dim, CHUNK, NUM_STEPS, with_density])
    found = subprocess.run(
        [sys.executable, "-c", ONE, job],
        env={**os.environ, "JAX_PLATFORMS": "cpu"},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return json.loads(found.stdout)


def main() -> None:
    made = parser(__doc__)
    made.add_argument("--divergence", action="store_true", help="with log densities")
    options = made.parse_args()
    many = 100_000 if options.quick else MANY
    figures = {}
    print(
        f"{'':10s} {'peak of ' + format(FEW, ','):>18s} {'peak of ' + format(many, ','):>20s} {'growth':>10s}", end=""
    )
    print(f" {'output':>10s} {'growth / output':>16s}   (MiB)")
    for dim in (2, 32):
        small, large = peak(FEW, dim, options.divergence), peak(many, dim, options.divergence)
        grows = (many - FEW) * 4 * (dim + 1 + 2)  # float32 samples and log densities; a key is two words
        share = (large - small) / grows
        figures[f"dim-{dim}"] = {
            "peak_bytes_few": small,
            "peak_bytes_many": large,
            "growth_bytes": large - small,
            "output_and_key_bytes": grows,
            "growth_over_output": round(share, 3),
        }
        print(f"{dim:>3d}-D      {small / MEBIBYTE:18.0f} {large / MEBIBYTE:20.0f}", end="")
        print(f" {(large - small) / MEBIBYTE:10.0f} {grows / MEBIBYTE:10.0f} {share:16.2f}")
    finish(
        options,
        figures,
        num_few=FEW,
        num_many=many,
        chunk_size=CHUNK,
        num_steps=NUM_STEPS,
        with_density=options.divergence,
    )


if __name__ == "__main__":
    main()
