-- unique() -> a text that no other program on this machine makes now, and this one never again: for names that all programs share, as
-- those of abstract sockets. Neither the time nor a random number will do: two programs that begin in one second, without address
-- randomisation, have the same.
local used = {}

return function()
  used[#used + 1] = true
  local stat <close> = assert(io.open "/proc/self/stat")
  return ("%d-%p-%d"):format(stat:read "n", used, #used)
end
