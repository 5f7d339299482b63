#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Builds the wheel: build_wheel.py PORTABLE LIBRARY DIST.

PORTABLE is the folder that `make portable` wrote: its programs, and the libraries and models that they open, go into
eyelet/_native. LIBRARY is libeyelet.so.0 of a build with shared libraries. The libraries that it needs go into
eyelet.libs with unique names, as auditwheel does, so that the loader does not use another package's copy instead.
The wheel's tag is the newest glibc that any file needs. Needs patchelf, strip, objdump and the standard library."""
from __future__ import annotations

import base64
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
GLIBC = re.compile(r"(libc|libm|libdl|libpthread|librt|libresolv|ld-linux[^.]*)\.so\.\d+$")
OLDEST, NEWEST = 34, 35  # glibc 2.x, as portable_check.sh allows
NEVER_IN_PYTHON = ("libstdc++", "libheif", "libtiff", "libcurl", "libmicrohttpd")


def run(*command: object) -> str:
    return subprocess.run([str(part) for part in command], check=True, stdout=subprocess.PIPE, text=True).stdout


def libraries_of(file: Path) -> dict[str, Path]:
    """Returns the libraries that a file needs, directly or indirectly, by soname, except glibc's."""
    found = {}
    for line in run("ldd", file).splitlines():
        match = re.match(r"\s*(\S+) => (/\S+)", line)
        if match and not GLIBC.search(match[1]):
            found[match[1]] = Path(match[2]).resolve()
    return found


def copyright_of(library: Path) -> Path | None:
    """Returns the copyright file of the Debian package that contains a library, or None."""
    for path in (library, Path(str(library).replace("/usr/lib/", "/lib/", 1))):
        result = subprocess.run(["dpkg-query", "-S", str(path)], stdout=subprocess.PIPE, text=True,
                                stderr=subprocess.DEVNULL)
        if result.returncode == 0:
            package = result.stdout.split(":")[0]
            return Path("/usr/share/doc", package, "copyright")
    return None


def add_library(stage: Path, library: Path, licences: Path) -> None:
    """Adds libeyelet, and with unique names the libraries that it needs."""
    libs = stage / "eyelet.libs"
    libs.mkdir()
    ours = stage / "eyelet/_native/libeyelet.so.0"
    shutil.copy(library, ours)
    run("strip", "--strip-unneeded", ours)
    needed = libraries_of(library)
    for name in needed:
        if name.startswith(NEVER_IN_PYTHON):
            sys.exit(f"build_wheel: {name} would be loaded into Python")
    renamed = {}
    for name, path in needed.items():
        digest = hashlib.sha256(path.read_bytes()).hexdigest()[:8]
        stem, _, rest = name.partition(".so")
        renamed[name] = f"{stem}-{digest}.so{rest}"
        shutil.copy(path, libs / renamed[name])
        notice = copyright_of(path)
        if notice and notice.exists():
            shutil.copy(notice, licences / notice.parent.name)
    for file in [ours, *(libs / name for name in renamed.values())]:
        file.chmod(0o755)
        needs = run("patchelf", "--print-needed", file).split()
        for name in needs:
            if name in renamed:
                run("patchelf", "--replace-needed", name, renamed[name], file)
        where = "$ORIGIN/../../eyelet.libs" if file == ours else "$ORIGIN"
        run("patchelf", "--force-rpath", "--set-rpath", where, file)
        if file != ours:
            run("patchelf", "--set-soname", file.name, file)


def add_program(stage: Path, portable: Path, licences: Path) -> None:
    native = stage / "eyelet/_native"
    for name in ("eyelet", "eyelet-decode"):
        shutil.copy(portable / name, native / name)
    shutil.copytree(portable / "lib", native / "lib")
    shutil.copytree(portable / "models", native / "models")
    for notice in sorted((portable / "licences").iterdir()):
        shutil.copy(notice, licences / notice.name)


