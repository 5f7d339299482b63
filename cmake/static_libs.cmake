# SPDX-License-Identifier: Apache-2.0
# The libraries' .a files with what they need themselves; glibc stays shared, because libheif and the GPU's driver are
# opened at run time.
set(CMAKE_FIND_LIBRARY_SUFFIXES .a)
set(PKG_CONFIG_ARGN --static)
# glibc's own parts have .a files too: found by that name they would go into the program.
foreach(prefix JSONC PCRE2 UTF8PROC TURBOJPEG PNG WEBP ZLIB CRYPTO SQLITE)
  foreach(part m dl pthread)
    set(pkgcfg_lib_${prefix}_${part} ${part} CACHE STRING "glibc's, shared" FORCE)
  endforeach()
endforeach()
