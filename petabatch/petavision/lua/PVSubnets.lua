-- What PetaVision's module of this name adds to a network: an LCA with its residual and reconstruction,
-- scaled inputs, masks, pooling, a perceptron, steps of backpropagation, paths of reconstruction.

local pv = require "PVModule"
local PVSubnets = {}

setmetatable(PVSubnets, {__index = function(_, name)
   error("PVSubnets." .. name .. " is not supplied: put PetaVision's PVSubnets.lua beside the file", 2)
end})

-- A layer with the size of another, one phase later.
local function after(other, keyword, more)
   local layer = {
      groupType = keyword, nxScale = other.nxScale, nyScale = other.nyScale, nf = other.nf,
      phase = other.phase + 1, InitVType = "ZeroV",
   }
   for key, value in pairs(more) do layer[key] = value end
   return layer
end

local function join(groups, keyword, pre, post, more)
   local link = {groupType = keyword, preLayerName = pre, postLayerName = post, channelCode = 0, writeStep = -1}
   for key, value in pairs(more or {}) do link[key] = value end
   pv.addGroup(groups, pre .. "To" .. post, link)
end

function PVSubnets.addScaleValueConn(args)
   local groups, from = args.pvParams, args.inputLayerName
   local name, every = args.scaleLayerName or from .. "Scaled", args.writeStep or -1
   pv.addGroup(groups, name, after(groups[from], "ANNLayer", {
      writeStep = every, initialWriteTime = every, triggerLayerName = from,
   }))
   join(groups, "HyPerConn", from, name, {
      weightInitType = "OneToOneWeights", weightInit = args.scaleFactor, nxp = 1, nyp = 1,
      nfp = groups[from].nf, normalizeMethod = "none", plasticityFlag = false,
   })
end

function PVSubnets.addLCASubnet(args)
   local groups, code, image = args.pvParams, args.lcaLayerName, args.inputLayerName
   local trigger, scale = args.triggerLayerName, args.inputValueScale or 1
   local every = groups[trigger].displayPeriod
   local size, residual, recon = groups[image], image .. "Error_" .. code, image .. "Recon_" .. code
   local written = {writeStep = every, initialWriteTime = every}
   if scale ~= 1 then
      PVSubnets.addScaleValueConn{pvParams = groups, inputLayerName = image, scaleFactor = scale, writeStep = every}
      image = image .. "Scaled"
   end
   join(groups, "IdentConn", image, residual)
   pv.addGroup(groups, residual, after(size, "ANNErrorLayer", written))
   pv.addGroup(groups, recon, after(size, "ANNLayer", {
      writeStep = every, initialWriteTime = every, triggerLayerName = trigger, triggerOffset = 1,
   }))
   local layer = after(groups[residual], "HyPerLCALayer", written)
   layer.nxScale, layer.nyScale = size.nxScale / args.stride, size.nyScale / args.stride
   for key, value in pairs(args.lcaParams) do layer[key] = value end
   pv.addGroup(groups, code, layer)
   local learns = args.connParams.plasticityFlag
   local link = {channelCode = 1, nfp = size.nf, momentumMethod = "viscosity"}
   if learns then link.triggerLayerName, link.triggerOffset = trigger, 0 end
   for key, value in pairs(args.connParams) do link[key] = value end
   join(groups, "MomentumConn", code, residual, link)
   local weights = code .. "To" .. residual
   join(groups, "TransposeConn", residual, code, {originalConnName = weights})
   join(groups, "CloneConn", code, recon, {originalConnName = weights})
end

function PVSubnets.addActivityMask(args)
   local groups, shown, masking = args.pvParams, args.unmaskedLayerName, args.maskingLayerName
   local mask, masked = masking .. "Mask", shown .. "MaskedBy" .. masking
   pv.addGroup(groups, mask, after(groups[masking], "ANNLayer", {
      writeStep = -1, triggerLayerName = args.triggerLayerName, triggerOffset = 1,
      verticesV = {0, 0}, verticesA = {1, 0}, slopeNegInf = 0, slopePosInf = 0,
   }))
   join(groups, "IdentConn", masking, mask, {channelCode = 1})
   pv.addGroup(groups, masked, after(groups[shown], "PtwiseProductLayer", {
      phase = math.max(groups[mask].phase, groups[shown].phase) + 1, writeStep = args.writeStep or -1,
   }))
   join(groups, "IdentConn", shown, masked)
   join(groups, "IdentConn", mask, masked, {channelCode = 1})
   return masked
end

function PVSubnets.addMaxPoolingLayer(args)
   local groups, from = args.pvParams, args.inputLayerName
   local name = args.poolingLayerName or from .. "MaxPool"
   local layer = after(groups[from], "ANNLayer", {writeStep = args.writeStep, initialWriteTime = args.writeStep})
   layer.nxScale, layer.nyScale = layer.nxScale / args.stride, layer.nyScale / args.stride
   pv.addGroup(groups, name, layer)
   join(groups, "PoolingConn", from, name, {nxp = 1, nyp = 1, pvpatchAccumulateType = "maxpooling"})
end

-- The trigger of a connection that learns, and what the file says of it.
local function learning(trigger, given)
   local link = {channelCode = -1, normalizeMethod = "none"}
   if given.plasticityFlag then link.triggerLayerName, link.triggerOffset = trigger, 0 end
   for key, value in pairs(given) do link[key] = value end
   return link
end

local function require_keys(given, keys)
   if given.plasticityFlag and not given.dWMax then error("plasticityFlag without dWMax", 3) end
   for _, key in ipairs(keys) do
      if given[key] == nil then error("the parameter " .. key .. " is missing", 3) end
   end
