# SPDX-License-Identifier: Apache-2.0
"""Draws rotating machines, healthy or with one fault, and the acceleration that a sensor on their
bearing housing reports.

The signal is healthy(t) + onset(t) * fault(t), so that a fault can also begin in a recording.
Sources of the formulas:
  [H]  T. A. Harris, M. N. Kotzalas, Rolling Bearing Analysis: defect frequencies, load zone.
  [RA] R. B. Randall, J. Antoni, Rolling element bearing diagnostics - a tutorial, Mechanical
       Systems and Signal Processing 25 (2011): slip, resonance, modulation of the inner race.
  [I]  ISO 20816-3: zones of vibration velocity on non-rotating parts.
  [R]  R. B. Randall, Vibration-based Condition Monitoring: signs of imbalance and looseness.
"""

import dataclasses

import numpy as np

SAMPLE_RATE = 12800          # Hz
CLASSES = ["normal", "imbalance", "looseness", "bearing_outer_race", "bearing_inner_race"]
DEFECT_BAND = (1600.0, 4800.0)   # Hz; severities of bearing defects compare rms values in it
ORDERS = np.arange(1, 21) / 2    # multiples of the shaft's frequency that have a line: 0.5 to 10

TABLE_POINTS = 4096              # of two turns; the error of interpolation is below 0.02 %

# Severities at rated speed. Every faulty machine lies above the lower bound.
NORMAL_VELOCITY = (0.2, 1.4)         # mm/s rms at 1x; zones A and B of [I]
IMBALANCE_VELOCITY = (2.8, 11.0)     # mm/s rms at 1x; from zone C of [I] on
LOOSENESS_VELOCITY = (0.5, 5.0)      # mm/s rms, the scale of all harmonics and half orders
DEFECT_TO_BACKGROUND = (0.5, 5.0)    # rms of the impulses to rms of all else, in DEFECT_BAND


def log_uniform(rng, low, high, size=None):
    return np.exp(rng.uniform(np.log(low), np.log(high), size))


@dataclasses.dataclass(frozen=True)
class Recording:
    samples: np.ndarray   # [samples] m/s^2
    speed: np.ndarray     # [samples] Hz, as the drive reports it
    severity: float       # in the unit of the fault's bounds above; 0 if normal


def slow_noise(rng, count, seconds):
    """Smooth noise of standard deviation about 1 that changes over so many seconds."""
    knots = max(4, int(count / SAMPLE_RATE / seconds) + 2)
    at = np.linspace(0, knots - 1, count)
    return np.interp(at, np.arange(knots), rng.normal(size=knots))


def speed_profile(rng, count, rated):
    """Hz per sample: drift, and in half of all recordings a ramp, from 65 % to 105 % of rated."""
    t = np.arange(count) / SAMPLE_RATE
    speed = rated * rng.uniform(0.7, 1.0) * (1 + 0.004 * slow_noise(rng, count, 1.5))
    if rng.random() < 0.5:
        speed += rng.uniform(-2.5, 2.5) * np.clip(t - rng.uniform(0, 3), 0, rng.uniform(0.5, 4))
    return np.clip(speed, 0.65 * rated, 1.05 * rated)


def defect_order(rng, race):
    """Impulses per revolution from the bearing's geometry, [H]."""
    balls = rng.integers(7, 15)
    ratio = rng.uniform(0.15, 0.30) * np.cos(np.radians(rng.uniform(0, 30)))  # d / D cos(contact)
    order = balls / 2 * (1 - ratio if race == "outer" else 1 + ratio)
    return order * (1 + rng.uniform(-0.015, 0.005))   # mean slip, [RA]


def load_zone(shaft_angle, epsilon):
    """Stribeck's distribution of the load around a ball bearing, [H]; 1 at the angle 0."""
    return np.clip(1 - (1 - np.cos(shaft_angle)) / (2 * epsilon), 0, None) ** 1.5


