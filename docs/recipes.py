"""Writes docs/howto/images: what the code of a page draws.

    python -m docs.recipes

It runs the Python blocks of these pages on a few photographs. A page saves its drawing as a PNG file of the same name.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from PIL import Image

from dali_proxy._demo.data import photograph_paths
from docs import images

PAGES = ("distillation", "letterbox", "masks", "mosaic")

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "docs" / "howto" / "images"
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def drawing(page: str, folder: Path) -> Image.Image:
    """Run the code of a page in a folder. Return what it draws."""
    text = (ROOT / "docs" / "howto" / f"{page}.md").read_text(encoding="utf-8")
    script = folder / f"{page}.py"
    script.write_text("\n\n".join(BLOCK.findall(text)), encoding="utf-8")
    subprocess.run([sys.executable, script], cwd=folder, env={**os.environ, "PYTHONPATH": str(ROOT)}, check=True)
    with Image.open(folder / f"{page}.png") as opened:
        image: Image.Image = opened.convert("RGB")
    return image


def main() -> None:
    """Write the images."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "photos" / "class").mkdir(parents=True)
        for photograph, path in photograph_paths(12).items():
            with Image.open(path) as opened:
                image = opened.convert("RGB")
            image.thumbnail((400, 300))
            image.save(folder / "photos" / "class" / f"{photograph}.jpg", quality=90)
        for page in PAGES:
            images.write_image(FOLDER / f"{page}.jpg", drawing(page, folder))


if __name__ == "__main__":
    main()
