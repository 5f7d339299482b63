# SPDX-License-Identifier: Apache-2.0
"""Scenes of colored shapes and printed words: what is in them (make_scene) and how they look (render).

questions.py makes questions and true answers from a Scene. Its coordinates are pixels of an image of Scene.width x
Scene.height; render can draw it at any scale. strange_image draws images that are not scenes.
"""
import functools
import glob
import io
import math
import os
from dataclasses import dataclass, field

import numpy as np
from PIL import Image, ImageDraw, ImageFilter, ImageFont

from words import random_word

COLORS = {
    'red': (220, 40, 40), 'green': (40, 170, 60), 'blue': (50, 80, 220), 'yellow': (240, 210, 40),
    'orange': (245, 140, 30), 'purple': (140, 60, 180), 'black': (20, 20, 20), 'white': (248, 248, 248),
    'gray': (130, 130, 130), 'pink': (250, 150, 190), 'brown': (120, 75, 40), 'cyan': (60, 200, 220)}
SHAPES = ('circle', 'square', 'triangle', 'star', 'diamond', 'cross', 'ring', 'heart')
FONT_FOLDER = os.environ.get('DEMO_FONTS') or os.path.join(os.path.dirname(os.path.abspath(__file__)), 'fonts')
SHAPE_CONTRAST = 120  # least sum of channel differences between a shape and the background
TEXT_CONTRAST = 270
JITTER = 16
LARGE = 1500000  # pixels; smaller images are drawn larger and then reduced


@dataclass
class Shape:
    kind: str
    color: str
    x: float
    y: float
    radius: float

    @property
    def name(self):
        return f'{self.color} {self.kind}'

    def box(self):
        """Returns the tight bounding box in pixels: x0, y0, x1, y1."""
        points = outline(self.kind)
        xs = [self.x + self.radius * px for px, _ in points]
        ys = [self.y + self.radius * py for _, py in points]
        return min(xs), min(ys), max(xs), max(ys)


@dataclass
class Line:
    text: str
    box: tuple  # the inked pixels: x0, y0, x1, y1


@dataclass
class Scene:
    width: float
    height: float
    background: str
    shapes: list = field(default_factory=list)  # ordered from left to right
    lines: list = field(default_factory=list)  # ordered from top to bottom
    text_color: str = ''
    font: str = ''
    font_size: float = 0.0
    strange: bool = False  # not a scene; the only true answer is that the model does not know it

    @property
    def text(self):
        return '\n'.join(line.text for line in self.lines)

    @property
    def words(self):
        return self.text.split()

    def scaled_box(self, box):
        """Returns a pixel box in thousandths of the width and height, as Qwen3-VL writes boxes."""
        x0, y0, x1, y1 = box
        scaled = (x0 / self.width, y0 / self.height, x1 / self.width, y1 / self.height)
        return [min(1000, max(0, round(1000 * value))) for value in scaled]


@functools.lru_cache(None)
def outline(kind):
    """Returns the corners of a shape of radius 1 around the origin; round shapes are polygons of many corners."""
    if kind in ('circle', 'ring'):
        return [(math.cos(math.tau * i / 64), math.sin(math.tau * i / 64)) for i in range(64)]
    if kind == 'square':
        return [(-0.88, -0.88), (0.88, -0.88), (0.88, 0.88), (-0.88, 0.88)]
    if kind == 'triangle':
        return [(0, -1), (1, 0.9), (-1, 0.9)]
    if kind == 'diamond':
        return [(0, -1), (0.75, 0), (0, 1), (-0.75, 0)]
    if kind == 'star':
        corners = [((1, 0.42)[i % 2], i * math.pi / 5) for i in range(10)]
        return [(reach * math.sin(angle), -reach * math.cos(angle)) for reach, angle in corners]
    if kind == 'cross':
        w = 0.34
        return [(-w, -1), (w, -1), (w, -w), (1, -w), (1, w), (w, w),
                (w, 1), (-w, 1), (-w, w), (-1, w), (-1, -w), (-w, -w)]
    angles = [math.tau * i / 48 for i in range(48)]  # heart
    return [(math.sin(t) ** 3, -(13 * math.cos(t) - 5 * math.cos(2 * t) - 2 * math.cos(3 * t) - math.cos(4 * t)) / 16)
            for t in angles]


@functools.lru_cache(None)
def font_names():
    names = sorted(os.path.basename(path) for path in glob.glob(os.path.join(FONT_FOLDER, '*.ttf')))
    if not names:
        raise SystemExit(f'no .ttf files in {FONT_FOLDER}; install them with tools/setup.sh fonts')
    return names


