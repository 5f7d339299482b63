#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes tests/image/data/reports: images as phones and programs write them, which some decoders fail to read.

Each image NAME has a file NAME.ppm with the RGB that the reference decodes: Pillow (for HEIC pillow_heif), rotated by
exif_transpose and composited on white. If the reference cannot read a file whose pixels are all there, it decodes the
complete file instead. Run in a virtual environment with Pillow 13 and pillow_heif 1.8:

    python tools/make_image_cases.py [fuzz corpus folder to copy the images to, without their PPM]
"""
import io
import os
import shutil
import struct
import sys
import zlib

import numpy as np
import pillow_heif
from PIL import Image, ImageOps

pillow_heif.register_heif_opener()
DATA = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tests", "image", "data", "reports")


def photo(width, height, seed=1):
    """Returns gradients, an edge and noise. No two rows, columns or corners are equal."""
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[0:height, 0:width]
    rgb = np.stack([x * 255 // (width - 1), y * 255 // (height - 1), (x * 7 + y * 11) % 256], axis=-1)
    rgb[height // 4:height // 2, width // 3:width // 2] = (250, 20, 40)
    return np.clip(rgb + rng.integers(-20, 21, rgb.shape), 0, 255).astype(np.uint8)


def saved(im, kind, **options):
    out = io.BytesIO()
    im.save(out, kind, **options)
    return out.getvalue()


def decoded(content):
    im = ImageOps.exif_transpose(Image.open(io.BytesIO(content)))
    if im.has_transparency_data:
        im = im.convert("RGBA")
        page = Image.new("RGB", im.size, (255, 255, 255))
        page.paste(im, mask=im.getchannel("A"))
        im = page
    return im.convert("RGB")


def add(name, content, complete=None):
    """Writes an image and its PPM. `complete`: the file for the reference if it cannot read `content`."""
    with open(os.path.join(DATA, name), "wb") as f:
        f.write(content)
    im = decoded(complete or content)
    with open(os.path.join(DATA, name + ".ppm"), "wb") as f:
        f.write(b"P6\n%d %d\n255\n" % im.size + im.tobytes())


# ---- orientation ----

SMALL = Image.fromarray(photo(19, 13))


def exif(order, kind, count, value, behind=b"", tag=0x112):
    """Returns a TIFF block with one tag before the orientation and one after it."""
    mark = {"<": b"II*\0", ">": b"MM\0*"}[order]
    entries = [(0x100, 4, 1, struct.pack(order + "I", 64)), (tag, kind, count, value),
               (0x128, 3, 1, struct.pack(order + "HH", 2, 0))]
    body = b"".join(struct.pack(order + "HHI", *e[:3]) + e[3] for e in entries)
    return mark + struct.pack(order + "IH", 8, 3) + body + struct.pack(order + "I", 0) + behind


BEHIND = 8 + 2 + 3 * 12 + 4  # offset of `behind`
NO_ORIENTATION = exif("<", 3, 1, struct.pack("<HH", 1, 0), tag=0x103)


def xmp(orientation, form="attribute"):
    inner = {"attribute": b'<rdf:Description tiff:Orientation="%d"/>' % orientation,
             "element": b"<rdf:Description><tiff:Orientation>%d</tiff:Orientation></rdf:Description>" % orientation}
    return b'<x:xmpmeta xmlns:x="adobe:ns:meta/"><rdf:RDF>%s</rdf:RDF></x:xmpmeta>' % inner[form]


def segment(body, marker=0xe1):
    return struct.pack(">BBH", 0xff, marker, len(body) + 2) + body


def jpeg_with(*blocks):
    jpeg = saved(SMALL, "JPEG", quality=90)
    return jpeg[:2] + b"".join(segment(b) for b in blocks) + jpeg[2:]


def make_jpeg_orientation():
    e, x = b"Exif\0\0", b"http://ns.adobe.com/xap/1.0/\0"
    add("exif-long.jpg", jpeg_with(e + exif("<", 4, 1, struct.pack("<I", 8))))
    add("exif-slong.jpg", jpeg_with(e + exif(">", 9, 1, struct.pack(">i", 6))))
    add("exif-sshort.jpg", jpeg_with(e + exif(">", 8, 1, struct.pack(">hh", 5, 0))))
    add("exif-sbyte.jpg", jpeg_with(e + exif("<", 6, 1, b"\7\0\0\0")))
    add("exif-byte.jpg", jpeg_with(e + exif("<", 1, 1, b"\6\0\0\0")))  # Pillow reads a byte as text and does not rotate
    add("exif-ifd.jpg", jpeg_with(e + exif("<", 13, 1, struct.pack("<I", 3))))
    add("exif-long8.jpg", jpeg_with(e + exif(">", 16, 1, struct.pack(">I", BEHIND), struct.pack(">Q", 6))))
    add("exif-two.jpg", jpeg_with(e + exif("<", 4, 2, struct.pack("<I", BEHIND), struct.pack("<II", 6, 1))))
    add("exif-prefix-twice.jpg", jpeg_with(e + e + exif(">", 3, 1, struct.pack(">HH", 8, 0))))
    add("exif-short-big.jpg", jpeg_with(e + exif(">", 3, 1, struct.pack(">HH", 6, 0))))
    add("exif-unknown-type-xmp-6.jpg", jpeg_with(e + exif("<", 99, 1, b"\3\0\0\0"), x + xmp(6)))
    add("exif-zero-xmp-6.jpg", jpeg_with(e + exif("<", 3, 1, b"\0\0\0\0"), x + xmp(6)))
    add("exif-1-xmp-8.jpg", jpeg_with(x + xmp(8), e + exif("<", 3, 1, b"\1\0\0\0")))
    add("exif-none-xmp-8.jpg", jpeg_with(e + NO_ORIENTATION, x + xmp(8)))
    add("xmp-attribute.jpg", jpeg_with(x + xmp(6)))
    add("xmp-element.jpg", jpeg_with(x + xmp(5, "element")))
    add("xmp-two.jpg", jpeg_with(x + xmp(6), x + xmp(3)))
    add("xmp-quoted-otherwise.jpg", jpeg_with(x + xmp(6).replace(b'"6"', b"'6'")))


def make_webp_orientation():
    add("xmp.webp", saved(SMALL, "WEBP", quality=70, xmp=xmp(6)))
    add("exif-long-xmp.webp", saved(SMALL, "WEBP", quality=70, xmp=xmp(3),
                                    exif=exif("<", 4, 1, struct.pack("<I", 8))))


# ---- PNG ----

def chunk(kind, body, checksum=None):
    right = zlib.crc32(kind + body)
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", right if checksum is None else checksum)


def raw_profile(block):
    """Returns a profile as ImageMagick wrote it: the number of bytes, then hexadecimal digits of 36 bytes a line."""
    digits = (b"Exif\0\0" + block).hex()
    lines = "\n".join(digits[i:i + 72] for i in range(0, len(digits), 72))
    return ("\nexif\n%8d\n%s\n" % (len(block) + 6, lines)).encode()


def text(kind, keyword, value):
    packed = zlib.compress(value)
    fields = {"tEXt": b"\0" + value, "zTXt": b"\0\0" + packed, "iTXt": b"\0\0\0\0\0" + value,
              "iTXt packed": b"\0\1\0en\0Key\0" + packed}
    return chunk(kind[:4].encode(), keyword + fields[kind])


def png_with(before=b"", behind=b"", data=None, idat=None):
    rgb = np.asarray(SMALL)
    data = data or zlib.compress(b"".join(b"\0" + row.tobytes() for row in rgb), 9)
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", rgb.shape[1], rgb.shape[0], 8, 2, 0, 0, 0)) +
            before + (idat or chunk(b"IDAT", data)) + behind + chunk(b"IEND", b""))


def make_png():
    key, profile = b"XML:com.adobe.xmp", b"Raw profile type exif"
    turned = raw_profile(exif(">", 3, 1, struct.pack(">HH", 6, 0)))
    add("xmp.png", png_with(text("iTXt", key, xmp(6))))
    add("xmp-packed-behind.png", png_with(behind=text("iTXt packed", key, xmp(8, "element"))))
    add("xmp-ztxt.png", png_with(text("zTXt", key, xmp(7))))
    add("xmp-elsewhere.png", png_with(text("tEXt", b"Comment", xmp(7))))
    add("profile-text.png", png_with(text("tEXt", profile, turned)))
    add("profile-packed.png", png_with(text("zTXt", profile, raw_profile(exif("<", 4, 1, struct.pack("<I", 8))))))
    add("profile-behind-xmp.png", png_with(text("iTXt", key, xmp(8)), text("zTXt", profile, turned)))
    add("profile-none-xmp-5.png", png_with(text("tEXt", profile, raw_profile(NO_ORIENTATION)) +
                                           text("iTXt", key, xmp(5))))
    add("exif-before-profile.png", png_with(text("zTXt", profile, turned) +
                                            chunk(b"eXIf", exif("<", 3, 1, struct.pack("<HH", 3, 0)))))
    add("exif-none-profile-6-xmp-3.png", png_with(text("zTXt", profile, turned) + chunk(b"eXIf", NO_ORIENTATION) +
                                                  text("iTXt", key, xmp(3))))
    make_lenient_png()


def make_lenient_png():
    raw = b"".join(b"\0" + row.tobytes() for row in np.asarray(SMALL)[:, ::-1])
    raw += b"".join(b"\0" + row.tobytes() for row in np.asarray(SMALL)[:, ::-1])
    rgb = np.vstack([np.asarray(SMALL)[:, ::-1]] * 2)
    packed = zlib.compress(raw, 9)  # the second half repeats the first, 754 bytes earlier
    small = bytes([0x08, 31 - 0x08 * 256 % 31]) + packed[2:]  # a window of 256 bytes
    ihdr = chunk(b"IHDR", struct.pack(">IIBBBBB", rgb.shape[1], rgb.shape[0], 8, 2, 0, 0, 0))
    start, end = b"\x89PNG\r\n\x1a\n" + ihdr, chunk(b"IEND", b"")
    add("window-256.png", start + chunk(b"IDAT", small) + end)
    third = len(packed) // 3
    parts = [packed[:third], packed[third:2 * third], packed[2 * third:]]
    add("idat-checksum.png", start + chunk(b"IDAT", packed, 0x12345678) + end)
    add("idat-checksums.png", start + b"".join(chunk(b"IDAT", p, i) for i, p in enumerate(parts)) + end)
    add("window-and-checksum.png", start + chunk(b"IDAT", small, 0) + end)


# ---- JPEG without its end ----

def make_jpeg_without_end():
    im = Image.fromarray(photo(35, 27))
    trailer = b"\0\0" + b"PanoramaInfo\1\2" * 9 + b"SEFH\x6b\0\0\0\1\0\0\0SEFT"
    inner = trailer + saved(SMALL, "JPEG") + b"SEFT"
    cmyk = Image.fromarray(np.dstack([photo(35, 27, 2), photo(35, 27, 3)[..., 0]]), "CMYK")
    for name, image, options in (("cmyk", cmyk, {}), ("gray", im.convert("L"), {}), ("444", im, {"subsampling": 0}),
                                 ("422", im, {"subsampling": 1}), ("420", im, {"subsampling": 2}),
                                 ("restart", im, {"subsampling": 2, "restart_marker_blocks": 1})):
        jpeg = saved(image, "JPEG", quality=85, **options)
        assert jpeg[-2:] == b"\xff\xd9"
        add(f"no-end-{name}.jpg", jpeg[:-2] + trailer, jpeg)
        if name in ("420", "restart"):
            add(f"no-end-bare-{name}.jpg", jpeg[:-2], jpeg)
    add("no-end-inner.jpg", jpeg[:-2] + inner, jpeg)
    add("no-end-restarts-behind.jpg", saved(im, "JPEG")[:-2] + b"\0" * 9 + b"\xff\xd3\xff\0" * 4, saved(im, "JPEG"))
    add("no-end-segment.jpg", jpeg[:-2] + segment(b"camera", 0xe5), jpeg)


# ---- HEIC, AVIF ----

def box(kind, *parts):
    body = b"".join(parts)
    return struct.pack(">I", len(body) + 8) + kind + body


def full(kind, version, *parts):
    return box(kind, struct.pack(">I", version << 24), *parts)


def boxes(data, at=0):
    while at + 8 <= len(data):
        size, kind = struct.unpack_from(">I4s", data, at)
        yield kind, data[at + 8:at + size], data[at:at + size]
        at += size


def child(data, *path):
    for kind in path:
        data = next(body for k, body, _ in boxes(data) if k == kind)
        data = data[4:] if kind == b"meta" else data
    return data


def coded_items(content):
    """Returns the coded images of an encoder's file in order: type, payload and properties of each."""
    meta = child(content, b"meta")
    properties = [whole for _, _, whole in boxes(child(meta, b"iprp", b"ipco"))]
    types = {struct.unpack_from(">H", b, 4)[0]: b[8:12] for _, b, _ in boxes(child(meta, b"iinf")[6:])}
    ipma, of, at = child(meta, b"iprp", b"ipma"), {}, 8
    while at < len(ipma):
        item, n = struct.unpack_from(">HB", ipma, at)
        of[item] = [properties[(v & 127) - 1] for v in ipma[at + 3:at + 3 + n]]
        at += 3 + n
    iloc, items, at = child(meta, b"iloc"), [], 8
    assert iloc[4] == 0x44 and iloc[5] >> 4 in (0, 4)
    for _ in range(struct.unpack_from(">H", iloc, 6)[0]):
        item = struct.unpack_from(">H", iloc, at)[0]
        at += 6 if iloc[0] else 4
        base = struct.unpack_from(">I", iloc, at)[0] if iloc[5] >> 4 else 0
        at += iloc[5] >> 4
        count, offset, size = struct.unpack_from(">HII", iloc, at)
        assert count == 1
        at += 10
        offset += base
        if types[item] in (b"hvc1", b"av01"):
            items.append((types[item], content[offset:offset + size], of[item]))
    return items


