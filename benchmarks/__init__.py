"""Scripts behind figures that README and docs quote: `python -m benchmarks.NAME` from the repository's root."""
