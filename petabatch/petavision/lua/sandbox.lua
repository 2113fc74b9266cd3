-- The globals of a parameter file, and how it is executed.
--
-- Called with `read(name)`, which returns the text of a module or nil and a message, a table of
-- environment variables, and the texts of the modules that are supplied. Returns a function that
-- executes a text and returns the table of groups that it printed, or nil, and its globals.

local read, variables, supplied = ...
local load, select, error, getmetatable = load, select, error, getmetatable

local function some(library, names)
   local found = {}
   for name in string.gmatch(names, "%S+") do found[name] = library[name] end
   return found
end

local globals = some(_G, [[assert error ipairs next pairs pcall rawequal rawget rawlen rawset
   select setmetatable tonumber tostring type xpcall]])
globals._G = globals
-- An object of Python, as an error may be, has the metatable of all of them.
globals.getmetatable = function(value)
   if type(value) == "userdata" then return nil end
   return getmetatable(value)
end
globals.math = some(math, [[abs acos asin atan ceil cos deg exp floor fmod huge log max maxinteger min
   mininteger modf pi rad random sin sqrt tan tointeger type]])
globals.string = some(string, "byte char find format gmatch gsub len lower match rep reverse sub upper")
globals.table = some(table, "concat insert pack remove sort unpack")
globals.unpack = table.unpack
globals.print = function() end
globals.io = {write = function() end}
globals.os = {
   getenv = function(name) return variables[name] end,
   exit = function() error("the file has ended itself (os.exit)", 0) end,
}
globals.package = {path = "", cpath = ""}
math.randomseed(1)
getmetatable("").__index = globals.string
getmetatable("").__metatable = false

local printed
local function capture(groups) printed = groups end

-- As Lua reads files: without a byte order mark, and a first line that begins with #.
local function plain(text)
   return (string.gsub(string.gsub(text, "^\xEF\xBB\xBF", ""), "^#[^\n]*", ""))
end

local loaded = {}
globals.require = function(name)
   if type(name) ~= "string" then error("require needs the name of a module", 2) end
   if loaded[name] == nil then
      local text, why = supplied[name], nil
      if text == nil then text, why = read(name) end
      if text == nil then error(why, 2) end
      local chunk, wrong = load(plain(text), "@" .. name .. ".lua", "t", globals)
      if chunk == nil then error(wrong, 0) end
      local found = chunk(capture)
      loaded[name] = found == nil and true or found
   end
   return loaded[name]
end

return function(text, name)
   local chunk, wrong = load(plain(text), "@" .. name, "t", globals)
   if chunk == nil then error(wrong, 0) end
   chunk()
   return printed, globals
end
