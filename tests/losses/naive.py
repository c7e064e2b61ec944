"""Every formula once more, as plain loops over pairs in float64.

Nothing here is fast, stable or shared with the package: each function is written straight
from the formula, embedding by embedding, so that an error would have to be made twice to pass.
``w`` is a function ``w(i, j)`` of two sample numbers: a kernel.
"""

import math
from dataclasses import dataclass

import torch

# ------------------------------------------------------------------ embeddings


def units(z):
    return [row / (row * row).sum().sqrt() for row in z]


def similarities(rows, columns, temperature):
    return [[(a * b).sum() / temperature for b in columns] for a in rows]


def pool(z1, z2, temperature):
    """Similarities of the 2n embeddings, their number and the sample of each."""
    embeddings = units(z1) + units(z2)
    n = z1.shape[0]
    return similarities(embeddings, embeddings, temperature), 2 * n, [k % n for k in range(2 * n)]


def total(items):
    result = 0.0
    for item in items:
        result = result + item
    return result


def log(value):
    return torch.log(torch.as_tensor(value, dtype=torch.float64))


# ------------------------------------------------------------------ the pool of all views


@dataclass
class Batch:
    """Views in a list, weights of their samples, and what is made of the values of the anchors."""

    views: list
    weights: list = None
    reduction: str = "mean"

    def at(self, temperature):
        return Loops(self, temperature)


