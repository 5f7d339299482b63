# SPDX-License-Identifier: Apache-2.0
"""Draws the example images and expected.json, which holds the true caption of each.

    python3 examples.py EXAMPLES_FOLDER

An image depends only on the seed and its name; no model takes part in the choice.
"""
import json
import os
import random
import sys

from PIL import Image

from draw import finished_image
from questions import caption

SEED = 'examples'
# file name, width, height, kind of scene
PICTURES = (
    ('shapes-1.png', 480, 320, 'shapes'), ('shapes-2.jpg', 300, 211, 'shapes'), ('shapes-3.png', 257, 255, 'shapes'),
    ('shapes-4.png', 224, 400, 'shapes'), ('shapes-5.png', 1024, 768, 'shapes'), ('shapes-6.jpg', 200, 200, 'shapes'),
    ('turned.jpg', 300, 420, 'shapes'), ('transparent.png', 320, 256, 'shapes'), ('word-1.png', 384, 256, 'text'),
    ('word-2.jpg', 640, 360, 'text'), ('both-1.png', 333, 500, 'both'), ('both-2.png', 500, 333, 'both'))
WHITE, ORIENTATION, TURN_RIGHT = (255, 255, 255), 0x0112, 6


def make(name, width, height, kind):
    """Returns the scene and image of one example. The transparent one gets a white background."""
    for attempt in range(1000):
        rng = random.Random(f'{SEED} {name} {attempt}')
        scene, image = finished_image(rng, width, height, kind)
        if name != 'transparent.png' or scene.background == 'white':
            return scene, image
    raise SystemExit('no attempt gave a white background')


def with_clear_background(image):
    """Returns the image with a transparent background, whose color is white for programs that ignore alpha."""
    ground = image.getpixel((0, 0))
    alpha = Image.new('L', image.size, 255)
    clear = [p == ground for p in image.getdata()]
    alpha.putdata([0 if is_clear else 255 for is_clear in clear])
    image = image.copy()
    image.putdata([WHITE if is_clear else p for is_clear, p in zip(clear, image.getdata())])
    image.putalpha(alpha)
    return image


def save(image, path):
    name = os.path.basename(path)
    if name == 'transparent.png':
        with_clear_background(image).save(path)
    elif name == 'turned.jpg':  # stored on its side, with an EXIF orientation
        exif = Image.Exif()
        exif[ORIENTATION] = TURN_RIGHT
        image.transpose(Image.ROTATE_90).save(path, quality=92, exif=exif)
    elif name.endswith('.jpg'):
        image.save(path, quality=90)
    else:
        image.save(path, optimize=True)


def main():
    folder = sys.argv[1]
    os.makedirs(folder, exist_ok=True)
    expected = {}
    for name, width, height, kind in PICTURES:
        scene, image = make(name, width, height, kind)
        save(image, os.path.join(folder, name))
        expected[name] = caption(scene)
    with open(os.path.join(folder, 'expected.json'), 'w') as file:
        json.dump(expected, file, indent=2)
        file.write('\n')


if __name__ == '__main__':
    main()
