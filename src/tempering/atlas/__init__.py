"""The atlas of modes: uphill searches, the optima that they find, and a reference made of these."""
