-- Files of io and io.popen: lauxlib.h's luaL_Stream.
return { ["FILE*"] = { native = "file" } }
