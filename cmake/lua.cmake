# Lua 5.4: the installed static library, or one compiled here by our flags so that a sanitizer sees inside.
# Executables take the whole archive: C modules loaded later need functions that we never call.
add_library(lua_headers INTERFACE)
add_library(lua_static INTERFACE)
set(mare_lua_libs m ${CMAKE_DL_LIBS} Threads::Threads)

# mare_lua_54(folder): its lua.h must be Lua 5.4's.
function(mare_lua_54 folder)
  file(STRINGS ${folder}/lua.h number REGEX "define[ \t]+LUA_VERSION_(MAJOR|MINOR)(_N)?[ \t]+|LUA_VERSION_NUM[ \t]+[0-9]+")
  if(NOT number MATCHES "504|MINOR(_N)?[ \t]+\"?4")
    message(FATAL_ERROR " mare needs Lua 5.4, and ${folder}/lua.h is of another version")
  endif()
endfunction()

if(MARE_CONFIG STREQUAL "rock") # the headers that LuaRocks names; the program too where there is a library to link it with
  find_path(LUA_INCLUDE_54 lua.h HINTS ${MARE_LUA_INCLUDE} PATH_SUFFIXES lua5.4 lua-5.4 lua54 REQUIRED)
  mare_lua_54(${LUA_INCLUDE_54})
  target_include_directories(lua_headers SYSTEM INTERFACE ${LUA_INCLUDE_54})
  find_library(LUA_LIBRARY_54 NAMES liblua5.4.a liblua-5.4.a liblua54.a lua5.4 lua-5.4 lua54 HINTS ${MARE_LUA_LIB})
  set(lua_file ${LUA_LIBRARY_54})
elseif(MARE_LUA_SOURCE)
  file(GLOB lua_sources ${MARE_LUA_SOURCE}/l*.c)
  list(FILTER lua_sources EXCLUDE REGEX "/(lua|luac)\\.c$")
  add_library(lua_archive STATIC ${lua_sources})
  # Debian's luaconf.h asks for the name of the library folder of this machine.
  execute_process(COMMAND ${CMAKE_C_COMPILER} -print-multiarch OUTPUT_VARIABLE multiarch OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  if(NOT multiarch)
    set(multiarch ${CMAKE_LIBRARY_ARCHITECTURE})
  endif()
  file(WRITE ${CMAKE_BINARY_DIR}/lua/lua5.4-deb-multiarch.h "#define DEB_HOST_MULTIARCH \"${multiarch}\"\n")
  # Lua looks for libraries where the distribution's does, also when these are the original sources.
  set(share /usr/local/share/lua/5.4/ /usr/local/lib/lua/5.4/ /usr/share/lua/5.4/)
  set(path "")
  foreach(d ${share})
    string(APPEND path "${d}?.lua;${d}?/init.lua;")
  endforeach()
  set(cpath "/usr/local/lib/lua/5.4/?.so;/usr/lib/${multiarch}/lua/5.4/?.so;/usr/lib/lua/5.4/?.so;/usr/local/lib/lua/5.4/loadall.so;")
  if(mare_sanitize) # API misuse is found too
    # ThreadSanitizer knows setjmp and longjmp, not _setjmp and _longjmp: its shadow stack would grow with every yield.
    set(api_check "#define LUA_USE_APICHECK\n#include <assert.h>\n#include <setjmp.h>\n#define luai_jmpbuf jmp_buf\n#define LUAI_THROW(L,c) longjmp((c)->b, 1)\n#define LUAI_TRY(L,c,a) if (setjmp((c)->b) == 0) { a }\n")
  endif()
  file(WRITE ${CMAKE_BINARY_DIR}/lua/lua_build.h
    "#define LUA_USE_LINUX\n#define LUA_COMPAT_5_3\n${api_check}"
    "#define LUA_PATH_DEFAULT \"${path}./?.lua;./?/init.lua\"\n#define LUA_CPATH_DEFAULT \"${cpath}./?.so\"\n")
  set(lua_flags -include ${CMAKE_BINARY_DIR}/lua/lua_build.h)
  target_compile_options(lua_archive PRIVATE ${lua_flags})
  set_target_properties(lua_archive PROPERTIES C_EXTENSIONS ON C_VISIBILITY_PRESET default)
  target_compile_options(lua_archive PRIVATE ${mare_exe_compile})
  target_include_directories(lua_headers SYSTEM INTERFACE ${MARE_LUA_SOURCE} ${CMAKE_BINARY_DIR}/lua)
  target_include_directories(lua_archive PRIVATE ${CMAKE_BINARY_DIR}/lua)
  if(MARE_CONFIG STREQUAL "fuzz") # what Lua does is not what is tested, and it does most of the work
    target_compile_options(lua_archive PRIVATE -O2 -fno-sanitize=all)
  endif()
  add_dependencies(lua_static lua_archive)
  set(lua_file $<TARGET_FILE:lua_archive>)

  # The interpreter itself, for programs that require mare under a sanitizer. (The crate lua-src comes without it.)
  if(EXISTS ${MARE_LUA_SOURCE}/lua.c)
    add_executable(lua ${MARE_LUA_SOURCE}/lua.c)
  else()
    add_executable(lua ${CMAKE_SOURCE_DIR}/spec/support/lua.c)
  endif()
  target_compile_options(lua PRIVATE ${lua_flags})
  set_target_properties(lua PROPERTIES ENABLE_EXPORTS ON C_EXTENSIONS ON)
  target_compile_options(lua PRIVATE ${mare_exe_compile})
  target_link_options(lua PRIVATE ${mare_exe_link})
  target_link_libraries(lua PRIVATE lua_static)
  set(MARE_LUA_EXE ${CMAKE_BINARY_DIR}/bin/lua)
else()
  find_path(LUA_INCLUDE_54 lua.h PATH_SUFFIXES lua5.4 lua-5.4 lua54 REQUIRED)
  mare_lua_54(${LUA_INCLUDE_54})
  find_library(LUA_STATIC_54 NAMES liblua5.4.a liblua-5.4.a liblua.a REQUIRED)
  target_include_directories(lua_headers SYSTEM INTERFACE ${LUA_INCLUDE_54})
  set(lua_file ${LUA_STATIC_54})
  # A copy whose object files begin with a cache line. Else where they do depends on the size of our code before them, and with it the speed of
  # the same instructions: a method call took 14 or 28 ns, a message between processes 84 or 110.
  set(aligned ${CMAKE_BINARY_DIR}/liblua.a)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${LUA_STATIC_54})
  if(CMAKE_OBJCOPY)
    execute_process(COMMAND ${CMAKE_OBJCOPY} --set-section-alignment .text=64 ${LUA_STATIC_54} ${aligned} RESULT_VARIABLE failed OUTPUT_QUIET ERROR_QUIET)
    if(NOT failed)
      set(lua_file ${aligned})
    endif()
  endif()
  find_program(MARE_LUA_EXE NAMES lua5.4 lua54 lua REQUIRED)
endif()
find_program(MARE_HOST_LUA NAMES lua5.4 lua54 lua REQUIRED) # for the tools

if(lua_file)
  target_link_libraries(lua_static INTERFACE lua_headers
    -Wl,--whole-archive ${lua_file} -Wl,--no-whole-archive ${mare_lua_libs})
endif()
