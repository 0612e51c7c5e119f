std = "lua54"
max_line_length = 150
files["spec"] = { std = "lua54+busted" }
-- Documentation and examples show the globals a script may define.
files["examples"] = { allow_defined_top = true }
