# SPDX-License-Identifier: Apache-2.0
# Static libraries with their dependencies. glibc stays shared, because libheif and the GPU driver are opened at run
# time.
set(CMAKE_FIND_LIBRARY_SUFFIXES .a)
set(PKG_CONFIG_ARGN --static)
# glibc's parts have .a files, too, and would be linked statically if found by name.
foreach(prefix JSONC PCRE2 UTF8PROC TURBOJPEG PNG WEBP ZLIB CRYPTO SQLITE)
  foreach(part m dl pthread)
    set(pkgcfg_lib_${prefix}_${part} ${part} CACHE STRING "glibc's, shared" FORCE)
  endforeach()
endforeach()
