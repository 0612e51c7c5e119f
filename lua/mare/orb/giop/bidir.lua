-- bidir: the service context BI_DIR_IIOP of a request (CORBA 3.3 part 2, 9.8): under which addresses whoever opened a connection serves objects,
-- so that calls of these may go over that connection. Bytes from outside never raise: nil and a message.
local pack, unpack = string.pack, string.unpack

local bidir = { CONTEXT = 5, MOST = 64 }         -- addresses: who has more is up to no good

-- bidir.make({ { host, port } … }) -> the context's data
function bidir.make(points)
  local bytes = pack("<!4I1I4", 1, #points)
  for _, p in ipairs(points) do
    bytes = bytes .. ("\0"):rep(-#bytes % 4) .. pack("<s4", p[1] .. "\0")
    bytes = bytes .. ("\0"):rep(-#bytes % 2) .. pack("<I2", p[2])
  end
  return bytes
end

local function points_of(data, order, at)
  local n, list
  n, at = unpack(order .. "I4", data, at)
  if n > bidir.MOST then return nil, ("%d listen points, more than %d"):format(n, bidir.MOST) end
  list = {}
  for i = 1, n do
    local host, port
    host, port, at = unpack(order .. "s4I2", data, at)
    if not host:find "^[!-~]+\0$" or port == 0 then return nil, ("listen point %d is no host and port"):format(i) end
    list[i] = { host:sub(1, -2), port }
  end
  return list
end

-- bidir.read(data) -> { { host, port } … } | nil, message
function bidir.read(data)
  if data == "" then return nil, "the listen points are empty" end
  local ok, list, err = pcall(points_of, data, data:byte(1) & 1 == 1 and "<!4" or ">!4", 2)
  if not ok then return nil, "the listen points are cut off" end
  return list, err
end

return bidir
