"""Sounds, pictures and files to feed networks with, made here or taken from what is installed; no downloads.

Everything is a function of a `Source`: a random generator, and which half of the real data (photographs, files) may be
used. Calibration takes one half and held-out data the other.
"""

import dataclasses
import math
import pathlib
import string
import sysconfig

import numpy as np
from scipy import signal as dsp


@dataclasses.dataclass
class Source:
    """Where samples come from: `half` is 0 for calibration and 1 for data that calibration does not see."""

    half: int
    rng: np.random.Generator


# --- sounds ----------------------------------------------------------------------------------------------------

FORMANTS_HZ = ((730, 1090, 2440), (270, 2290, 3010), (300, 870, 2240), (530, 1840, 2480), (570, 840, 2410))
"""Hertz of the formants of the vowels in father, see, boot, bed and law (Peterson and Barney's means)."""


def speech(source: Source, samples: int, rate_hz: int = 16000) -> np.ndarray:
    """Speech-like sound, -1 to 1: phrases of many voices and levels over room noise."""
    phrases, made = [], 0
    while made < samples:
        phrase = _phrase(source.rng, int(source.rng.uniform(0.3, 0.8) * rate_hz), rate_hz)
        phrases.append(phrase * 10 ** source.rng.uniform(-1.2, -0.1))
        made += len(phrase)
    sound = np.concatenate(phrases)[:samples]
    return (sound + source.rng.normal(0, 10 ** source.rng.uniform(-4, -2.5), samples)).astype(np.float32)


def _phrase(rng: np.random.Generator, samples: int, rate_hz: int) -> np.ndarray:
    """A voice of moving pitch through formants, hisses and pauses; the loudest sample is 1."""
    parts, made, pitch_hz = [], 0, rng.uniform(90, 240)
    while made < samples:
        kind, length = (
            rng.choice(["vowel", "vowel", "vowel", "hiss", "pause"]),
            int(rng.uniform(0.06, 0.3) * rate_hz),
        )
        if kind == "vowel":
            part = _vowel(rng, length, rate_hz, pitch_hz)
        elif kind == "hiss":
            low = rng.uniform(2000, 3500) / (rate_hz / 2)
            part = 0.15 * dsp.lfilter(*dsp.butter(2, low, "high"), rng.normal(size=length))
        else:
            part = np.zeros(length)
        parts.append(part * np.hanning(length) ** 0.3)
        made += length
    sound = np.concatenate(parts)[:samples]
    return sound / max(np.abs(sound).max(), 1e-6)


def _vowel(rng: np.random.Generator, length: int, rate_hz: int, pitch_hz: float) -> np.ndarray:
    contour = pitch_hz * 2 ** np.cumsum(rng.normal(0, 0.004, length) / 10)
    phase = np.cumsum(contour) / rate_hz
    glottis = np.diff(np.maximum(0, np.sin(2 * math.pi * phase)) ** 3, prepend=0) + rng.normal(
        0, 0.002, length
    )
    sound = glottis
    for formant_hz in FORMANTS_HZ[rng.integers(len(FORMANTS_HZ))]:
        radius, angle = math.exp(-math.pi * 90 / rate_hz), 2 * math.pi * formant_hz / rate_hz
        sound = dsp.lfilter([1 - radius], [1, -2 * radius * math.cos(angle), radius * radius], sound)
    return sound / max(np.abs(sound).max(), 1e-9)


def music(source: Source, samples: int, rate_hz: int = 22050) -> np.ndarray:
    """Plucked and held notes with overtones, up to four at a time."""
    rng, time = source.rng, np.arange(samples) / rate_hz
    sound = rng.normal(0, 1e-4, samples)
    for _ in range(rng.integers(6, 16)):
        pitch_hz = 440 * 2 ** ((rng.integers(36, 85) - 69) / 12)
        start, length = rng.uniform(0, samples / rate_hz), rng.uniform(0.15, 1.0)
        here = (time >= start) & (time < start + length)
        local = time[here] - start
        decay = np.exp(-local * rng.uniform(0.5, 5)) * np.minimum(local / 0.01, 1)
        for overtone in range(1, 9):
            if overtone * pitch_hz < rate_hz / 2:
                sound[here] += (
                    rng.uniform(0.3, 1)
                    / overtone**1.5
                    * decay
                    * np.sin(2 * math.pi * overtone * pitch_hz * local)
                )
    return (0.6 * sound / max(np.abs(sound).max(), 1e-6)).astype(np.float32)


def birdsong(source: Source, samples: int, rate_hz: int = 48000) -> np.ndarray:
    """Chirps of 2 to 8 kHz over wind."""
    rng, time = source.rng, np.arange(samples) / rate_hz
    sound = 0.05 * dsp.lfilter(*dsp.butter(1, 0.02), rng.normal(size=samples))
    for _ in range(rng.integers(4, 14)):
        start, length = rng.uniform(0, 2.8), rng.uniform(0.04, 0.25)
        here = (time >= start) & (time < start + length)
        local = time[here] - start
        low_hz, high_hz, trill_hz = rng.uniform(2000, 5000), rng.uniform(3000, 8000), rng.uniform(10, 40)
        sweep = np.linspace(low_hz, high_hz, here.sum()) + 200 * np.sin(2 * math.pi * trill_hz * local)
        sound[here] += (
            rng.uniform(0.1, 0.6) * np.sin(2 * math.pi * np.cumsum(sweep) / rate_hz) * np.hanning(here.sum())
        )
    return np.clip(sound, -1, 1).astype(np.float32)


