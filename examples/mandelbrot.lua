-- Draws the Mandelbrot set: each line of the image is an item of parallel.map, whichever takes long. With a file name it writes an image (PGM).
--   mare run examples/mandelbrot.lua [WIDTH [HEIGHT [FILE]]]
-- test: 40 11
-- expect:        ..............::::-:::...........
-- expect:      ............:::::::=-=-::::........
-- expect:     ..........::::::=--*=%==--::::......
-- expect:    ......::-::::::-%%%%%%%%%%%%*:::.....
-- expect:    .:::::::--%%%%-=%%%%%%%%%%%%%%:::....
-- expect:    %%%%%%%%%%%%%%%%%%%%%%%%%%%%-::::....
-- expect:    .:::::::--%%%%-=%%%%%%%%%%%%%%:::....
-- expect:    ......::-::::::-%%%%%%%%%%%%*:::.....
-- expect:     ..........::::::=--*=%==--::::......
-- expect:      ............:::::::=-=-::::........
-- expect:        ..............::::-:::...........
local parallel = require "mare".parallel

local width, height, path = tonumber(arg[1] or 72), tonumber(arg[2] or 30), arg[3]
local MOST = 200

-- How many steps it takes to leave the circle, for each point of a line.
local function line(y)
  local steps = {}
  local ci = (y - (height + 1) / 2) * 2.4 / height
  for x = 1, width do
    local cr = (x - 0.5) * 3.2 / width - 2.2
    local zr, zi, n = 0.0, 0.0, 0
    while n < MOST and zr * zr + zi * zi < 4 do
      zr, zi = zr * zr - zi * zi + cr, 2 * zr * zi + ci
      n = n + 1
    end
    steps[x] = n
  end
  return steps
end

local rows = {}
for y = 1, height do rows[y] = y end
local image = parallel.map(rows, line, { progress = path ~= nil })

if path then
  local file <close> = assert(io.open(path, "wb"))
  file:write(("P5 %d %d 255\n"):format(width, height))
  for y = 1, height do
    for x = 1, width do file:write(string.char(255 - image[y][x] * 255 // MOST)) end
  end
else
  local shades = " .:-=*#%"
  for y = 1, height do
    local text = {}
    for x = 1, width do
      local shade = 1 + math.floor(math.log(image[y][x] + 1) / math.log(MOST + 1) * (#shades - 1))
      text[x] = shades:sub(shade, shade)
    end
    print((table.concat(text):gsub("%s+$", "")))
  end
end
