# What LuaRocks runs: cmake -DBIN=… -DLIB=… -DLUA=… -P cmake/rock-install.cmake copies what was built in build/rock to its folders.
# The program is there only where a library of Lua 5.4 was found to link it with.
file(COPY build/rock/lib/mare.so DESTINATION ${LIB})
file(COPY lua/luaproc.lua lua/oil.lua DESTINATION ${LUA})
if(EXISTS ${CMAKE_CURRENT_LIST_DIR}/../build/rock/bin/mare)
  file(COPY build/rock/bin/mare DESTINATION ${BIN})
else()
  message("no library of Lua 5.4 was found: the rock is without bin/mare")
endif()
