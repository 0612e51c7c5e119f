-- A database behind a pool: several processes ask at once, each loan is one connection, and a slow query delays nobody else.
--   mare run examples/database.lua [CLIENTS]            8; SQLite by LuaSQL: apt install lua-sql-sqlite3
-- The driver blocks while it works. That holds the thread of the pool's process and nothing else, so any driver of LuaSQL will do.
-- needs: plain
-- test: 4
-- expect: 4 clients made 40 orders
-- expect: 10 orders of client 3, the last one for 10 cups
local mare = require "mare"
local process = mare.process

local clients = tonumber(arg[1] or 8)
local path = os.tmpname()

-- A list of rows, or how many were changed.
local function execute(db, sql)
  local cursor = assert(db:execute(sql))
  if type(cursor) == "number" then return cursor end
  local rows = {}
  for row in function() return cursor:fetch({}, "a") end do rows[#rows + 1] = row end
  cursor:close()
  return rows
end

-- Runs in each process of the pool, once: the connection stays there.
local function connect(file)
  local db = assert(require "luasql.sqlite3".sqlite3():connect(file))
  execute(db, "PRAGMA busy_timeout = 10000")                           -- SQLite lets one write at a time
  return db
end

local setup = connect(path)
execute(setup, "CREATE TABLE orders (client INTEGER, cups INTEGER)")
setup:close()

do
  local pool <close> = mare.pool.new {
    size = 3, make = connect, args = { path },
    close = function(db) db:close() end,
    check = function(db) return #execute(db, "SELECT 1") == 1 end,     -- asked after an error, before it is lent again
  }

  -- The function goes to the connection; what it gives comes back. With a loan (pool:take) several calls use the same connection.
  local function query(sql) return pool:call(execute, sql) end

  process.scope(function(s)                                            -- waits for all clients, and fails if one of them does
    for client = 1, clients do
      s:spawn(function()
        for cups = 1, 10 do query(("INSERT INTO orders VALUES (%d, %d)"):format(client, cups)) end
      end)
    end
  end)
  print(("%d clients made %d orders"):format(clients, query("SELECT count(*) AS n FROM orders")[1].n))
  local third = query "SELECT count(*) AS n, max(cups) AS cups FROM orders WHERE client = 3"[1]
  print(("%d orders of client 3, the last one for %d cups"):format(third.n, third.cups))
end
os.remove(path)
