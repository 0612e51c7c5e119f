-- What tests of mare.parallel and mare.pipeline need.
local errors = require "mare.error"

local together = {}

function together.numbers(n)
  local list = {}
  for i = 1, n do list[i] = i end
  return list
end

-- A function that calls f(…), which must fail with an error of this kind, and gives that.
function together.failure(kind)
  return function(f, ...)
    local ok, err = pcall(f, ...)
    assert.is_false(ok)
    assert.is_true(errors.is(err, kind), tostring(err))
    return err
  end
end

return together
