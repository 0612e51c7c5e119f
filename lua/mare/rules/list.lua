-- Which file of mare.rules knows userdata of other libraries, by the name of their metatable. They are read when such a userdata is first sent
-- (src/module/rules.c), and give for each name a table:
--   native      a rule in C, by name; or what is known of the block:
--   size        its bytes
--   inside      { { at, to }, … }: the word at offset `at` points to offset `to` of the same block, is checked to do so, and mended on arrival
--   demands     { { at, value, words }, … }: the int at that offset must have the value, else it can't be sent, and `words` say why
--   descriptor  the offset of the descriptor that is closed if nobody receives the message; without it, the library's own finaliser does that
--   tables      names of metatables in the registry which that finaliser looks for
--   module      what the receiver requires to have the metatable
local of = {}
local files = {
  io = { "FILE*" },
  socket = { "tcp{client}", "tcp{server}", "tcp{master}", "udp{connected}", "udp{unconnected}" },
  unix = { "unixstream{client}", "unixstream{server}", "unixstream{master}", "unixdgram{connected}", "unixdgram{unconnected}" },
  ssl = { "SSL:Connection" },
  luv = {
    "uv_async", "uv_check", "uv_fs_event", "uv_fs_poll", "uv_handle", "uv_idle", "uv_pipe", "uv_poll", "uv_prepare", "uv_process", "uv_req",
    "uv_signal", "uv_stream", "uv_tcp", "uv_timer", "uv_tty", "uv_udp",
  },
}
for file, names in pairs(files) do
  for _, name in ipairs(names) do of[name] = "mare.rules." .. file end
end
return of
