# SPDX-License-Identifier: Apache-2.0
"""The inputs that are kept: a zip file for each target, the same bytes for the same inputs."""

import hashlib
import zipfile
from pathlib import Path

FOLDER = Path(__file__).resolve().parent / "corpus"
# All targets together stay below 4 MB.
ARCHIVE_BYTES_MAX = 160 << 10
EPOCH = (1980, 1, 1, 0, 0, 0)


def unpack(target, folder):
    archive = FOLDER / f"{target}.zip"
    if not archive.exists():
        return
    with zipfile.ZipFile(archive) as inputs:
        for name in inputs.namelist():
            (folder / name).write_bytes(inputs.read(name))


def pack(target, folder, bytes_max=ARCHIVE_BYTES_MAX):
    """Packs the files of a folder, small ones first, until the archive is full."""
    FOLDER.mkdir(exist_ok=True)
    archive = FOLDER / f"{target}.zip"
    files = sorted(folder.iterdir(), key=lambda f: (f.stat().st_size, f.name))
    packed = 0
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as inputs:
        for file in files:
            data = file.read_bytes()
            if not data:
                continue
            name = hashlib.sha256(data).hexdigest()[:16]
            if name in inputs.NameToInfo:
                continue
            entry = zipfile.ZipInfo(name, EPOCH)
            entry.compress_type = zipfile.ZIP_DEFLATED
            inputs.writestr(entry, data)
            packed += 1
            if inputs.fp.tell() + 80 * packed > bytes_max:
                break
    print(f"{target}: {packed} of {len(files)} inputs, {archive.stat().st_size} bytes")