def heif(brand, items, references, primary=1, wide=False, open_end=False):
    """Returns a file of items {id: (type, payload, properties)} and references [(type, from, [to, ...])].

    wide: ids have 32 bits. open_end: the data's box has size 0, so it extends to the end of the file."""
    ids = ">I" if wide else ">H"

    def item_id(i):
        return struct.pack(ids, i)
    known, essential = [], (b"hvcC", b"av1C", b"irot", b"imir", b"clap")
    for _, _, properties in items.values():
        known += [p for p in properties if p not in known]
    infe = [full(b"infe", 3 if wide else 2, item_id(i), b"\0\0", kind, b"\0",
                 b"application/rdf+xml\0" if kind == b"mime" else b"") for i, (kind, _, _) in items.items()]
    ipma = b"".join(item_id(i) + bytes([len(p)]) + bytes(known.index(q) + 1 | 128 * (q[4:8] in essential) for q in p)
                    for i, (_, _, p) in items.items() if p)
    n_owners = sum(1 for _, _, p in items.values() if p)
    iref = b"".join(box(kind, item_id(a), struct.pack(">H", len(to)), *map(item_id, to)) for kind, a, to in references)

    def meta(start):
        entries = b""
        for i, (_, payload, _) in items.items():
            entries += item_id(i) + struct.pack(">HHHII", 0, 0, 1, start, len(payload))
            start += len(payload)
        iloc = full(b"iloc", 2 if wide else 1, b"\x44\0", struct.pack(">I" if wide else ">H", len(items)), entries)
        return full(b"meta", 0, full(b"hdlr", 0, b"\0\0\0\0pict", b"\0" * 13),
                    full(b"pitm", int(wide), item_id(primary)), iloc,
                    full(b"iinf", 0, struct.pack(">H", len(items)), *infe), full(b"iref", int(wide), iref),
                    box(b"iprp", box(b"ipco", *known), full(b"ipma", int(wide), struct.pack(">I", n_owners), ipma)))
    brands = {b"heic": b"heicmif1heic", b"avif": b"avifmif1avif"}[brand]
    head = box(b"ftyp", brands[:4], b"\0\0\0\0", brands[4:])
    mdat = box(b"mdat", *[payload for _, payload, _ in items.values()])
    if open_end:
        mdat = b"\0\0\0\0" + mdat[4:]
    return head + meta(len(head) + len(meta(0)) + 8) + mdat


