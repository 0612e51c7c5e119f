-- The matrix of what passed: docs/orb-interop.md.
--   bin/mare run spec/orb_peers/matrix.lua          runs all pairs and writes the page
--
--   local matrix = require "spec.orb_peers.matrix"
--   matrix.read(path) -> cells: cells[table][feature][pair] = "yes" | "no" | "–"
local runner = require "spec.orb_peers.pairs"

local matrix = { path = "docs/orb-interop.md" }

local marks = { ok = "yes", FAIL = "no", skip = "–" }

local titles = {
  "## Features over GIOP 1.2",
  "## Features over GIOP 1.1 and 1.0\n\nWithout wide characters: 1.0 has none, omniORB sends none over 1.1.",
  "## Connections",
  "## Values\n\nOver `values.idl`: every operation answers with the value it got. omniORB has no custom values; JacORB needs a class of our " ..
    "own in the place of\nthe one that it brings for RMI, which does not start on Java 17 (`-Djavax.rmi.CORBA.UtilClass`).",
}

-- Why a cell is "no", where that is known.
local reasons = {
  ["discriminators without a label"] = "JacORB's classes don't keep a discriminator that has no label of its own: they send one of their choice",
  ["char beyond ASCII"] = "JacORB sends one octet of ISO 8859-1 where UTF-8 was agreed on; mare passes it on as it is",
  ["fixed with leading zeros"] = "JacORB and GlassFish write as many digits as the value has, and not those of its type",
  ["any: nested struct"] = "JacORB's compiler leaves the bound of an inner sequence out of the TypeCode; GlassFish compares it",
  ["any: union"] = "JacORB's classes fill the labels of the TypeCode in JacORB's own way, which GlassFish doesn't know",
  ["any: recursive union"] = "JacORB's classes overflow the stack at the TypeCode",
  ["any: exception"] = "omniORB leaves out the repository id before the members, which the others write",
  ["any: sequence of structs"] = "omniORB over GIOP 1.1, even with itself: what does not fit into one fragment raises MARSHAL",
  _is_a = "a server of GlassFish's says no to CORBA::Object; mare and omniORB don't ask",
  ["value of an unknown type"] = "omniORB doesn't truncate values that it reads, not even its own; GlassFish doesn't either, and names no base type",
  ["box as ValueBase"] = "in JacORB and GlassFish what is boxed has a class of Java or of the IDL, and that is not a value",
  ["box in an any"] = "JacORB and GlassFish send a string in an any as a value of Java's own class; they don't read a box there",
  t_longdouble = "omniORB sends the 16 bytes that x86 keeps of its 80 bits; on the wire a long double is a binary128",
}

local head = [[
# Interoperation

What mare does with omniORB 4.2.5 (C++), JacORB 3.9 (Java) and GlassFish's ORB 4.2.5 (Java, the successor of Sun's), tried with
`spec/orb_peers/rich.idl`, an interface that uses every type and feature. A column is a client and the server to which it talks. Every
operation named t_X sends samples of a type in both directions: the server compares what arrives with its own sample and answers with that
sample, which the client compares. So even a mistake that an echo would undo is noticed. "yes": everything passed. "no": something did not;
the reason is below. "–": one of the two sides doesn't have this. JacORB's IDL compiler accepts neither `long double` nor labels beyond the
sign of Java's types, and its servers can't forward. The columns without mare show what the others do among themselves. JacORB and GlassFish
send big-endian data. Over TLS, with certificates on both sides, omniORB and JacORB pass the same as in the first table
(`spec/orb_tls_peers_spec.lua`). With both, servers call back over the connection that the client opened, with TLS and without
(`spec/orb_bidir_peers_spec.lua`). With omniORB everything also works over Unix sockets (`spec/orb_unix_spec.lua`).

There is no IDL compiler for GlassFish's ORB. It runs what JacORB's compiler writes with `-generate_helper deprecated`, and needs a few settings
(`spec/orb_peers/glassfish`, `pairs.lua`):

- On Java 17 `ORB.init` fails in gmbal, unless a class of our own, `org.glassfish.gmbal.ManagedObjectManagerFactory`, comes before gmbal's.
- A message of more than 256,000 bytes that comes in one piece closes the connection without any message. The limit is
  `-Dcom.sun.corba.ee.transport.ORBMaximumReadByteBufferSize=BYTES`.
- If the first text of a server's thread was an empty string, that thread sometimes can't write a `char` from then on: UNKNOWN
  minor 2. The tests begin with another text.
- A value's class is found by its repository id: a value with the prefix `mare.test` must be in the Java package `mare.test`.
- A reference that is passed on is written anew, in the ORB's own byte order. Compare references with `_is_equivalent`, not as strings.

`bin/mare run spec/orb_peers/matrix.lua` writes this page; `spec/orb_interop_spec.lua` compares it with what passes.
]]

