"""Every number that a finding is judged by, with its reason; docs/trust.md shows what they come to."""

from tempering.weights.pareto import RELIABLE_K

HIGH_RHAT = 1.4
"""Of the initial tempering's hottest level: what the pilot calls mixed; its chains are as short."""
LARGEST_SHIFT = 5.0
"""Standard errors between the means of early and late draws, over all coordinates."""
LARGEST_GROWTH = 1.25
"""Late over early spread of the hottest level; 100 chains know a spread to a few per cent."""
LEAST_VIRIAL = 0.85
"""Of the hottest level, four standard errors allowed for; it is 1 in equilibrium."""
FEW_SWAPS = 0.05
"""Accepted swaps of neighbouring levels below which replicas hardly travel."""
FAR_ENOUGH = 1024.0
"""Chains heated to this temperature have themselves gone 32 times as far as at T = 1."""
LEAST_REACH = 16.0
"""Scouts that went this many times as hot have seen what running chains might hide: four times as far."""

FEW_SEARCHES, LIKELY_MORE = 100, 0.01
"""Searches below which nothing is known of what was missed, and the chance of a new mode that leaves a doubt."""
RARE_WEIGHT, LIKELY_UNSEEN = 1e-3, 0.2
"""Local weight from which an optimum counts, and how many of these may be expected unseen. The eggbox with a budget of
10,000 has found 15 to 17 of its 18 optima after some 120 searches, some of them once or twice: 0.4 and 0.9."""
MOST_LOST = 0.2
"""Searches that came to nothing, over those that arrived, up to which the others have looked for all."""

HIGH_K, VERY_HIGH_K = RELIABLE_K, 1.0
"""Above the first means over weights cannot be trusted, above the second they need not exist (Vehtari et al. 2024)."""
MUCH_UNSEEN, UNSEEN_OF_FEW = 0.03, 15.0
"""Share of the mass beyond the largest weight that leaves a doubt, and the same times the number of draws, where these
are few and each is a large share. Simulated (docs/trust.md): of weights that are wrong by 0.05 because of a region that
a few draws met, this misses a quarter of what a k above 0.7 misses, and it leaves alone a tail that holds nothing."""
MUCH_UNSEEN_AGAIN = 0.015
"""The same after a second look, with four times as many draws: an alarm is withdrawn only where half of it is gone.
Simulated (docs/trust.md): of alarms over a region of 0.5 % of the mass this withdraws nine in ten, over one of 3 % that
2,000 draws meet half a time one in fifty, and over larger ones none that would be wrong; up to one in twenty-five where
weights within the region differ by a factor of e."""
LOW_SHARE = 0.05
"""Effective share below which twenty draws are worth one: weighted means are noise and unweighted ones biased."""
FEW_EFFECTIVE, TOO_FEW_EFFECTIVE = 100.0, 20.0
"""Effective final draws: means are known to a tenth, or a quarter, of a standard deviation."""
MOST_COUNT = 0.5
"""Effective share of final draws from which the largest do not outweigh the rest, whatever their tail foretells."""
FEW_OF_LEVEL = 30.0
"""Effective draws of a level below which nothing can be learnt from it."""

FEW_EVIDENCE = 30.0
"""Effective samples that hotter levels must keep at a colder one to say anything of its model."""
HIDDEN, MUCH_HIDDEN = 0.01, 0.1
"""Mass that the final model does not cover: it has lost a small mode, or a large one."""
HIDDEN_ON_THE_WAY = 0.02
"""Of a level between: less is expected where weights have a tail, and the next level may find it again."""

BAD_STARTS, BAD_VALUES = 0.2, 1e-3
"""Shares of starting points that were replaced, and of evaluations that were not finite, that leave a doubt."""

COARSE_STEP = 0.1
"""Between neighbours in single precision at the size of log Z. Rounding to steps of 0.125 (from a million on) moves
log Z by up to 0.06, and to steps of 1 by up to a half, which no effective share shows."""

FALSE_ALARMS = 1e-3
"""Probability that two right samplers are called different, over all coordinates and statistics together."""
FEW_TO_COMPARE = 50.0
"""Effective draws of each of two samplers below which they are not compared."""
HIDDEN_FROM_OTHER = 0.005
"""Mass of one sampler that the other does not cover."""
