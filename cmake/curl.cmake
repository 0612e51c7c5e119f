# libcurl, the client of mare.http: its headers are all that a build needs, as the library is loaded when a program first asks for something
# (src/io/curl_library.c). Sets mare_has_curl; OFF: the client says what to do.
find_path(MARE_CURL_INCLUDE curl/curl.h)
set(mare_has_curl OFF)
if(MARE_CURL_INCLUDE)
  set(mare_has_curl ON)
  target_compile_definitions(core INTERFACE MR_CURL)
  if(NOT MARE_CURL_INCLUDE STREQUAL "/usr/include")
    target_include_directories(core SYSTEM INTERFACE ${MARE_CURL_INCLUDE})
  endif()
endif()
