# The sources, once for executables (an object library per layer) and once for the shared module.
# A test links its own layer and those above it in this list, and so shows that these can do without the others.
set(mare_layers port base observe lua heap run transfer share process channel io cdr state module)

# Lua files travel inside the binaries.
file(GLOB_RECURSE lua_files CONFIGURE_DEPENDS RELATIVE ${CMAKE_SOURCE_DIR} ${CMAKE_SOURCE_DIR}/lua/*.lua)
list(REMOVE_ITEM lua_files lua/luaproc.lua) # one line for plain Lua: the module is C
set(embedded ${CMAKE_BINARY_DIR}/embedded.c)
set(lua_modules ${CMAKE_BINARY_DIR}/module/lua_modules.def)
file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/module)
list(TRANSFORM lua_files PREPEND ${CMAKE_SOURCE_DIR}/ OUTPUT_VARIABLE lua_paths)
add_custom_command(OUTPUT ${embedded} ${lua_modules}
  COMMAND ${MARE_HOST_LUA} ${CMAKE_SOURCE_DIR}/tools/embed.lua ${CMAKE_SOURCE_DIR} ${embedded} ${lua_modules} ${lua_files}
  DEPENDS ${CMAKE_SOURCE_DIR}/tools/embed.lua ${lua_paths} VERBATIM)
add_custom_target(embed DEPENDS ${embedded} ${lua_modules}) # one rule for both libraries that compile it

add_library(core INTERFACE) # how to compile against src/
target_include_directories(core INTERFACE ${CMAKE_SOURCE_DIR}/src ${CMAKE_SOURCE_DIR}/include ${CMAKE_BINARY_DIR})
find_package(OpenSSL 3.0 REQUIRED)
target_link_libraries(core INTERFACE lua_headers Threads::Threads -Wl,--as-needed OpenSSL::SSL OpenSSL::Crypto)
include(llhttp) # sets mare_llhttp
include(yyjson) # sets mare_yyjson
include(zlib)
include(curl)   # sets mare_has_curl
if(mare_checks)
  target_compile_definitions(core INTERFACE MR_CHECKS)
endif()
if(MARE_CONFIG STREQUAL "tsan")
  target_compile_definitions(core INTERFACE MR_CHAOS)
endif()

set(all_sources ${embedded} ${mare_llhttp} ${mare_yyjson})
set(objects "") # of the layers so far
foreach(layer ${mare_layers})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/${layer}/*.c)
  list(FILTER sources EXCLUDE REGEX "(_test|/module/main)\\.c$")
  list(APPEND all_sources ${sources})
  set(has_${layer} OFF)
  if(sources)
    set(has_${layer} ON)
  endif()
  if(layer STREQUAL "base")
    list(APPEND sources ${embedded} ${mare_yyjson})
  elseif(layer STREQUAL "io")
    list(APPEND sources ${mare_llhttp})
  endif()
  if(sources AND NOT MARE_CONFIG STREQUAL "rock")
    add_library(core_${layer} OBJECT ${sources})
    add_dependencies(core_${layer} embed)
    target_link_libraries(core_${layer} PRIVATE core)
    target_compile_options(core_${layer} PRIVATE ${mare_warnings} ${mare_exe_compile})
    list(APPEND objects $<TARGET_OBJECTS:core_${layer}>)
  endif()
  set(objects_${layer} ${objects})
endforeach()
# Values travel without a scheduler, too: src/run asks for a body, which src/process has.
list(REMOVE_ITEM objects_transfer $<TARGET_OBJECTS:core_run>)
# Who waits for what is shared is a process's fiber: the tests of src/share have it, src/share has not.
list(APPEND objects_share $<TARGET_OBJECTS:core_process>)

# Only src/port (and the program's main) may see more than C11. Defined empty, so that a file may repeat it.
file(GLOB os_sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/port/*.c)
list(APPEND os_sources ${CMAKE_SOURCE_DIR}/src/module/main.c)
set_source_files_properties(${os_sources} PROPERTIES COMPILE_OPTIONS -D_GNU_SOURCE=)
# Symbols that assembler defines are not seen where all is optimised in one.
# Nor does it keep a shadow stack: where the compiler makes programs for those (-fcf-protection, as Ubuntu's does), this file says that bin/mare is none.
set(jump_options -D_GNU_SOURCE= -fno-lto)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64)$")
  list(APPEND jump_options -fcf-protection=none)
endif()
set_source_files_properties(${CMAKE_SOURCE_DIR}/src/port/jump.c PROPERTIES COMPILE_OPTIONS "${jump_options}")

if(lua_file)
  if(MARE_CONFIG STREQUAL "rock")
    set(objects ${all_sources})
  endif()
  add_executable(mare ${CMAKE_SOURCE_DIR}/src/module/main.c ${objects})
  add_dependencies(mare embed)
  target_link_libraries(mare PRIVATE core lua_static)
  target_compile_options(mare PRIVATE ${mare_warnings} ${mare_exe_compile})
  # What Lua reads of the clock: see src/port/virtual.h. When it collects: src/lua/collect.c.
  target_link_options(mare PRIVATE ${mare_exe_link} -Wl,--wrap=time -Wl,--wrap=clock -Wl,--wrap=luaC_step -Wl,--wrap=luaC_fullgc)
  # How it leaves its functions: src/port/jump.c.
  if(NOT mare_sanitize AND CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64)$" AND CMAKE_SIZEOF_VOID_P EQUAL 8)
    target_link_options(mare PRIVATE -Wl,--wrap=_setjmp -Wl,--wrap=_longjmp -Wl,--wrap=__longjmp_chk)
  endif()
  set_target_properties(mare PROPERTIES ENABLE_EXPORTS ON)
  install(TARGETS mare RUNTIME DESTINATION bin)
endif()

# A module whose code may still run in other threads is never unmapped: nodelete.
if(has_module)
  add_library(mare_so MODULE ${all_sources})
  add_dependencies(mare_so embed)
  target_compile_options(mare_so PRIVATE ${mare_warnings} -include ${CMAKE_SOURCE_DIR}/src/lua/weak.h -DMR_ANY_LUA)
  target_link_libraries(mare_so PRIVATE core m ${CMAKE_DL_LIBS})
  target_link_options(mare_so PRIVATE -Wl,-z,nodelete)
  set_target_properties(mare_so PROPERTIES PREFIX "" OUTPUT_NAME mare)
  install(TARGETS mare_so LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/lua/5.4)
  install(FILES lua/luaproc.lua lua/oil.lua DESTINATION share/lua/5.4)   # for plain Lua; bin/mare has them inside
endif()
