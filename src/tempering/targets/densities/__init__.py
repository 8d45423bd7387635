"""Densities with exact facts, one file each: Gaussians, mixtures, many wells, particles."""
