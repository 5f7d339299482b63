# SPDX-License-Identifier: Apache-2.0
"""Draws the golden images: awkward sizes, smooth and sharp content, small files.

python3 tools/golden/images.py tests/golden/pictures
"""

import os
import random
import sys

from PIL import Image, ImageDraw

# width, height
SIZES = [
    (33, 640),
    (97, 301),
    (1, 200),
    (200, 1),
    (256, 256),
    (257, 255),
    (640, 480),
    (300, 211),
    (500, 333),
    (224, 224),
    (320, 192),
    (17, 17),
    (1024, 768),
    (800, 600),
    (1600, 80),
    (80, 1600),
    (64, 64),
    (333, 1000),
    (1280, 720),
    (48, 112),
    (1365, 512),
    (700, 700),
    (31, 33),
    (272, 304),
]
JPEG = {3, 7, 13, 18}  # numbers of the images that become JPEG files


def draw(width, height, seed):
    """Draws a gradient with shapes and lines of random colors."""
    r = random.Random(seed)
    corner = [[r.randrange(256) for _ in range(3)] for _ in range(4)]
    small = Image.new("RGB", (2, 2))
    small.putdata([tuple(c) for c in corner])
    image = small.resize((width, height), Image.BILINEAR)
    pen = ImageDraw.Draw(image)
    for _ in range(r.randint(4, 9)):
        x0, y0 = r.randrange(width), r.randrange(height)
        x1, y1 = x0 + r.randint(1, max(2, width // 2)), y0 + r.randint(1, max(2, height // 2))
        colour = tuple(r.randrange(256) for _ in range(3))
        getattr(pen, r.choice(["ellipse", "rectangle"]))([x0, y0, x1, y1], fill=colour)
        pen.line([x1, y0, x0, y1], fill=tuple(255 - c for c in colour), width=r.randint(1, 3))
    return image


def main(folder):
    os.makedirs(folder, exist_ok=True)
    for i, (width, height) in enumerate(SIZES):
        path = os.path.join(folder, f"{i:02d}-{width}x{height}.{'jpg' if i in JPEG else 'png'}")
        image = draw(width, height, 1000 + i)
        image.save(path, quality=90) if i in JPEG else image.save(path, optimize=True)


if __name__ == "__main__":
    main(sys.argv[1])
