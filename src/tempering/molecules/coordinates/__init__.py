"""Coordinates of a molecule: dihedrals, Z-matrices, internal coordinates."""
