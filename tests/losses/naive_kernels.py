"""Kernels once more, as functions ``w(i, j)`` of two samples, from the formulas alone."""

import math


def _vector(values, i):
    value = values[i]
    return [float(value)] if value.dim() == 0 else [float(v) for v in value]


def gaussian(values, sigma):
    def w(i, j):
        a, b = _vector(values, i), _vector(values, j)
        sigmas = sigma if isinstance(sigma, (list, tuple)) else [sigma] * len(a)
        return math.exp(-0.5 * sum(((x - y) / s) ** 2 for x, y, s in zip(a, b, sigmas, strict=True)))

    return w


def laplacian(values, sigma):
    def w(i, j):
        a, b = _vector(values, i), _vector(values, j)
        return math.exp(-sum(abs(x - y) / sigma for x, y in zip(a, b, strict=True)))

    return w


def linear(values):
    def w(i, j):
        return sum(x * y for x, y in zip(_vector(values, i), _vector(values, j), strict=True))

    return w


def cosine(values):
    dot = linear(values)

    def w(i, j):
        return dot(i, j) / math.sqrt(dot(i, i) * dot(j, j))

    return w


def categorical(values):
    def w(i, j):
        return 1.0 if int(values[i]) == int(values[j]) else 0.0

    return w


def different(values, within, own=True):
    """1 between categories, ``within`` in one; a sample with itself counts 1, or as of one category."""

    def w(i, j):
        return within if int(values[i]) == int(values[j]) and not (own and i == j) else 1.0

    return w


def own(kernel):
    return lambda i, j: 1.0 if i == j else kernel(i, j)


def product(*kernels):
    def w(i, j):
        return math.prod(kernel(i, j) for kernel in kernels)

    return w


def weighted_sum(*terms):
    def w(i, j):
        return sum(factor * kernel(i, j) for factor, kernel in terms)

    return w


def marginal(kernel, observed):
    """A factor with a missing side takes its mean over pairs of different observed samples, and with itself its own."""
    present = [i for i, seen in enumerate(observed) if seen]
    pairs = [(i, j) for i in present for j in present if i != j]
    own = sum(kernel(i, i) for i in present) / len(present)
    mean = sum(kernel(i, j) for i, j in pairs) / len(pairs) if pairs else own

    def w(i, j):
        if observed[i] and observed[j]:
            return kernel(i, j)
        return own if i == j else mean

    return w


def largest(w, n):
    return max(w(i, j) for i in range(n) for j in range(n))
