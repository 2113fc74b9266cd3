-- A perceptron on two layers that starts backpropagation through a pooled and a learning connection, and a
-- reconstruction through pooling.
local pv, subnets = require "PVModule", require "PVSubnets"
local function layer(nf, scale, phase)
   return { groupType = "ANNLayer", nf = nf, nxScale = scale, nyScale = scale, phase = phase, InitVType = "ZeroV",
            VThresh = 0, AMin = 0 }
end
local weights = { nxp = 1, nyp = 1, plasticityFlag = true, dWMax = 0.1, weightInitType = "UniformRandomWeight",
                  wMinInit = -0.1, wMaxInit = 0.1 }
local net = {
   column = { groupType = "HyPerCol", nx = 4, ny = 4, stopTime = 20, dt = 1 },
   Image = { groupType = "PvpLayer", nf = 1, nxScale = 1, nyScale = 1, phase = 0, displayPeriod = 10,
             inputPath = "images.pvp" },
   Truth = { groupType = "ConstantLayer", nf = 3, nxScale = 0.25, nyScale = 0.25, phase = 0, valueV = 1 },
   Hidden = layer(5, 1, 1), Pooled = layer(5, 0.25, 2),
   HiddenToPooled = { groupType = "PoolingConn", preLayerName = "Hidden", postLayerName = "Pooled",
                      channelCode = 0, nxp = 1, nyp = 1, pvpatchAccumulateType = "maxpooling" },
}
subnets.singleLayerPerceptron { pvParams = net, inputLayerNames = {"Pooled"}, groundTruthLayerName = "Truth",
   connParams = weights, triggerLayerName = "Image", addDeltaInputLayer = true, deltaErrScale = 0.5 }
local masked = subnets.backPropStep { pvParams = net, currentDeltaLayerName = "DeltaPooled",
   forwardPostLayerName = "Pooled", forwardPreLayerName = "Hidden", triggerLayerName = "Image" }
local learns = pv.deepCopy(weights)
learns.normalizeMethod, learns.nxp, learns.nyp = "none", 3, 3
assert(subnets.backPropStep { pvParams = net, currentDeltaLayerName = masked, forwardPostLayerName = "Hidden",
   forwardPreLayerName = "Image", connParams = learns, triggerLayerName = "Image", createMask = false,
   learningDirection = "forward" } == "DeltaImage")
subnets.deconvPath { pvParams = net, start = "Pooled", path = {"Pooled", "Hidden"}, triggerLayerName = "Image" }
pv.printConsole(net)
