"""Series of DICOM files for tests: what a scanner sends, with a patient's name in every file."""

from pathlib import Path

import numpy as np
from pydicom.dataset import Dataset, FileMetaDataset
from pydicom.uid import ExplicitVRLittleEndian, MRImageStorage, generate_uid

SECRETS = ("Mustermann", "MRN0042", "19310203", "1931", "Hauptstrasse", "Klinik", "121314")


def write_series(
    folder: Path,
    voxels: np.ndarray,
    *,
    description: str = "t1_mprage_sag",
    number: int = 3,
    spacing_mm: float = 2.0,
    **tags: object,
) -> None:
    """Write voxels (to the left, to the back, upwards) as one file a slice; tags replace the usual ones."""
    folder.mkdir(parents=True, exist_ok=True)
    uids = [generate_uid(entropy_srcs=[str(folder), str(number), str(k)])[:60] for k in range(3)]
    shape = np.array(voxels.shape)
    for k in range(voxels.shape[2]):
        meta = FileMetaDataset()
        meta.MediaStorageSOPClassUID = MRImageStorage
        meta.MediaStorageSOPInstanceUID = f"{uids[0]}.{k + 1}"
        meta.TransferSyntaxUID = ExplicitVRLittleEndian
        each = Dataset()
        each.file_meta = meta
        each.SOPClassUID, each.SOPInstanceUID = (
            meta.MediaStorageSOPClassUID,
            meta.MediaStorageSOPInstanceUID,
        )
        each.StudyInstanceUID, each.SeriesInstanceUID, each.FrameOfReferenceUID = uids
        each.Modality, each.Manufacturer, each.ManufacturerModelName = "MR", "SIEMENS", "Prisma"
        each.MagneticFieldStrength, each.DeviceSerialNumber = "3", "66047"
        each.PatientName, each.PatientID, each.PatientBirthDate = (
            "Mustermann^Erika",
            "MRN0042",
            "19310203",
        )
        each.PatientSex, each.PatientAge, each.PatientAddress = "F", "079Y", "Hauptstrasse 1"
        each.InstitutionName, each.StudyDate, each.SeriesDate = "Klinik", "20100203", "20100203"
        each.AcquisitionDate, each.AcquisitionTime, each.StudyTime = (
            "20100203",
            "121314.000",
            "121314",
        )
        each.SeriesNumber, each.InstanceNumber, each.AcquisitionNumber = number, k + 1, 1
        each.SeriesDescription = each.ProtocolName = description
        each.ImageType = ["ORIGINAL", "PRIMARY", "M", "ND"]
        each.ScanningSequence, each.MRAcquisitionType = "GR", "3D"
        each.EchoTime, each.RepetitionTime, each.InversionTime, each.FlipAngle = (
            "2.98",
            "2300",
            "900",
            "9",
        )
        each.ImageOrientationPatient = [1, 0, 0, 0, 1, 0]
        each.ImagePositionPatient = [
            *(-spacing_mm * (shape[:2] - 1) / 2),
            spacing_mm * (k - (shape[2] - 1) / 2),
        ]
        each.PixelSpacing, each.SliceThickness = [spacing_mm, spacing_mm], spacing_mm
        each.Columns, each.Rows, each.SamplesPerPixel = voxels.shape[0], voxels.shape[1], 1
        each.PhotometricInterpretation, each.PixelRepresentation = "MONOCHROME2", 0
        each.BitsAllocated, each.BitsStored, each.HighBit = 16, 12, 11
        for name, value in tags.items():
            if value is None:
                delattr(each, name)
            else:
                setattr(each, name, value)
        each.PixelData = np.ascontiguousarray(voxels[:, :, k].T.astype(np.uint16)).tobytes()
        each.save_as(folder / f"IM{k:04d}.dcm", enforce_file_format=True)
