# llhttp, the parser of mare.http: where tools/fetch-llhttp has put it. Sets mare_llhttp, its sources; empty: mare.http says what
# to do; and mare_has_llhttp.
# Its code is not ours to mend: no warnings.
file(GLOB mare_llhttp CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/build/llhttp/src/*.c)
set(mare_has_llhttp OFF)
if(mare_llhttp)
  set(mare_has_llhttp ON)
  set_source_files_properties(${mare_llhttp} PROPERTIES COMPILE_OPTIONS -w)
  target_include_directories(core SYSTEM INTERFACE ${CMAKE_SOURCE_DIR}/build/llhttp/include)
  target_compile_definitions(core INTERFACE MR_LLHTTP)
endif()
