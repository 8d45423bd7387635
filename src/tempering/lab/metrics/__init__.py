"""How good samples are: distances, energies, observables, mode weights, each beside its finite-sample floor."""

from tempering.lab.metrics.alignment import aligned_distances, aligned_w2
from tempering.lab.metrics.distances import paper_w2, wasserstein_1, wasserstein_2
from tempering.lab.metrics.energy import energy_tvd, energy_wasserstein_1, energy_wasserstein_2, paper_energy_tvd
from tempering.lab.metrics.marginals import ramachandran_histogram, ramachandran_kl
from tempering.lab.metrics.metric import Metric, MetricError, MetricsReport
from tempering.lab.metrics.mmd import EnergyMMD, energy_mmd
from tempering.lab.metrics.molecules import molecule_metrics
from tempering.lab.metrics.observables import expected_mean_error, second_moment_error
from tempering.lab.metrics.particles import Histogram, distance_tvd, pair_distances
from tempering.lab.metrics.populations import Population, population, rare_mode
from tempering.lab.metrics.regions import estimated_region_weights, max_region_error, region_tv
from tempering.lab.metrics.suite import evaluate_samples

__all__ = [
    "EnergyMMD",
    "Histogram",
    "Metric",
    "MetricError",
    "MetricsReport",
    "Population",
    "aligned_distances",
    "aligned_w2",
    "distance_tvd",
    "energy_mmd",
    "energy_tvd",
    "energy_wasserstein_1",
    "energy_wasserstein_2",
    "estimated_region_weights",
    "evaluate_samples",
    "expected_mean_error",
    "max_region_error",
    "molecule_metrics",
    "paper_energy_tvd",
    "paper_w2",
    "pair_distances",
    "population",
    "ramachandran_histogram",
    "ramachandran_kl",
    "rare_mode",
    "region_tv",
    "second_moment_error",
    "wasserstein_1",
    "wasserstein_2",
]