def power_spectrogram(sound: np.ndarray, size: int, hop: int, padded: bool = True) -> np.ndarray:
    """Power of Hann windows: [frames, size // 2 + 1]; with `padded`, frames are centred as librosa centres them."""
    sound = np.pad(sound, size // 2) if padded else sound
    frames = np.lib.stride_tricks.sliding_window_view(sound, size)[::hop]
    return np.abs(np.fft.rfft(frames * dsp.get_window("hann", size), axis=1)) ** 2


def mel_filters(bands: int, size: int, rate_hz: int) -> np.ndarray:
    """Slaney's triangles of equal area: [size // 2 + 1, bands]."""

    def to_mel(hertz: np.ndarray) -> np.ndarray:
        return np.where(
            hertz < 1000, hertz * 3 / 200, 15 + np.log(np.maximum(hertz, 1e-9) / 1000) / (math.log(6.4) / 27)
        )

    def to_hertz(mel: np.ndarray) -> np.ndarray:
        return np.where(mel < 15, mel * 200 / 3, 1000 * np.exp((mel - 15) * math.log(6.4) / 27))

    edges = to_hertz(np.linspace(0, to_mel(np.array(rate_hz / 2)), bands + 2))
    bins = np.fft.rfftfreq(size, 1 / rate_hz)[:, None]
    rising = (bins - edges[:-2]) / (edges[1:-1] - edges[:-2])
    falling = (edges[2:] - bins) / (edges[2:] - edges[1:-1])
    return np.maximum(0, np.minimum(rising, falling)) * 2 / (edges[2:] - edges[:-2])


def mel_decibels(sound: np.ndarray, bands: int, size: int, hop: int, rate_hz: int = 16000) -> np.ndarray:
    """Mel spectrum in decibels below the loudest element, at most 80: [frames, bands]."""
    mel = power_spectrogram(sound, size, hop) @ mel_filters(bands, size, rate_hz)
    decibels = 10 * np.log10(np.maximum(mel, 1e-10))
    return np.maximum(decibels - decibels.max(), -80.0)


# --- pictures --------------------------------------------------------------------------------------------------


def photograph(source: Source, height: int, width: int) -> np.ndarray:
    """A piece of scikit-learn's two photographs, 0 to 255: [height, width, 3]; mirrored, brighter or darker."""
    from PIL import Image
    from sklearn.datasets import load_sample_images

    images, rng = load_sample_images().images, source.rng
    whole = images[rng.integers(len(images))]
    middle = whole.shape[1] // 2
    whole = whole[:, :middle] if source.half == 0 else whole[:, middle:]
    side = int(rng.uniform(0.35, 1.0) * min(whole.shape[:2]))
    top, left = (int(rng.integers(0, size - side + 1)) for size in whole.shape[:2])
    piece = Image.fromarray(whole[top : top + side, left : left + side]).resize(
        (width, height), Image.Resampling.BILINEAR
    )
    pixels = np.asarray(piece, np.float32)[:, :: rng.choice([1, -1])]
    return np.clip(pixels * rng.uniform(0.6, 1.3), 0, 255).astype(np.float32)


def text_image(source: Source, height: int, width: int, lines: int = 1) -> np.ndarray:
    """Words in Pillow's own font on paper of one colour with a little noise, 0 to 255: [height, width, 3]."""
    from PIL import Image, ImageDraw, ImageFont

    rng = source.rng
    paper = tuple(int(each) for each in rng.integers(180, 256, 3))
    ink = tuple(int(each) for each in rng.integers(0, 90, 3))
    image = Image.new("RGB", (width, height), paper)
    draw, pitch = ImageDraw.Draw(image), height / lines
    font = ImageFont.load_default(size=max(8, 0.7 * pitch))
    letters = list(string.ascii_letters + string.digits)
    for line in range(lines):
        text = " ".join("".join(rng.choice(letters, rng.integers(2, 8))) for _ in range(rng.integers(1, 5)))
        draw.text((rng.uniform(0, 0.1) * width, (line + 0.1) * pitch), text, fill=ink, font=font)
    return np.clip(np.asarray(image, np.float32) + rng.normal(0, 4, (height, width, 3)), 0, 255).astype(
        np.float32
    )


# --- files -----------------------------------------------------------------------------------------------------


def some_file(source: Source) -> bytes:
    """A file of the Python installation: sources, bytecode, libraries, texts, data."""
    folder = pathlib.Path(sysconfig.get_paths()["stdlib"])
    kinds = (
        "*.py",
        "*/__pycache__/*.pyc",
        "lib-dynload/*.so",
        "*/*.txt",
        "pydoc_data/*",
        "*/*.json",
        "*/*.cfg",
        "*.pem",
    )
    found = sorted(
        each
        for each in folder.glob(str(source.rng.choice(kinds)))
        if each.is_file() and each.stat().st_size > 64
    )
    mine = found[source.half :: 2]
    if not mine:
        return some_file(source)
    return mine[source.rng.integers(len(mine))].read_bytes()
