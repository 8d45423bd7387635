"""Programs on so many of 8 virtual devices, as a process of its own: XLA makes devices when it starts.

The numbers are its arguments. Prints one line of JSON: for each program and each number of devices a hash of the
result's bits.
"""

import hashlib
import json
import os
import sys

os.environ["XLA_FLAGS"] = os.environ.get("XLA_FLAGS", "") + " --xla_force_host_platform_device_count=8"

import jax
import jax.numpy as jnp
import numpy as np

from tempering.devices import by_row, mean_and_grad, on_devices, programs, rows, use
from tempering.devices.mesh import LANES

NUMBERS = tuple(int(word) for word in sys.argv[1:])
DIM = 5


def _weights(key):
    first, second = jax.random.split(key)
    return jax.random.normal(first, (DIM, 48)), jax.random.normal(second, (48,))


def _log_density(weights, x):
    return jnp.sum(jnp.tanh(jnp.tanh(x @ weights[0]) * weights[1])) - 0.5 * jnp.sum((x - 0.3) ** 2)


@on_devices
def chains(key, weights, x):
    """Chains whose common step size follows the mean of all: a sum that crosses devices at every step."""

    def one(key, x, step_size):
        value, slope = jax.value_and_grad(lambda x: _log_density(weights, x))(x)
        there = x + step_size * slope + jax.random.normal(key, x.shape) * jnp.sqrt(2 * step_size)
        probability = jnp.minimum(1.0, jnp.exp(_log_density(weights, there) - value))
        return jnp.where(jax.random.uniform(key) < probability, there, x), probability

    def step(carry, key):
        x, step_size = carry
        keys = jax.random.split(key, x.shape[0])
        x, probability = by_row(one)(keys, x, jnp.full((x.shape[0],), step_size))
        return (x, step_size * jnp.exp(0.1 * (jnp.mean(probability) - 0.5))), x

    return jax.lax.scan(step, (x, jnp.asarray(0.1)), jax.random.split(key, 20))


def trained(weights, x):
    """Two models side by side, each by steps down a mean over a batch."""

    def one_model(weights):
        def step(weights, _):
            loss = lambda weights, x: (_log_density(weights, x) - x[0]) ** 2  # noqa: E731
            value, slope = mean_and_grad(loss, weights, x)
            return jax.tree.map(lambda leaf, change: leaf - 1e-2 * change, weights, slope), value

        return jax.lax.scan(step, weights, length=10)

    return jax.vmap(one_model)(jax.tree.map(lambda leaf: jnp.stack([leaf, 0.5 * leaf]), weights))


def roots(weights, x):
    """Divisions by equal roots and by numbers, which XLA may rewrite if it has not merged equal ones before."""

    def one(row, scale):
        width = lambda: jnp.sqrt(scale**2 + row**2)  # noqa: E731
        shift = jnp.sum(row * scale / width()) + jnp.sum(weights[0] / (1.0 - 0.9 ** (1.0 + scale[0] ** 2)))
        return shift + jnp.sum(jnp.tanh((row @ weights[0])[:DIM] / width()) * (1.0 / width()))

    return by_row(one)(x, jnp.roll(x, 1))


@on_devices
def uneven(x):
    """One row in some fifty takes a hundred times as many steps as the others."""

    def one(row):
        num_steps = jnp.where(row[0] > 2.0, 500, 5)
        return jax.lax.while_loop(
            lambda pair: pair[0] < num_steps, lambda pair: (pair[0] + 1, jnp.sin(pair[1])), (0, row)
        )

    return by_row(one)(x)


@on_devices
def evaluated(weights, x):
    """Values and gradients in chunks, over two leading axes too."""
    value = lambda x: _log_density(weights, x)  # noqa: E731
    pairs = by_row(value, num_axes=2)(x[: 2 * (x.shape[0] // 2)].reshape((2, -1, DIM)))
    return by_row(jax.value_and_grad(value), chunk_size=24)(x), pairs


def _expression(seed, x, depth):
    """A random one, in which parts come twice on purpose: XLA simplifies what it has merged in another way."""
    draw = np.random.default_rng(seed)
    table = np.random.default_rng(1).normal(size=(DIM, DIM)).astype(np.float32)
    if depth == 0:
        factor = float(draw.normal())
        return [x, x * factor, x + factor, x @ table, jnp.roll(x, 1), table @ x][draw.integers(6)]
    kind, inner, factor = draw.integers(9), draw.integers(1 << 30), float(draw.normal())
    a = lambda: _expression(inner, x, depth - 1)  # noqa: E731
    b = lambda: _expression(inner + 1, x, depth - 1)  # noqa: E731
    positive = lambda part: 1.0 + part() ** 2  # noqa: E731
    return [
        lambda: a() / jnp.sqrt(positive(b)) + b() / jnp.sqrt(positive(b)),
        lambda: jnp.tanh(a()) * (1.0 / jnp.sqrt(positive(a))),
        lambda: a() / (factor + 3.7),
        lambda: jnp.exp(-positive(a)) / jnp.exp(-0.1 * positive(b)),
        lambda: jnp.log(positive(a)) - jnp.log(positive(b)),
        lambda: jnp.power(positive(a), 1.5) / positive(b) ** 2.5,
        lambda: (a() @ table) / jnp.sum(positive(b)),
        lambda: jnp.where(a() > b(), a(), b() - a()),
        lambda: a() / b() / positive(b),
    ][kind]()


@on_devices
def expressions(x):
    """Walks down random expressions, values and gradients."""

    def one(row, shift):
        value = lambda row: sum(jnp.sum(jnp.tanh(_expression(seed, row, 2))) for seed in range(6))  # noqa: E731
        return jax.value_and_grad(value)(row), value(row * shift)

    def step(x, _):
        (value, slope), other = by_row(one)(x, jnp.broadcast_to(jnp.mean(x, axis=0), x.shape))
        return x + 0.01 * jnp.tanh(slope) / jnp.sqrt(1.0 + jnp.mean(slope**2) + jnp.std(value) ** 2), (value, other)

    return jax.lax.scan(step, x, length=3)


def _hash(tree):
    return hashlib.sha256(b"".join(np.asarray(leaf).tobytes() for leaf in jax.tree.leaves(tree))).hexdigest()


def main():
    """Run all of them; the last one once more with as many parts as devices, which must show."""
    assert jax.device_count() == LANES
    key = jax.random.key(0)
    weights, results = _weights(key), {}

    def compare(name, program, num):
        x = jax.random.normal(jax.random.key(num), (num, DIM))
        for number in NUMBERS:
            with use(number):
                results.setdefault(f"{name} of {num}", []).append(_hash(program(x)))

    compare("chains", lambda x: chains(key, weights, x), 101)
    for num in (7, 40, 101):
        compare("evaluated", lambda x: evaluated(weights, x), num)
    compare("trained", lambda x: on_devices(trained)(weights, x), 101)
    compare("roots", lambda x: on_devices(roots)(weights, x), 101)
    compare("uneven", uneven, 101)
    compare("expressions", expressions, 101)
    x = jax.random.normal(key, (101, DIM))
    plain = np.asarray(evaluated(weights, x)[0][0])
    with use(3):
        results["rounding"] = float(np.max(np.abs(plain - np.asarray(evaluated(weights, x)[0][0]))))
    rows.num_lanes = programs.num_lanes = lambda mesh: mesh.size
    compare("sabotaged", lambda x: on_devices(trained)(weights, x), 101)
    print(json.dumps(results))


if __name__ == "__main__":
    main()
