"""Makes a PNG of an SVG by whichever program for that is installed."""

import pathlib
import shutil
import subprocess

# Twice the size of the drawing, so that it is sharp on today's screens.
_PROGRAMS = (
    ("rsvg-convert", lambda svg, png: ["--zoom", "2", "--output", png, svg]),
    ("inkscape",
     lambda svg, png: ["--export-type=png", "--export-dpi=192", f"--export-filename={png}", svg]),
    ("magick", lambda svg, png: ["-density", "192", svg, png]),
)
MISSING = (
    "No PNG was written: it needs rsvg-convert (Debian and Ubuntu: apt-get install librsvg2-bin; Red Hat: "
    "librsvg2-tools), inkscape or ImageMagick 7. The SVG has the same picture.")


def convert(svg: pathlib.Path, png: pathlib.Path):
    """None where the PNG was written, else the reason why not, as a sentence."""
    problem = MISSING
    for name, arguments in _PROGRAMS:
        program = shutil.which(name)
        if program is None:
            continue
        try:
            done = subprocess.run([program, *arguments(str(svg), str(png))],
                                  stdin=subprocess.DEVNULL,
                                  capture_output=True,
                                  text=True,
                                  timeout=120,
                                  check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            problem = f"No PNG was written: {name}: {error}."
            continue
        if done.returncode == 0 and png.is_file() and png.stat().st_size > 0:
            return None
        problem = f"No PNG was written: {name} failed: {done.stderr.strip()[-300:]}"
    return problem
