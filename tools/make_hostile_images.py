#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the images of tests/abuse/data, small files that take much memory and time to decode:
tools/make_hostile_images.py [FOLDER]. Needs pillow (with AVIF) and pillow-heif from PyPI, and some minutes.

claims-64.avif      8192x8192 pixels, while the header says 64x64
claims-itself.avif  the same image with a true header
grid-64.heic        64 tiles of 1536x1536 that share one frame, while the header says 64x64
grid-honest.heic    the same image with a true header
"""
import io
import struct
import sys

import pillow_heif
from PIL import Image

pillow_heif.register_heif_opener()


def encoded(size, form, **options):
    out = io.BytesIO()
    Image.new('RGB', (size, size), (90, 120, 30)).save(out, form, quality=10, **options)
    return out.getvalue()


def box(name, *parts):
    body = b''.join(parts)
    return struct.pack('>I', 8 + len(body)) + name + body


def full_box(name, version, flags, *parts):
    return box(name, struct.pack('>I', version << 24 | flags), *parts)


def boxes(data, at=0):
    """Yields (name, body) of each box from offset `at` on."""
    while at + 8 <= len(data):
        size, name = struct.unpack('>I4s', data[at:at + 8])
        size = size or len(data) - at
        yield name, data[at + 8:at + size]
        at += size


def find(data, *path):
    for name, body in boxes(data):
        if name == path[0]:
            body = body[4:] if name == b'meta' else body
            return find(body, *path[1:]) if path[1:] else body
    raise KeyError(path)


def with_claimed_size(data, width, height):
    """Returns the file with this size in all ispe properties."""
    at = data.find(b'ispe')
    while at >= 0:
        data = data[:at + 8] + struct.pack('>II', width, height) + data[at + 16:]
        at = data.find(b'ispe', at + 4)
    return data


def grid_of(tile, columns, rows, tile_size, claimed):
    """Returns a grid whose tiles all share the frame of the HEIC file `tile`."""
    hvcc = find(tile, b'meta', b'iprp', b'ipco', b'hvcC')
    frame = find(tile, b'mdat')
    n = columns * rows
    width, height = claimed or (columns * tile_size, rows * tile_size)
    grid = struct.pack('>BBBBII', 0, 1, rows - 1, columns - 1, width, height)
    ftyp = box(b'ftyp', b'heic\0\0\0\0mif1heic')
    infe = lambda i, kind: full_box(b'infe', 2, 0, struct.pack('>HH', i, 0), kind, b'\0')
    ispe = lambda w, h: full_box(b'ispe', 0, 0, struct.pack('>II', w, h))

    def meta(mdat_at):
        items = [infe(1, b'grid')] + [infe(i, b'hvc1') for i in range(2, n + 2)]
        places = [struct.pack('>HHHHII', 1, 1, 0, 1, 0, len(grid))]  # in idat
        places += [struct.pack('>HHHHII', i, 0, 0, 1, mdat_at, len(frame)) for i in range(2, n + 2)]
        own = struct.pack('>HBB', 1, 1, 1)
        return full_box(
            b'meta', 0, 0, full_box(b'hdlr', 0, 0, b'\0\0\0\0pict' + bytes(13)),
            full_box(b'pitm', 0, 0, struct.pack('>H', 1)),
            full_box(b'iinf', 0, 0, struct.pack('>H', n + 1), *items),
            full_box(b'iref', 0, 0, box(b'dimg', struct.pack(f'>HH{n}H', 1, n, *range(2, n + 2)))),
            box(b'iprp', box(b'ipco', ispe(width, height), ispe(tile_size, tile_size), box(b'hvcC', hvcc)),
                full_box(b'ipma', 0, 0, struct.pack('>I', n + 1), own,
                         *[struct.pack('>HBBB', i, 2, 2, 0x80 | 3) for i in range(2, n + 2)])),
            full_box(b'iloc', 1, 0, struct.pack('>HH', 0x4400, n + 1), *places), box(b'idat', grid))

    mdat_at = len(ftyp) + len(meta(0)) + 8
    return ftyp + meta(mdat_at) + box(b'mdat', frame)


def main():
    folder = sys.argv[1] if len(sys.argv) > 1 else 'tests/abuse/data'
    avif = encoded(8192, 'AVIF', speed=10)
    heic = encoded(1536, 'HEIF')
    files = {'claims-64.avif': with_claimed_size(avif, 64, 64), 'claims-itself.avif': avif,
             'grid-64.heic': grid_of(heic, 8, 8, 1536, (64, 64)), 'grid-honest.heic': grid_of(heic, 8, 8, 1536, None)}
    for name, data in files.items():
        with open(f'{folder}/{name}', 'wb') as out:
            out.write(data)
        print(name, len(data), 'bytes')


if __name__ == '__main__':
    main()
