"""Every formula once more, as plain loops over pairs in float64.

Nothing here is fast, stable or shared with the package: each function is written straight
from the formula, sample by sample, so that an error would have to be made twice to pass.
``w`` is a function ``w(i, j)`` of two sample numbers, of ``naive_kernels.py``; ``label`` a list.
"""

from __future__ import annotations

import math

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


# ------------------------------------------------------------------ InfoNCE and its relatives


def infonce(z1, z2, temperature, symmetric=True):
    a, b = units(z1), units(z2)
    n = len(a)

    def direction(x, y):
        s = similarities(x, y, temperature)
        return total(-s[i][i] + log(total(torch.exp(s[i][j]) for j in range(n))) for i in range(n)) / n

    return (direction(a, b) + direction(b, a)) / 2 if symmetric else direction(a, b)


def ntxent(z1, z2, temperature):
    s, size, _ = pool(z1, z2, temperature)
    n = size // 2
    loss = 0.0
    for i in range(size):
        twin = i + n if i < n else i - n
        loss = loss - s[i][twin] + log(total(torch.exp(s[i][j]) for j in range(size) if j != i))
    return loss / size


def yaware(z1, z2, w, temperature):
    s, size, sample = pool(z1, z2, temperature)
    loss = 0.0
    for i in range(size):
        others = [j for j in range(size) if j != i]
        denominator = log(total(torch.exp(s[i][k]) for k in others))
        mass = sum(w(sample[i], sample[k]) for k in others)
        for j in others:
            loss = loss + w(sample[i], sample[j]) / mass * (-s[i][j] + denominator)
    return loss / size


def exponential_yaware(z1, z2, w, temperature, supremum=1.0):
    s, size, sample = pool(z1, z2, temperature)
    loss = 0.0
    for i in range(size):
        others = [j for j in range(size) if j != i]
        denominator = log(total(torch.exp(s[i][k] * (1 - w(sample[i], sample[k]) / supremum)) for k in others))
        mass = sum(w(sample[i], sample[k]) for k in others)
        for j in others:
            loss = loss + w(sample[i], sample[j]) / mass * (-s[i][j] + denominator)
    return loss / size


def rank_n_contrast(z1, z2, y, temperature):
    embeddings = units(z1) + units(z2)
    n, size = z1.shape[0], 2 * z1.shape[0]
    y = [float(value) for value in y]

    def s(i, j):
        squared = ((embeddings[i] - embeddings[j]) ** 2).sum()
        return -(torch.sqrt(squared) if squared > 0 else squared) / temperature

    def apart(i, j):
        return abs(y[i % n] - y[j % n])

    loss = 0.0
    for i in range(size):
        others = [j for j in range(size) if j != i]
        for j in others:
            behind = total(torch.exp(s(i, k)) for k in others if apart(i, k) >= apart(i, j))
            loss = loss + (-s(i, j) + log(behind)) / len(others)
    return loss / size


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


def conditional_alignment(z1, z2, w, temperature):
    s, size, sample = pool(z1, z2, temperature)
    loss = 0.0
    for i in range(size):
        others = [j for j in range(size) if j != i]
        mass = sum(w(sample[i], sample[k]) for k in others)
        for j in others:
            loss = loss - w(sample[i], sample[j]) / mass * s[i][j]
    return loss / size


def global_uniformity(z1, z2, temperature):
    s, size, _ = pool(z1, z2, temperature)
    loss = 0.0
    for i in range(size):
        loss = loss + log(total(torch.exp(s[i][j]) for j in range(size) if j != i) / (size - 1))
    return loss / size


def conditional_uniformity(z1, z2, w, supremum, temperature):
    s, size, sample = pool(z1, z2, temperature)
    m = size - 1
    inside, n_anchors = 0.0, 0
    for i in range(size):
        others = [j for j in range(size) if j != i]
        z_hat = sum(w(sample[i], sample[j]) for j in others) / m
        if supremum - z_hat <= 1e-12 * supremum:
            continue
        n_anchors += 1
        for j in others:
            inside = inside + (supremum - w(sample[i], sample[j])) / (supremum - z_hat) * torch.exp(s[i][j])
    return log(inside / (n_anchors * m)) if n_anchors else 0.0 * z1.sum()


def yaware_among(z1, z2, w, v, temperature, supremum=1.0):
    """y-Aware whose candidates are the negatives of v and the positives of w, whichever weighs more."""
    s, size, sample = pool(z1, z2, temperature)
    loss = 0.0
    for i in range(size):
        others = [j for j in range(size) if j != i]
        weights = [max(v(sample[i], sample[k]), w(sample[i], sample[k]) / supremum) for k in others]
        inside = total(weight * torch.exp(s[i][k]) for k, weight in zip(others, weights, strict=True))
        mass = sum(w(sample[i], sample[k]) for k in others)
        for j in others:
            loss = loss + w(sample[i], sample[j]) / mass * (-s[i][j] + log(inside))
    return loss / size


def conditional_uniformity_among(z1, z2, w, v, temperature):
    """Conditional uniformity in which v says who can be a negative; w at most 1."""
    s, size, sample = pool(z1, z2, temperature)
    inside, n_anchors = 0.0, 0
    for i in range(size):
        others = [j for j in range(size) if j != i]
        apart = [(1 - w(sample[i], sample[j])) * v(sample[i], sample[j]) for j in others]
        if sum(apart) <= 1e-12:
            continue
        n_anchors += 1
        inside = inside + total(a * torch.exp(s[i][j]) for j, a in zip(others, apart, strict=True)) / sum(apart)
    return log(inside / n_anchors) if n_anchors else 0.0 * z1.sum()


