# SPDX-License-Identifier: Apache-2.0
# Makes the C table of the page's files that src/server/page/page_files.h declares:
#   cmake -DFOLDER=src/server/page -DFILES="index.html,app.js" -DOUT=page_files.c -P embed_page.cmake
# A file with an absolute path is served under its file name.
set(types html "text/html\; charset=utf-8" css "text/css\; charset=utf-8" js "text/javascript\; charset=utf-8" svg image/svg+xml
  png image/png webmanifest application/manifest+json json application/json)
string(REPLACE "," ";" files "${FILES}")
set(bytes "")
set(table "")
set(n 0)
foreach(file ${files})
  string(REGEX REPLACE ".*\\." "" extension ${file})
  list(FIND types ${extension} at)
  if(at EQUAL -1)
    message(FATAL_ERROR "embed_page.cmake: unknown content type of ${file}")
  endif()
  math(EXPR at "${at} + 1")
  list(GET types ${at} type)
  set(source ${FOLDER}/${file})
  if(IS_ABSOLUTE ${file})
    set(source ${file})
    get_filename_component(file ${file} NAME)
  endif()
  file(READ ${source} hex HEX)
  file(SHA256 ${source} digest)
  string(SUBSTRING ${digest} 0 16 etag)
  string(REGEX REPLACE "(..)" "0x\\1," hex "${hex}")
  string(REGEX REPLACE "([^,]*,[^,]*,[^,]*,[^,]*,[^,]*,[^,]*,[^,]*,[^,]*,[^,]*,[^,]*,[^,]*,[^,]*,[^,]*,[^,]*,[^,]*,[^,]*,)" "\\1\n" hex "${hex}")
  string(APPEND bytes "static const unsigned char file_${n}[] = {\n${hex}\n};\n")
  if(file STREQUAL "index.html")
    set(file "")
  endif()
  string(APPEND table "    {\"/${file}\", \"${type}\", file_${n}, sizeof(file_${n}), \"\\\"${etag}\\\"\"},\n")
  math(EXPR n "${n} + 1")
endforeach()
file(WRITE ${OUT} "/* Made by embed_page.cmake. */
#include \"server/page/page_files.h\"

${bytes}
const struct page_file page_files[] = {
${table}};
const size_t n_page_files = ${n};
")
