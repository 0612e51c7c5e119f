-- pcap: what went over connections, as a capture file that Wireshark and tshark read (the classic format, Ethernet frames).
--
-- The bytes are those of the messages; frames, addresses and TCP segments around them are made up so that a dissector finds its way: each connection
-- begins with a handshake, sequence numbers count its bytes, acknowledgements follow, checksums are right. Written as things happen, so that a
-- program that is killed leaves what it had.
local pcap = {}

local pack, unpack = string.pack, string.unpack
local SEGMENT = 16384                       -- bytes of a frame at most; an IP packet can have 65535
local FIN, SYN, PUSH, ACK = 1, 2, 8, 16

local Capture = {}
Capture.__index = Capture

-- pcap.open(path) -> capture | nil, message
function pcap.open(path)
  local file, err = io.open(path, "wb")
  if not file then return nil, err end
  file:setvbuf("full")
  file:write(pack("<I4I2I2i4I4I4I4", 0xa1b2c3d4, 2, 4, 0, 0, 262144, 1))
  file:flush()
  return setmetatable({ file = file, packets = 0, began = os.time() - require "mare".clock() }, Capture)
end

-- The Internet checksum: the ones' complement of the sum of 16-bit words.
local function checksum(data)
  local sum, at = 0, 1
  if #data % 2 == 1 then data = data .. "\0" end
  while at + 16 <= #data + 1 do
    local a, b, c, d, e, f, g, h
    a, b, c, d, e, f, g, h, at = unpack(">I2I2I2I2I2I2I2I2", data, at)
    sum = sum + a + b + c + d + e + f + g + h
  end
  while at < #data do
    local a
    a, at = unpack(">I2", data, at)
    sum = sum + a
  end
  while sum > 0xffff do sum = (sum & 0xffff) + (sum >> 16) end
  return ~sum & 0xffff
end

-- ---- addresses ----

local function ipv4(host)
  local a, b, c, d = host:match("^(%d+)%.(%d+)%.(%d+)%.(%d+)$")
  return a and string.char(tonumber(a) & 255, tonumber(b) & 255, tonumber(c) & 255, tonumber(d) & 255)
end

local function groups(text)
  local out = {}
  for word in text:gmatch("[^:]+") do
    local four = ipv4(word)
    out[#out + 1] = four or pack(">I2", tonumber(word, 16) or 0)
  end
  return table.concat(out)
end

local function ipv6(host)
  if not host:find(":", 1, true) then return nil end
  local left, right = host:gsub("%%.*", ""):match("^(.-)::(.*)$")
  if not left then return groups(host) end
  left, right = groups(left), groups(right)
  return left .. ("\0"):rep(16 - #left - #right) .. right
end

-- 4 or 16 bytes for each of two hosts, of one kind. What is no address (a path, a name) stands for this machine.
local function addresses(a, b)
  local four, other = ipv4(a), ipv4(b)
  if four and other then return four, other end
  local long, long_other = ipv6(a), ipv6(b)
  if not (long or long_other) then return four or "\127\0\0\1", other or "\127\0\0\1" end
  local mapped = ("\0"):rep(10) .. "\255\255"
  local here = ("\0"):rep(15) .. "\1"
  return long or four and mapped .. four or here, long_other or other and mapped .. other or here
end

-- ---- frames ----

local function ip_header(capture, from, to, size)
  if #from == 16 then return pack(">I4I2I1I1", 6 << 28, size, 6, 64) .. from .. to end
  local head = pack(">I1I1I2I2I2I1I1I2", 0x45, 0, 20 + size, capture.packets & 0xffff, 0x4000, 64, 6, 0) .. from .. to
  return head:sub(1, 10) .. pack(">I2", checksum(head)) .. head:sub(13)
end

local function tcp_segment(from, to, flags, data)
  local head = pack(">I2I2I4I4I1I1I2I2I2", from.port, to.port, from.next & 0xffffffff, flags & ACK ~= 0 and to.next & 0xffffffff or 0,
    5 << 4, flags, 65535, 0, 0)
  local pseudo = #from.ip == 16 and pack(">I4I4", #head + #data, 6) or pack(">I2I2", 6, #head + #data)
  local sum = checksum(from.ip .. to.ip .. pseudo .. head .. data)
  return head:sub(1, 16) .. pack(">I2", sum) .. head:sub(19) .. data
end

local function frame(capture, from, to, flags, data)
  local segment = tcp_segment(from, to, flags, data)
  from.next = from.next + #data + (flags & (SYN | FIN) ~= 0 and 1 or 0)
  capture.packets = capture.packets + 1
  local ethernet = to.mac .. from.mac .. pack(">I2", #from.ip == 16 and 0x86dd or 0x0800)
  local bytes = ethernet .. ip_header(capture, from.ip, to.ip, #segment) .. segment
  local now = capture.began + require "mare".clock()
  local seconds = math.floor(now)
  capture.file:write(pack("<I4I4I4I4", seconds, math.floor((now - seconds) * 1e6), #bytes, #bytes), bytes)
end

local function greet(capture, client, server)
  frame(capture, client, server, SYN, "")
  frame(capture, server, client, SYN | ACK, "")
  frame(capture, client, server, ACK, "")
end

-- capture:tap(socket | { host, port, peer host, peer port }, role) -> function(direction, bytes), as connections want it
-- `role`: who began the connection, "client" if it was this side. Called with "end" it notes the end of the connection.
function Capture:tap(where, role)
  local host, port, other, other_port
  if type(where) == "table" then
    host, port, other, other_port = table.unpack(where, 1, 4)
  else
    host, port = where:address()
    other, other_port = where:peer()
  end
  local here = { port = math.tointeger(tonumber(port)) or 1, next = 1000, mac = "\2\0\0\0\0\1" }
  local there = { port = math.tointeger(tonumber(other_port)) or 1, next = 5000, mac = "\2\0\0\0\0\2" }
  here.ip, there.ip = addresses(host or "", other or "")
  if role == "server" then greet(self, there, here) else greet(self, here, there) end
  local ended = false
  return function(direction, bytes)
    if ended then return end
    local from, to = here, there
    if direction == "in" then from, to = there, here end
    if direction == "end" then
      ended = true
      frame(self, here, there, FIN | ACK, "")
      frame(self, there, here, FIN | ACK, "")
      frame(self, here, there, ACK, "")
    else
      for at = 1, #bytes, SEGMENT do frame(self, from, to, PUSH | ACK, bytes:sub(at, at + SEGMENT - 1)) end
      frame(self, to, from, ACK, "")
    end
    self.file:flush()
  end
end

-- capture:close()
function Capture:close() self.file:close() end

return pcap
