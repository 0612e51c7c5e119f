--[[
mare.orb.services.database: a file of SQLite that one service has open (the library LuaSQL), for stores that are written before a reply goes out.
]]
local database = {}
database.__index = database

local SETTINGS = { "PRAGMA locking_mode = EXCLUSIVE", "PRAGMA journal_mode = WAL" }

local hex = {}
for i = 0, 255 do hex[string.char(i)] = ("%02x"):format(i) end

--- Bytes as a literal of bytes: nothing in them is SQL.
function database.bytes(text) return "X'" .. text:gsub(".", hex) .. "'" end

--- A text as a literal. A NUL would end it, so it has none.
function database.text(text) return "'" .. text:gsub("'", "''"):gsub("%z", "") .. "'" end

--- What a statement gives: rows, or what LuaSQL says of a change | nil, message
function database:run(sql)
  local result, err = self.connection:execute(sql)
  if result == nil then return nil, (tostring(err):gsub("^LuaSQL: ", "")) end
  if type(result) ~= "userdata" then return result end
  local rows, row = {}, result:fetch({}, "n")
  while row do
    rows[#rows + 1] = row
    row = result:fetch({}, "n")
  end
  result:close()
  return rows
end

-- -> the library | nil, message
local function library(what)
  local fine, luasql = pcall(require, "luasql.sqlite3")
  if fine then return luasql end
  return nil, what .. " kept by LuaSQL's SQLite, which is not here (Debian: lua-sql-sqlite3): " .. tostring(luasql):match("^[^\n]*")
end

--- Opens a file and makes what is missing in it by the statements of `schema` (with PRAGMA synchronous); `what` is kept there, "names are". ->
--- database | nil, message
function database.open(path, schema, what)
  local luasql, err = library(what)
  if not luasql then return nil, err end
  local self = setmetatable({ environment = luasql.sqlite3() }, database)
  self.connection, err = self.environment:connect(path)
  if not self.connection then
    self.environment:close()
    return nil, ("%s: %s"):format(path, (tostring(err):gsub("^LuaSQL: ", "")))
  end
  for _, list in ipairs { SETTINGS, schema } do
    for _, sql in ipairs(list) do
      local done
      done, err = self:run(sql)
      if not done then
        self:close()
        if err:find("locked", 1, true) then err = "another program has it open (" .. err .. ")" end
        return nil, ("%s: %s"):format(path, err)
      end
    end
  end
  return self
end

function database:close()
  if self.connection then self.connection:close() end
  if self.environment then self.environment:close() end
  self.connection, self.environment = nil, nil
end

return database
