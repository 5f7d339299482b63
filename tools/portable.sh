#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Makes the portable folder, which runs where nothing is installed: tools/portable.sh BUILD DIST writes
# DIST/eyelet-VERSION-linux-x86_64/ and an archive of it (.tar.xz). BUILD must be configured with EY_STATIC_LIBS, so that
# the program needs only glibc. lib/ has the libraries that are opened at run time (libheif, libtiff, libmicrohttpd,
# libcurl and libzstd) and those that they need.
set -euo pipefail
build=$1 dist=$2
here=$(dirname "$0")
version=$("$build/eyelet" --version | cut -d' ' -f2)
name=eyelet-$version-linux-$(uname -m)
out=$dist/$name

# Prints the paths of the shared libraries that a file needs, except glibc's own.
libraries_of() {
  ldd "$1" | awk '$2 == "=>" && $3 ~ /^\// {print $3}' |
    grep -vE '/(libc|libm|libdl|libpthread|librt|libresolv|ld-linux[^/]*)\.so\.[0-9]+$' || true
}

copy_library() { install -m 644 "$(readlink -f "$1")" "$out/lib/$(basename "$1")"; }

# stub_library LIBRARY USER: replaces a library that USER is linked with but does not need by one with empty functions.
# libheif's x265 is an encoder of 16 MB, libtiff's jbig decodes rare fax images, and their GPL would cover the whole
# folder. (libaom stays, because libheif 1.15 decodes AVIF with it and not with dav1d.)
stub_library() {
  local library=$1 user=$2 functions
  functions=$(comm -12 \
    <(nm -D --defined-only "$library" | awk '{sub(/@.*/, "", $3); print $3}' | sort -u) \
    <(nm -D --undefined-only "$out/lib/$user" | awk '{sub(/@.*/, "", $2); print $2}' | sort -u))
  for function in $functions; do echo "void *$function(void) { return 0; }"; done |
    gcc -shared -fPIC -O2 -x c -s -Wl,-soname,"$(basename "$library")" -o "$out/lib/$(basename "$library")" -
}

# Lets Debian 12's libstdc++ run with glibc 2.34. It needs 2.36 only for arc4random, which std::random_device uses. This
# clears the symbol's version, changes the required version from 2.36 to 2.34 (its name and the ELF hash of the name),
# and adds a library with that function.
lower_libstdcxx() {
  local library=$out/lib/libstdc++.so.6
  patchelf --clear-symbol-version arc4random "$library"
  LC_ALL=C sed -i 's/GLIBC_2\.36\x00/GLIBC_2.34\x00/; s/\xb6\x91\x96\x06/\xb4\x91\x96\x06/' "$library"
  gcc -shared -fPIC -O2 -s -Wl,-soname,libarc4random.so.0 -o "$out/lib/libarc4random.so.0" "$here/portable/arc4random.c"
  patchelf --add-needed libarc4random.so.0 "$library"
}

add_heif() {
  local heif library
  heif=$(gcc -print-file-name=libheif.so.1)
  if [ ! -e "$heif" ]; then echo "portable: libheif is not installed, so the folder will not read HEIC and AVIF" >&2; return; fi
  copy_library "$heif"
  for library in $(libraries_of "$heif"); do
    case $(basename "$library") in
      libx265.so.*) stub_library "$library" libheif.so.1 ;;
      libnuma.so.*) ;; # only x265 needs it
      *) copy_library "$library" ;;
    esac
  done
}

add_tiff() {
  local tiff library
  tiff=$(gcc -print-file-name=libtiff.so.6)
  if [ ! -e "$tiff" ]; then echo "portable: libtiff is not installed, so the folder will not read TIFF" >&2; return; fi
  copy_library "$tiff"
  for library in $(libraries_of "$tiff"); do
    case $(basename "$library") in
      libjbig.so.*) stub_library "$library" libtiff.so.6 ;;
      *) copy_library "$library" ;;
    esac
  done
}

# add_opened NAME FEATURE: copies a library that the program opens for FEATURE, and the libraries that it needs.
add_opened() {
  local opened library
  opened=$(gcc -print-file-name="$1")
  if [ ! -e "$opened" ]; then echo "portable: $1 is not installed, so the folder will lack: $2" >&2; return; fi
  for library in "$opened" $(libraries_of "$opened"); do copy_library "$library"; done
}

# Copies the licenses of the folder's libraries from Debian's packages.
add_licences() {
  local package
  for package in libheif1 libtiff6 liblerc4 libdeflate0 liblzma5 libjpeg62-turbo libde265-0 libdav1d6 libaom3 libstdc++6 libgcc-s1 zlib1g libjson-c5 libpcre2-8-0 \
    libutf8proc2 libturbojpeg0 \
    libpng16-16 libwebp7 libgif7 libssl3 libsqlite3-0 libedit2 libtinfo6 libbsd0 libyaml-0-2 libmicrohttpd12 libgnutls30 libnettle8 libhogweed6 libgmp10 \
      libtasn1-6 libp11-kit0 \
    libidn2-0 libunistring2 libffi8 libcurl4 libnghttp2-14 librtmp1 libssh2-1 libpsl5 libgssapi-krb5-2 libkrb5-3 \
      libk5crypto3 \
    libkrb5support0 libcom-err2 libkeyutils1 libldap-2.5-0 libsasl2-2 libzstd1 libbrotli1; do
    [ ! -e "/usr/share/doc/$package/copyright" ] || install -D -m 644 "/usr/share/doc/$package/copyright" \
      "$out/licences/$package"
  done
}

rm -rf "$out" "$out.tar.xz"
mkdir -p "$out/lib"
install -s "$build/eyelet" "$build/eyelet-decode" "$build/mkcheckpoint" "$out/"
patchelf --set-rpath '$ORIGIN/lib' "$out/eyelet" "$out/eyelet-decode"
for library in $(libraries_of "$build/eyelet") $(libraries_of "$build/eyelet-decode") $(libraries_of "$build/mkcheckpoint"); do copy_library "$library"; done
add_heif
add_tiff
[ ! -e "$out/lib/libstdc++.so.6" ] || lower_libstdcxx
add_opened libmicrohttpd.so.12 serve
add_opened libcurl.so.4 'fetching images and --server'
add_opened libzstd.so.1 'compressed requests'
for library in "$out"/lib/*; do patchelf --set-rpath '$ORIGIN' "$library"; done
add_licences
mkdir -p "$out/share/man" "$out/packaging"
cp -r "$build/manual/man1" "$out/share/man/"
cp "$build/manual/eyelet.bash" "$build/manual/_eyelet" "$build/manual/eyelet.fish" "$out/share/"
cp -r docs examples "$out/"
cp -r packaging/grafana packaging/nginx packaging/kubernetes packaging/Containerfile "$out/packaging/"
if [ -e models/demo/config.json ]; then mkdir -p "$out/models" && cp -rL models/demo "$out/models/"; fi
tar -C "$dist" --owner=0 --group=0 --sort=name -cf - "$name" | xz -T0 -6 >"$out.tar.xz"
echo "$out: $(du -sm "$out" | cut -f1) MB; $out.tar.xz: $(($(stat -c %s "$out.tar.xz") / 1000)) kB"
