"""WHAT WE ARE COMPARED WITH: six learned samplers of others, rewritten under one contract and one counter."""
