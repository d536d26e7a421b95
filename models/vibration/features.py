# SPDX-License-Identifier: Apache-2.0
"""Turns a recording into frames of 16 features: a few numbers per frame that a microcontroller can
compute with one FFT of 4096 real samples and two of 1024.

A frame's spectrum gives energies at multiples of the shaft's frequency and in bands. Its bins from
1600 to 4800 Hz, where bearings ring, are transformed back to the envelope of that band, and the
spectrum of the squared envelope shows how often something strikes (R. B. Randall, J. Antoni,
Rolling element bearing diagnostics - a tutorial, 2011).
"""

import numpy as np

from machine import DEFECT_BAND, SAMPLE_RATE

FRAME_SAMPLES = 4096
HOP_SAMPLES = 640            # 20 frames a second
WINDOW_FRAMES = 64           # what the model looks at: 3.5 s
WINDOW_SAMPLES = (WINDOW_FRAMES - 1) * HOP_SAMPLES + FRAME_SAMPLES
BIN_HZ = SAMPLE_RATE / FRAME_SAMPLES
BAND_FIRST, BAND_LAST = (int(edge / BIN_HZ) for edge in DEFECT_BAND)
STRIKE_ORDERS = np.arange(2.3, 9.55, 0.05)   # strikes per turn that a bearing defect may have
ENERGY_MIN = 1e-9

NAMES = [
    "shaft speed",                        # Hz
    "order 1", "order 2", "order 3",      # dB of (m/s^2)^2, as all energies of the spectrum
    "orders 4 to 8", "orders 0.5, 1.5, 2.5 and 3.5",
    "10 to 400 Hz", "400 to 1600 Hz", "1600 to 3200 Hz", "3200 to 4800 Hz", "4800 to 6400 Hz",
    "kurtosis of the envelope",           # dB
    "envelope order 1",                   # dB to the squared mean, as all of the envelope
    "envelope strike order",              # the order with the most energy there and at its double
    "envelope at the strike order",
    "envelope one order beside it",       # dB to the energy at the strike order
]


def decibel(energy):
    return 10 * np.log10(np.maximum(energy, ENERGY_MIN))


def energy_at(spectrum, hertz, reach):
    """Sum of the bins within `reach` of a frequency: [frames, bins], [frames, n] -> [frames, n]."""
    centre = np.rint(hertz / BIN_HZ).astype(int)
    rows = np.arange(len(spectrum))[:, None]
    last = spectrum.shape[1] - 1
    return sum(spectrum[rows, np.clip(centre + offset, 0, last)]
               for offset in range(-reach, reach + 1))


def order_energy(spectrum, speed, orders, reach=2):
    """Energy summed over several orders: [frames]."""
    return energy_at(spectrum, speed[:, None] * np.array(orders)[None, :], reach).sum(axis=1)


def band_energy(spectrum, low, high):
    return spectrum[:, int(low / BIN_HZ):int(high / BIN_HZ)].sum(axis=1)


def envelope_features(transform, speed):
    """The five features of the band where bearings ring, from the frames' FFT."""
    analytic = np.fft.ifft(transform[:, BAND_FIRST:BAND_LAST], axis=1)
    squared = np.abs(analytic) ** 2
    mean = np.maximum(squared.mean(axis=1), 1e-30)
    kurtosis = (squared ** 2).mean(axis=1) / mean ** 2
    lines = np.abs(np.fft.rfft(squared / mean[:, None], axis=1) / squared.shape[1]) ** 2

    candidates = speed[:, None] * STRIKE_ORDERS[None, :]
    score = energy_at(lines, candidates, 1) + energy_at(lines, 2 * candidates, 1)
    order = STRIKE_ORDERS[np.argmax(score, axis=1)]
    strike = energy_at(lines, (order * speed)[:, None], 1)[:, 0]
    beside = energy_at(lines, np.stack([(order - 1) * speed, (order + 1) * speed], 1), 1).sum(1)
    return [decibel(kurtosis), decibel(order_energy(lines, speed, [1], 1)), order,
            decibel(strike), decibel(beside) - decibel(strike)]


def frames_of(recording):
    """All frames of a recording, not yet normalised: [frames, 16]."""
    starts = np.arange(0, len(recording.samples) - FRAME_SAMPLES + 1, HOP_SAMPLES)
    samples = recording.samples[starts[:, None] + np.arange(FRAME_SAMPLES)]
    speed = recording.speed[starts + FRAME_SAMPLES // 2]
    taper = np.hanning(FRAME_SAMPLES + 1)[:-1]
    transform = np.fft.rfft(samples * taper, axis=1)
    power = 2 * np.abs(transform) ** 2 / (FRAME_SAMPLES * np.sum(taper ** 2))
    energies = [order_energy(power, speed, [order]) for order in (1, 2, 3)]
    energies += [order_energy(power, speed, [4, 5, 6, 7, 8]),
                 order_energy(power, speed, [0.5, 1.5, 2.5, 3.5], reach=1)]
    energies += [band_energy(power, low, high) for low, high in
                 [(10, 400), (400, 1600), (1600, 3200), (3200, 4800), (4800, 6400)]]
    columns = [speed] + [decibel(energy) for energy in energies]
    return np.stack(columns + envelope_features(transform, speed), axis=1)
