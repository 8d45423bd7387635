"""Runs as data: configuration, presets, the run folder, carrying a run out and judging it. No algorithm."""
