"""Round trips: a replica that saw the hot end, then the cold end, and is back at the hot end."""

import jax
import jax.numpy as jnp
import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tempering.parallel_tempering.state import Replicas, Tally, track

SWAP_HOT, SWAP_COLD, STAY = [1, 0, 2], [0, 2, 1], [0, 1, 2]


@jax.jit
def _round(replicas: Replicas, order):
    moved = [jnp.take_along_axis(leaf, order, axis=0) for leaf in (replicas.index, replicas.heading)]
    return track(Replicas(*moved))


def _round_trips(rounds: list[list[list[int]]]) -> tuple[list[int], Replicas]:
    """Round trips after each round; `rounds` holds one permutation a chain."""
    num_levels, num_chains = len(rounds[0][0]), len(rounds[0])
    replicas = Replicas.start(num_levels, num_chains)
    counts, total = [], 0
    for permutations in rounds:
        replicas, num_returned = _round(replicas, np.asarray(permutations).T)
        total += int(num_returned)
        counts.append(total)
    return counts, replicas


def test_one_round_trip_by_hand():
    # Replica 0 goes down two levels and comes back up two: one trip, counted when it arrives and not again.
    rounds = [[SWAP_HOT], [SWAP_COLD], [STAY], [SWAP_COLD], [SWAP_HOT], [STAY], [STAY]]
    counts, replicas = _round_trips(rounds)
    assert counts == [0, 0, 0, 0, 1, 1, 1]
    assert replicas.index[:, 0].tolist() == [0, 1, 2]


def test_half_a_trip_and_a_trip_that_began_at_the_cold_end_do_not_count():
    # Replica 0 turns round in the middle; replica 2 reaches the hot end for the first time.
    assert _round_trips([[SWAP_HOT], [SWAP_HOT], [SWAP_COLD], [SWAP_HOT], [SWAP_HOT]])[0][-1] == 0


def test_two_levels_and_several_chains():
    flip, stay = [1, 0], [0, 1]
    # Chain 0 flips every time: replica 0 is home after two rounds, replica 1 after three, and so on. Chain 1 rests.
    counts, _ = _round_trips([[flip, stay]] * 5)
    assert counts == [0, 1, 2, 3, 4]


def test_a_single_level_makes_no_trips():
    assert _round_trips([[[0]], [[0]]])[0] == [0, 0]
    assert Tally.zero(1).swap_rate.shape == (0,)


def _trips_of_history(levels: list[int], coldest: int) -> int:
    """Completed hot -> cold -> hot passages of one replica's history."""
    trips, last_end = 0, None
    for level in levels:
        if level == 0:
            trips += last_end == "cold"
            last_end = "hot"
        elif level == coldest and last_end == "hot":
            last_end = "cold"
    return trips


@given(rounds=st.integers(2, 4).flatmap(lambda n: st.lists(st.permutations(range(n)), min_size=1, max_size=12)))
def test_counts_agree_with_the_history_of_every_replica(rounds):
    num_levels = len(rounds[0])
    where = list(range(num_levels))  # where[level] is the replica there
    histories = [[level] for level in range(num_levels)]
    for permutation in rounds:
        where = [where[source] for source in permutation]
        for level, replica in enumerate(where):
            histories[replica].append(level)
    expected = sum(_trips_of_history(history, num_levels - 1) for history in histories)
    assert _round_trips([[list(permutation)] for permutation in rounds])[0][-1] == expected
