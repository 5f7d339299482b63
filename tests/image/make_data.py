#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the small images of tests/image/data in every format that eyelet reads, with the pixels that they must decode
to.
Each image NAME has the expected RGB in NAME.ppm: by Pillow with the specification's deviations (EXIF orientation
applied, alpha composited on white, 16-bit values cut to their high byte), or for HEIC and AVIF by the tools of
libheif and libavif. resized-*.ppm are photo.ppm in a few sizes, by an independent numpy version of torch's uint8
resampling.
Needs Debian's python3-pil, python3-numpy, libturbojpeg0, libjpeg-turbo-progs, libheif-examples, libavif-bin,
libtiff-tools. Run it with the system's Python: /usr/bin/python3 tests/image/make_data.py"""
import ctypes
import io
import math
import os
import struct
import subprocess
import tempfile
import zlib

import numpy as np
from PIL import Image, ImageOps

DATA = os.path.join(os.path.dirname(os.path.abspath(__file__)), "data")
W, H = 35, 27


# ---- images -----------------------------------------------------------------------------------------------

def photo(width=W, height=H, seed=1):
    """Gradients, edges and noise: all rows and columns differ."""
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[0:height, 0:width]
    rgb = np.stack([x * 255 // (width - 1), y * 255 // (height - 1), (x * 7 + y * 11) % 256], axis=-1)
    rgb[height // 4:height // 2, width // 3:width // 2] = (250, 20, 40)
    rgb[(x - width * 2 // 3) ** 2 + (y - height * 2 // 3) ** 2 < height * 1.5] = (10, 200, 230)
    return np.clip(rgb + rng.integers(-20, 21, rgb.shape), 0, 255).astype(np.uint8)


def alpha(width=W, height=H):
    """All 256 values if there is room, with large areas of 0 and 255."""
    y, x = np.mgrid[0:height, 0:width]
    a = (x * 13 + y * 29) % 256
    a[: height // 5] = 0
    a[-height // 5:] = 255
    return a.astype(np.uint8)


def over_white(rgba):
    c, a = rgba[..., :3].astype(int), rgba[..., 3:].astype(int)
    return ((c * a + 255 * (255 - a) + 127) // 255).astype(np.uint8)


# ---- files --------------------------------------------------------------------------------------------------

def path_of(name):
    return os.path.join(DATA, name)


def write(name, content):
    with open(path_of(name), "wb") as f:
        f.write(content)


def write_ppm(name, rgb):
    assert rgb.dtype == np.uint8 and rgb.ndim == 3 and rgb.shape[2] == 3
    write(name, b"P6\n%d %d\n255\n" % (rgb.shape[1], rgb.shape[0]) + rgb.tobytes())


def expected(content):
    """The image decoded by Pillow, upright and on white."""
    im = ImageOps.exif_transpose(Image.open(io.BytesIO(content)))
    if im.mode in ("RGBA", "LA", "PA") or "transparency" in im.info:
        im = im.convert("RGBA")
        page = Image.new("RGB", im.size, (255, 255, 255))
        page.paste(im, mask=im.split()[3])
        assert np.array_equal(np.asarray(page), over_white(np.asarray(im))), "not Pillow's rounding"
        im = page
    return np.asarray(im.convert("RGB"))


def add(name, content, rgb=None):
    """Writes an image and its expected pixels: `rgb`, or Pillow's."""
    write(name, content)
    write_ppm(name + ".ppm", expected(content) if rgb is None else rgb)


def saved(im, kind, **options):
    out = io.BytesIO()
    im.save(out, kind, **options)
    return out.getvalue()


def exif(orientation, prefix=b"Exif\0\0"):
    """A little-endian EXIF block with the orientation between two other tags."""
    entries = [(0x0100, 4, 1, struct.pack("<I", 64)), (0x0112, 3, 1, struct.pack("<HH", orientation, 0)),
               (0x0128, 3, 1, struct.pack("<HH", 2, 0))]
    body = struct.pack("<H", len(entries)) + b"".join(struct.pack("<HHI", t, f, n) + v for t, f, n, v in entries)
    return prefix + b"II*\0" + struct.pack("<I", 8) + body + struct.pack("<I", 0)


# ---- JPEG ---------------------------------------------------------------------------------------------------

def jpegtran(content, *options):
    return subprocess.run(["jpegtran", *options], input=content, stdout=subprocess.PIPE, check=True).stdout


def turbo(pixels, pixel_format, subsampling, quality=88):
    """Encodes with TurboJPEG, which has subsamplings that Pillow lacks and converts CMYK to YCCK."""
    lib = ctypes.CDLL("libturbojpeg.so.0")
    lib.tjInitCompress.restype = ctypes.c_void_p
    handle = ctypes.c_void_p(lib.tjInitCompress())
    buf, size = ctypes.c_void_p(), ctypes.c_ulong()
    pixels = np.ascontiguousarray(pixels)
    code = lib.tjCompress2(handle, pixels.ctypes.data_as(ctypes.c_void_p), pixels.shape[1], 0, pixels.shape[0],
                           pixel_format, ctypes.byref(buf), ctypes.byref(size), subsampling, quality, 0)
    assert code == 0
    return ctypes.string_at(buf, size.value)


def adobe_rgb(jpeg):
    """Marks a JPEG's components as RGB: replaces the JFIF marker with Adobe's."""
    length = struct.unpack(">H", jpeg[4:6])[0]
    assert jpeg[2:4] == b"\xff\xe0"
    return jpeg[:2] + b"\xff\xee\0\x0eAdobe\0\x64\0\0\0\0\0" + jpeg[4 + length:]


def make_jpeg():
    im = Image.fromarray(photo())
    for i, name in enumerate(("444", "422", "420")):
        add(f"{name}.jpg", saved(im, "JPEG", quality=90, subsampling=i))
    add("420-low.jpg", saved(im, "JPEG", quality=20))
    add("440.jpg", turbo(photo(), 0, 4))
    add("411.jpg", turbo(photo(), 0, 5))
    add("gray.jpg", saved(im.convert("L"), "JPEG", quality=85))
    progressive = saved(im, "JPEG", quality=85, progressive=True)
    add("progressive.jpg", progressive)
    add("restart.jpg", jpegtran(progressive, "-restart", "1B"))
    add("arithmetic.jpg", jpegtran(progressive, "-arithmetic"))
    cmyk = np.dstack([photo(seed=2), photo(seed=3)[..., 0]])
    add("cmyk.jpg", saved(Image.fromarray(cmyk, "CMYK"), "JPEG", quality=90))
    add("ycck.jpg", turbo(cmyk, 11, 2))
    add("rgb.jpg", adobe_rgb(saved(im, "JPEG", quality=90, subsampling=0)))
    small = Image.fromarray(photo(19, 13))
    for o in range(1, 9):
        add(f"exif-{o}.jpg", saved(small, "JPEG", quality=90, exif=exif(o)))
    add("exif-9.jpg", saved(small, "JPEG", quality=90, exif=exif(9)))
    add("tiny.jpg", saved(Image.fromarray(photo(2, 2)), "JPEG"))
    add("tail.jpg", saved(small, "JPEG", quality=90) + b"bytes behind the end")
    xmp = b"\xff\xe1" + struct.pack(">H", 2 + 29 + 20) + b"http://ns.adobe.com/xap/1.0/\0" + b"x" * 20
    jpeg = saved(small, "JPEG", quality=90, exif=exif(6))
    add("xmp-first.jpg", jpeg[:2] + xmp + b"\xff\xfe\0\7hello" + jpeg[2:])


# ---- PNG ----------------------------------------------------------------------------------------------------

def chunk(kind, body):
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


def packed(samples, depth):
    """Packs rows of samples [h, n] into bytes."""
    if depth == 16:
        return [row.astype(">u2").tobytes() for row in samples]
    if depth == 8:
        return [row.astype(np.uint8).tobytes() for row in samples]
    bits = (samples[..., None] >> np.arange(depth - 1, -1, -1)) & 1
    return [np.packbits(row.reshape(-1).astype(np.uint8)).tobytes() for row in bits]


ADAM7 = ((0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2))


def png(samples, depth, color, interlaced=False, before=b"", after=b""):
    """Writes a PNG of samples [h, w, channels] in any colour type and depth; row filters 0 and 1 from 8 bits on."""
    h, w = samples.shape[:2]
    passes = [samples[y::dy, x::dx] for x, y, dx, dy in ADAM7] if interlaced else [samples]
    raw = b""
    for part in passes:
        if part.size:
            raw += b"".join(b"\0" + row for row in packed(part.reshape(part.shape[0], -1), depth))
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", w, h, depth, color, 0, 0, interlaced)) +
            before + chunk(b"IDAT", zlib.compress(raw, 9)) + after + chunk(b"IEND", b""))


def palette_of(n, seed=5):
    return np.random.default_rng(seed).integers(0, 256, (n, 3)).astype(np.uint8)


def make_png():
    rgb, a = photo(), alpha()
    gray = rgb[..., :1].astype(int)
    add("rgb.png", saved(Image.fromarray(rgb), "PNG"))
    add("rgba.png", saved(Image.fromarray(np.dstack([rgb, a])), "PNG"))
    add("rgba-interlaced.png", png(np.dstack([rgb, a]), 8, 6, True))
    add("rgb-interlaced.png", png(rgb, 8, 2, True))
    for depth in (1, 2, 4, 8):
        add(f"gray{depth}.png", png(gray >> (8 - depth), depth, 0))
        add(f"gray{depth}-interlaced.png", png(gray >> (8 - depth), depth, 0, True))
        colors = palette_of(min(1 << depth, 200))
        plte = chunk(b"PLTE", colors.tobytes())
        index = (gray * len(colors)) >> 8
        add(f"palette{depth}.png", png(index, depth, 3, before=plte))
        trns = chunk(b"tRNS", bytes((i * 53) % 256 for i in range(len(colors) // 2 + 1)))
        add(f"palette{depth}-alpha.png", png(index, depth, 3, depth == 4, before=plte + trns))
    add("gray-alpha.png", png(np.dstack([gray, a]), 8, 4))
    add("gray-key.png", png(gray, 8, 0, before=chunk(b"tRNS", struct.pack(">H", int(gray[3, 3, 0])))))
    key = tuple(int(v) for v in rgb[3, 3])
    add("rgb-key.png", png(rgb, 8, 2, before=chunk(b"tRNS", struct.pack(">HHH", *key))))
    make_png16(rgb, a)
    gamma = chunk(b"gAMA", struct.pack(">I", 100000)) + chunk(b"cHRM", struct.pack(">8I", *[30000] * 8))
    text = chunk(b"zTXt", b"bomb\0\0" + zlib.compress(b"\0" * 4000000, 9)) + chunk(b"tEXt", b"key\0value")
    add("gamma-text.png", png(rgb, 8, 2, before=gamma + text), rgb)  # Pillow refuses the bomb; we skip it unread
    add("exif.png", png(rgb, 8, 2, before=chunk(b"eXIf", exif(6, b""))))
    add("exif-late.png", png(rgb, 8, 2, after=chunk(b"eXIf", exif(8, b""))))
    add("one.png", png(rgb[:1, :1], 8, 2))


def make_png16(rgb, a):
    """16-bit PNGs decode to their high bytes; the transparent colour is compared in 16 bits."""
    low = np.random.default_rng(7).integers(0, 256, (H, W, 4))
    deep = (rgb.astype(int) << 8) | low[..., :3]
    deep_a = (a.astype(int) << 8) | low[..., 3]
    three = np.repeat(rgb[..., :1], 3, axis=2)
    add("rgb16.png", png(deep, 16, 2), rgb)
    add("rgb16-interlaced.png", png(deep, 16, 2, True), rgb)
    add("rgba16.png", png(np.dstack([deep, deep_a]), 16, 6), over_white(np.dstack([rgb, a])))
    add("gray16.png", png(deep[..., :1], 16, 0), three)
    add("gray-alpha16.png", png(np.dstack([deep[..., :1], deep_a]), 16, 4), over_white(np.dstack([three, a])))
    keyed = three.copy()
    keyed[deep[..., 0] == deep[5, 6, 0]] = 255
    add("gray16-key.png", png(deep[..., :1], 16, 0, before=chunk(b"tRNS", struct.pack(">H", deep[5, 6, 0]))), keyed)


# ---- WebP, GIF ----------------------------------------------------------------------------------------------

def make_webp():
    rgb, rgba = Image.fromarray(photo()), Image.fromarray(np.dstack([photo(), alpha()]))
    add("lossy.webp", saved(rgb, "WEBP", quality=80))
    add("lossless.webp", saved(rgb, "WEBP", lossless=True))
    add("lossy-alpha.webp", saved(rgba, "WEBP", quality=80))
    add("lossless-alpha.webp", saved(rgba, "WEBP", lossless=True, exact=True))
    add("exif.webp", saved(rgb, "WEBP", quality=70, exif=exif(5)))
    add("exif-raw.webp", saved(rgb, "WEBP", quality=70, exif=exif(7, b"")))
    second = Image.fromarray(photo(seed=9))
    add("animated.webp", saved(rgb, "WEBP", save_all=True, append_images=[second], quality=60))
    second = Image.fromarray(np.dstack([photo(seed=9), alpha()[::-1]]))
    add("animated-alpha.webp", saved(rgba, "WEBP", save_all=True, append_images=[second], lossless=True))
    for flag, name in ((0x02, "part.webp"), (0x12, "part-alpha.webp")):
        add(name, part_frame_webp(flag))


def part_frame_webp(flags):
    """An animation whose first frame covers only a part of the canvas."""
    def box(kind, body):
        return kind + struct.pack("<I", len(body)) + body + b"\0" * (len(body) & 1)

    def u24(v):
        return struct.pack("<I", v)[:3]
    rgba = np.dstack([photo(15, 9), alpha(15, 9)])
    still = saved(Image.fromarray(rgba if flags & 0x10 else rgba[..., :3]), "WEBP", lossless=True)
    at = still.index(b"VP8L")
    frame = u24(4) + u24(3) + u24(14) + u24(8) + u24(100) + b"\0" + still[at:]  # at (8, 6)
    body = box(b"VP8X", bytes([flags, 0, 0, 0]) + u24(W - 1) + u24(H - 1))
    body += box(b"ANIM", b"\x40\x80\xc0\xff\0\0") + box(b"ANMF", frame)
    return b"RIFF" + struct.pack("<I", len(body) + 4) + b"WEBP" + body


def gif(frames, screen, palette, background=0):
    """A GIF from its parts. A frame is (x, y, indices, interlaced, transparent index or None, palette or None). All
    codes have 9 bits, and the table is cleared before it grows."""
    def table(colors):
        bits = max(1, math.ceil(math.log2(len(colors))))
        return bits - 1, colors.tobytes().ljust(3 << bits, b"\0")

    def lzw(indices):
        codes = [256]
        for i, v in enumerate(indices):
            if i and i % 200 == 0:
                codes.append(256)
            codes.append(int(v))
        total = 0
        for i, code in enumerate(codes + [257]):
            total |= code << (9 * i)
        data = total.to_bytes((9 * (len(codes) + 1) + 7) // 8, "little")
        blocks = (data[i:i + 255] for i in range(0, len(data), 255))
        return b"\x08" + b"".join(bytes([len(b)]) + b for b in blocks) + b"\0"
    out = b"GIF89a" + struct.pack("<HH", *screen)
    if palette is None:
        out += bytes([0x70, background, 0])
    else:
        bits, colors = table(palette)
        out += bytes([0xf0 | bits, background, 0]) + colors
    for x, y, index, interlaced, transparent, own in frames:
        if transparent is not None:
            out += b"!\xf9\4\1\0\0" + bytes([transparent]) + b"\0"
        out += b"," + struct.pack("<HHHH", x, y, index.shape[1], index.shape[0])
        flags = 0x40 if interlaced else 0
        if own is not None:
            bits, colors = table(own)
            out += bytes([flags | 0x80 | bits]) + colors
        else:
            out += bytes([flags])
        order = [r for s, d in ((0, 8), (4, 8), (2, 4), (1, 2)) for r in range(s, len(index), d)]
        out += lzw((index[order] if interlaced else index).reshape(-1))
    return out + b";"


def make_gif():
    index = photo()[..., 0].astype(int) % 200
    colors, other = palette_of(256), palette_of(256, 6)
    t = int(index[8, 8])
    add("still.gif", saved(Image.fromarray(photo()).quantize(64), "GIF"))
    add("plain.gif", gif([(0, 0, index, False, None, None)], (W, H), colors))
    add("interlaced.gif", gif([(0, 0, index, True, None, None)], (W, H), colors))
    add("transparent.gif", gif([(0, 0, index, False, t, None)], (W, H), colors))
    add("local.gif", gif([(0, 0, index, True, t, other)], (W, H), colors))
    add("local-only.gif", gif([(0, 0, index, False, None, other)], (W, H), None))
    add("frames.gif", gif([(0, 0, index, False, None, None), (3, 3, index[:9, :9], False, 1, other)], (W, H), colors))
    add("part.gif", gif([(5, 6, index[:11, :13], True, None, None)], (W, H), colors, background=7))
    add("part-transparent.gif", gif([(5, 6, index[:11, :13], False, int(index[2, 2]), None)], (W, H), colors))
    add("beyond.gif", gif([(5, 6, index, False, None, None)], (20, 20), colors))
    animated = [Image.fromarray(photo(seed=s)).quantize(32) for s in (1, 2)]
    add("animated.gif", saved(animated[0], "GIF", save_all=True, append_images=animated[1:]))


# ---- HEIC, AVIF ---------------------------------------------------------------------------------------------

def run(*command):
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def make_heif():
    """Sizes are even because the encoders pad odd ones. The libraries' PNG converters give the expected pixels."""
    rgb, rgba = photo(48, 32), np.dstack([photo(48, 32), alpha(48, 32)])
    with tempfile.TemporaryDirectory() as tmp:
        for name, pixels, encode in (
                ("plain.heic", rgb, ("heif-enc", "-q", "80")), ("alpha.heic", rgba, ("heif-enc", "-q", "90")),
                ("plain.avif", rgb, ("heif-enc", "-A", "-q", "80")),
                ("alpha.avif", rgba, ("heif-enc", "-A", "-q", "90")),
                ("turned.avif", rgb, ("avifenc", "--irot", "1", "--min", "10", "--max", "20")),
                ("mirrored.avif", rgb, ("avifenc", "--imir", "1", "--min", "10", "--max", "20")),
                ("deep.avif", rgb, ("avifenc", "-d", "10", "--min", "10", "--max", "20"))):
            source, target, back = (os.path.join(tmp, n) for n in ("in.png", name, "out.png"))
            Image.fromarray(pixels).save(source)
            if encode[0] == "avifenc":
                run(*encode, source, target)
            else:
                run(*encode, "-o", target, source)
            run("heif-convert", target, back)
            if os.path.exists(back.replace("out", "out-1")):
                back = back.replace("out", "out-1")
            decoded = np.asarray(Image.open(back))
            if decoded.dtype != np.uint8:
                decoded = (decoded >> 8).astype(np.uint8)
            with open(target, "rb") as f:
                add(name, f.read(), over_white(decoded) if decoded.shape[2] == 4 else decoded)
            os.remove(back)


# ---- TIFF, BMP, PNM -----------------------------------------------------------------------------------------

def tiffcp(content, *options):
    """Converts with libtiff's tool, which writes codings and layouts that Pillow cannot."""
    with tempfile.TemporaryDirectory() as tmp:
        source, target = os.path.join(tmp, "in.tif"), os.path.join(tmp, "out.tif")
        with open(source, "wb") as f:
            f.write(content)
        run("tiffcp", *options, source, target)
        with open(target, "rb") as f:
            return f.read()


def turned_tiff(content, orientation):
    """Changes the value of the only orientation tag, which Pillow writes on request."""
    old, new = (struct.pack("<HHIHH", 274, 3, 1, value, 0) for value in (1, orientation))
    assert content.count(old) == 1
    return content.replace(old, new)


def make_tiff():
    rgb = photo()
    im, gray = Image.fromarray(rgb), Image.fromarray(rgb).convert("L")
    plain = saved(im, "TIFF")
    add("plain.tif", plain)
    for name, coding in (("lzw", "tiff_lzw"), ("deflate", "tiff_adobe_deflate"), ("packbits", "packbits")):
        add(name + ".tif", saved(im, "TIFF", compression=coding))
    add("group4.tif", saved(im.convert("1"), "TIFF", compression="group4"))
    add("gray.tif", saved(gray, "TIFF"))
    add("palette.tif", saved(im.convert("P", palette=Image.Palette.ADAPTIVE, colors=40), "TIFF"))
    add("cmyk.tif", saved(im.convert("CMYK"), "TIFF"))
    add("rgba.tif", saved(Image.fromarray(np.dstack([rgb, alpha()])), "TIFF"))
    add("jpeg.tif", saved(im, "TIFF", compression="jpeg", quality=90))
    add("tiles.tif", tiffcp(plain, "-t", "-w", "16", "-l", "16"), rgb)
    add("planes.tif", tiffcp(plain, "-p", "separate"), rgb)
    add("big-endian.tif", tiffcp(plain, "-B"), rgb)
    add("bigtiff.tif", tiffcp(plain, "-8"), rgb)
    add("gray16.tif", saved(Image.fromarray(np.asarray(gray).astype(np.uint16) * 257), "TIFF"),
        np.asarray(gray.convert("RGB")))
    tagged = saved(im, "TIFF", tiffinfo={274: 1})
    for orientation in (3, 6, 8):
        upright = {3: rgb[::-1, ::-1], 6: np.rot90(rgb, -1), 8: np.rot90(rgb)}[orientation]
        add(f"turned-{orientation}.tif", turned_tiff(tagged, orientation), np.ascontiguousarray(upright))
    add("pages.tif", saved(im, "TIFF", save_all=True, append_images=[gray, im.transpose(Image.Transpose.ROTATE_90)]))


def bmp(bits, rows, coding=0, masks=b"", palette=b"", header=40, height=H):
    """A Windows BMP; rows are in file order."""
    info = struct.pack("<IiiHHIIiiII", header, W, height, 1, bits, coding, len(rows), 2835, 2835, len(palette) // 4, 0)
    info += masks if header == 40 else masks.ljust(header - 40, b"\0")
    at = 14 + len(info) + len(palette)
    return b"BM" + struct.pack("<IHHI", at + len(rows), 0, 0, at) + info + palette + rows


def padded(rows):
    """Pads rows to 4 bytes and reverses their order."""
    return b"".join(row + bytes(-len(row) % 4) for row in reversed(rows))


def rle8(indices):
    """Uses all of the coding: runs, literals, a jump over colour 0 and ends of lines."""
    out = b""
    for y in range(H - 1, -1, -1):
        row, x = indices[y], 0
        while x < W:
            n = 1
            while x + n < W and n < 255 and row[x + n] == row[x]:
                n += 1
            if row[x] == 0 and n > 2 and x + n < W:
                out += bytes((0, 2, n, 0))
            elif n < 3 and W - x >= 4:
                n = 4 if x % 2 else 3
                out += bytes((0, n)) + bytes(row[x:x + n].tolist()) + bytes(n % 2)
            else:
                out += bytes((n, row[x]))
            x += n
        out += b"\0\0"
    return out + b"\0\1"


def make_bmp():
    rgb = photo()
    im = Image.fromarray(rgb)
    add("rgb24.bmp", saved(im, "BMP"))
    add("gray8.bmp", saved(im.convert("L"), "BMP"))
    add("one.bmp", saved(im.convert("1"), "BMP"))
    adaptive = im.convert("P", palette=Image.Palette.ADAPTIVE, colors=16)
    indices = np.asarray(adaptive)
    colors = np.array(adaptive.getpalette()[:48]).reshape(16, 3)
    palette = b"".join(bytes((b, g, r, 0)) for r, g, b in colors.tolist())
    pairs = np.pad(indices, ((0, 0), (0, W % 2)))
    add("palette4.bmp", bmp(4, padded([bytes((row[::2] << 4 | row[1::2]).tolist()) for row in pairs]), palette=palette))
    banded = indices.copy()
    banded[5:9, 4:30] = 0
    # Pillow 9.4 reads two bytes too many after a jump
    add("rle8.bmp", bmp(8, rle8(banded), 1, palette=palette), colors[banded].astype(np.uint8))
    nibbles = b"".join(b"".join(bytes((1, int(v) << 4)) for v in row) + b"\0\0" for row in banded[::-1]) + b"\0\1"
    add("rle4.bmp", bmp(4, nibbles, 2, palette=palette), colors[banded].astype(np.uint8))
    r, g, b = (rgb[..., i].astype(np.uint16) for i in range(3))
    rows555 = (r >> 3 << 10 | g >> 3 << 5 | b >> 3).astype("<u2")
    rows565 = (r >> 3 << 11 | g >> 2 << 5 | b >> 3).astype("<u2")
    add("555.bmp", bmp(16, padded([row.tobytes() for row in rows555])))
    add("565.bmp", bmp(16, padded([row.tobytes() for row in rows565]), 3, struct.pack("<III", 0xf800, 0x7e0, 0x1f)))
    bgrx = np.dstack([rgb[..., ::-1], np.full((H, W), 7, np.uint8)])
    add("rgb32.bmp", bmp(32, padded([row.tobytes() for row in bgrx])))
    bgra = np.dstack([rgb[..., ::-1], alpha()])
    masks = struct.pack("<IIII", 0xff0000, 0xff00, 0xff, 0xff000000)
    add("rgba32.bmp", bmp(32, padded([row.tobytes() for row in bgra]), 3, masks, header=108))
    add("top-down.bmp", bmp(24, b"".join(row.tobytes() + bytes(-3 * W % 4) for row in rgb[..., ::-1]), height=-H))
    os2 = struct.pack("<IHHHH", 12, W, H, 1, 24) + padded([row.tobytes() for row in rgb[..., ::-1]])
    add("os2.bmp", b"BM" + struct.pack("<IHHI", 14 + len(os2), 0, 0, 26) + os2)


def plain_pnm(kind, values, most=None):
    head = f"P{kind}\n# a comment\n{W} {H}\n" + (f"{most}\n" if most else "")
    return (head + "\n".join(" ".join(str(v) for v in row) for row in values.reshape(H, -1)) + "\n").encode()


def make_pnm():
    rgb = photo()
    im = Image.fromarray(rgb)
    gray, bits = np.asarray(im.convert("L")), np.asarray(im.convert("1"))
    add("rgb.pnm", saved(im, "PPM"))
    add("gray.pnm", saved(im.convert("L"), "PPM"))
    add("bits.pnm", saved(im.convert("1"), "PPM"))
    add("plain-rgb.pnm", plain_pnm(3, rgb, 255))
    add("plain-gray.pnm", plain_pnm(2, gray, 255))
    add("plain-bits.pnm", plain_pnm(1, 1 - bits.astype(int)))
    add("most100.pnm", b"P6 %d %d 100\n" % (W, H) + (rgb // 3).tobytes())
    wide = rgb.astype(">u2") * 257
    add("wide.pnm", b"P6 %d %d 65535\n" % (W, H) + wide.tobytes(), rgb)


# ---- resampling ---------------------------------------------------------------------------------------------

def torch_weights(n_in, n_out):
    """torch's antialiased uint8 bicubic weights for one axis: first pixels, integer weights, fraction bits."""
    def cubic(x, a=-0.5):
        x = abs(x)
        if x < 1:
            return ((a + 2) * x - (a + 3)) * x * x + 1
        return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a if x < 2 else 0.0
    scale = n_in / n_out
    support = 2 * max(scale, 1.0)
    firsts, rows = [], []
    for i in range(n_out):
        center = scale * (i + 0.5)
        lo, hi = max(int(center - support + 0.5), 0), min(int(center + support + 0.5), n_in)
        w = [cubic((j - center + 0.5) * (1 / max(scale, 1.0))) for j in range(lo, hi)]
        total = sum(w)
        firsts.append(lo)
        rows.append([v / total for v in w])
    largest, bits = max(max(r) for r in rows), 0
    while bits < 22 and int(0.5 + largest * (1 << (bits + 1))) < 1 << 15:
        bits += 1
    return firsts, [[int(v * (1 << bits) + (0.5 if v >= 0 else -0.5)) for v in r] for r in rows], bits


def resample_rows(rgb, n_out):
    """Along axis 0."""
    if rgb.shape[0] == n_out:
        return rgb
    firsts, rows, bits = torch_weights(rgb.shape[0], n_out)
    out = [(1 << (bits - 1)) + sum(w * rgb[lo + j].astype(np.int64) for j, w in enumerate(row))
           for lo, row in zip(firsts, rows)]
    return np.clip(np.array(out) >> bits, 0, 255).astype(np.uint8)


def make_resized():
    rgb = photo()
    write_ppm("photo.ppm", rgb)
    for width, height in ((64, 32), (64, 27), (35, 64), (20, 13), (20, 27), (35, 9), (5, 3), (96, 7), (1, 1)):
        out = resample_rows(resample_rows(rgb.transpose(1, 0, 2), width).transpose(1, 0, 2), height)
        write_ppm(f"resized-{width}x{height}.ppm", out)
        pillow = np.asarray(Image.fromarray(rgb).resize((width, height), Image.Resampling.BICUBIC)).astype(int)
        assert np.abs(pillow - out).max() <= 1


if __name__ == "__main__":
    os.makedirs(DATA, exist_ok=True)
    for old in os.listdir(DATA):
        if os.path.isfile(path_of(old)):  # tools/make_image_cases.py makes reports/
            os.remove(path_of(old))
    for make in (make_jpeg, make_png, make_webp, make_gif, make_heif, make_tiff, make_bmp, make_pnm, make_resized):
        make()
    print(len(os.listdir(DATA)), "files,", sum(os.path.getsize(path_of(n)) for n in os.listdir(DATA)), "bytes")