@functools.lru_cache(4096)
def load_font(name, size):
    return ImageFont.truetype(os.path.join(FONT_FOLDER, name), size)


def contrasting(rng, background, least):
    base = COLORS[background]
    return rng.choice([name for name, rgb in COLORS.items() if sum(abs(a - b) for a, b in zip(rgb, base)) > least])


def overlaps(x, y, radius, box):
    """Returns whether the circle comes near the box."""
    near_x, near_y = min(max(x, box[0]), box[2]), min(max(y, box[1]), box[3])
    return math.hypot(x - near_x, y - near_y) < radius + 3


def add_shapes(rng, scene, count):
    """Places up to count shapes that do not touch and differ in x, so that their order from left to right is clear."""
    low, high = 15, min(scene.width, scene.height) / 4.5
    kinds = rng.sample(SHAPES, rng.randint(1, 3)) if rng.random() < 0.45 else SHAPES
    for _ in range(count * 12):
        if len(scene.shapes) == count:
            break
        radius = rng.uniform(low, high)
        x = rng.uniform(radius + 2, scene.width - radius - 2)
        y = rng.uniform(radius + 2, scene.height - radius - 2)
        if any(math.hypot(x - o.x, y - o.y) < 1.05 * (radius + o.radius) + 3 or abs(x - o.x) < 0.04 * scene.width
               for o in scene.shapes):
            continue
        if any(overlaps(x, y, radius, line.box) for line in scene.lines):
            continue
        scene.shapes.append(Shape(rng.choice(kinds), contrasting(rng, scene.background, SHAPE_CONTRAST), x, y, radius))
    scene.shapes.sort(key=lambda shape: shape.x)


def draw_words(rng, difficulty, most_words):
    """Returns words for one to three lines, at low difficulty a single short one."""
    longest = round(4 + 6 * difficulty)
    count = 1 if difficulty < 0.25 else rng.choice((1, 1, 1, 2, 2, 2, 3, 4, 5, 6)[:4 + round(6 * difficulty)])
    words = [random_word(rng, longest) for _ in range(min(count, most_words))]
    rows = 1 if len(words) == 1 else rng.randint(1, min(3, len(words)))
    cuts = [0] + sorted(rng.sample(range(1, len(words)), rows - 1)) + [len(words)]
    return [' '.join(words[a:b]) for a, b in zip(cuts, cuts[1:])]


def add_text(rng, scene, rows, difficulty):
    """Adds the rows as one block of text at a random place, in a size that fits."""
    scene.text_color = contrasting(rng, scene.background, TEXT_CONTRAST)
    scene.font = rng.choice(font_names())
    size = rng.uniform(38 - 22 * difficulty, 54)
    probe = load_font(scene.font, 64)
    boxes = [probe.getbbox(row, anchor='ls') for row in rows]
    widest = max(box[2] - box[0] for box in boxes) / 64
    size = min(size, (scene.width - 14) / widest, (scene.height - 12) / (1.3 * len(rows)))
    scene.font_size = size
    step = size * rng.uniform(1.15, 1.5) if len(rows) * 1.6 * size < scene.height else size * 1.2
    tops = [box[1] * size / 64 + i * step for i, box in enumerate(boxes)]
    bottoms = [box[3] * size / 64 + i * step for i, box in enumerate(boxes)]
    left = rng.uniform(5, max(5.1, scene.width - widest * size - 6))
    base = rng.uniform(4 - min(tops), max(4.1 - min(tops), scene.height - 4 - max(bottoms)))
    centred = rng.random() < 0.4
    for row, box, top, bottom in zip(rows, boxes, tops, bottoms):
        width = (box[2] - box[0]) * size / 64
        x = left + (widest * size - width) / 2 if centred else left
        scene.lines.append(Line(row, (x, base + top, x + width, base + bottom)))


def make_scene(rng, width, height, difficulty=1.0, kind=None, rows=None):
    """Makes a random scene. kind: 'shapes', 'text', 'both', or None for any; rows: the printed lines, or None."""
    scene = Scene(width, height, rng.choice(list(COLORS)))
    kind = kind or rng.choices(('shapes', 'text', 'both'), (0.44, 0.42, 0.14))[0]
    if kind != 'shapes':
        rows = rows or draw_words(rng, difficulty, 6 if kind == 'text' else 1)
        add_text(rng, scene, rows, difficulty)
    if kind != 'text':
        add_shapes(rng, scene, rng.choice((1, 2, 2, 3, 3, 4, 4, 5)) if kind == 'shapes' else rng.randint(1, 3))
    return scene


def jittered(rng, name):
    return tuple(min(255, max(0, value + rng.randint(-JITTER, JITTER))) for value in COLORS[name])


