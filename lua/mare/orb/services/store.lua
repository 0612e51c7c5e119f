--[[
mare.orb.services.store: names on disk, in a file of SQLite (the library LuaSQL).

  contexts(id)                                      every naming context; the root is 1. Ids are never used again
  bindings(context, id, kind, child, reference)     what a context binds: a context of this file (child), or another object (reference, the canonical
                                                    IOR; type says whether it was bound as a context)

The file is written before the reply goes out, and read only when it is opened: what lives in memory is the same. One program has it open at a
time. Names and references are bytes, so they are written as literals of bytes: nothing in them is SQL. Without a path nothing is kept.
]]
local database = require "mare.orb.services.database"

local store = {}
store.__index = store

local bytes = database.bytes

local SCHEMA = {
  "PRAGMA synchronous = FULL",
  "CREATE TABLE IF NOT EXISTS contexts (id INTEGER PRIMARY KEY AUTOINCREMENT)",
  "CREATE TABLE IF NOT EXISTS bindings (context INTEGER NOT NULL, id BLOB NOT NULL, kind BLOB NOT NULL, type INTEGER NOT NULL, " ..
    "child INTEGER, reference BLOB, PRIMARY KEY (context, id, kind)) WITHOUT ROWID",
  "INSERT OR IGNORE INTO contexts (id) VALUES (1)",
}

--- -> store | nil, message
function store.open(path)
  local self = setmetatable({ last = 1 }, store)
  if not path then return self end
  local opened, err = database.open(path, SCHEMA, "names are")
  if not opened then return nil, err end
  self.database = opened
  return self
end

--- Calls context(id) for each, then binding(context, id, kind, is it a context?, child | nil, reference | nil). -> true | nil, message
function store:load(context, binding)
  if not self.database then
    context(1)
    return true
  end
  local rows, err = self.database:run("SELECT id FROM contexts")
  if not rows then return nil, err end
  for _, row in ipairs(rows) do context(math.tointeger(row[1])) end
  rows, err = self.database:run("SELECT context, id, kind, type, child, reference FROM bindings")
  if not rows then return nil, err end
  for _, row in ipairs(rows) do
    binding(math.tointeger(row[1]), row[2], row[3], row[4] == 1, row[5] and math.tointeger(row[5]), row[6])
  end
  return true
end

-- All of it or nothing. -> true | nil, message
local function change(self, ...)
  if not self.database then return true end
  local list = { ... }
  if #list > 1 then
    table.insert(list, 1, "BEGIN IMMEDIATE")
    table.insert(list, "COMMIT")
  end
  for _, sql in ipairs(list) do
    local done, err = self.database:run(sql)
    if not done then
      if #list > 1 then self.database:run("ROLLBACK") end
      return nil, err
    end
  end
  return true
end

local function put(context, b)
  return ("INSERT OR REPLACE INTO bindings VALUES (%d, %s, %s, %d, %s, %s)"):format(context, bytes(b.id), bytes(b.kind), b.context and 1 or 0,
    b.child and tostring(b.child) or "NULL", b.reference and bytes(b.reference) or "NULL")
end

--- The binding b = { id =, kind =, context =, child =, reference = } of a context. -> true | nil, message
function store:put(context, b) return change(self, put(context, b)) end

function store:remove(context, b)
  return change(self, ("DELETE FROM bindings WHERE context = %d AND id = %s AND kind = %s"):format(context, bytes(b.id), bytes(b.kind)))
end

--- A new context, and perhaps its name in another one: its id | nil, message
function store:create(context, b)
  if not self.database then
    self.last = self.last + 1
    if b then b.child = self.last end
    return self.last
  end
  local rows, err = self.database:run("SELECT coalesce(max(seq), 1) FROM sqlite_sequence WHERE name = 'contexts'")
  if not rows then return nil, err end
  local id = math.tointeger(rows[1][1]) + 1
  local list = { ("INSERT INTO contexts (id) VALUES (%d)"):format(id) }
  if b then
    b.child = id
    list[2] = put(context, b)
  end
  local done
  done, err = change(self, table.unpack(list))
  if not done then return nil, err end
  return id
end

function store:destroy(id) return change(self, ("DELETE FROM contexts WHERE id = %d"):format(id)) end

function store:close()
  if self.database then self.database:close() end
  self.database = nil
end

return store
