-- luv's handles belong to a loop, and a loop to a state: none can leave.
return setmetatable({}, { __index = function() return { native = "loop" } end })
