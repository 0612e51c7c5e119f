# The flags of each configuration, and how much longer its tests may take.
set(MARE_TIME_FACTOR 1)
if(MARE_CONFIG STREQUAL "asan")
  set(mare_sanitize -fsanitize=address,undefined -fno-sanitize-recover=all)
  set(MARE_TIME_FACTOR 3)
elseif(MARE_CONFIG STREQUAL "tsan")
  set(mare_sanitize -fsanitize=thread)
  set(MARE_TIME_FACTOR 5)
elseif(NOT MARE_CONFIG MATCHES "^(plain|fast|rock)$")
  message(FATAL_ERROR "MARE_CONFIG: plain, fast, asan, tsan or rock, not '${MARE_CONFIG}'")
endif()

if(mare_sanitize)
  add_compile_options(-O1 -g -fno-omit-frame-pointer ${mare_sanitize})
  add_link_options(${mare_sanitize})
else()
  add_compile_options(-O2 -g)
  # Measured with CPU-bound Lua programs: an executable at a fixed address is 1.01 to 1.1 times as fast.
  set(mare_exe_compile -fno-pie)
  set(mare_exe_link -no-pie)
endif()
if(MARE_CONFIG STREQUAL "fast") # Lua compiled and optimised together with mare; wants MARE_LUA_SOURCE
  set(CMAKE_INTERPROCEDURAL_OPTIMIZATION ON)
endif()

set(mare_warnings -Wall -Wextra)
if(MARE_WERROR)
  list(APPEND mare_warnings -Werror)
endif()
