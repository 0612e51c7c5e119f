--[[
mare.ludo.failure: what a call raises that did not return: { code =, message =, value =, traceback = }, as a text its message and, of an error of
the servant's, where that was raised.

  RAISED        the servant raised `value`; `traceback` is the server's
  NO_OBJECT, NO_OPERATION       there is nothing such at the server
  UNSENDABLE    a value can't be sent: an argument here (it is `local`), a result or what was raised there
  TOO_LARGE     a message longer than the limit
  CONNECT       nothing answers there, or not as it should (TLS, another protocol or version): the call was not made
  UNSENT        there was no memory to send it, or the connection ended, twice, before the server touched it: the call was not made
  LOST          the connection ended meanwhile: the call may have been made
  TIMEOUT       its time was over: the call may have been made
  PROTOCOL      what came can't be read
  CLOSED        this broker was closed
]]
local failure = { __name = "ludo failure" }
failure.__index = failure

function failure.new(code, message, value, traceback)
  return setmetatable({ code = code, message = message, value = value, traceback = traceback }, failure)
end

function failure.is(value) return getmetatable(value) == failure end

function failure:__tostring()
  local text = self.code == "RAISED" and tostring(self.message) or ("%s: %s"):format(self.code, self.message)
  return self.traceback and text .. "\nat the server:\n" .. self.traceback or text
end

return failure
