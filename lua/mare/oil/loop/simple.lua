-- One model of classes for all of LOOP's: see mare.oil.loop.
return require "mare.oil.loop"
