-- mare.orb.near: near(name, names) -> "'say', 'stay'" or nil: which of these names was meant? For messages only; src/module/near.c.
return require "mare.near".near
