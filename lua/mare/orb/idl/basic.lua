-- basic: the types that have no definition. One table per kind, shared by every repository, never changed.

local basic = {}

for _, kind in ipairs { "short", "long", "longlong", "ushort", "ulong", "ulonglong", "float", "double", "longdouble", "boolean", "char",
                        "wchar", "octet", "int8", "any", "TypeCode", "void", "null" } do
  basic[kind] = { kind = kind }
end

basic.string = { kind = "string", bound = 0 }
basic.wstring = { kind = "wstring", bound = 0 }

-- CORBA::Object and CORBA::ValueBase, the roots of references and of values.
basic.object = { kind = "interface", id = "IDL:omg.org/CORBA/Object:1.0", name = "Object", scoped = "CORBA::Object",
                 bases = {}, contents = {}, members = {} }
basic.valuebase = { kind = "value", id = "IDL:omg.org/CORBA/ValueBase:1.0", name = "ValueBase", scoped = "CORBA::ValueBase",
                    abstract = true, bases = {}, supports = {}, contents = {}, members = {}, state = {} }

return basic
