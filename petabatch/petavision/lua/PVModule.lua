-- What PetaVision's module of this name offers to parameter files; a network that is printed is handed
-- to petabatch. A text that stands for it is what is written to files.

local capture = ...
local PVModule = {}

infinity, INFINITY = math.huge, math.huge

local function copied(value, above)
   if type(value) ~= "table" then return value end
   if above[value] then error("this table contains itself", 0) end
   above[value] = true
   local copy = setmetatable({}, getmetatable(value))
   for key, inner in pairs(value) do copy[copied(key, above)] = copied(inner, above) end
   above[value] = nil
   return copy
end

local function wanted(value, kind, what)
   if type(value) ~= kind then error(what .. " is a " .. type(value) .. ", not a " .. kind, 3) end
end

function PVModule.deepCopy(value) return copied(value, {}) end

function PVModule.addGroup(groups, name, group, overwrites)
   wanted(groups, "table", "the network")
   wanted(group, "table", "the group " .. tostring(name))
   if groups[name] ~= nil then error("there is a group " .. tostring(name) .. " already", 2) end
   local copy = copied(group, {})
   for key, value in pairs(overwrites or {}) do
      if copy[key] == nil then
         error("the group " .. tostring(name) .. " has no parameter " .. tostring(key) .. " to overwrite", 2)
      end
      copy[key] = copied(value, {})
   end
   groups[name] = copy
end

function PVModule.addMultiGroups(groups, several)
   wanted(several, "table", "the second argument")
   for name, group in pairs(several) do PVModule.addGroup(groups, name, group) end
end

local function sweep(keyword)
   return function(groups, group, parameter, values)
      wanted(values, "table", "the values of a sweep")
      local found = {groupType = keyword}
      for number, value in ipairs(values) do found[number] = value end
      PVModule.addGroup(groups, string.format('"%s":%s', group, parameter), found)
   end
end

PVModule.paramSweep = sweep("ParameterSweep")
PVModule.batchSweep = sweep("BatchSweep")

function PVModule.createParamsFileString(groups)
   wanted(groups, "table", "the network")
   return capture(copied(groups, {}))
end

function PVModule.printConsole(groups) io.write(PVModule.createParamsFileString(groups)) end

return PVModule
