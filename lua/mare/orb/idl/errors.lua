-- errors: what a load complains about, in order; at most `limit` complaints, each { file, line, column, message }.
--
-- `errors:add` records and goes on; `errors:stop` records and leaves what is being read: it raises errors.halt, which the reader of definitions
-- catches. Beyond the limit `add` raises errors.full, which ends the load.

local errors = {}
errors.__index = errors

errors.limit = 50
errors.halt = setmetatable({}, { __tostring = function() return "IDL error" end })
errors.full = setmetatable({}, { __tostring = function() return "too many IDL errors" end })

-- "file:line:column: message", a line each.
function errors.__tostring(list)
  local lines = {}
  for i, e in ipairs(list) do lines[i] = ("%s:%d:%d: %s"):format(e.file, e.line, e.column, e.message) end
  return table.concat(lines, "\n")
end

function errors.new() return setmetatable({}, errors) end

-- A list of notes: they end nothing, beyond the limit they are left out.
local notes = { __index = {}, __tostring = errors.__tostring }
function errors.notes() return setmetatable({}, notes) end

function notes.__index.add(list, place, format, ...)
  if #list >= errors.limit then return end
  list[#list + 1] = { file = place.file, line = place.line, column = place.column or 1, message = format:format(...) }
end

-- place: anything with file, line and column.
function errors:add(place, format, ...)
  local message = select("#", ...) > 0 and format:format(...) or format
  local n = #self
  local last = self[n]
  if last and last.file == place.file and last.line == place.line and last.column == place.column then return end
  self[n + 1] = { file = place.file, line = place.line, column = place.column or 1, message = message }
  if n + 1 >= errors.limit then
    self[n + 2] = { file = place.file, line = place.line, column = place.column or 1, message = "too many errors, the rest is not shown" }
    error(errors.full, 0)
  end
end

function errors:stop(place, format, ...)
  self:add(place, format, ...)
  error(errors.halt, 0)
end

return errors
