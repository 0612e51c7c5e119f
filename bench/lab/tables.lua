-- tables: a program of about a second that keeps 8000 records, each a table with a number and a string, and replaces them one after another.
local t = {}
for i = 1, 3500000 do t[i % 8000] = { i, tostring(i % 977) } end
assert(t[1])
