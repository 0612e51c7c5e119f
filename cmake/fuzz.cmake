# Fuzzers, in the configuration fuzz alone (clang): fuzz/<target>.lua becomes fuzz/<target>, run by libFuzzer. fuzz/run knows how.
file(GLOB fuzz_targets CONFIGURE_DEPENDS RELATIVE ${CMAKE_SOURCE_DIR}/fuzz ${CMAKE_SOURCE_DIR}/fuzz/*.lua)
list(FILTER fuzz_targets EXCLUDE REGEX "^(seeds|report)\\.lua$")
file(GLOB fuzz_covered ${CMAKE_SOURCE_DIR}/src/cdr/*.c ${CMAKE_SOURCE_DIR}/src/module/giop*.c ${CMAKE_SOURCE_DIR}/src/module/cdr.c
  ${CMAKE_SOURCE_DIR}/src/module/ludo*.c ${CMAKE_SOURCE_DIR}/src/io/httphead.c ${CMAKE_SOURCE_DIR}/src/module/http*.c
  ${CMAKE_SOURCE_DIR}/src/io/wsframe.c ${CMAKE_SOURCE_DIR}/src/module/websocket.c
  ${CMAKE_SOURCE_DIR}/src/module/json*.c ${CMAKE_SOURCE_DIR}/src/base/json.c)
set_source_files_properties(${fuzz_covered} PROPERTIES COMPILE_OPTIONS -fsanitize=fuzzer-no-link)
foreach(path ${fuzz_targets})
  get_filename_component(noun ${path} NAME_WE)
  add_executable(fuzz.${noun} ${CMAKE_SOURCE_DIR}/fuzz/fuzz.c ${objects})
  target_link_libraries(fuzz.${noun} PRIVATE core lua_static)
  target_compile_definitions(fuzz.${noun} PRIVATE FUZZ_ROOT="${CMAKE_SOURCE_DIR}" FUZZ_TARGET="${noun}")
  target_link_options(fuzz.${noun} PRIVATE -fsanitize=fuzzer)
  file(STRINGS ${CMAKE_SOURCE_DIR}/fuzz/${path} fuzz_head LIMIT_COUNT 3)
  if("${fuzz_head}" MATCHES "pure Lua")
    target_compile_definitions(fuzz.${noun} PRIVATE FUZZ_PURE)
  endif()
  set_target_properties(fuzz.${noun} PROPERTIES OUTPUT_NAME ${noun} RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/fuzz)
endforeach()
