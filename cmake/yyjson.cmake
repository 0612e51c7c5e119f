# yyjson, which mare.json reads with: the system's library, else its source that tools/fetch-yyjson has brought; with neither mare is built without mare.json.
# Sets mare_yyjson: what is compiled with mare, if anything; and mare_has_yyjson.
find_path(YYJSON_INCLUDE yyjson.h)
find_library(YYJSON_LIBRARY NAMES yyjson)
file(GLOB mare_yyjson CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/build/yyjson/yyjson.c) # it may come later
set(mare_has_yyjson ON)
if(YYJSON_INCLUDE AND YYJSON_LIBRARY)
  set(mare_yyjson "")
  target_include_directories(core SYSTEM INTERFACE ${YYJSON_INCLUDE})
  target_link_libraries(core INTERFACE ${YYJSON_LIBRARY})
  target_compile_definitions(core INTERFACE MARE_YYJSON)
elseif(mare_yyjson)
  target_include_directories(core SYSTEM INTERFACE ${CMAKE_SOURCE_DIR}/build/yyjson)
  target_compile_definitions(core INTERFACE MARE_YYJSON yyjson_api=) # its functions are nobody else's
  set_source_files_properties(${mare_yyjson} PROPERTIES COMPILE_OPTIONS "-w;-DYYJSON_DISABLE_UTILS=1;-DYYJSON_DISABLE_NON_STANDARD=1")
else()
  set(mare_has_yyjson OFF)
  message(STATUS "no yyjson: mare is built without mare.json (tools/fetch-yyjson brings it)")
endif()
