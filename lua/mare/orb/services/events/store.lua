--[[
mare.orb.services.events.store: channels and who is connected to them on disk, in a file of SQLite (the library LuaSQL).

  parts(id, kind, data, client)   a channel, an admin, a filter or a connected proxy; data is what its `describe` gives, as JSON, client the canonical
                             IOR of who is connected. Parts come after what they are a part of, in the order of their ids, but for filters,
                             which stand by themselves
  ids(next)                  ids from here on have never been given; they are taken by the hundred, so that one is not written for each

What is new is written before the reply goes out; what has gone is taken out soon after, all at once: when thousands vanish, nobody waits for that
many writes, and one that is still there after a crash is found to be gone again. The file is read only when it is opened, and one program has it
open at a time. A program that is killed loses nothing; what the last moments before a loss of power brought may be lost, as clients connect
anew after one. Events are not kept. Without a path nothing is.
]]
local database = require "mare.orb.services.database"
local json = require "mare.base.json"

local store = {}
store.__index = store

local BLOCK = 100

local SCHEMA = {
  "PRAGMA synchronous = NORMAL",
  "CREATE TABLE IF NOT EXISTS parts (id INTEGER PRIMARY KEY, kind TEXT NOT NULL, data TEXT NOT NULL, client BLOB)",
  "CREATE TABLE IF NOT EXISTS ids (next INTEGER NOT NULL)",
  "INSERT INTO ids SELECT 1 WHERE NOT EXISTS (SELECT 1 FROM ids)",
}

--- -> store | nil, message
function store.open(path)
  local self = setmetatable({ path = path, next = 1, ready = path and 1 or math.huge, gone = {} }, store)
  if not path then return self end
  local opened, err = database.open(path, SCHEMA, "channels are")
  if not opened then return nil, err end
  self.database = opened
  local rows
  rows, err = opened:run "SELECT next FROM ids"
  if not rows then return nil, err end
  self.next = math.tointeger(rows[1][1])
  self.ready = self.next
  return self
end

--- An id that nothing has ever had. -> id | nil, message
function store:new_id()
  if self.next >= self.ready then
    local done, err = self.database:run(("UPDATE ids SET next = %d"):format(self.next + BLOCK))
    if not done then return nil, err end
    self.ready = self.next + BLOCK
  end
  self.next = self.next + 1
  return self.next - 1
end

--- -> true | nil, message
function store:put(id, kind, data, client)
  if not self.path then return true end
  return self.database:run(("INSERT OR REPLACE INTO parts VALUES (%d, '%s', %s, %s)"):format(id, kind, database.text(json.text(data)),
    client and database.bytes(client) or "NULL"))
end

--- A part has gone. True: somebody has to call `flush` soon.
function store:remove(id)
  if not self.path then return false end
  self.gone[#self.gone + 1] = id
  return #self.gone == 1
end

--- -> true | nil, message
function store:flush()
  local ids = self.gone
  if not self.database or #ids == 0 then return true end
  self.gone = {}
  return self.database:run(("DELETE FROM parts WHERE id IN (%s)"):format(table.concat(ids, ",")))
end

--- Calls f(id, kind, data, client) for all parts, filters first. -> true | nil, message
function store:load(f)
  if not self.path then return true end
  local rows, err = self.database:run "SELECT id, kind, data, client FROM parts ORDER BY kind <> 'filter', id"
  if not rows then return nil, err end
  for _, row in ipairs(rows) do
    local data, why = json.read(row[3])
    if not data then return nil, ("part %s: %s"):format(row[1], why) end
    f(math.tointeger(row[1]), row[2], data, row[4])
  end
  return true
end

function store:close()
  self:flush()
  if self.database then self.database:close() end
end

return store