class Loops:
    """Formulas over the pool; an anchor without a positive has no part in a mean."""

    def __init__(self, batch, temperature):
        z = [row for view in batch.views for row in units(view)]
        self.z = z
        self.n = len(batch.views[0])
        self.size = len(z)
        self.temperature = temperature
        self.s = similarities(z, z, temperature)
        self.reduction = batch.reduction
        self.weight = (batch.weights or [1.0] * self.n) * len(batch.views)

    def others(self, i):
        return [j for j in range(self.size) if j != i]

    def of_samples(self, w):
        return lambda i, j: w(i % self.n, j % self.n)

    def mean(self, of_anchor):
        found = {i: value for i in range(self.size) if (value := of_anchor(i)) is not None}
        values = [
            self.weight[i] * found.get(i, torch.zeros((), dtype=torch.float64))
            for i in range(self.size)
        ]
        if self.reduction == "none":
            return torch.stack(values).view(-1, self.n)
        return total(values) / (
            1 if self.reduction == "sum" else sum(self.weight[i] for i in found) or 1
        )

    def contrast(self, w, log_sum):
        """Mean over anchors of Σ_j w_ij/Σ w ( −s_ij + log_sum(i) )."""
        w = self.of_samples(w)

        def of_anchor(i):
            mass = sum(w(i, j) for j in self.others(i))
            pull = total(w(i, j) * (log_sum(i) - self.s[i][j]) for j in self.others(i))
            return pull / mass if mass > 0 else None

        return self.mean(of_anchor)

    def log_sum(self, i, damping=lambda _i, _j: 1, b=lambda _i, _j: 1):
        """log Σ_j b_ij exp(s_ij damping_ij)."""
        b = self.of_samples(b)
        damping = self.of_samples(damping)
        return log(total(b(i, j) * torch.exp(self.s[i][j] * damping(i, j)) for j in self.others(i)))

    def yaware(self, w, **log_sum):
        sums = [self.log_sum(i, **log_sum) for i in range(self.size)]
        return self.contrast(w, lambda i: sums[i])

    def alignment(self, w):
        return self.contrast(w, lambda _i: 0)

    def uniformity(self):
        return self.mean(lambda i: self.log_sum(i) - math.log(self.size - 1))

    def conditional_uniformity(self, apart):
        """log of the mean over anchors of Σ_j (d_ij / Σ_k d_ik) exp s_ij, d = apart."""
        apart = self.of_samples(apart)
        inside = 0.0
        anchors = 0
        for i in range(self.size):
            mass = sum(apart(i, j) for j in self.others(i))
            if mass > 1e-12:
                anchors += self.weight[i]
                pushed = total(apart(i, j) * torch.exp(self.s[i][j]) for j in self.others(i)) / mass
                inside = inside + self.weight[i] * pushed
        return log(inside / anchors) if anchors else 0.0 * sum(map(sum, self.s))

    def sincere(self, same, epsilon=0.0):
        same = self.of_samples(same)

        def of_anchor(i):
            positives = [j for j in self.others(i) if same(i, j)]
            negatives = total(torch.exp(self.s[i][j]) for j in self.others(i) if not same(i, j))
            terms = [
                log(torch.exp(self.s[i][p] - epsilon) + negatives) - self.s[i][p] for p in positives
            ]
            return total(terms) / len(terms) if terms else None

        return self.mean(of_anchor)

    def distance(self, i, j):
        squared = ((self.z[i] - self.z[j]) ** 2).sum()
        return torch.sqrt(squared) if squared > 0 else squared

    def triplet(self, same, margin):
        same = self.of_samples(same)
        active = []
        for i in range(self.size):
            near = [self.distance(i, p) for p in self.others(i) if same(i, p)]
            far = [self.distance(i, q) for q in self.others(i) if not same(i, q)]
            active += [
                (p - q + margin, self.weight[i]) for p in near for q in far if p - q + margin > 0
            ]
        mass = sum(weight for _, weight in active)
        return (
            total(value * weight for value, weight in active) / mass
            if mass
            else 0.0 * sum(map(sum, self.s))
        )

    def rank_n_contrast(self, y):
        def apart(i, j):
            return abs(float(y[i % self.n]) - float(y[j % self.n]))

        def of_anchor(i):
            s = {j: -self.distance(i, j) / self.temperature for j in self.others(i)}
            behind = {j: total(torch.exp(s[k]) for k in s if apart(i, k) >= apart(i, j)) for j in s}
            return total(log(behind[j]) - s[j] for j in s) / (self.size - 1)

        return self.mean(of_anchor)

    def corrected(self, positive_prior, concentration=0.0):
        """Debiased InfoNCE of two views, with importance weights exp(β s_ij) of the negatives."""
        n_negatives = self.size - 2

        def of_anchor(i):
            twin = (i + self.n) % self.size
            negatives = [self.s[i][j] for j in self.others(i) if j != twin]
            importance = [torch.exp(concentration * s) for s in negatives]
            mean = total(importance) / len(negatives)
            negative = total(
                v / mean * torch.exp(s) for v, s in zip(importance, negatives, strict=True)
            )
            positive = torch.exp(self.s[i][twin])
            estimate = (negative - positive_prior * n_negatives * positive) / (1 - positive_prior)
            estimate = estimate.clamp(min=n_negatives * math.exp(-1 / self.temperature))
            return -log(positive / (positive + estimate))

        return self.mean(of_anchor)


# ------------------------------------------------------------------ two views


def infonce(z1, z2, temperature, symmetric=True):
    a = units(z1)
    b = units(z2)
    n = len(a)

    def direction(x, y):
        s = similarities(x, y, temperature)
        return (
            total(-s[i][i] + log(total(torch.exp(s[i][j]) for j in range(n))) for i in range(n)) / n
        )

    return (direction(a, b) + direction(b, a)) / 2 if symmetric else direction(a, b)


def yaware_column_normalised(z1, z2, w, temperature):
    """The widely copied variant: each candidate's weights sum to 1, and twice the mean."""
    s, size, sample = pool(z1, z2, temperature)
    loss = 0.0
    for i in range(size):
        others = [j for j in range(size) if j != i]
        denominator = log(total(torch.exp(s[i][k]) for k in others))
        for j in others:
            mass = sum(w(sample[k], sample[j]) for k in range(size) if k != j)
            loss = loss + w(sample[i], sample[j]) / mass * (-s[i][j] + denominator)
    return 2 * loss / size


