"""Figures of a fit, for people: levels, ladder, marginals, weights, configurations."""
