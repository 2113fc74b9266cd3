-- A scaled input, an LCA that learns from it, its pooled code, a masked residual.
local pv, subnets = require "PVModule", require "PVSubnets"
local net = {
   column = { groupType = "HyPerCol", nx = 8, ny = 8, stopTime = 20, dt = 1 },
   Image = { groupType = "PvpLayer", nf = 1, nxScale = 1, nyScale = 1, phase = 0, displayPeriod = 10,
             inputPath = "images.pvp" },
}
subnets.addLCASubnet {
   pvParams = net, lcaLayerName = "S1", inputLayerName = "Image", inputValueScale = 0.5, stride = 2,
   triggerLayerName = "Image",
   lcaParams = { nf = 6, VThresh = 0.1, AShift = 0.1, AMin = 0, timeConstantTau = 10, InitVType = "ZeroV" },
   connParams = { nxp = 4, nyp = 4, plasticityFlag = true, momentumTau = 0.5, dWMax = 0.5,
                  weightInitType = "UniformRandomWeight", normalizeMethod = "normalizeL2", strength = 1 },
}
subnets.addMaxPoolingLayer { pvParams = net, inputLayerName = "S1", stride = 2, writeStep = -1 }
assert(subnets.addActivityMask { pvParams = net, unmaskedLayerName = "ImageError_S1",
   maskingLayerName = "Image", triggerLayerName = "Image" } == "ImageError_S1MaskedByImage")
pv.printConsole(net)
