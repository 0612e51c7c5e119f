-- temporary() -> the name of a new, empty file in the test's own temporary folder, where a file that is left behind is noticed.
-- (os.tmpname does not look at TMPDIR.)
return function()
  local name = os.tmpname()
  local folder = os.getenv "TMPDIR"
  if not folder or folder == "" then return name end
  os.remove(name)
  local path = folder .. "/" .. name:match "[^/]*$"
  assert(io.open(path, "wb")):close()
  return path
end
