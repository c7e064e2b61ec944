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
        each.SOPClassUID = meta.MediaStorageSOPClassUID
        each.SOPInstanceUID = meta.MediaStorageSOPInstanceUID
        each.StudyInstanceUID, each.SeriesInstanceUID, each.FrameOfReferenceUID = uids
        each.Modality = "MR"
        each.Manufacturer = "SIEMENS"
        each.ManufacturerModelName = "Prisma"
        each.MagneticFieldStrength = "3"
        each.DeviceSerialNumber = "66047"
        each.PatientName = "Mustermann^Erika"
        each.PatientID = "MRN0042"
        each.PatientBirthDate = "19310203"
        each.PatientSex = "F"
        each.PatientAge = "079Y"
        each.PatientAddress = "Hauptstrasse 1"
        each.InstitutionName = "Klinik"
        each.StudyDate = "20100203"
        each.SeriesDate = "20100203"
        each.AcquisitionDate = "20100203"
        each.AcquisitionTime = "121314.000"
        each.StudyTime = "121314"
        each.SeriesNumber = number
        each.InstanceNumber = k + 1
        each.AcquisitionNumber = 1
        each.SeriesDescription = each.ProtocolName = description
        each.ImageType = ["ORIGINAL", "PRIMARY", "M", "ND"]
        each.ScanningSequence = "GR"
        each.MRAcquisitionType = "3D"
        each.EchoTime = "2.98"
        each.RepetitionTime = "2300"
        each.InversionTime = "900"
        each.FlipAngle = "9"
        each.ImageOrientationPatient = [1, 0, 0, 0, 1, 0]
        each.ImagePositionPatient = [
            *(-spacing_mm * (shape[:2] - 1) / 2),
            spacing_mm * (k - (shape[2] - 1) / 2),
        ]
        each.PixelSpacing = [spacing_mm, spacing_mm]
        each.SliceThickness = spacing_mm
        each.Columns = voxels.shape[0]
        each.Rows = voxels.shape[1]
        each.SamplesPerPixel = 1
        each.PhotometricInterpretation = "MONOCHROME2"
        each.PixelRepresentation = 0
        each.BitsAllocated = 16
        each.BitsStored = 12
        each.HighBit = 11
        for name, value in tags.items():
            if value is None:
                delattr(each, name)
            else:
                setattr(each, name, value)
        each.PixelData = np.ascontiguousarray(voxels[:, :, k].T.astype(np.uint16)).tobytes()
        each.save_as(folder / f"IM{k:04d}.dcm", enforce_file_format=True)
