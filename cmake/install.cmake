# What `make install` puts where, besides the program and the module: the C header with what pkg-config and CMake need to find it and
# Lua's, and the types for editors, also as an addon of lua-language-server. mare.h links nothing, so neither file names a library.
install(FILES include/mare.h include/luaproc.h DESTINATION include)
install(DIRECTORY types/ DESTINATION share/mare/types)
install(FILES packaging/luals/mare/config.json DESTINATION share/mare/luals/mare)
file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/install)
file(CREATE_LINK ../../types ${CMAKE_BINARY_DIR}/install/library SYMBOLIC)
install(FILES ${CMAKE_BINARY_DIR}/install/library DESTINATION share/mare/luals/mare) # a link, so that there is one copy of the types

set(MARE_ZSH_FOLDER site-functions CACHE STRING "below share/zsh, where completion goes; Debian has vendor-completions")

# What --help says, as man pages and for the completion of shells.
if(TARGET mare AND MARE_CONFIG STREQUAL "plain")
  set(told ${CMAKE_BINARY_DIR}/told)
  file(MAKE_DIRECTORY ${told}/man)
  add_custom_command(OUTPUT ${told}/bash ${told}/zsh ${told}/fish ${told}/man/mare.1
    COMMAND ${MARE_HOST_LUA} ${CMAKE_SOURCE_DIR}/tools/man.lua $<TARGET_FILE:mare> ${told}/man
    COMMAND $<TARGET_FILE:mare> completion bash > ${told}/bash
    COMMAND $<TARGET_FILE:mare> completion zsh > ${told}/zsh
    COMMAND $<TARGET_FILE:mare> completion fish > ${told}/fish
    DEPENDS mare ${CMAKE_SOURCE_DIR}/tools/man.lua VERBATIM)
  add_custom_target(told ALL DEPENDS ${told}/bash)
  install(DIRECTORY ${told}/man/ DESTINATION share/man/man1)
  install(FILES ${told}/bash DESTINATION share/bash-completion/completions RENAME mare)
  install(FILES ${told}/zsh DESTINATION share/zsh/${MARE_ZSH_FOLDER} RENAME _mare)
  install(FILES ${told}/fish DESTINATION share/fish/vendor_completions.d RENAME mare.fish)
endif()

set(mare_lua_flag "")
if(LUA_INCLUDE_54)
  set(mare_lua_flag " -I${LUA_INCLUDE_54}")
endif()
file(STRINGS ${CMAKE_SOURCE_DIR}/include/mare.h mare_version REGEX "define MARE_RELEASE ")
string(REGEX REPLACE ".*\"(.*)\".*" "\\1" mare_version "${mare_version}")
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/include/mare.h)

# The prefix is known when it is installed, so both files find it from their own place.
file(RELATIVE_PATH up /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
string(REGEX REPLACE "/$" "" up ${up})
file(WRITE ${CMAKE_BINARY_DIR}/install/mare.pc
"prefix=\${pcfiledir}/${up}
includedir=\${prefix}/include
cpath=\${prefix}/${CMAKE_INSTALL_LIBDIR}/lua/5.4/?.so
types=\${prefix}/share/mare/types

Name: mare
Description: Lua processes on all cores: the C interface, a header without a library
Version: ${mare_version}
Cflags: -I\${includedir}${mare_lua_flag}
")
install(FILES ${CMAKE_BINARY_DIR}/install/mare.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

file(WRITE ${CMAKE_BINARY_DIR}/install/mareConfig.cmake
"# find_package(mare), then target_link_libraries(yours PRIVATE mare::mare): the include folders of mare.h and Lua 5.4.
get_filename_component(_mare_prefix \"\${CMAKE_CURRENT_LIST_DIR}/../${up}\" ABSOLUTE)
if(NOT TARGET mare::mare)
  add_library(mare::mare INTERFACE IMPORTED)
  target_include_directories(mare::mare INTERFACE \"\${_mare_prefix}/include\" \"${LUA_INCLUDE_54}\")
endif()
set(mare_CPATH \"\${_mare_prefix}/${CMAKE_INSTALL_LIBDIR}/lua/5.4/?.so\")
set(mare_TYPES \"\${_mare_prefix}/share/mare/types\")
")
include(CMakePackageConfigHelpers)
write_basic_package_version_file(${CMAKE_BINARY_DIR}/install/mareConfigVersion.cmake VERSION ${mare_version} COMPATIBILITY SameMajorVersion)
install(FILES ${CMAKE_BINARY_DIR}/install/mareConfig.cmake ${CMAKE_BINARY_DIR}/install/mareConfigVersion.cmake DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/mare)
