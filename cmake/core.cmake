# The sources, once for the executable and once for the shared module. Folders without sources are no error.
file(GLOB_RECURSE core_sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/*.c)
list(FILTER core_sources EXCLUDE REGEX "_test\\.c$")
list(FILTER core_sources EXCLUDE REGEX "/src/module/main\\.c$")

# Lua files travel inside the binaries.
file(GLOB_RECURSE lua_files CONFIGURE_DEPENDS RELATIVE ${CMAKE_SOURCE_DIR} ${CMAKE_SOURCE_DIR}/lua/*.lua)
set(embedded ${CMAKE_BINARY_DIR}/embedded.c)
list(TRANSFORM lua_files PREPEND ${CMAKE_SOURCE_DIR}/ OUTPUT_VARIABLE lua_paths)
add_custom_command(OUTPUT ${embedded}
  COMMAND ${MARE_HOST_LUA} ${CMAKE_SOURCE_DIR}/tools/embed.lua ${CMAKE_SOURCE_DIR} ${embedded} ${lua_files}
  DEPENDS ${CMAKE_SOURCE_DIR}/tools/embed.lua ${lua_paths} VERBATIM)

# Only src/port (and the program's main) may see more than C11. Defined empty, so that a file may repeat it.
file(GLOB os_sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/port/*.c)
list(APPEND os_sources ${CMAKE_SOURCE_DIR}/src/module/main.c)
set_source_files_properties(${os_sources} PROPERTIES COMPILE_OPTIONS -D_GNU_SOURCE=)

function(mare_objects target)
  add_library(${target} OBJECT ${core_sources} ${embedded})
  target_include_directories(${target} PUBLIC ${CMAKE_SOURCE_DIR}/src ${CMAKE_SOURCE_DIR}/include)
  target_compile_options(${target} PRIVATE ${mare_warnings})
  target_link_libraries(${target} PUBLIC lua_headers Threads::Threads)
  if(MARE_CONFIG STREQUAL "tsan")
    target_compile_definitions(${target} PUBLIC MR_CHAOS)
  endif()
endfunction()

if(NOT MARE_CONFIG STREQUAL "rock")
  mare_objects(core)
  target_compile_options(core PRIVATE ${mare_exe_compile})
  if(EXISTS ${CMAKE_SOURCE_DIR}/src/module/main.c)
    add_executable(mare ${CMAKE_SOURCE_DIR}/src/module/main.c $<TARGET_OBJECTS:core>)
    target_link_libraries(mare PRIVATE core lua_static)
    target_compile_options(mare PRIVATE ${mare_warnings} ${mare_exe_compile})
    target_link_options(mare PRIVATE ${mare_exe_link})
    set_target_properties(mare PROPERTIES ENABLE_EXPORTS ON)
    install(TARGETS mare RUNTIME DESTINATION bin)
  endif()
endif()

# A module whose code may still run in other threads is never unmapped: nodelete.
file(GLOB module_sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/module/*.c)
list(FILTER module_sources EXCLUDE REGEX "(_test|/main)\\.c$")
if(module_sources)
  mare_objects(core_pic)
  set_target_properties(core_pic PROPERTIES POSITION_INDEPENDENT_CODE ON)
  add_library(mare_so MODULE $<TARGET_OBJECTS:core_pic>)
  target_link_libraries(mare_so PRIVATE Threads::Threads m ${CMAKE_DL_LIBS})
  target_link_options(mare_so PRIVATE -Wl,-z,nodelete)
  set_target_properties(mare_so PROPERTIES PREFIX "" OUTPUT_NAME mare LINKER_LANGUAGE C)
  install(TARGETS mare_so LIBRARY DESTINATION lib/lua/5.4)
endif()
if(EXISTS ${CMAKE_SOURCE_DIR}/include/mare.h)
  install(FILES include/mare.h DESTINATION include)
endif()
