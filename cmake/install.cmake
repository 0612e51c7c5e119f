# What `make install` puts where, besides the program and the module: the C header with what pkg-config and CMake need to find it and
# Lua's, and the types for editors. mare.h links nothing, so neither file names a library.
install(FILES include/mare.h include/luaproc.h DESTINATION include)
install(DIRECTORY types/ DESTINATION share/mare/types)

set(mare_lua_flag "")
if(LUA_INCLUDE_54)
  set(mare_lua_flag " -I${LUA_INCLUDE_54}")
endif()
file(READ ${CMAKE_SOURCE_DIR}/src/module/module.h head)
string(REGEX MATCH "MARE_VERSION \"([0-9.]+)\"" _ "${head}")
set(mare_version ${CMAKE_MATCH_1})

# The prefix is known when it is installed, so both files find it from their own place.
file(WRITE ${CMAKE_BINARY_DIR}/install/mare.pc
"prefix=\${pcfiledir}/../..
includedir=\${prefix}/include
cpath=\${prefix}/lib/lua/5.4/?.so
types=\${prefix}/share/mare/types

Name: mare
Description: Lua processes on all cores: the C interface, a header without a library
Version: ${mare_version}
Cflags: -I\${includedir}${mare_lua_flag}
")
install(FILES ${CMAKE_BINARY_DIR}/install/mare.pc DESTINATION lib/pkgconfig)

file(WRITE ${CMAKE_BINARY_DIR}/install/mareConfig.cmake
"# find_package(mare), then target_link_libraries(yours PRIVATE mare::mare): the include folders of mare.h and Lua 5.4.
get_filename_component(_mare_prefix \"\${CMAKE_CURRENT_LIST_DIR}/../../..\" ABSOLUTE)
if(NOT TARGET mare::mare)
  add_library(mare::mare INTERFACE IMPORTED)
  target_include_directories(mare::mare INTERFACE \"\${_mare_prefix}/include\" \"${LUA_INCLUDE_54}\")
endif()
set(mare_CPATH \"\${_mare_prefix}/lib/lua/5.4/?.so\")
set(mare_TYPES \"\${_mare_prefix}/share/mare/types\")
")
include(CMakePackageConfigHelpers)
write_basic_package_version_file(${CMAKE_BINARY_DIR}/install/mareConfigVersion.cmake VERSION ${mare_version} COMPATIBILITY SameMajorVersion)
install(FILES ${CMAKE_BINARY_DIR}/install/mareConfig.cmake ${CMAKE_BINARY_DIR}/install/mareConfigVersion.cmake DESTINATION lib/cmake/mare)