def impulses(count, samples, heights):
    """A train [count] with each impulse shared between the two samples beside it."""
    inside = (samples >= 0) & (samples < count - 1)
    samples, heights = samples[inside], heights[inside]
    whole = samples.astype(int)
    part = samples - whole
    return (np.bincount(whole, heights * (1 - part), count) +
            np.bincount(whole + 1, heights * part, count))


def fft_length(count):
    """At least `count`, and a number whose FFT is fast."""
    return -(-count // 4096) * 4096


def ring(train, frequency, damping):
    """The acceleration of a resonance (one degree of freedom) that is struck by a train."""
    length = fft_length(len(train))
    f = np.fft.rfftfreq(length, 1 / SAMPLE_RATE)
    response = -f ** 2 / (frequency ** 2 - f ** 2 + 2j * damping * frequency * f)
    return np.fft.irfft(np.fft.rfft(train, length) * response, length)[:len(train)]


def band_rms(signal):
    """rms within DEFECT_BAND."""
    length = fft_length(len(signal))
    first, last = (int(edge / SAMPLE_RATE * length) for edge in DEFECT_BAND)
    spectrum = np.fft.rfft(signal, length)[first:last]
    return np.sqrt(2 * np.sum(np.abs(spectrum) ** 2) / length / len(signal))


class Machine:
    """One machine in one recording: its shaft's course and all that is drawn once.

    angle [samples] is the shaft's, in radians; rise [samples] is (speed / rated speed)^2, by which
    forces of rotating masses grow.
    """

    def __init__(self, rng, count):
        self.rng, self.count = rng, count
        self.rated = rng.uniform(25, 60)
        self.speed = speed_profile(rng, count, self.rated)
        self.turns = np.cumsum(self.speed) / SAMPLE_RATE + rng.random()
        self.angle = 2 * np.pi * self.turns
        self.rise = (self.speed / self.rated) ** 2
        self.load = 1 + rng.uniform(0, 0.25) * slow_noise(rng, count, 1.0)
        self.velocity = log_uniform(rng, *NORMAL_VELOCITY)   # mm/s rms at 1x, without a fault
        self.severity = 0.0
        self.phases = rng.uniform(0, 2 * np.pi, len(ORDERS))

    def order_lines(self, velocities):
        """The sum of lines with these velocities [orders], in mm/s rms at rated speed."""
        peaks = np.sqrt(2) * 1e-3 * velocities * 2 * np.pi * ORDERS * self.rated   # m/s^2
        spectrum = np.zeros(TABLE_POINTS // 2 + 1, complex)
        spectrum[1:len(ORDERS) + 1] = peaks * np.exp(1j * self.phases) * TABLE_POINTS / 2
        table = np.fft.irfft(spectrum)   # over two turns, the period of all orders together
        at = np.linspace(0, 2, TABLE_POINTS + 1)
        return np.interp(self.turns % 2, at, np.append(table, table[0])) * self.rise

    def turn_samples(self, per_turn, jitter):
        """When events happen that come so often per turn: (samples, turns) of each.

        Each interval is off by `jitter` of its length, and the errors add up: cages slip, [RA].
        """
        events = int((self.turns[-1] - self.turns[0]) * per_turn) + 2
        steps = 1 + jitter * self.rng.normal(size=events)
        turns = self.turns[0] + (self.rng.random() + np.cumsum(steps)) / per_turn
        inside = turns < self.turns[-1]
        return np.interp(turns, self.turns, np.arange(self.count))[inside], turns[inside]

    # What every machine does.

    def residual_lines(self):
        """A little imbalance, misalignment and nonlinearity: 1x, and less at 2x to 10x."""
        velocities = np.zeros(len(ORDERS))
        whole = ORDERS == np.floor(ORDERS)
        velocities[whole] = self.velocity * log_uniform(self.rng, 0.05, 0.6, whole.sum())
        velocities[whole] /= ORDERS[whole]
        velocities[ORDERS == 1] = self.velocity
        velocities[~whole] = self.velocity * log_uniform(self.rng, 0.002, 0.02)
        return self.order_lines(velocities)

    def broadband(self):
        """Flow and friction: coloured by structure, in part in step with shaft and blades."""
        rng = self.rng
        length = fft_length(self.count)
        f = np.fft.rfftfreq(length, 1 / SAMPLE_RATE)
        shape = 1 + (rng.uniform(30, 300) / np.maximum(f, 5)) ** rng.uniform(0.5, 1.2)
        for _ in range(4):
            centre, width = log_uniform(rng, 150, 6000), rng.uniform(0.03, 0.3)
            shape += rng.uniform(0, 3) / (1 + ((f / centre - 1) / width) ** 2)
        parts = rng.normal(size=(2, len(f)))
        noise = np.fft.irfft(shape * (parts[0] + 1j * parts[1]), length)[:self.count]
        noise *= log_uniform(rng, 0.15, 0.8) / noise.std()
        blades = rng.integers(3, 9)
        depth = 1 + rng.uniform(0, 0.15) * np.cos(self.angle)
        depth += rng.uniform(0, 0.12) * np.cos(blades * self.angle + rng.uniform(0, 2 * np.pi))
        return noise * depth * self.load * self.rise ** 0.75

    def hum(self):
        """The motor's magnetic pull at multiples of the mains frequency, twice it above all."""
        mains = self.rng.choice([50.0, 60.0]) * (1 + 0.001 * self.rng.normal())
        t = np.arange(self.count) / SAMPLE_RATE
        total = np.zeros(self.count)
        for multiple, most in [(1, 0.05), (2, 0.3), (4, 0.08), (6, 0.08)]:
            peak = log_uniform(self.rng, most / 20, most)
            total += peak * np.cos(2 * np.pi * multiple * mains * t + self.rng.uniform(0, 6.3))
        return total

    def gear(self):
        """Tooth mesh and two harmonics, modulated a little by the shaft's turn."""
        rng, total = self.rng, np.zeros(self.count)
        teeth, mesh = rng.integers(13, 41), log_uniform(rng, 0.05, 0.6)
        for multiple in (1, 2, 3):
            peak = mesh * rng.uniform(0.2, 1) / multiple
            total += peak * np.cos(multiple * teeth * self.angle + rng.uniform(0, 6.3))
        depth = 1 + rng.uniform(0, 0.2) * np.cos(self.angle + rng.uniform(0, 6.3))
        return total * depth * self.load

    def knocks(self):
        """Single blows from outside, up to two a second, that mean nothing."""
        rng = self.rng
        number = rng.poisson(log_uniform(rng, 0.05, 2) * self.count / SAMPLE_RATE)
        train = impulses(self.count, rng.uniform(0, self.count, number),
                         rng.exponential(1.0, number))
        rung = ring(train, log_uniform(rng, 300, 4500), rng.uniform(0.02, 0.1))
        return rung * rng.uniform(1, 6) / max(np.abs(rung).max(), 1e-9)

    def rattle(self):
        """Stretches of up to a second in which what is processed hits the machine at random."""
        rng = self.rng
        begins = rng.uniform(0, self.count, 1 + rng.poisson(0.3 * self.count / SAMPLE_RATE))
        hits = [begin + SAMPLE_RATE * np.cumsum(rng.exponential(1 / rng.uniform(20, 100), 20))
                for begin in begins]
        samples = np.concatenate(hits)
        rung = ring(impulses(self.count, samples, rng.exponential(1.0, len(samples))),
                    log_uniform(rng, 500, 4500), rng.uniform(0.02, 0.1))
        return rung * rng.uniform(0.5, 4) / max(np.abs(rung).max(), 1e-9)

    def healthy(self):
        total = self.residual_lines() + self.broadband() + self.hum()
        if self.rng.random() < 0.5:
            total += self.gear()
        if self.rng.random() < 0.5:
            total += self.knocks()
        if self.rng.random() < 0.4:
            total += self.rattle()
        return total

    # What a fault adds.

    def imbalance(self):
        """A mass off the axis: 1x grows, as the square of the speed, [R]."""
        velocities = np.zeros(len(ORDERS))
        self.severity = log_uniform(self.rng, *IMBALANCE_VELOCITY)
        velocities[ORDERS == 1] = self.severity - self.velocity   # on top of what is there
        return self.order_lines(velocities)

    def looseness(self):
        """Parts that lift and strike: many harmonics and half orders, unsteady, and blows, [R]."""
        rng = self.rng
        self.severity = log_uniform(rng, *LOOSENESS_VELOCITY)
        velocities = self.severity * np.exp(0.4 * rng.normal(size=len(ORDERS)))
        velocities *= ORDERS ** -rng.uniform(0.5, 1.2)
        velocities[ORDERS != np.floor(ORDERS)] *= rng.uniform(0.15, 0.7)
        lines = self.order_lines(velocities) * (1 + 0.25 * slow_noise(rng, self.count, 0.3))

        samples, turns = self.turn_samples(rng.choice([1, 2]), 0.0)
        heights = 1 + 0.3 * rng.normal(size=len(turns))
        heights *= np.where(np.floor(turns) % 2 == 0, 1, rng.uniform(0.4, 1))   # every other turn
        samples = samples + 0.01 * SAMPLE_RATE / self.rated * rng.normal(size=len(turns))
        blows = ring(impulses(self.count, samples, heights), log_uniform(rng, 150, 2000),
                     rng.uniform(0.03, 0.08))
        return lines + blows * rng.uniform(0.3, 1.0) * lines.std() / blows.std()

    def bearing_defect(self, race, background):
        """Each ball that passes the defect strikes a resonance of the housing, [RA]."""
        rng = self.rng
        samples, turns = self.turn_samples(defect_order(rng, race), rng.uniform(0.002, 0.02))
        heights = np.clip(1 + 0.15 * rng.normal(size=len(turns)), 0, None)
        if race == "inner":   # the defect turns with the shaft, through the load zone and out
            heights *= load_zone(2 * np.pi * turns, rng.uniform(0.3, 1.0))
        rung = ring(impulses(self.count, samples, heights), log_uniform(rng, 1900, 4500),
                    rng.uniform(0.01, 0.05)) * self.rise ** 0.75 * self.load
        self.severity = log_uniform(rng, *DEFECT_TO_BACKGROUND)
        return rung * self.severity * band_rms(background) / band_rms(rung)

    def under_load(self):
        """0 to 1: load comes and goes in half of the machines, and with it what needs load."""
        rng = self.rng
        if rng.random() < 0.5:
            return 1.0
        cycle = (np.arange(self.count) / SAMPLE_RATE / rng.uniform(0.8, 3) + rng.random()) % 1
        share = rng.uniform(0.35, 0.9)
        return np.interp(cycle, (0, 0.05, share, share + 0.05, 1), (0, 1, 1, 0, 0))

    def fault(self, name, background):
        if name == "imbalance":
            return self.imbalance()
        if name == "looseness":
            return self.looseness() * self.under_load()
        if name == "bearing_outer_race":
            return self.bearing_defect("outer", background) * self.under_load()
        if name == "bearing_inner_race":
            return self.bearing_defect("inner", background) * self.under_load()
        return 0.0


def record(rng, name, count, onset=1.0):
    """A Recording of `count` samples of a new machine; onset [samples] or a number scales the
    fault `name` (one of CLASSES), 0 without it."""
    machine = Machine(rng, count)
    healthy = machine.healthy()
    samples = healthy + onset * machine.fault(name, healthy)
    samples += 0.005 * rng.normal(size=count)   # the sensor's own noise, m/s^2
    return Recording(samples * rng.uniform(0.9, 1.1),   # its sensitivity, within 10 %
                     machine.speed * (1 + 0.005 * rng.normal()), machine.severity)
