"""What the EGNN's factored layer and bfloat16 cost in quality: three networks trained on the same LJ-13 samples.

    python benchmarks/network_quality.py [--steps 1000] [--batch 64] [--width 32] [--seeds 0 1 2]
        [--out results/network-quality.json]

Ours, ours in bfloat16 and the plain concatenating EGNN of `bench_networks.py`, from as many random starts as there are
seeds, with Adam at 2e-3. The figure is EDM's loss of held-out samples with noise that is the same for all, relative to
the plain one's of the same seed: 1 is equal quality. Samples are those of `tempering reference lj13`, made if there are
none. `bench_networks.py` says how fast each is.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from bench_networks import PLAIN, SIDES, denoising_loss
from measure import finish, parser

from tempering.lab.presets import preset
from tempering.lab.reference import cached_reference
from tempering.settings import Network
from tempering.transforms.centred import Centred

NAMES = (PLAIN, "EGNN", "EGNN, bf16")
NUM_SAMPLES, NUM_HELD_OUT, REPEATS = 5000, 500, 8
LOG_SIGMAS = (-4.0, 1.0)
RATE = 2e-3


def noises(key, shape) -> tuple[jax.Array, jax.Array]:
    """Standard normals, and noise levels uniform in their logarithm."""
    key_noise, key_sigma = jax.random.split(key)
    log_sigma = jax.random.uniform(key_sigma, shape[:1], minval=LOG_SIGMAS[0], maxval=LOG_SIGMAS[1])
    return jax.random.normal(key_noise, shape), jnp.exp(log_sigma)


def mean_loss(network, y, noise, sigma) -> jax.Array:
    """EDM's loss over a batch."""
    return jnp.mean(jax.vmap(denoising_loss, (None, 0, 0, 0))(network, y, noise, sigma))


@eqx.filter_jit
def trained(network, key, samples, num_steps: int, batch: int):
    """The network after `num_steps` of Adam."""
    optimiser = optax.chain(optax.clip_by_global_norm(1.0), optax.adam(optax.cosine_decay_schedule(RATE, num_steps)))
    weights, rest = eqx.partition(network, eqx.is_inexact_array)

    def step(carry, key):
        weights, state = carry
        key_pick, key_noise = jax.random.split(key)
        y = samples[jax.random.randint(key_pick, (batch,), 0, samples.shape[0])]
        gradient = jax.grad(lambda w: mean_loss(eqx.combine(w, rest), y, *noises(key_noise, y.shape)))(weights)
        updates, state = optimiser.update(gradient, state)
        return (optax.apply_updates(weights, updates), state), None

    (weights, _), _ = jax.lax.scan(step, (weights, optimiser.init(weights)), jax.random.split(key, num_steps))
    return eqx.combine(weights, rest)


def held_out_loss(network, held_out) -> float:
    """Over `REPEATS` copies of the held-out samples, each with noise of its own."""
    y = jnp.tile(held_out, (REPEATS, 1))
    return float(eqx.filter_jit(mean_loss)(network, y, *noises(jax.random.key(99), y.shape)))


def main() -> None:
    made = parser(__doc__)
    made.add_argument("--steps", type=int, default=1000, help="of training")
    made.add_argument("--batch", type=int, default=64)
    made.add_argument("--width", type=int, default=32)
    made.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    options = made.parse_args()
    if options.quick:
        options.steps, options.seeds = 20, options.seeds[:1]
    geometry = Centred(13, 3)
    reference, _, _ = cached_reference(preset("lj13").target, NUM_SAMPLES)
    positions = jnp.asarray(reference.positions[:NUM_SAMPLES], jnp.float32)
    samples = jax.vmap(geometry.restrict)(positions)
    samples = jax.random.permutation(jax.random.key(0), samples / jnp.std(samples))
    settings = Network(width=options.width, depth=3, coordinate_width=0, is_shared=False)
    losses: dict[str, list[float]] = {name: [] for name in NAMES}
    for seed in options.seeds:
        key_start, key_train = jax.random.split(jax.random.key(seed))
        for name in NAMES:
            network = eqx.filter_jit(SIDES[name].make)(key_start, geometry, settings)
            network = trained(network, key_train, samples[NUM_HELD_OUT:], options.steps, options.batch)
            losses[name].append(held_out_loss(network, samples[:NUM_HELD_OUT]))
            over = losses[name][-1] / losses[PLAIN][-1]
            print(
                f"seed {seed}, {name}: held-out loss {losses[name][-1]:.4f}, {over:.3f} of the plain one's", flush=True
            )
    plain = np.asarray(losses[PLAIN])
    figures = {
        name: {
            "held_out_loss": [round(value, 5) for value in values],
            "over_plain": round(float(np.mean(np.asarray(values) / plain)), 4),
            "standard_error": round(float(np.std(np.asarray(values) / plain, ddof=1) / len(values) ** 0.5), 4)
            if len(values) > 1
            else None,
        }
        for name, values in losses.items()
    }
    finish(options, figures, steps=options.steps, batch=options.batch, width=options.width, seeds=options.seeds)


if __name__ == "__main__":
    main()
