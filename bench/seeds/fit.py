"""Least squares: y = b0 + b1 x1 + … with an interval for each coefficient. Plain Python, as bench/seeds/run needs no package."""
import math
from dataclasses import dataclass


def solve(a, b):
    """x with a x = b, by Gauss's elimination with pivots; `b` has several columns."""
    n = len(a)
    rows = [list(map(float, row)) + list(map(float, right)) for row, right in zip(a, b)]
    for i in range(n):
        pivot = max(range(i, n), key=lambda r: abs(rows[r][i]))
        if rows[pivot][i] == 0:
            raise ValueError("the points don't determine all coefficients")
        rows[i], rows[pivot] = rows[pivot], rows[i]
        rows[i] = [v / rows[i][i] for v in rows[i]]
        for r in range(n):
            if r != i and rows[r][i] != 0:
                factor = rows[r][i]
                rows[r] = [v - factor * w for v, w in zip(rows[r], rows[i])]
    return [row[n:] for row in rows]


def t_quantile(p, df):
    """The value that Student's t with `df` degrees of freedom stays below with probability p > 0.5. By Simpson's rule and bisection."""
    scale = math.exp(math.lgamma((df + 1) / 2) - math.lgamma(df / 2)) / math.sqrt(df * math.pi)

    def below(t):                                      # x = tan u maps the whole line to an interval
        steps, top = 400, math.atan(t)
        h = top / steps
        values = [(1 + math.tan(i * h) ** 2 / df) ** (-(df + 1) / 2) / math.cos(i * h) ** 2 for i in range(steps + 1)]
        return 0.5 + scale * h / 3 * (values[0] + values[-1] + 4 * sum(values[1:-1:2]) + 2 * sum(values[2:-1:2]))
    low, high = 0.0, 1000.0
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if below(middle) < p else (low, middle)
    return (low + high) / 2


@dataclass(frozen=True)
class Fit:
    coefficients: list   # b0, b1, …
    half: list           # half the width of each interval
    deviation: float     # standard deviation of what the formula leaves, in units of y
    determination: float # R²
    points: int

    def at(self, x):
        return self.coefficients[0] + sum(b * v for b, v in zip(self.coefficients[1:], x))


def fit(points, level=0.95):
    """`points`: [((x1, x2, …), y), …], more of them than coefficients."""
    rows = [(1.0, *x) for x, _ in points]
    ys = [float(y) for _, y in points]
    n, k = len(rows), len(rows[0])
    if n <= k:
        raise ValueError(f"{n} points are too few for {k} coefficients")
    scales = [max(abs(row[j]) for row in rows) or 1.0 for j in range(k)]      # counts of 10,000 beside a 1: scaled, nothing is lost
    scaled = [[v / s for v, s in zip(row, scales)] for row in rows]
    normal = [[sum(row[i] * row[j] for row in scaled) for j in range(k)] for i in range(k)]
    right = [[sum(row[i] * y for row, y in zip(scaled, ys))] + [1.0 if i == j else 0.0 for j in range(k)] for i in range(k)]
    solved = solve(normal, right)
    scaled_b = [row[0] for row in solved]
    left = [y - sum(b * v for b, v in zip(scaled_b, row)) for row, y in zip(scaled, ys)]
    variance = sum(e * e for e in left) / (n - k)
    mean = sum(ys) / n
    total = sum((y - mean) ** 2 for y in ys)
    t = t_quantile((1 + level) / 2, n - k)
    half = [t * math.sqrt(max(0.0, variance * solved[j][1 + j])) / scales[j] for j in range(k)]
    return Fit([b / s for b, s in zip(scaled_b, scales)], half, math.sqrt(variance), 1 - variance * (n - k) / total if total else 1.0, n)