local function column_names(number)
  local names = {}
  for _, pair in ipairs(runner.list) do
    if pair.table == number and not names[pair.id] then
      names[#names + 1] = pair.id
      names[pair.id] = true
    end
  end
  return names
end

-- results[pair] = rows -> cells[table][feature][id]; features in the order of their first appearance.
function matrix.cells(results)
  local cells = {}
  for _, pair in ipairs(runner.list) do
    cells[pair.table] = cells[pair.table] or { order = {} }
    local t = cells[pair.table]
    for _, row in ipairs(results[pair] or {}) do
      local name, kind = row[1], row[2]
      if not t[name] then
        t[name] = {}
        t.order[#t.order + 1] = name
      end
      t[name][pair.id] = marks[kind]
    end
  end
  return cells
end

local function table_text(t, columns, notes)
  local lines = { "| | " .. table.concat(columns, " | ") .. " |", "|---|" .. ("---|"):rep(#columns) }
  for _, name in ipairs(t.order) do
    local line = { name }
    for _, column in ipairs(columns) do
      local mark = t[name][column] or "–"
      if mark == "no" then notes[name] = true end
      line[#line + 1] = mark
    end
    lines[#lines + 1] = "| " .. table.concat(line, " | ") .. " |"
  end
  return table.concat(lines, "\n")
end

function matrix.text(results)
  local cells, notes, parts = matrix.cells(results), {}, { head }
  for number, title in ipairs(titles) do
    parts[#parts + 1] = title .. "\n\n" .. table_text(cells[number], column_names(number), notes) .. "\n"
  end
  local list = {}
  for name in pairs(notes) do list[#list + 1] = ("- %s: %s."):format(name, reasons[name] or "**not known**") end
  table.sort(list)
  parts[#parts + 1] = "## Why not\n\n" .. table.concat(list, "\n") .. "\n"
  return table.concat(parts, "\n")
end

local function cells_of(line)
  local row = {}
  for cell in line:sub(2):gmatch("([^|]*)|") do row[#row + 1] = cell:match("^%s*(.-)%s*$") end
  return row
end

function matrix.read(path)
  local cells, number, columns = {}, 0, nil
  for line in io.lines(path or matrix.path) do
    local row = line:find("^| ") and cells_of(line) or {}
    local feature = table.remove(row, 1)
    if feature == "" then
      number, columns = number + 1, row
      cells[number] = {}
    elseif feature then
      cells[number][feature] = {}
      for k, mark in ipairs(row) do cells[number][feature][columns[k]] = mark end
    end
  end
  return cells
end

local function main()
  local results = {}
  for _, pair in ipairs(runner.list) do
    for _, name in ipairs { pair.client, pair.server } do
      local why = runner.missing(name)
      if why then error("the page needs all peers: " .. why, 0) end
    end
    local rows = runner.run(pair)
    results[pair] = rows
    local passed = 0
    for _, row in ipairs(rows) do
      if row[2] == "ok" then passed = passed + 1 end
      if row[2] == "FAIL" then print("  " .. pair.id .. ": " .. row[1] .. ": " .. row[3]) end
    end
    print(("%s %s: %d of %d"):format(pair.id, table.concat(pair.options or {}, " "), passed, #rows))
  end
  local file = assert(io.open(matrix.path, "w"))
  file:write(matrix.text(results))
  file:close()
  print("written: " .. matrix.path)
end

if arg and arg[0] and arg[0]:match("matrix%.lua$") then main() end

return matrix
