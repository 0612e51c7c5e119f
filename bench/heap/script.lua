-- script NAME [SCALE]: one of the scripts beside this one, in whichever Lua runs it: CPU seconds of the OS process.
local here = arg[0]:match "^(.*/)" or "./"
local work = assert(loadfile(here .. arg[1] .. ".lua"))
local start = os.clock()
work(arg[2])
print(("time %.6g s"):format(os.clock() - start))
