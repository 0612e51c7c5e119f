"""Simulated studies whose truth is known: what the machine does to runs, in stated sizes."""

import numpy as np

WIDE = np.array([1.10, 1.0, 1.02, 1.05, 1.15, 1.3, 1.01, 1.0])  # the first is used today


def simulated(rng, factors, blocks=10, noise=(0.008, 0.03), mood=0.1, drift=0.05, disturbed=0.0, spike=(0.2, 0.4)) -> np.ndarray:
    """Run times [block, allocator]. Allocator i takes factors[i] times as long, with a noise of its own (a standard deviation between the two), a mood
    that a block's runs share, a drift over the study in the random order of running, and that part of the runs disturbed: longer by a spike."""
    k = len(factors)
    own = np.exp(rng.uniform(*np.log(noise), k))
    order = np.argsort(rng.random((blocks, k)), axis=1) + k * np.arange(blocks)[:, None]
    logs = np.log(factors) + mood * rng.normal(size=(blocks, 1)) + drift * order / (blocks * k) + own * rng.normal(size=(blocks, k))
    spikes = np.log1p(rng.uniform(*spike, (blocks, k)))
    return np.exp(logs + np.where(rng.random((blocks, k)) < disturbed, spikes, 0.0))
