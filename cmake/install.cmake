# SPDX-License-Identifier: Apache-2.0
# Rules for make install and for the Debian packages. The Makefile builds `manual` before.
# Debian uses this folder below any prefix, and its packages must.
if(CMAKE_LIBRARY_ARCHITECTURE AND NOT DEFINED CMAKE_INSTALL_LIBDIR)
  set(CMAKE_INSTALL_LIBDIR lib/${CMAKE_LIBRARY_ARCHITECTURE} CACHE PATH "libraries, below the prefix")
endif()
include(GNUInstallDirs)
set(manual ${CMAKE_BINARY_DIR}/manual)
set(CMAKE_INSTALL_DEFAULT_COMPONENT_NAME program)
install(TARGETS eyelet RUNTIME DESTINATION bin)
install(TARGETS eyelet-decode RUNTIME DESTINATION libexec/eyelet)
install(DIRECTORY models/demo DESTINATION share/eyelet/models)
install(DIRECTORY ${manual}/man1 DESTINATION share/man)
install(FILES ${manual}/eyelet.bash DESTINATION share/bash-completion/completions RENAME eyelet)
install(FILES ${manual}/_eyelet DESTINATION share/zsh/vendor-completions)
install(FILES ${manual}/eyelet.fish DESTINATION share/fish/vendor_completions.d)
install(FILES packaging/debian/copyright ${manual}/changelog.gz DESTINATION share/doc/eyelet)
install(DIRECTORY docs/ DESTINATION share/doc/eyelet FILES_MATCHING PATTERN *.md PATTERN *.png)
# the prefix of the unit is known only at install time
install(CODE "configure_file(${CMAKE_SOURCE_DIR}/packaging/eyelet.service.in ${CMAKE_BINARY_DIR}/eyelet.service @ONLY)")
install(FILES ${CMAKE_BINARY_DIR}/eyelet.service DESTINATION lib/systemd/system)

if(TARGET libeyelet)
  include(cmake/install_library.cmake)
endif()

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME eyelet)
set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS
  OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_MAINTAINER "the authors of eyelet <eyelet@maintainers.invalid>")
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_DESCRIPTION "vision-language models on an 8 GB GPU or a CPU
eyelet answers questions about images with the Qwen3-VL models, on the
command line and through the OpenAI API, with a memory plan that is known
before anything is loaded. It needs no Python, and of NVIDIA's software
only the driver.
.
A demo model of 20 MB that knows colored shapes and printed words comes
with it.")
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_COMPONENTS_GROUPING IGNORE)
set(CPACK_COMPONENTS_ALL program)
set(CPACK_DEBIAN_PROGRAM_PACKAGE_NAME eyelet)
# opened at run time: serve; images from the web and --server; HEIC and AVIF; TIFF; PDF
set(CPACK_DEBIAN_PROGRAM_PACKAGE_DEPENDS "libmicrohttpd12, libzstd1")
set(CPACK_DEBIAN_PROGRAM_PACKAGE_RECOMMENDS "libcurl4, libheif1, libtiff6 | libtiff5, poppler-utils, ca-certificates")
set(CPACK_DEBIAN_PROGRAM_PACKAGE_CONTROL_EXTRA packaging/debian/postinst packaging/debian/prerm packaging/debian/postrm)
list(TRANSFORM CPACK_DEBIAN_PROGRAM_PACKAGE_CONTROL_EXTRA PREPEND ${CMAKE_SOURCE_DIR}/)
if(TARGET libeyelet)
  list(APPEND CPACK_COMPONENTS_ALL library development)
  set(CPACK_DEBIAN_LIBRARY_PACKAGE_NAME libeyelet${EY_SOVERSION})
  set(CPACK_DEBIAN_LIBRARY_PACKAGE_SECTION libs)
  # shlibs: the dependency of programs that link the library; triggers: run ldconfig after unpacking
  file(WRITE ${CMAKE_BINARY_DIR}/debian/shlibs "libeyelet ${EY_SOVERSION} libeyelet${EY_SOVERSION} (>= ${PROJECT_VERSION})\n")
  file(WRITE ${CMAKE_BINARY_DIR}/debian/triggers "activate-noawait ldconfig\n")
  set(CPACK_DEBIAN_LIBRARY_PACKAGE_CONTROL_EXTRA ${CMAKE_BINARY_DIR}/debian/shlibs ${CMAKE_BINARY_DIR}/debian/triggers)
  # the package has the decoder of HEIC, AVIF and TIFF, and the demo model
  set(CPACK_DEBIAN_LIBRARY_PACKAGE_RECOMMENDS "eyelet")
  set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_NAME libeyelet-dev)
  set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SECTION libdevel)
  set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS "libeyelet${EY_SOVERSION} (= ${PROJECT_VERSION})")
  set(CPACK_COMPONENT_LIBRARY_DESCRIPTION "vision-language models as a library
libeyelet answers questions about images with the Qwen3-VL models, on an
NVIDIA GPU or a CPU, behind a small C interface.")
  set(CPACK_COMPONENT_DEVELOPMENT_DESCRIPTION "headers of the vision-language library libeyelet
Headers of libeyelet, and files with which pkg-config and CMake find it.")
endif()
include(CPack)
