"""The sentence of the result, for a reader and for a reviewer."""

from functools import partial

from neurocontrast.findings.result import say_result

say_plainly = partial(say_result, what="plain")
say_for_reviewer = partial(say_result, what="reviewer")
