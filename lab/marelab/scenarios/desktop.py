"""The study's other desktop programs: Octave, Inkscape and Lynx."""

import struct
import zlib
from pathlib import Path

import numpy as np

from marelab.scenarios import Made, Scenario, file, settings

GAUSS = """n = 50;
A = diag(4 * ones(1, n)) + diag(-ones(1, n - 1), 1) + diag(-ones(1, n - 1), -1);
b = (1:n)';
for k = 1:n-1
  for i = k+1:n
    m = A(i, k) / A(k, k);
    for j = k:n
      A(i, j) = A(i, j) - m * A(k, j);
    end
    b(i) = b(i) - m * b(k);
  end
end
x = zeros(n, 1);
for i = n:-1:1
  s = b(i);
  for j = i+1:n
    s = s - A(i, j) * x(j);
  end
  x(i) = s / A(i, i);
end
printf("%.6f %.6f\\n", x(1), x(n));
"""


def octave(place: Path) -> Made:
    (place / "gauss.m").write_text(GAUSS)
    return Made([*settings(place, TERM="dumb"), file("octave-cli"), "--norc", "--no-history", "--quiet", str(place / "gauss.m")])


# ---- Inkscape ----

WIDTH, HEIGHT = 1920, 1080


def chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def picture(path: Path) -> None:
    """A PNG of some 300 KB: gradients, squares, and a little noise."""
    y, x = np.mgrid[0:HEIGHT, 0:WIDTH]
    rgb = np.stack([x * 255 // WIDTH, y * 255 // HEIGHT, ((x // 64 + y // 64) * 16) % 256], -1).astype(np.uint8)
    rgb[:, :, 0] ^= (np.random.default_rng(1).random((HEIGHT, WIDTH)) < 0.015).astype(np.uint8) * 31
    raw = b"".join(b"\0" + row.tobytes() for row in rgb)
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", WIDTH, HEIGHT, 8, 2, 0, 0, 0))
                     + chunk(b"IDAT", zlib.compress(raw, 9)) + chunk(b"IEND", b""))


def inkscape(place: Path) -> Made:
    """The picture is linked by a drawing: opened by itself it would have Inkscape ask whether to embed it. Its actions run when the window is there."""
    png, svg = place / "picture.png", place / "drawing.svg"
    picture(png)
    svg.write_text(f'<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" width="{WIDTH}" height="{HEIGHT}">'
                   f'<image width="{WIDTH}" height="{HEIGHT}" xlink:href="picture.png"/></svg>\n')
    argv = [*settings(place, GTK_A11Y="none", NO_AT_BRIDGE="1"), file("inkscape"), "--with-gui", "--batch-process", "--actions=quit-immediate", str(svg)]
    return Made(argv, about={"megabytes": png.stat().st_size / 1e6, "details": f"{WIDTH} x {HEIGHT}, PNG"})


# ---- Lynx ----

PAGES = 5


def lynx(place: Path) -> Made:
    row = "<tr><td>{i}.{k}</td><td><a href='#{k}'>link {n}</a></td><td>{words}</td></tr>"
    for page in range(PAGES):
        tables = ("<table>" + "".join(row.format(i=i, k=k, n=k * i, words="word " * (k % 9)) for k in range(30)) + "</table>" for i in range(60 + page))
        text = "".join(f"<h2>{i}</h2>{t}" for i, t in enumerate(tables))
        (place / f"p{page}.html").write_text(f"<html><body><h1>{page}</h1>{text}</body></html>")
    keys = "".join(f"key g\n{''.join(f'key {c}{chr(10)}' for c in f'file://localhost{place}/p{page}.html')}key ^J\n" for page in range(1, PAGES))
    (place / "script").write_text(keys + "key q\nkey y\n")
    return Made([*settings(place, TERM="vt100", LINES="40", COLUMNS="100"), file("lynx"), "-accept_all_cookies", f"-cmd_script={place / 'script'}",
                 f"file://localhost{place}/p0.html"])


SCENARIOS = [
    Scenario("octave", "Octave", "a script: Gauss's elimination on a tridiagonal matrix of order 50", ("octave-cli",), octave),
    Scenario("inkscape", "Inkscape", f"starts in a window, under Xvfb, loads a drawing with a picture of {WIDTH} x {HEIGHT}, and quits", ("inkscape",), inkscape, display=True),
    Scenario("lynx", "Lynx", f"a script: {PAGES} pages in one session, from disk", ("lynx",), lynx),
]
