"""How good samples are: distances, energies, observables, mode weights, each beside its finite-sample floor."""

from tempering.metrics.alignment import aligned_distances, aligned_w2, kabsch_distance
from tempering.metrics.distances import paper_w2, wasserstein_1, wasserstein_2
from tempering.metrics.energy import energy_tvd, energy_wasserstein_1, energy_wasserstein_2, paper_energy_tvd
from tempering.metrics.likelihood import LogLikelihood, mean_log_likelihood
from tempering.metrics.marginals import ramachandran_floor, ramachandran_histogram, ramachandran_kl
from tempering.metrics.metric import Metric, MetricError, MetricsReport
from tempering.metrics.mmd import EnergyMMD, energy_mmd
from tempering.metrics.molecules import molecule_metrics
from tempering.metrics.observables import expected_mean_error, second_moment_error
from tempering.metrics.particles import Histogram, distance_tvd, histograms, pair_distances, quadratic_observable
from tempering.metrics.populations import Population, population, population_of_two_stages, rare_mode
from tempering.metrics.regions import estimated_region_weights, max_region_error, region_tv
from tempering.metrics.suite import evaluate_samples

__all__ = [
    "EnergyMMD",
    "Histogram",
    "LogLikelihood",
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
    "histograms",
    "kabsch_distance",
    "max_region_error",
    "mean_log_likelihood",
    "molecule_metrics",
    "paper_energy_tvd",
    "paper_w2",
    "pair_distances",
    "population",
    "population_of_two_stages",
    "quadratic_observable",
    "ramachandran_floor",
    "ramachandran_histogram",
    "ramachandran_kl",
    "rare_mode",
    "region_tv",
    "second_moment_error",
    "wasserstein_1",
    "wasserstein_2",
]
