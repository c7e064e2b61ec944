"""What the tests of `pretrain` read from a run."""

import csv

from neurocontrast.progress import SILENT

TIMING = ("seconds", "samples_per_second")


def weights(run):
    return (run / "encoder.safetensors").read_bytes()


def metrics(run):
    with open(run / "metrics.csv", newline="") as stream:
        return [{k: v for k, v in row.items() if k not in TIMING} for row in csv.DictReader(stream)]


class Listening(type(SILENT)):
    def __init__(self):
        self.said = []

    def message(self, text):
        self.said.append(text)

    def warning(self, text):
        self.said.append(text)
