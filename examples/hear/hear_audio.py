"""Sound in: wav files, a voice that reads a sentence, and the log-mel spectrum that Whisper hears."""

import ctypes
import wave
from functools import cache
from pathlib import Path

import numpy as np
from hear_weights import MELS, Array

from tosaic.errors import InputError

RATE_HZ = 16_000
HOP, WINDOW = 160, 400
POSITION = 2 * HOP
"""Samples of an encoder's position."""
_FLOOR, _DYNAMIC_RANGE = 1e-10, 8.0
_LINEAR_HZ, _LINEAR_STEP_HZ = 1000.0, 200.0 / 3
_LOG_STEP = np.log(6.4) / 27
"""Slaney's mel scale: linear below 1 kHz, 27 steps for a factor of 6.4 above."""


def log_mel(samples: Array, positions: int) -> Array:
    """[2 * positions, MELS] of 16 kHz samples, cut or filled with silence to that length."""
    count = positions * POSITION
    sound = np.zeros(count, np.float64)
    sound[: min(count, len(samples))] = samples[:count]
    padded = np.pad(sound, WINDOW // 2, mode="reflect")
    frames = np.lib.stride_tricks.sliding_window_view(padded, WINDOW)[::HOP][: count // HOP]
    hann = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(WINDOW) / WINDOW)
    powers = np.abs(np.fft.rfft(frames * hann)) ** 2
    levels = np.log10(np.maximum(powers @ _filters().T, _FLOOR))
    levels = np.maximum(levels, levels.max() - _DYNAMIC_RANGE)
    return ((levels + 4) / 4).astype(np.float32)


@cache
def _filters() -> np.ndarray:
    """[MELS, WINDOW / 2 + 1]: triangles of one area each, even on Slaney's mel scale up to half the rate."""
    top = _LINEAR_HZ / _LINEAR_STEP_HZ + np.log(RATE_HZ / 2 / _LINEAR_HZ) / _LOG_STEP
    mels = np.linspace(0, top, MELS + 2)
    knee = _LINEAR_HZ / _LINEAR_STEP_HZ
    edges = np.where(
        mels < knee, mels * _LINEAR_STEP_HZ, _LINEAR_HZ * np.exp(_LOG_STEP * np.maximum(mels - knee, 0))
    )
    bins = np.fft.rfftfreq(WINDOW, 1 / RATE_HZ)
    slopes = (bins - edges[:, None]) / np.concatenate([np.diff(edges), [1.0]])[:, None]
    rising, falling = slopes[:-2], 1 - slopes[1:-1]
    return np.maximum(0, np.minimum(rising, falling)) * (2 / (edges[2:] - edges[:-2]))[:, None]


def read_wav(path: Path) -> Array:
    """Samples in -1..1 at 16 kHz of a wav file of 16-bit integers, its channels averaged."""
    try:
        with wave.open(str(path)) as file:
            if file.getsampwidth() != 2:
                raise InputError(f"{path} has {8 * file.getsampwidth()}-bit samples; write it with 16 bits")
            data = np.frombuffer(file.readframes(file.getnframes()), "<i2")
            channels, rate = file.getnchannels(), file.getframerate()
    except (OSError, EOFError, wave.Error) as error:
        raise InputError(f"{path} is no readable wav file: {error}") from None
    return resampled(data.reshape(-1, channels).mean(1) / 32768, rate)


def resampled(samples: np.ndarray, rate: int) -> Array:
    """Samples at 16 kHz, by the Fourier transform of the whole."""
    count = round(len(samples) * RATE_HZ / rate)
    spectrum = np.fft.rfft(samples)[: count // 2 + 1]
    return (np.fft.irfft(spectrum, count) * (count / max(len(samples), 1))).astype(np.float32)


class Voice:
    """espeak-ng of the wheel `espeakng-loader`: a simple voice, which Whisper does not always understand."""

    _SYNCHRONOUS, _UTF8, _RATE, _PITCH = 2, 1, 1, 3
    _NAME = b"en-us+f3"

    def __init__(self, words_per_minute: int = 120, pitch: int = 65) -> None:
        try:
            import espeakng_loader
        except ImportError:
            raise InputError(
                "the voice needs the package espeakng-loader: `make hear` installs it; or give a wav file"
            ) from None
        self._library = ctypes.CDLL(espeakng_loader.get_library_path())
        data = str(Path(espeakng_loader.get_data_path()).parent).encode()
        self.rate_hz = self._library.espeak_Initialize(self._SYNCHRONOUS, 0, data, 0)
        if self.rate_hz <= 0:
            raise InputError(f"espeak-ng does not start with the data in {data.decode()}")
        self._library.espeak_SetVoiceByName(self._NAME)
        self._library.espeak_SetParameter(self._RATE, words_per_minute, 0)
        self._library.espeak_SetParameter(self._PITCH, pitch, 0)

    def say(self, sentence: str) -> Array:
        """The sentence at 16 kHz."""
        parts: list[np.ndarray] = []

        @ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_short), ctypes.c_int, ctypes.c_void_p)
        def take(samples: "ctypes._Pointer[ctypes.c_short]", count: int, _events: int | None) -> int:
            if samples and count > 0:
                parts.append(np.ctypeslib.as_array(samples, (count,)).copy())
            return 0

        self._library.espeak_SetSynthCallback(take)
        text = sentence.encode() + b"\0"
        self._library.espeak_Synth(text, len(text), 0, 0, 0, self._UTF8, None, None)
        self._library.espeak_Synchronize()
        return resampled(np.concatenate(parts) / 32768, self.rate_hz)
