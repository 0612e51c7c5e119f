# zlib, with which mare.http sends gzip: the system's. Without its headers mare is built all the same, and says what to do where gzip is asked for.
find_package(ZLIB)
if(ZLIB_FOUND)
  target_link_libraries(core INTERFACE ZLIB::ZLIB)
  set_source_files_properties(${CMAKE_SOURCE_DIR}/src/module/gzip.c PROPERTIES COMPILE_DEFINITIONS MR_ZLIB)
endif()
set(mare_has_zlib ${ZLIB_FOUND})