def render(rng, scene, scale=1.0):
    """Draws the scene with slightly varied colors in an image of scale times its size."""
    size = round(scene.width * scale), round(scene.height * scale)
    image = Image.new('RGB', size, jittered(rng, scene.background))
    draw = ImageDraw.Draw(image)
    for shape in scene.shapes:
        color = jittered(rng, shape.color)
        x, y, radius = shape.x * scale, shape.y * scale, shape.radius * scale
        if shape.kind == 'circle':
            draw.ellipse((x - radius, y - radius, x + radius, y + radius), fill=color)
        elif shape.kind == 'ring':
            thickness = max(3, round(0.32 * radius))
            draw.ellipse((x - radius, y - radius, x + radius, y + radius), outline=color, width=thickness)
        else:
            draw.polygon([(x + radius * px, y + radius * py) for px, py in outline(shape.kind)], fill=color)
    if scene.lines:
        font, color = load_font(scene.font, max(6, round(scene.font_size * scale))), jittered(rng, scene.text_color)
        for line in scene.lines:
            x0, y0, x1, y1 = (value * scale for value in line.box)
            left, top, right, bottom = font.getbbox(line.text)
            draw.text(((x0 + x1 - left - right) / 2, (y0 + y1 - top - bottom) / 2), line.text, font=font, fill=color)
    return image


@functools.lru_cache(1)
def noise_tile():
    return np.random.default_rng(7).normal(0, 1, (640, 640, 3)).astype(np.float32)


def degrade(rng, image):
    """Sometimes adds sensor noise, a change of brightness across the image, or JPEG artefacts."""
    if rng.random() < 0.2:
        pixels = np.asarray(image, np.float32)
        height, width = pixels.shape[:2]
        ramp = np.linspace(rng.uniform(0.88, 1.05), rng.uniform(0.88, 1.05), width, dtype=np.float32)[None, :, None]
        top, left = rng.randint(0, 640 - min(640, height)), rng.randint(0, 640 - min(640, width))
        noise = noise_tile()[top:top + height, left:left + width]
        pixels = pixels * ramp
        pixels[:noise.shape[0], :noise.shape[1]] += noise * rng.uniform(1, 6)
        image = Image.fromarray(np.clip(pixels, 0, 255).astype(np.uint8))
    if rng.random() < 0.2:
        buffer = io.BytesIO()
        image.save(buffer, 'JPEG', quality=rng.randint(55, 95))
        image = Image.open(buffer).convert('RGB')
    return image


def smooth_noise(rng, width, height, finest):
    """Returns clouds in 0 to 255: a sum of random grids from 2 to finest cells a side, with falling strength."""
    numbers, total, strength, cells = np.random.default_rng(rng.getrandbits(32)), 0, 1.0, 2
    tint = numbers.uniform(0.2, 1)
    while cells <= finest:
        gray, color = numbers.normal(0, 1, (cells, cells, 1)), numbers.normal(0, 1, (cells, cells, 3))
        grid = np.clip(128 + 42 * (gray + tint * color), 0, 255).astype(np.uint8)
        layer = np.asarray(Image.fromarray(grid).resize((width, height), Image.BICUBIC), np.float32)
        total, strength, cells = total + strength * (layer - 128), strength * rng.uniform(0.4, 0.75), cells * 2
    low, high = total.min(), total.max()
    bottom = rng.uniform(0, 80)
    return bottom + (total - low) * ((rng.uniform(140, 255) - bottom) / max(high - low, 1e-3))


def leaves(rng, width, height):
    """Draws many overlapping patches, large ones first, whose edges resemble those of a photograph."""
    image = Image.fromarray(smooth_noise(rng, width, height, 4).astype(np.uint8))
    draw = ImageDraw.Draw(image)
    base = [rng.randint(0, 255) for _ in range(3)]
    spread, sides = rng.randint(20, 120), rng.choice((0, 3, 4, 6))
    count = rng.randint(40, 250)
    for index in range(count):
        reach = max(width, height) * rng.uniform(0.3, 0.5) / (1 + index * rng.uniform(0.05, 0.12))
        x, y = rng.uniform(0, width), rng.uniform(0, height)
        color = tuple(min(255, max(0, channel + rng.randint(-spread, spread))) for channel in base)
        if sides:
            turn = rng.uniform(0, math.tau)
            draw.polygon([(x + reach * rng.uniform(0.5, 1) * math.cos(turn + i * math.tau / sides),
                           y + reach * rng.uniform(0.5, 1) * math.sin(turn + i * math.tau / sides))
                          for i in range(sides)], fill=color)
        else:
            flat = rng.uniform(0.3, 1)
            draw.ellipse((x - reach, y - reach * flat, x + reach, y + reach * flat), fill=color)
    return image


