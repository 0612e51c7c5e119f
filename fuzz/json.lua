-- JSON: texts that may be anything. What is read is written, and reads as the same again; what is refused has a place. The first byte chooses
-- options.
-- needs: yyjson
local json = require "mare.json"
local options = {
  {}, { duplicates = "first" }, { duplicates = "error" }, { big = "string" }, { big = "error" }, { null_as_nil = true }, { depth = 3 },
  { null = false },
}

return function(data)
  local reading = options[(data:byte() or 0) % #options + 1]
  local text = data:sub(2)
  local value, message = json.decode(text, reading)
  if message then
    assert(message:find "^line %d+, column %d+: ", message)
  elseif not reading.null_as_nil then
    local again = json.encode(value, { sorted = true })
    assert(json.encode(json.decode(again), { sorted = true }) == again, again)
    assert(json.encode(json.decode(json.encode(value, { indent = 1 })), { sorted = true }) == again, again)
  end
  pcall(function() for _ in json.lines(text, reading) do end end)   -- luacheck: ignore 542
  assert(pcall(json.encode, text) == (utf8.len(text) ~= nil), "what is UTF-8 is written")
end
