"""How long the whole study's analysis of variance takes: 108,864 balanced rows, six factors and blocks, all 64 terms. Prints JSON."""

import json
import resource
import time

import numpy as np

from marelab import env
from marelab.stats import anova, posthoc

y = np.random.default_rng(0).normal(size=(3, 3, 6, 6, 2, 6, 28))
seconds = []
for _ in range(5):
    start = time.perf_counter()
    a = anova.balanced(y, ["NA", "TA", "NT", "NP", "AL", "allocator"], blocks=True)
    posthoc.tukey(list("abcdef"), y.mean(axis=(0, 1, 2, 3, 4, 6)), [y.size // 6] * 6, a.mse, a.error_df)
    seconds.append(time.perf_counter() - start)
print(json.dumps({"rows": int(y.size), "terms": len(a.terms), "seconds_median": float(np.median(seconds)), "seconds": seconds,
                  "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, "machine": env.machine()}, indent=1))