def landscape(rng, width, height):
    """Draws a smooth sky over uneven ground, with a few rectangles."""
    sky, ground = smooth_noise(rng, width, height, 2), smooth_noise(rng, width, height, rng.choice((16, 64)))
    horizon = height * (rng.uniform(0.2, 0.8) + 0.0005 * (smooth_noise(rng, width, 1, 16)[0, :, :1] - 128))
    below = np.arange(height)[:, None, None] > horizon[None]
    image = Image.fromarray(np.where(below, ground * rng.uniform(0.3, 1), sky).clip(0, 255).astype(np.uint8))
    draw = ImageDraw.Draw(image)
    for _ in range(rng.randint(0, 12)):
        x, y = rng.uniform(0, width), rng.uniform(0.2, 0.9) * height
        wide, high = width * rng.uniform(0.01, 0.25), height * rng.uniform(0.05, 0.5)
        shade = rng.randint(0, 255)
        draw.rectangle((x, y - high, x + wide, y + high * 0.3),
                       fill=tuple(min(255, max(0, shade + rng.randint(-40, 40))) for _ in range(3)))
    return image


def page(rng, width, height):
    """Draws a page of text that is too small and too long to read."""
    dark = rng.random() < 0.2
    image = Image.new('RGB', (width, height), jittered(rng, 'black' if dark else 'white'))
    draw, size = ImageDraw.Draw(image), rng.randint(6, 12)
    font, y = load_font(rng.choice(font_names()), size), rng.uniform(2, 40)
    left, color = rng.uniform(2, 30), jittered(rng, 'white' if dark else 'black')
    while y < height - size:
        words = ' '.join(random_word(rng, 10) for _ in range(rng.randint(2, max(3, width // (size * 4)))))
        if rng.random() < 0.9:
            draw.text((left, y), words, font=font, fill=color)
        y += size * rng.uniform(1.2, 1.6)
    return image


def strange_image(rng, width, height):
    """Returns an image that the model cannot describe: something like a photograph, a page of small print, or noise."""
    chance = rng.random()
    if chance < 0.3:
        image = leaves(rng, width, height)
    elif chance < 0.55:
        image = landscape(rng, width, height)
    elif chance < 0.7:
        image = page(rng, width, height)
    elif chance < 0.75:
        numbers = np.random.default_rng(rng.getrandbits(32))
        image = Image.fromarray(numbers.integers(0, 256, (height, width, 3), np.uint8))
    else:
        image = Image.fromarray(smooth_noise(rng, width, height, rng.choice((8, 32, 128))).clip(0, 255).astype(np.uint8))
    if rng.random() < 0.4:
        image = image.filter(ImageFilter.GaussianBlur(rng.uniform(0.5, 3)))
    return Scene(width, height, '', strange=True), degrade(rng, image)


def training_image(rng, width, height, difficulty=1.0, kind=None, rows=None):
    """Returns a scene and its image of width x height pixels, which is drawn in another size and then resized."""
    wide, high = width * rng.uniform(0.93, 1.07), height * rng.uniform(0.93, 1.07)
    scene = make_scene(rng, wide, high, difficulty, kind, rows)
    image = degrade(rng, render(rng, scene, rng.uniform(0.8, 1.45)))
    return scene, image.resize((width, height), Image.BICUBIC)


def model_size(width, height, least=65536, most=131072, multiple=32):
    """Returns the size to which the processor resizes an image (Qwen's smart_resize)."""
    high, wide = round(height / multiple) * multiple, round(width / multiple) * multiple
    if high * wide > most:
        ratio = math.sqrt(height * width / most)
        high = max(multiple, math.floor(height / ratio / multiple) * multiple)
        wide = max(multiple, math.floor(width / ratio / multiple) * multiple)
    elif high * wide < least:
        ratio = math.sqrt(least / (height * width))
        high = math.ceil(height * ratio / multiple) * multiple
        wide = math.ceil(width * ratio / multiple) * multiple
    return wide, high


def finished_image(rng, width, height, kind=None, rows=None):
    """Returns a scene and its antialiased image of any size, as a user would send it."""
    wide, high = model_size(width, height)
    ratio = math.sqrt(wide * high / (width * height))
    scene = make_scene(rng, width * ratio, height * ratio, 1.0, kind, rows)
    finer = 3 if width * height < LARGE else 1
    return scene, render(rng, scene, finer / ratio).resize((width, height), Image.LANCZOS)
