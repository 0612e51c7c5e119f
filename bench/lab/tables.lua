-- tables: a program of about a second that allocates tables and strings, for `mare lab choose`.
local t = {}
for i = 1, 3000000 do t[i % 20000] = { i, tostring(i % 977) } end
assert(t[1])
