-- What PetaVision's module of this name adds to a network: an LCA with its residual and reconstruction,
-- scaled inputs, masks, pooling. Functions that are not here need PetaVision's PVSubnets.lua beside the file.

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

return PVSubnets
