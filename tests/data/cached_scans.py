"""What the tests of the cache share."""

from neurocontrast.data import cache as cache_module
from neurocontrast.progress import SILENT
from neurocontrast.transforms.preprocessing import Preprocessing

CONTRACT = Preprocessing(spacing_mm=2.5, shape=(20, 22, 16))


def count_loads(monkeypatch):
    loads = []
    apply = cache_module.apply
    monkeypatch.setattr(cache_module, "apply", lambda made, item: loads.append(item["image"]) or apply(made, item))
    return loads


def entries_of(cache):
    return sorted(cache.folder.glob("??/*.safetensors"))


class Warnings:
    """A progress that keeps what it is told."""

    def __init__(self):
        self.told = []

    def task(self, *given):
        return SILENT.task(*given)

    warning = message = lambda self, text: self.told.append(text)
