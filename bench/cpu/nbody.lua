-- Float arithmetic on fields: the Sun and four planets, a leapfrog of 2000 steps.
local timed = require "timed"

local sqrt, pi = math.sqrt, math.pi
local solar, year = 4 * pi * pi, 365.24

local function body(x, y, z, vx, vy, vz, mass)
  return { x = x, y = y, z = z, vx = vx * year, vy = vy * year, vz = vz * year, mass = mass * solar }
end

local function system()
  return {
    body(0, 0, 0, 0, 0, 0, 1),
    body(4.84, -1.16, -0.10, 0.00166, 0.00770, -0.0000690, 0.000955),
    body(8.34, 4.12, -0.403, -0.00277, 0.00500, 0.0000230, 0.000286),
    body(12.9, -15.1, -0.223, 0.00296, 0.00238, -0.0000297, 0.0000437),
    body(15.4, -25.9, 0.179, 0.00268, 0.00163, -0.0000952, 0.0000515),
  }
end

local function advance(bodies, dt)
  local n = #bodies
  for i = 1, n do
    local a = bodies[i]
    local ax, ay, az, vx, vy, vz, am = a.x, a.y, a.z, a.vx, a.vy, a.vz, a.mass
    for j = i + 1, n do
      local b = bodies[j]
      local dx, dy, dz = ax - b.x, ay - b.y, az - b.z
      local d2 = dx * dx + dy * dy + dz * dz
      local pull = dt / (d2 * sqrt(d2))
      local bm = b.mass * pull
      vx, vy, vz = vx - dx * bm, vy - dy * bm, vz - dz * bm
      bm = am * pull
      b.vx, b.vy, b.vz = b.vx + dx * bm, b.vy + dy * bm, b.vz + dz * bm
    end
    a.vx, a.vy, a.vz = vx, vy, vz
    a.x, a.y, a.z = ax + dt * vx, ay + dt * vy, az + dt * vz
  end
end

timed(function()
  local bodies = system()
  for _ = 1, 2000 do advance(bodies, 0.01) end
  assert(bodies[1].x == bodies[1].x)
end)
