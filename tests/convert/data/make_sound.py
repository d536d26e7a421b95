#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes sound.safetensors: samples, and the features that other programs make of them.

Needs PyTorch, torchaudio, librosa and transformers; all compute in double precision but for
Kaldi's, whose function takes float32, and what Whisper's extractor rounds to it at the end.
"""
import json
import pathlib
import struct

import librosa
import numpy
import torch
import torchaudio
from transformers import ASTFeatureExtractor, WhisperFeatureExtractor

RATE = 16000


def samples():
    """A voice-like sound: harmonics that glide, fade and pause, in noise."""
    dice = numpy.random.default_rng(5)
    t = numpy.arange(1360) / RATE
    pitch = 120 + 900 * t
    wave = sum(numpy.sin(2 * numpy.pi * k * pitch * t) / k for k in range(1, 20))
    wave *= numpy.abs(numpy.sin(2 * numpy.pi * 9 * t)) ** 3
    return numpy.round(9000 * wave + 40 * dice.standard_normal(len(t))).astype(numpy.int16)


def mel_spectrogram(x, **options):
    return torchaudio.transforms.MelSpectrogram(sample_rate=RATE, **options).double()(x).T


def torchaudio_mfcc(x):
    return torchaudio.transforms.MFCC(sample_rate=RATE).double()(x).T


def kaldi(x, **options):
    return torchaudio.compliance.kaldi.fbank(x[None].float(), sample_frequency=RATE, **options)


def librosa_db(x, **options):
    power = librosa.feature.melspectrogram(y=x.numpy(), sr=RATE, **options)
    return librosa.power_to_db(power).T


def librosa_mfcc(x, **options):
    return librosa.feature.mfcc(y=x.numpy(), sr=RATE, **options).T


def whisper(x):
    extractor = WhisperFeatureExtractor()
    return extractor._np_extract_fbank_features(x.numpy()[None], "cpu")[0].T


def spectrogram_transformer(x):
    extractor = ASTFeatureExtractor(num_mel_bins=64, max_length=7, mean=-4.0, std=4.5)
    return extractor(x.numpy(), sampling_rate=RATE).input_values[0]


def features(x):
    """By the words of --sound that say the same."""
    plain = dict(window_fn=torch.hann_window, wkwargs={"dtype": torch.float64})
    return {
        "whisper": whisper(x),
        "torchaudio": mel_spectrogram(x, **plain),
        "torchaudio_mfcc": torchaudio_mfcc(x),
        "librosa_mfcc,rate=16000,window=1024,fft=1024,hop=256,mels=64,mfcc=20": librosa_mfcc(
            x, n_fft=1024, hop_length=256, n_mels=64),
        "librosa,rate=16000,window=480,hop=160,fft=512,mels=40,log=db,floor=1e-10,range=80":
            librosa_db(x, n_fft=512, win_length=480, hop_length=160, n_mels=40),
        "kaldi": kaldi(x),
        "kaldi,mels=40,window=320,hop=200,shape=hamming_symmetric,high=7000,gain=32768": kaldi(
            x * 32768, num_mel_bins=40, frame_length=20, frame_shift=12.5, high_freq=7000,
            window_type="hamming"),
        "rate=16000,window=400,hop=160,fft=512,mels=40,scale=slaney,add=1e-6": torch.log(
            mel_spectrogram(x, n_fft=512, win_length=400, hop_length=160, n_mels=40, center=False,
                            mel_scale="slaney", **plain) + 1e-6),
        "rate=16000,window=480,hop=480,fft=640,mels=20,power=1,shape=hamming,pad=reflect,low=60,"
        "high=7600,norm=slaney,log=log10,floor=1e-5": torch.log10(mel_spectrogram(
            x, n_fft=640, win_length=480, hop_length=480, n_mels=20, power=1.0, f_min=60.0,
            f_max=7600.0, norm="slaney", window_fn=torch.hamming_window,
            wkwargs={"dtype": torch.float64}).clamp(min=1e-5)),
        "ast.json": spectrogram_transformer(x),
    }


def main():
    torch.set_default_dtype(torch.float64)
    whole = samples()
    x = torch.tensor(whole / 32768.0)
    arrays = {"samples": whole.astype(numpy.int32)}
    for name, values in features(x).items():
        arrays[name] = numpy.asarray(values, numpy.float32)
        print(f"{name}: {arrays[name].shape}, {arrays[name].min()} to {arrays[name].max()}")
    header, data = {}, b""
    for name, array in arrays.items():
        kind = "I32" if array.dtype == numpy.int32 else "F32"
        header[name] = {"dtype": kind, "shape": list(array.shape),
                        "data_offsets": [len(data), len(data) + array.nbytes]}
        data += array.tobytes()
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    file = pathlib.Path(__file__).with_name("sound.safetensors")
    file.write_bytes(struct.pack("<Q", len(text)) + text + data)


if __name__ == "__main__":
    main()