def coded(pixels, kind):
    options = {"HEIF": {"chroma": 444, "quality": 92}, "AVIF": {"subsampling": "4:4:4", "quality": 92}}[kind]
    return coded_items(saved(Image.fromarray(pixels), kind, **options))


GAIN_MAP = full(b"auxC", 0, b"urn:com:apple:photo:2020:aux:hdrgainmap\0")
IROT = box(b"irot", b"\1")
TONE_MAP = (b"tmap", b"\0" * 62, [])


def exif_item(orientation=1):
    return b"Exif", b"\0\0\0\6Exif\0\0" + exif(">", 3, 1, struct.pack(">HH", orientation, 0)), []


def plus(item, *properties):
    return item[0], item[1], item[2] + list(properties)


def make_heif():
    rgb, gain = photo(48, 32), np.repeat(photo(24, 16, 3)[..., :1], 3, axis=2)
    y, x = np.mgrid[0:32, 0:48]
    alpha = np.clip((x - 8) * 9, 0, 255).astype(np.uint8)[..., None]
    for kind, brand, end in (("HEIF", b"heic", "heic"), ("AVIF", b"avif", "avif")):
        image, = coded(rgb, kind)
        other, = coded(photo(48, 32, 9), kind)
        gain_map = plus(coded(gain, kind)[0], GAIN_MAP)
        tile, second = coded(photo(64, 64), kind)[0], coded(photo(64, 64, 4), kind)[0]
        color, cover = coded(np.dstack([rgb, alpha]), kind)
        multiplied = ((rgb.astype(int) * alpha + 127) // 255).astype(np.uint8)
        dark, dark_cover = coded(np.dstack([multiplied, alpha]), kind)
        items = {1: image, 2: gain_map, 3: TONE_MAP, 4: exif_item()}
        tone = (b"dimg", 3, [1, 2])
        add(f"gain-map.{end}", heif(brand, items, [tone, (b"auxl", 2, [1, 3]), (b"cdsc", 4, [1, 3])]))
        add(f"gain-map-other-order.{end}", heif(brand, items, [(b"cdsc", 4, [3, 1]), (b"auxl", 2, [3, 1]), tone],
                                                open_end=True))
        turned = {1: plus(image, IROT), 2: plus(gain_map, IROT), 3: TONE_MAP, 4: exif_item(8),
                  5: (b"mime", xmp(8), []), 6: plus(coded(gain, kind)[0], IROT), 7: other}
        add(f"thumbnail-of-two.{end}", heif(brand, turned, [
            tone, (b"thmb", 6, [1, 7]), (b"cdsc", 5, [3, 1]), (b"cdsc", 4, [3]), (b"auxl", 2, [1, 3])]))
        add(f"alpha-of-two.{end}", heif(brand, {1: color, 2: cover, 3: TONE_MAP}, [
            (b"dimg", 3, [1]), (b"auxl", 2, [3, 1])]))
        add(f"premultiplied.{end}", heif(brand, {1: dark, 2: dark_cover}, [(b"auxl", 2, [1]), (b"prem", 1, [2])]))
        add(f"premultiplied-of-two.{end}", heif(brand, {1: dark, 2: dark_cover, 3: TONE_MAP, 4: exif_item()}, [
            (b"prem", 1, [2]), (b"auxl", 2, [3, 1]), (b"dimg", 3, [1]), (b"cdsc", 4, [1, 3])]))
        if kind == "AVIF":  # libheif refuses such HEIC files
            add("gone.avif", heif(brand, items, [(b"cdsc", 4, [1, 99]), (b"auxl", 2, [98, 1]), (b"thmb", 2, [97])]))
        wide = {70001: image, 70002: gain_map, 70003: TONE_MAP, 70004: exif_item()}
        add(f"wide-ids.{end}", heif(brand, wide, [
            (b"dimg", 70003, [70001, 70002]), (b"auxl", 70002, [70001, 70003]), (b"cdsc", 70004, [70003, 70001])],
            70001, True))
        grid = (b"grid", struct.pack(">BBBBHH", 0, 0, 0, 1, 128, 64),
                [full(b"ispe", 0, struct.pack(">II", 128, 64))] + [p for p in tile[2] if p[4:8] in (b"pixi", b"colr")])
        add(f"grid.{end}", heif(brand, {1: tile, 2: second, 3: grid, 4: gain_map, 5: TONE_MAP, 6: exif_item()}, [
            (b"dimg", 3, [1, 2]), (b"auxl", 4, [3, 5]), (b"dimg", 5, [3, 4]), (b"cdsc", 6, [3, 5])], 3))


if __name__ == "__main__":
    shutil.rmtree(DATA, ignore_errors=True)
    os.makedirs(DATA)
    for make in (make_jpeg_orientation, make_webp_orientation, make_png, make_jpeg_without_end, make_heif):
        make()
    names = sorted(os.listdir(DATA))
    for name in names:
        if len(sys.argv) > 1 and not name.endswith(".ppm"):
            shutil.copy(os.path.join(DATA, name), sys.argv[1])
    print(len(names), "files,", sum(os.path.getsize(os.path.join(DATA, n)) for n in names), "bytes")
