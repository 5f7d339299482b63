# SPDX-License-Identifier: Apache-2.0
# libeyelet.so exports the functions that include/eyelet marks EY_API, and nothing else.
set(EY_SOVERSION 0) # increase it if programs that were compiled with the previous version would break (abidiff, make nightly)
# All objects of folders that define such functions, and from the others those that these use.
set(objects)
foreach(folder engine doctor tasks base)
  list(APPEND objects $<TARGET_OBJECTS:ey_${folder}>)
endforeach()
add_library(libeyelet SHARED ${objects})
target_link_libraries(libeyelet PRIVATE ey_flags ey_engine ey_doctor ey_tasks)
set(map ${CMAKE_SOURCE_DIR}/cmake/libeyelet.map)
target_link_options(libeyelet PRIVATE -Wl,--version-script=${map} -Wl,-z,now -Wl,-z,relro)
if(NOT EY_SANITIZE)
  target_link_options(libeyelet PRIVATE -Wl,-z,defs)
endif()
target_include_directories(libeyelet INTERFACE $<INSTALL_INTERFACE:include>)
set_target_properties(libeyelet PROPERTIES OUTPUT_NAME eyelet EXPORT_NAME eyelet
  VERSION ${PROJECT_VERSION} SOVERSION ${EY_SOVERSION} LINK_DEPENDS ${map}
  LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR})
