# SPDX-License-Identifier: Apache-2.0
"""Converts the image types of Python programs to the bytes of an image file, which the engine decodes."""
from __future__ import annotations

import base64
import binascii
import io
import os
import struct
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Optional, Protocol, Union
from urllib.parse import unquote, urlsplit

from .errors import BadRequestError


class ArrayImage(Protocol):
    """The interface of numpy's arrays."""

    @property
    def __array_interface__(self) -> dict[str, Any]: ...


class PilImage(Protocol):
    """The interface of PIL's images."""

    @property
    def mode(self) -> str: ...

    def save(self, fp: Any, format: Optional[str] = ..., **params: Any) -> None: ...


#: A path, the bytes of a file, a PIL image, or a numpy array (uint8, height x width x 3).
Image = Union[str, "os.PathLike[str]", bytes, bytearray, memoryview, ArrayImage, PilImage]
Images = Union[Image, Sequence[Image]]


def _png_chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def _png(width: int, height: int, rgb: bytes) -> bytes:
    """Returns a PNG without compression, because it is decoded immediately."""
    stride = 3 * width
    rows = b"".join(b"\0" + rgb[i * stride:(i + 1) * stride] for i in range(height))
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return (b"\x89PNG\r\n\x1a\n" + _png_chunk(b"IHDR", head) + _png_chunk(b"IDAT", zlib.compress(rows, 0))
            + _png_chunk(b"IEND", b""))


def _of_array(array: Any) -> bytes:
    view = memoryview(array)
    if view.format != "B" or view.ndim != 3 or view.shape is None or view.shape[2] != 3 or 0 in view.shape:
        raise TypeError("an array must be uint8, height x width x 3 (RGB); this one is "
                        f"{getattr(array, 'dtype', view.format)}, {' x '.join(map(str, view.shape or ()))}")
    return _png(view.shape[1], view.shape[0], view.tobytes())


def _of_pil(image: Any) -> bytes:
    if image.mode not in ("L", "RGB", "RGBA"):
        transparent = image.mode in ("LA", "PA", "La", "RGBa") or "transparency" in image.info
        image = image.convert("RGBA" if transparent else "RGB")
    out = io.BytesIO()
    image.save(out, "PNG", compress_level=0)
    return out.getvalue()


def _of_url(url: str) -> bytes:
    """Reads a data: or file: URL, as image_url has it in the OpenAI API."""
    if url.startswith("data:"):
        head, comma, data = url.partition(",")
        if not comma or not head.endswith(";base64"):
            raise BadRequestError("a data URL must be data:image/...;base64,...")
        try:
            return base64.b64decode(data, validate=True)
        except binascii.Error as error:
            raise BadRequestError(f"a data URL's base64 is damaged: {error}") from None
    if url.startswith("file:"):
        return Path(unquote(urlsplit(url).path)).read_bytes()
    raise BadRequestError(f"{url[:80]}: this package does not download images; pass the image's bytes, or use a server "
                          "(eyelet serve)")


def bytes_of(image: Any) -> bytes:
    if isinstance(image, bytes):
        return image
    if isinstance(image, str) and image.startswith(("data:", "file:", "http:", "https:")):
        return _of_url(image)
    if isinstance(image, (str, os.PathLike)):
        return Path(image).read_bytes()
    if hasattr(image, "__array_interface__") and not hasattr(image, "save"):
        return _of_array(image)
    if hasattr(image, "mode") and hasattr(image, "save"):
        return _of_pil(image)
    if isinstance(image, (bytearray, memoryview)):
        return bytes(image)
    raise TypeError("an image is a path, bytes, a PIL image or a numpy array (uint8, height x width x 3), not "
                    f"{type(image).__name__}")
