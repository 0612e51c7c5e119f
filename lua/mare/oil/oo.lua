-- OiL's classes are LOOP's with several bases.
return require "mare.oil.loop"
