# SPDX-License-Identifier: Apache-2.0
"""Saves the cases of the make_*.py scripts of these folders: NAME.pt2 with the exported program,
NAME_input.npy, and NAME_expected.npy with the outputs in float64.
"""
import os
import zipfile

import numpy as np
import torch


def save_program(program, path, keeps=lambda member: True):
    """Writes an exported program as a compressed archive, with the same bytes each time."""
    plain = path + ".plain"
    torch.export.save(program, plain)
    with zipfile.ZipFile(plain) as source:
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as target:
            for name in filter(keeps, source.namelist()):
                stamp = zipfile.ZipInfo(name)
                stamp.compress_type = zipfile.ZIP_DEFLATED
                target.writestr(stamp, source.read(name))
    os.remove(plain)


def save(model, inputs, path, decompose=False, any_length=False, **options):
    """Exports a model. any_length: as far as its code takes it; axis 1 of each input is tokens."""
    if any_length:
        options["dynamic_shapes"] = ({1: torch.export.Dim.AUTO},) * len(inputs)
    program = torch.export.export(model, inputs, **options)
    save_program(program.run_decompositions() if decompose else program, path)


def made(models, names, spread):
    """Yields the name and the model of each entry, or of those with `names`. Weights depend on the
    name alone; `spread` moves them away from zeros and ones."""
    for name, make in models.items():
        if names and name not in names:
            continue
        torch.manual_seed(len(name))
        model = make().eval()
        for parameter in model.parameters():
            with torch.no_grad():
                parameter.add_(spread * torch.randn(parameter.shape))
        yield name, model


def in_float64(arrays):
    return tuple(x.double() if x.is_floating_point() else x for x in arrays)


def exact(model, *inputs):
    """Returns the outputs in float64. The model stays in float64."""
    with torch.no_grad():
        return model.double()(*in_float64(inputs))


def save_arrays(stem, given, outputs):
    np.save(stem + "_input.npy", given.numpy())
    np.save(stem + "_expected.npy", np.ascontiguousarray(outputs.numpy()))