def wang_isola(z1, z2, alpha, t, uniformity_weight):
    a = units(z1)
    b = units(z2)
    n = len(a)
    align = total(((x - y) ** 2).sum() ** (alpha / 2) for x, y in zip(a, b, strict=True)) / n

    def uniform(x):
        pairs = [(i, j) for i in range(n) for j in range(i + 1, n)]
        return log(total(torch.exp(-t * ((x[i] - x[j]) ** 2).sum()) for i, j in pairs) / len(pairs))

    return align + uniformity_weight * (uniform(a) + uniform(b)) / 2


# ------------------------------------------------------------------ conditional contrastive
# learning with kernels


def conditional_embedding(w, n, ridge, own=True):
    k = torch.tensor([[w(i, j) for j in range(n)] for i in range(n)], dtype=torch.float64)
    operator = torch.linalg.inv(k + ridge * torch.eye(n, dtype=torch.float64)) @ k
    if own:
        return operator
    return torch.tensor(
        [
            [operator[i, j] if i != j and operator[i, j] >= 1e-6 else 0 for j in range(n)]
            for i in range(n)
        ]
    )


def _conditional_means(s, operator):
    """[K W]_ii, from below at the smallest normal number."""
    n = len(s)
    tiny = torch.finfo(torch.float64).tiny
    means = [total(torch.exp(s[i][j]) * operator[j, i] for j in range(n)) for i in range(n)]
    return [mean.clamp(min=tiny) for mean in means]


def weakly_supervised_cclk(z1, z2, w, temperature, ridge, own=True):
    n = z1.shape[0]
    s = similarities(units(z1), units(z2), temperature)
    m = _conditional_means(s, conditional_embedding(w, n, ridge, own))
    loss = 0.0
    for i in range(n):
        rest = total(torch.exp(s[i][j]) for j in range(n) if j != i)
        loss = loss - log(m[i]) + log(m[i] + rest)
    return loss / n


def fair_cclk(z1, z2, w, temperature, ridge, own=True):
    n = z1.shape[0]
    s = similarities(units(z1), units(z2), temperature)
    m = _conditional_means(s, conditional_embedding(w, n, ridge, own))
    return (
        total(-log(torch.exp(s[i][i]) / (torch.exp(s[i][i]) + (n - 1) * m[i])) for i in range(n))
        / n
    )


def both_directions(loss, z1, z2, *args):
    return (loss(z1, z2, *args) + loss(z2, z1, *args)) / 2


# ------------------------------------------------------------------ kernels, as functions w(i, j)
# of two samples


def pairs(values, i, j):
    return list(zip(values[i].reshape(-1).tolist(), values[j].reshape(-1).tolist(), strict=True))


def gaussian(values, sigma):
    return lambda i, j: math.exp(-0.5 * sum(((x - y) / sigma) ** 2 for x, y in pairs(values, i, j)))


def laplacian(values, sigma):
    return lambda i, j: math.exp(-sum(abs(x - y) for x, y in pairs(values, i, j)) / sigma)


def euclidean_laplacian(values, sigma):
    return lambda i, j: math.exp(
        -math.sqrt(sum((x - y) ** 2 for x, y in pairs(values, i, j))) / sigma
    )


def linear(values):
    return lambda i, j: sum(x * y for x, y in pairs(values, i, j))


def cosine(values):
    dot = linear(values)
    return lambda i, j: dot(i, j) / math.sqrt(dot(i, i) * dot(j, j))


def categorical(values):
    return lambda i, j: float(values[i] == values[j])


def different(values, within, own=True):
    """1 between categories, `within` in one; a sample with itself counts 1 or, without `own`, as of one category."""
    return lambda i, j: within if values[i] == values[j] and not (own and i == j) else 1.0


def own(kernel):
    return lambda i, j: 1.0 if i == j else kernel(i, j)


def product(*kernels):
    return lambda i, j: math.prod(kernel(i, j) for kernel in kernels)


def weighted_sum(*terms):
    return lambda i, j: sum(factor * kernel(i, j) for factor, kernel in terms)


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
