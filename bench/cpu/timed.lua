-- Shared by the CPU-bound programs: runs the work until some 0.4 s of CPU time are spent, reports runs per second.
-- os.clock counts the whole OS process, so threads that mare might keep busy count against mare.
return function(work)
  work() -- warm-up
  local runs, start = 0, os.clock()
  local spent
  repeat
    work()
    runs = runs + 1
    spent = os.clock() - start
  until spent >= 0.4
  print(("speed %.6g runs/s"):format(runs / spent))
end