end

-- Layers that are updated in the last step of each display, and written then.
local function shown(groups, trigger, more)
   local every = groups[trigger].displayPeriod
   local keys = {writeStep = every, initialWriteTime = every, triggerLayerName = trigger, triggerOffset = 1}
   for key, value in pairs(more or {}) do keys[key] = value end
   return keys
end

function PVSubnets.singleLayerPerceptron(args)
   local groups, truth, trigger = args.pvParams, args.groundTruthLayerName, args.triggerLayerName
   local several = type(args.inputLayerNames) == "table"
   local inputs = several and args.inputLayerNames or {args.inputLayerNames}
   local given = {}
   for _, name in ipairs(inputs) do
      given[name] = type(args.connParams[name]) == "table" and args.connParams[name] or args.connParams
   end
   local bias = args.biasConnParams or given[inputs[1]]
   local recon, phase = truth .. "Recon_" .. table.concat(inputs), 0
   for _, name in ipairs(inputs) do phase = math.max(phase, groups[name].phase) end
   local all = {bias}
   for _, name in ipairs(inputs) do all[#all + 1] = given[name] end
   for _, one in ipairs(all) do
      if (one.normalizeMethod or "none") ~= "none" then error("a perceptron's weights are not normalised", 2) end
      if one.groupType ~= "CloneConn" and one.groupType ~= "PlasticCloneConn" then
         require_keys(one, {"nxp", "nyp", "weightInitType", "plasticityFlag"})
      end
   end
   local delta, ones, size = "Delta" .. recon, truth .. "Bias", groups[truth]
   pv.addGroup(groups, recon, after(size, "ANNLayer", shown(groups, trigger, {phase = phase + 1})))
   pv.addGroup(groups, delta, after(size, "ANNErrorLayer", shown(groups, trigger, {phase = phase + 2})))
   pv.addGroup(groups, ones, {
      groupType = "ConstantLayer", nxScale = 1 / groups.column.nx, nyScale = 1 / groups.column.ny, nf = 1,
      valueV = 1, writeStep = -1, phase = 0,
   })
   join(groups, "IdentConn", truth, delta)
   join(groups, "IdentConn", recon, delta, {channelCode = 1})
   local function teach(pre, keys)
      join(groups, "HyPerConn", pre, delta, learning(trigger, keys))
      join(groups, "CloneConn", pre, recon, {originalConnName = pre .. "To" .. delta})
   end
   for _, name in ipairs(inputs) do teach(name, given[name]) end
   teach(ones, bias)
   for _, name in ipairs(args.addDeltaInputLayer and inputs or {}) do
      local below = "Delta" .. name
      pv.addGroup(groups, below, after(groups[name], "ANNErrorLayer", shown(groups, trigger, {
         phase = phase + 3, errScale = args.deltaErrScale,
      })))
      join(groups, "TransposeConn", delta, below, {originalConnName = name .. "To" .. delta, channelCode = 1})
   end
end

function PVSubnets.backPropStep(args)
   local groups, delta, trigger = args.pvParams, args.currentDeltaLayerName, args.triggerLayerName
   local pre, post, keys = args.forwardPreLayerName, args.forwardPostLayerName, args.connParams or {}
   local forward, new = pre .. "To" .. post, "Delta" .. pre
   local pooled = groups[forward] and groups[forward].groupType == "PoolingConn"
   local function layer()
      pv.addGroup(groups, new, after(groups[pre], "ANNErrorLayer", shown(groups, trigger, {
         phase = groups[delta].phase + 1, errScale = args.errScale or 1,
      })))
   end
   if pooled then
      layer()
      join(groups, "TransposePoolingConn", delta, new, {originalConnName = forward})
   else
      require_keys(keys, {"nxp", "nyp", "weightInitType", "plasticityFlag", "normalizeMethod"})
      layer()
      local up = args.learningDirection == "forward"
      if not up and args.learningDirection ~= "backward" then
         error('learningDirection is neither "forward" nor "backward"', 2)
      end
      local ends = up and {pre, delta} or {post, new}
      local weights = {originalConnName = ends[1] .. "To" .. ends[2]}
      join(groups, "HyPerConn", ends[1], ends[2], learning(trigger, keys))
      join(groups, up and "TransposeConn" or "CloneConn", delta, new, weights)
      groups[forward] = nil
      join(groups, up and "CloneConn" or "TransposeConn", pre, post, weights)
   end
   if args.createMask == false then return new end
   return PVSubnets.addActivityMask{
      pvParams = groups, unmaskedLayerName = new, maskingLayerName = pre, triggerLayerName = trigger,
      writeStep = groups[trigger].displayPeriod,
   }
end

function PVSubnets.deconvPath(args)
   local groups, from, path, trigger = args.pvParams, args.start, args.path, args.triggerLayerName
   for n = 1, #path - 1 do
      local original, to = path[n + 1] .. "To" .. path[n], path[n + 1] .. "Recon_" .. from
      local last, kind = n == #path - 1, groups[original].groupType
      local keys = shown(groups, trigger, {phase = groups[from].phase + 1})
      if not last then keys.writeStep, keys.initialWriteTime = -1, nil end
      pv.addGroup(groups, to, after(groups[path[n + 1]], "ANNLayer", keys))
      if kind == "IdentConn" then
         join(groups, "IdentConn", from, to)
      else
         local way = kind == "PoolingConn" and "TransposePoolingConn" or "TransposeConn"
         join(groups, way, from, to, {originalConnName = original})
      end
      from = to
   end
end

return PVSubnets
