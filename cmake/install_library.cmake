# SPDX-License-Identifier: Apache-2.0
# Installs libeyelet for developers: library, headers, and files for pkg-config and CMake.
include(CMakePackageConfigHelpers)
set(config ${CMAKE_INSTALL_LIBDIR}/cmake/eyelet)
file(RELATIVE_PATH EY_PC_PREFIX /prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig /prefix)
configure_file(cmake/eyelet.pc.in ${CMAKE_BINARY_DIR}/eyelet.pc @ONLY)
write_basic_package_version_file(${CMAKE_BINARY_DIR}/eyeletConfigVersion.cmake COMPATIBILITY SameMinorVersion)
set(CMAKE_INSTALL_DEFAULT_COMPONENT_NAME development)
install(TARGETS libeyelet EXPORT eyelet
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT library NAMELINK_COMPONENT development)
install(EXPORT eyelet DESTINATION ${config} FILE eyeletConfig.cmake NAMESPACE eyelet::)
install(FILES ${CMAKE_BINARY_DIR}/eyeletConfigVersion.cmake DESTINATION ${config})
install(FILES ${CMAKE_BINARY_DIR}/eyelet.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
install(FILES include/eyelet.h DESTINATION include)
install(DIRECTORY include/eyelet DESTINATION include)
install(FILES packaging/debian/copyright ${manual}/changelog.gz DESTINATION share/doc/libeyelet-dev)
install(DIRECTORY examples/c/ DESTINATION share/doc/libeyelet-dev/examples)
install(FILES packaging/debian/copyright ${manual}/changelog.gz DESTINATION share/doc/libeyelet${EY_SOVERSION} COMPONENT library)
# only in the package
install(CODE "if(CMAKE_INSTALL_PREFIX STREQUAL /usr)
  file(INSTALL ${CMAKE_SOURCE_DIR}/packaging/debian/libeyelet.lintian
    DESTINATION \${CMAKE_INSTALL_PREFIX}/share/lintian/overrides RENAME libeyelet${EY_SOVERSION})
endif()" COMPONENT library)
