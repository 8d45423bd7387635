"""Where temperature guidance pays: exact denoisers of tempered densities, and the shares that draws by them have."""