def wang_isola(z1, z2, alpha, t, uniformity_weight):
    a, b = units(z1), units(z2)
    n = len(a)
    align = total(((x - y) ** 2).sum() ** (alpha / 2) for x, y in zip(a, b, strict=True)) / n

    def uniform(x):
        pairs = [(i, j) for i in range(n) for j in range(i + 1, n)]
        return log(total(torch.exp(-t * ((x[i] - x[j]) ** 2).sum()) for i, j in pairs) / len(pairs))

    return align + uniformity_weight * (uniform(a) + uniform(b)) / 2


# ------------------------------------------------------------------ labels


def supcon(z1, z2, label, temperature):
    s, size, sample = pool(z1, z2, temperature)
    loss = 0.0
    for i in range(size):
        others = [j for j in range(size) if j != i]
        positives = [j for j in others if label[sample[j]] == label[sample[i]]]
        denominator = log(total(torch.exp(s[i][k]) for k in others))
        loss = loss + total(-s[i][p] + denominator for p in positives) / len(positives)
    return loss / size


def sincere(z1, z2, label, temperature, epsilon=0.0):
    s, size, sample = pool(z1, z2, temperature)
    loss = 0.0
    for i in range(size):
        others = [j for j in range(size) if j != i]
        positives = [j for j in others if label[sample[j]] == label[sample[i]]]
        negatives = total(torch.exp(s[i][j]) for j in others if label[sample[j]] != label[sample[i]])
        loss = loss + total(-s[i][p] + log(torch.exp(s[i][p] - epsilon) + negatives) for p in positives) / len(
            positives
        )
    return loss / size


def fair_infonce(z1, z2, cluster, temperature):
    s, size, sample = pool(z1, z2, temperature)
    n = size // 2
    loss = 0.0
    for i in range(size):
        twin = i + n if i < n else i - n
        inside = [j for j in range(size) if j != i and (j == twin or cluster[sample[j]] == cluster[sample[i]])]
        loss = loss - s[i][twin] + log(total(torch.exp(s[i][j]) for j in inside))
    return loss / size


def triplet(z1, z2, label, margin):
    embeddings = units(z1) + units(z2)
    n, size = z1.shape[0], 2 * z1.shape[0]

    def distance(i, j):
        squared = ((embeddings[i] - embeddings[j]) ** 2).sum()
        return torch.sqrt(squared) if squared > 0 else squared

    losses = []
    for a in range(size):
        for p in range(size):
            if p == a or label[p % n] != label[a % n]:
                continue
            for q in range(size):
                if label[q % n] != label[a % n]:
                    value = distance(a, p) - distance(a, q) + margin
                    if value > 0:
                        losses.append(value)
    return total(losses) / len(losses) if losses else 0.0 * z1.sum()


# ------------------------------------------------------------------ corrected negatives


def debiased(z1, z2, temperature, positive_prior):
    s, size, _ = pool(z1, z2, temperature)
    n = size // 2
    n_negatives = size - 2
    loss = 0.0
    for i in range(size):
        twin = i + n if i < n else i - n
        positive = torch.exp(s[i][twin])
        negative = total(torch.exp(s[i][j]) for j in range(size) if j not in (i, twin))
        corrected = (negative - positive_prior * n_negatives * positive) / (1 - positive_prior)
        corrected = corrected.clamp(min=n_negatives * math.exp(-1 / temperature))
        loss = loss - log(positive / (positive + corrected))
    return loss / size


def hard_negative(z1, z2, temperature, positive_prior, concentration):
    s, size, _ = pool(z1, z2, temperature)
    n = size // 2
    n_negatives = size - 2
    loss = 0.0
    for i in range(size):
        twin = i + n if i < n else i - n
        positive = torch.exp(s[i][twin])
        others = [j for j in range(size) if j not in (i, twin)]
        importance = [torch.exp(concentration * s[i][j]) for j in others]
        mean = total(importance) / len(others)
        negative = total(v / mean * torch.exp(s[i][j]) for v, j in zip(importance, others, strict=True))
        corrected = (negative - positive_prior * n_negatives * positive) / (1 - positive_prior)
        corrected = corrected.clamp(min=n_negatives * math.exp(-1 / temperature))
        loss = loss - log(positive / (positive + corrected))
    return loss / size


# ------------------------------------------------------------------ conditional contrastive learning with kernels


def conditional_embedding(w, n, ridge, own=True):
    k = torch.tensor([[w(i, j) for j in range(n)] for i in range(n)], dtype=torch.float64)
    operator = torch.linalg.inv(k + ridge * torch.eye(n, dtype=torch.float64)) @ k
    if own:
        return operator
    return torch.tensor(
        [[operator[i, j] if i != j and operator[i, j] >= 1e-6 else 0 for j in range(n)] for i in range(n)]
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
    return total(-log(torch.exp(s[i][i]) / (torch.exp(s[i][i]) + (n - 1) * m[i])) for i in range(n)) / n


def both_directions(loss, z1, z2, *args):
    return (loss(z1, z2, *args) + loss(z2, z1, *args)) / 2