def is_elf(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(4) == b"\x7fELF"


def newest_glibc(stage: Path) -> int:
    newest = OLDEST
    for path in sorted(stage.rglob("*")):
        if path.is_file() and is_elf(path):
            minors = [int(minor) for minor in re.findall(r"GLIBC_2\.(\d+)", run("objdump", "-p", path))]
            if max(minors, default=0) > NEWEST:
                sys.exit(f"build_wheel: {path.name} needs glibc 2.{max(minors)}; 2.{NEWEST} is allowed")
            newest = max([newest, *minors])
    return newest


def write_info(stage: Path, version: str, tag: str) -> Path:
    info = stage / f"eyelet-{version}.dist-info"
    licences = sorted(path.name for path in (info / "licenses").iterdir())
    head = [
        "Metadata-Version: 2.4", "Name: eyelet", f"Version: {version}",
        "Summary: Vision-language models on an NVIDIA GPU or a CPU, in this process or as a server",
        "License-Expression: Apache-2.0", *(f"License-File: {name}" for name in licences),
        "Requires-Python: >=3.9", "Provides-Extra: images", "Requires-Dist: numpy; extra == \"images\"",
        "Requires-Dist: pillow; extra == \"images\"", "Provides-Extra: pydantic",
        "Requires-Dist: pydantic; extra == \"pydantic\"", "Classifier: Operating System :: POSIX :: Linux",
        "Classifier: Programming Language :: Python :: 3", "Classifier: Typing :: Typed",
        "Description-Content-Type: text/markdown", "", (HERE / "README.md").read_text(encoding="utf-8"),
    ]
    (info / "METADATA").write_text("\n".join(head), encoding="utf-8")
    (info / "WHEEL").write_text(f"Wheel-Version: 1.0\nGenerator: eyelet\nRoot-Is-Purelib: false\nTag: {tag}\n")
    (info / "entry_points.txt").write_text("[console_scripts]\neyelet = eyelet._program:main\n")
    return info


def write_wheel(stage: Path, info: Path, out: Path) -> None:
    """Writes a reproducible wheel: names are sorted, and all files have the same date."""
    files = sorted(path for path in stage.rglob("*") if path.is_file())
    record = info / "RECORD"
    lines = []
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        def add(path: Path, data: bytes) -> None:
            name = path.relative_to(stage).as_posix()
            entry = zipfile.ZipInfo(name, (2020, 1, 1, 0, 0, 0))
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = (0o100755 if os.access(path, os.X_OK) else 0o100644) << 16
            archive.writestr(entry, data)

        for path in files:
            data = path.read_bytes()
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            lines.append(f"{path.relative_to(stage).as_posix()},sha256={digest},{len(data)}")
            add(path, data)
        lines.append(f"{record.relative_to(stage).as_posix()},,")
        add(record, ("\n".join(lines) + "\n").encode())


def main() -> None:
    portable, library, dist = (Path(argument).resolve() for argument in sys.argv[1:4])
    version = run(portable / "eyelet", "--version").split()[1]
    with tempfile.TemporaryDirectory() as folder:
        stage = Path(folder)
        shutil.copytree(HERE / "eyelet", stage / "eyelet", ignore=shutil.ignore_patterns("__pycache__", "_native"))
        (stage / "eyelet/_native").mkdir()
        licences = stage / f"eyelet-{version}.dist-info/licenses"
        licences.mkdir(parents=True)
        for name in ("LICENSE", "NOTICE"):
            shutil.copy(ROOT / name, licences / name)
        add_program(stage, portable, licences)
        add_library(stage, library, licences)
        tag = f"py3-none-manylinux_2_{newest_glibc(stage)}_x86_64"
        info = write_info(stage, version, tag)
        dist.mkdir(parents=True, exist_ok=True)
        for old in dist.glob("eyelet-*.whl"):
            old.unlink()
        out = dist / f"eyelet-{version}-{tag}.whl"
        write_wheel(stage, info, out)
        print(f"{out}: {out.stat().st_size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
