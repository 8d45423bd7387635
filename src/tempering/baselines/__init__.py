"""WHAT WE ARE COMPARED WITH: six learned samplers of others, written anew under one contract and one counter."""
