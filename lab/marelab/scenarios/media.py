"""The VLC player with sound and with a film, played in real time into nothing. It encodes both itself, from samples and frames that are made here.

The study played 5:34 and 9:56 minutes. Here it is SECONDS, as a trace must last no longer than a test is waited for; what happens once a second or a frame is
fewer by that factor, and of what is long-lived at the start a larger share is left.
"""

import os
import subprocess
import wave
from pathlib import Path

import numpy as np

from marelab.errors import LabError
from marelab.scenarios import Made, Scenario, file, settings

SECONDS = {"audio": 30, "video": 12}
RATE = 44100
WIDTH, HEIGHT, FRAMES = 1280, 720, 24


def player(place: Path) -> list[str]:
    """VLC refuses to run as root; it runs as user 1000 of a namespace then, which is still allowed to do what we may."""
    as_user = [file("unshare"), "--user", "--map-user=1000", "--map-group=1000"] if os.geteuid() == 0 else []
    return [*settings(place, TERM="dumb"), *as_user, file("vlc"), "-I", "dummy", "--no-media-library"]


def encode(place: Path, source: list[str], how: str, mux: str, result: Path) -> None:
    r = subprocess.run([*player(place), *source, "--sout", f"#transcode{{{how}}}:std{{access=file,mux={mux},dst={result}}}", "vlc://quit"], stdin=subprocess.DEVNULL,
                       capture_output=True, text=True, errors="replace")
    if r.returncode or not result.exists() or result.stat().st_size < 10_000:
        said = (r.stderr.strip().splitlines() or ["nothing"])[-1]
        raise LabError(f"vlc could not encode {result.name}; it said: {said[:200]}", code=1)


def sound(path: Path, seconds: int) -> None:
    """Four voices that waver, and a little noise, so that the encoder has work."""
    t = np.arange(RATE * seconds) / RATE
    x = sum(np.sin(2 * np.pi * f * t * (1 + 0.001 * np.sin(t))) / n for n, f in enumerate((196, 233, 277, 392), 1))
    x = x + 0.1 * np.random.default_rng(1).normal(size=t.size)
    with wave.open(str(path), "wb") as w:
        w.setnchannels(2)
        w.setsampwidth(2)
        w.setframerate(RATE)
        w.writeframes(np.repeat((x / np.abs(x).max() * 30000).astype("<i2"), 2).tobytes())


def film(path: Path, seconds: int) -> None:
    """Raw frames (YUV4MPEG2): a texture that moves behind a square that moves the other way."""
    y, x = np.mgrid[0:HEIGHT, 0:WIDTH]
    texture = (128 + 60 * np.sin(x / 17) * np.cos(y / 23) + np.random.default_rng(1).normal(0, 6, (HEIGHT, WIDTH))).clip(16, 235).astype(np.uint8)
    with open(path, "wb") as f:
        f.write(f"YUV4MPEG2 W{WIDTH} H{HEIGHT} F{FRAMES}:1 Ip A1:1 C420jpeg\n".encode())
        for k in range(seconds * FRAMES):
            luma = np.roll(texture, (2 * k, 3 * k), (0, 1))
            left = WIDTH - 200 - 4 * k % (WIDTH - 200)
            luma[260:460, left:left + 200] = 200
            f.write(b"FRAME\n" + luma.tobytes() + np.full(HEIGHT * WIDTH // 4, 90 + k % 60, np.uint8).tobytes()
                    + np.full(HEIGHT * WIDTH // 4, 150, np.uint8).tobytes())


def about(path: Path, kind: str, what: str, details: str) -> dict:
    return {"what": what, "seconds": SECONDS[kind], "megabytes": path.stat().st_size / 1e6, "details": details}


def play(place: Path, path: Path, facts: dict) -> Made:
    return Made([*player(place), "--aout=adummy", "--vout=vdummy", "--no-video-title-show", str(path), "vlc://quit"], about=facts)


def audio(place: Path) -> Made:
    raw, path = place / "sound.wav", place / "sound.mp2"
    sound(raw, SECONDS["audio"])
    encode(place, [str(raw)], f"acodec=mpga,ab=256,channels=2,samplerate={RATE}", "raw", path)
    raw.unlink()
    return play(place, path, about(path, "audio", "four voices, made here", "256 kbit/s, MPEG layer II"))


def video(place: Path) -> Made:
    raw, voice, path = place / "film.y4m", place / "film.wav", place / "film.ogg"
    sound(voice, SECONDS["video"])
    film(raw, SECONDS["video"])
    encode(place, [str(raw), f"--input-slave=file://{voice}"], "vcodec=theo,vb=2500,acodec=vorb,ab=128,channels=2", "ogg", path)
    raw.unlink()
    voice.unlink()
    return play(place, path, about(path, "video", "a moving texture, made here", "Ogg (Theora, Vorbis), 720p"))


SCENARIOS = [
    Scenario("vlc-audio", "VLC (audio)", f"plays {SECONDS['audio']} s of sound at 256 kbit/s, in real time, without a sound card", ("vlc", "unshare"), audio),
    Scenario("vlc-video", "VLC (video)", f"plays {SECONDS['video']} s of an Ogg film of 720 lines, in real time, without a screen", ("vlc", "unshare"), video),
]
