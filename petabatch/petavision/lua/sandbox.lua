-- The globals of a parameter file, and how it is executed.
--
-- Called with `read(name, is_path)`, which returns the text of a module or file, or nil and a message, a table
-- of environment variables, the arguments of the file, and the texts of the modules that are supplied. Returns
-- a function that executes a text and returns the networks that it printed, its globals, and the files that it
-- wrote, and a table of what it asked for in vain and what it would have executed.

local read, variables, arguments, supplied = ...
local load, select, error, getmetatable = load, select, error, getmetatable
local told = {variables = {}, commands = {}, printed = {}, asked = {}, argument = 0}

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
globals.math.pow = function(base, exponent) return base ^ exponent end
globals.math.log10 = function(number) return math.log(number, 10) end
globals.string = some(string, "byte char find format gmatch gsub len lower match rep reverse sub upper")
globals.table = some(table, "concat insert pack remove sort unpack")
globals.table.getn = function(list) return #list end
globals.unpack = table.unpack
globals.print = function(...)
   local line = {}
   for number, value in ipairs({...}) do line[number] = tostring(value) end
   if #told.printed < 3 then table.insert(told.printed, table.concat(line, " ")) end
end
globals.collectgarbage = function() return 0 end

-- Files that are written are kept in memory; none is read.
local files = {}
local methods = {
   write = function(file, ...)
      for _, text in ipairs({...}) do
         if type(text) ~= "string" and type(text) ~= "number" then error("write needs texts and numbers", 2) end
         file.text[#file.text + 1] = tostring(text)
      end
      return file
   end,
   close = function() return true end,
   flush = function(file) return file end,
   setvbuf = function() return true end,
}
local function open(name, mode)
   if type(name) ~= "string" then error("io.open needs the name of a file", 3) end
   if not string.find(mode or "r", "[wa]") then
      table.insert(told.asked, name)
      return nil, name .. ": no file is read here", 2
   end
   local file = setmetatable({name = name, text = {}}, {__index = methods})
   files[#files + 1] = file
   return file
end
local console = setmetatable({text = {}}, {__index = methods})
console.write = function(file) return file end
local output = console
globals.io = {
   stdout = console, stderr = console,
   open = function(name, mode) return open(name, mode) end,
   output = function(file)
      if type(file) == "string" then output = open(file, "w") elseif file ~= nil then output = file end
      return output
   end,
   write = function(...) return output:write(...) end,
   close = function(file)
      if file == nil or file == output then output = console end
      return true
   end,
}
globals.os = {
   getenv = function(name)
      if variables[name] == nil then table.insert(told.variables, tostring(name)) end
      return variables[name]
   end,
   execute = function(command)
      if command ~= nil then table.insert(told.commands, tostring(command)) end
      return true, "exit", 0
   end,
   exit = function() error("the file has ended itself (os.exit)", 0) end,
   time = function() return 0 end,
   clock = function() return 0.0 end,
   date = function() return "1970-01-01" end,
}
globals.package = {path = "", cpath = ""}
globals.arg = setmetatable({}, {
   __index = function(_, number)
      if math.type(number) == "integer" and number > told.argument then told.argument = number end
   end,
   __len = function(list)
      if told.argument == 0 then told.argument = #arguments + 1 end
      return rawlen(list)
   end,
})
for number, argument in ipairs(arguments) do globals.arg[number] = argument end
math.randomseed(1)
getmetatable("").__index = globals.string
getmetatable("").__metatable = false

local networks = {}
local function capture(groups)
   networks[#networks + 1] = groups
   return "\1" .. #networks .. "\1"
end

-- As Lua reads files: without a byte order mark, and a first line that begins with #.
local function executable(text, name)
   text = string.gsub(string.gsub(text, "^\xEF\xBB\xBF", ""), "^#[^\n]*", "")
   local chunk, wrong = load(text, "@" .. name, "t", globals)
   if chunk == nil then error(wrong, 0) end
   return chunk
end

local loaded = {}
globals.require = function(name)
   if type(name) ~= "string" then error("require needs the name of a module", 2) end
   if loaded[name] == nil then
      local text, why = supplied[name], nil
      if text == nil then text, why = read(name, false) end
      if text == nil then error(why, 2) end
      local found = executable(text, name .. ".lua")(capture)
      loaded[name] = found == nil and true or found
   end
   return loaded[name]
end
globals.dofile = function(path)
   if type(path) ~= "string" then error("dofile needs the path of a file", 2) end
   local text, why = read(path, true)
   if text == nil then error(why, 2) end
   return executable(text, path)()
end

return function(text, name)
   globals.arg[0] = name
   globals.debug = {getinfo = function() return {source = "@" .. name, short_src = name, currentline = 0} end}
   executable(text, name)(table.unpack(arguments))
   local written = {}
   for number, file in ipairs(files) do written[number] = {file.name, table.concat(file.text)} end
   return networks, globals, written
end, told
