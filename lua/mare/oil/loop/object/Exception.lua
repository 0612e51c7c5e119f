-- LOOP's exceptions are OiL's here.
return require "mare.oil.Exception"
