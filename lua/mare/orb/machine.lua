-- mare.orb.machine: the name of this machine, as gethostname gives it.
local machine = {}

--- nil: nobody knows.
function machine.name()
  for _, path in ipairs { "/proc/sys/kernel/hostname", "/etc/hostname" } do
    local file = io.open(path)
    local name = file and file:read("l")
    if file then file:close() end
    if name and name ~= "" then return name end
  end
  return os.getenv("HOSTNAME")
end

return machine
