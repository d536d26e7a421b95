# SPDX-License-Identifier: Apache-2.0
"""Makes the exported models of samples of this folder with PyTorch 2.14 and torchaudio:
make_sound_programs.py FOLDER.

Each is NAME.pt2, whose outputs for samples.npy are NAME.npy, in float64. Archives, mostly traces,
are compressed.
"""
import copy
import math
import os
import sys

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torchaudio

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from save_cases import save_program  # noqa: E402

SAMPLES, POINTS, HOP, BANDS = 640, 64, 32, 8
RATE = 16000


def samples():
    """A tone that glides and fades, in noise."""
    dice = np.random.default_rng(3)
    t = np.arange(SAMPLES) / RATE
    wave = 0.5 * np.sin(2 * np.pi * (300 + 20000 * t) * t) * np.exp(-20 * t)
    return (wave + 0.01 * dice.standard_normal(SAMPLES)).astype(np.float32)


def cosines_and_sines():
    """Of a Fourier transform as a convolution, times a window."""
    n, k = torch.arange(POINTS).double(), torch.arange(POINTS // 2 + 1).double()
    angle = 2 * math.pi * torch.remainder(k[:, None] * n, POINTS) / POINTS
    window = torch.hann_window(POINTS, dtype=torch.float64)
    return torch.cat([window * torch.cos(angle), -window * torch.sin(angle)])[:, None].float()


class OfSound(nn.Module):
    def __init__(self, features, columns=BANDS):
        super().__init__()
        self.features, self.layer = features, nn.Linear(columns, 4)

    def forward(self, samples):
        return self.layer(self.features(samples))


class LogMel(nn.Module):
    def __init__(self):
        super().__init__()
        self.mel = torchaudio.transforms.MelSpectrogram(
            RATE, n_fft=POINTS, hop_length=HOP, n_mels=BANDS)

    def forward(self, samples):
        return torch.log(self.mel(samples) + 1e-6).transpose(1, 2)


class Mfcc(nn.Module):
    """With top_db, which is below the loudest of the whole sound."""

    def __init__(self):
        super().__init__()
        self.mfcc = torchaudio.transforms.MFCC(
            RATE, n_mfcc=6, melkwargs={"n_fft": POINTS, "hop_length": HOP, "n_mels": BANDS})

    def forward(self, samples):
        return self.mfcc(samples).transpose(1, 2)


class ByHand(nn.Module):
    """A window that is shorter than the transform, real and imaginary parts, the last frame left
    out, and 2 below the loudest."""

    def __init__(self):
        super().__init__()
        bands = torchaudio.functional.melscale_fbanks(POINTS // 2 + 1, 0, 8000, BANDS, RATE)
        self.register_buffer("bands", bands.T.contiguous())

    def forward(self, samples):
        spectrum = torch.stft(samples, POINTS, 16, 40, torch.hamming_window(40),
                              return_complex=True)[..., :-1]
        energy = self.bands @ (spectrum.real**2 + spectrum.imag**2)
        log = torch.clamp(energy, min=1e-8).log10()
        log = torch.maximum(log, log.max() - 2.0)
        return ((log + 4.0) / 4.0).transpose(1, 2)


class Convolution(nn.Module):
    """Magnitudes of a transform that is a convolution, without bands or logarithms."""

    def __init__(self, columns):
        super().__init__()
        self.columns = columns
        self.register_buffer("weights", cosines_and_sines())

    def forward(self, samples):
        x = F.pad(samples.unsqueeze(1), (POINTS // 2, POINTS // 2), "reflect")
        real, imaginary = F.conv1d(x, self.weights, stride=HOP).chunk(2, 1)
        return torch.sqrt(real**2 + imaginary**2).transpose(1, 2)


class Frames(nn.Module):
    """Frames that are cut by hand, with what was taken away before."""

    def __init__(self, less=False):
        super().__init__()
        self.less = less

    def forward(self, samples):
        frames = samples.unfold(-1, 48, HOP)
        if self.less:
            frames = frames - frames.mean(-1, keepdim=True)
        power = torch.fft.rfft(frames * torch.hann_window(48), n=POINTS).abs() ** 2
        return torch.log1p(1000.0 * power)


def write(folder, name, model, is_dynamic=True, decomposes=False, sounds=1):
    frames = 32 * torch.export.Dim("frames", min=4, max=64)
    sizes = {1: frames} if sounds == 1 else {0: torch.export.Dim("sounds", max=8), 1: frames}
    example = torch.zeros(sounds, SAMPLES)
    program = torch.export.export(model.eval(), (example,),
                                  dynamic_shapes=(sizes,) if is_dynamic else None)
    if decomposes:
        program = program.run_decompositions()
    save_program(program, os.path.join(folder, name + ".pt2"))
    exact = copy.deepcopy(model).double()
    torch.set_default_dtype(torch.float64)
    with torch.no_grad():
        output = exact(torch.from_numpy(samples()).double()[None])
    torch.set_default_dtype(torch.float32)
    np.save(os.path.join(folder, name + ".npy"), output.numpy())


def main(folder):
    torch.manual_seed(7)
    np.save(os.path.join(folder, "samples.npy"), samples())
    bins = POINTS // 2 + 1
    write(folder, "log_mel", OfSound(LogMel()))
    write(folder, "log_mel_parts", OfSound(LogMel()), decomposes=True)
    write(folder, "mfcc", OfSound(Mfcc(), 6), is_dynamic=False)
    write(folder, "by_hand", OfSound(ByHand()))
    write(folder, "convolution", OfSound(Convolution(bins), bins), sounds=2)
    write(folder, "frames", OfSound(Frames(), bins))
    write(folder, "less_mean", OfSound(Frames(less=True), bins))


if __name__ == "__main__":
    main(sys.argv[1])
