"""Describe this machine, and check whether `pretrain` would refuse a configuration here."""

import shlex

import torch

from neurocontrast.config import AnyConfig, Config, as_config
from neurocontrast.data.advice import recipe_for
from neurocontrast.data.cohort import Cohort
from neurocontrast.data.sources import Source, source_of
from neurocontrast.documents.diagnosis import Diagnosis, Machine, PlannedRun
from neurocontrast.documents.document import Json
from neurocontrast.encoders import build_model, check_shape
from neurocontrast.exceptions import ConfigError
from neurocontrast.parallel.devices import describe_processor, usable_accelerator
from neurocontrast.progress import SILENT
from neurocontrast.provenance import describe_environment
from neurocontrast.runs.components import build_components
from neurocontrast.runs.inputs import with_folder_of_init
from neurocontrast.runs.members import check_members, plan_members, start_of_member
from neurocontrast.runs.skipped import leave_out_unlearnable
from neurocontrast.torch_state import in_default_torch_state


@in_default_torch_state
def doctor(config: AnyConfig | None = None) -> Diagnosis:
    """Describe this machine, and check a configuration and its table as `pretrain` would.

    Nothing is printed or written. The returned `Diagnosis` has the machine, the configured run, and
    a problem if the accelerator cannot be used; ``print(diagnosis.to_text())`` shows it. Errors of
    the configuration or of the table are raised, as by `pretrain`.

    Parameters
    ----------
    config : Config, mapping, path of a YAML file, or None
        Configuration of `pretrain`; the table of ``data.participants`` is read if that key is set.
    """
    settings = with_folder_of_init(as_config({} if config is None else config))
    training = settings.training
    source = source_of(settings.data)
    machine = describe_machine()
    try:
        device = usable_accelerator(
            training.accelerator, training.devices, section="training", training=training.precision
        )
    except ConfigError as error:
        return Diagnosis(machine=machine, run=None, problems=[str(error)])
    if settings.encoder.is_linear:
        device = "cpu"
    run: Json = {"kind": settings.data.kind, "encoder": settings.encoder.name, "device": device}
    if settings.data.participants is None:
        run["shape"] = _shape_without_table(settings, source)
    else:
        cohort = source.read_cohort(settings.data.participants)
        run |= _plan(settings, source, cohort.select(settings.data.where))
    return Diagnosis(machine=machine, run=PlannedRun.model_validate(run), problems=[])


def describe_machine() -> Machine:
    """Return a record of this machine's software, processor, threads and GPUs, for `doctor`."""
    environment = describe_environment()
    machine: Json = {}
    for key in ("neurocontrast", "python", "packages", "platform"):
        machine[key] = environment[key]
    machine["processor"] = describe_processor()
    machine["threads"] = torch.get_num_threads()
    machine["gpus"] = list(map(torch.cuda.get_device_name, range(torch.cuda.device_count())))
    return Machine.model_validate(machine)


def _shape_without_table(settings: Config, source: Source) -> list[int]:
    """Return the shape (D, H, W) of preprocessed scans; refuse one too small for the encoder.

    The shape follows from the settings and from `source`, which preprocesses scans, since no table
    of scans is configured.
    """
    prepared = source.prepared(None)
    model = build_model(settings.encoder, n_channels=prepared.n_channels)
    check_shape(model.encoder, prepared.shape(None))
    return list(prepared.shape(None))


def _plan(settings: Config, source: Source, listed: Cohort) -> Json:
    """Describe the run that `pretrain` would train on `listed`, the scans of the configured table.

    The mapping has the shape of the encoder's input, the numbers of training, validation and
    skipped scans, the number of encoders if several are trained (members), and the recipe
    recommended for the table with the reason.
    """
    cohort, skipped = leave_out_unlearnable(settings, source, listed, SILENT)
    components = build_components(start_of_member(settings, 0), cohort)
    shape = list(components.source.shape(cohort))
    if components.source.measures:
        shape = [len(components.source.measures)]
    run: Json = {
        "shape": shape,
        "n_training_scans": len(components.data.training_rows),
        "n_validation_scans": len(components.data.validation_rows),
    }
    if len(skipped):
        run["n_skipped"] = len(skipped)
    if settings.training.members > 1:
        run["n_members"] = settings.training.members
        check_members(settings, plan_members(settings, cohort), cohort)
    advice = recipe_for(cohort.table, kind=settings.data.kind)
    run["advice"] = shlex.join(advice.words)
    run["because"] = advice.because
    return run
